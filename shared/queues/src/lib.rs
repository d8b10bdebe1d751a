//! The queue's adapters. They move messages, and know nothing of what a message says.

mod clock;
#[cfg(feature = "sqs")]
pub mod definition;
mod in_process;
#[cfg(feature = "sqs")]
mod sqs;

pub use in_process::{InProcessQueue, LARGEST_BODY, MOST_MESSAGES};
#[cfg(feature = "sqs")]
pub use sqs::SqsQueues;
