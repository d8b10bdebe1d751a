//! Tells people of incidents: a message of the control plane as an HTTP request, to a chat's webhook or to a program of the operator's. What is
//! told and how often is decided elsewhere; nothing that the receiver answers is kept, but whether it took the message.

mod address;
mod body;
mod error;
mod resolve;
mod signature;
mod webhook;

pub use address::is_public;
pub use error::SetupError;
pub use resolve::{LookingUp, Lookup};
pub use signature::signature;
pub use webhook::{AlertConfig, Format, Webhook};
