//! What travels: the HTTP API's bodies, the agent's protocol and its socket's, queue messages, a pool's settings. Translation only, no decisions.

pub mod agent;
pub mod api;
pub mod channel;
pub mod checkpoint;
pub mod error;
pub mod pool_settings;
pub mod queue;
pub mod registry;
pub mod schema;
pub mod socket;
pub mod webhook;
