//! What travels: the HTTP API's bodies, the agent's protocol, queue messages, a pool's settings. Translation only, no decisions.

pub mod agent;
pub mod api;
pub mod error;
pub mod pool_settings;
pub mod queue;
pub mod schema;
