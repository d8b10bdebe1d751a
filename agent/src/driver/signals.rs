//! The signals that ask the agent to stop.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// From here on these signals no longer end the process by themselves.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Returns at each request to stop. Safe to cancel.
    pub(super) async fn stop(&mut self) {
        let Self { terminate, interrupt } = self;
        let name = tokio::select! {
            _told = terminate.recv() => "SIGTERM",
            _told = interrupt.recv() => "SIGINT",
        };
        tracing::info!(signal = name, "the agent is told to stop");
    }
}
