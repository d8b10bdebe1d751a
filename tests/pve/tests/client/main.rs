//! The client over the API of the model: every operation, every error, every privilege.

mod operations;
mod privileges;
mod refusals;
mod stage;
mod tls;
