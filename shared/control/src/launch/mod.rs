//! Launches: intents with their slots are written first, then the provider is called for them.

mod call;
mod fallback;
mod intents;
mod shortfall;
mod spare;

pub(crate) use intents::{Launch, Launched};
pub(crate) use shortfall::at_its_maximum;
