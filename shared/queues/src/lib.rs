//! The queue's adapters. They move messages, and know nothing of what a message says.

mod clock;
mod in_process;

pub use in_process::{InProcessQueue, LARGEST_BODY, MOST_MESSAGES};
