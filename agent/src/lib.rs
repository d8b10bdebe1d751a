//! The agent: a machine that decides, a driver that acts, and supervisors that run work. It links no cloud SDK and holds
//! no cloud credentials.

pub mod cli;
pub mod clock;
mod driver;
mod guard;
mod home;
pub mod hook;
mod http;
mod identity;
mod imds;
pub mod jobs;
pub mod machine;
mod private;
mod program_copy;
mod socket;
mod state;
mod tree;
pub mod work;
