//! Incidents told over real HTTP: once when one opens and once when it is over, again where a receiver did not take it, and no more often.

#[path = "alerts/on_serve.rs"]
mod on_serve;
#[path = "alerts/receiver.rs"]
mod receiver;
#[path = "alerts/told.rs"]
mod told;
