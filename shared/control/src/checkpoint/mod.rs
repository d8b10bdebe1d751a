//! Checkpoints: opened before a job, finalized when it has ended, whoever noticed it, and looked after until their machine is clean.

mod attend;
mod ci;
mod create;
mod finalize;
mod issue;
mod queue;
mod told;
mod unpause;
mod view;

pub use finalize::JobWord;
pub use told::Told;
