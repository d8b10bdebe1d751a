//! The queue's adapters. They move messages, and know nothing of what a message says.

mod clock;
pub mod definition;
mod in_process;
mod sqs;

pub use in_process::{InProcessQueue, LARGEST_BODY, MOST_MESSAGES};
pub use sqs::SqsQueues;
