//! The WebSocket of agents: who is connected, what they ask, what they are asked to run, and the sync of those that know none. What an agent asks is
//! what it could ask over HTTP: no rule of its own is here.

mod channels;
mod connection;
mod credentials;
mod ending;
mod hands;
mod messages;

pub(crate) use channels::Channels;
pub(crate) use connection::{Connecting, serve, turn_away};
pub(crate) use credentials::ChannelCredentials;
