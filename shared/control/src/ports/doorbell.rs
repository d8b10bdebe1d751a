//! The doorbell: "look again now". Losing a ring costs latency, never a command.

use motorpool_domain::record::Key;

pub trait Doorbell: Send + Sync + std::fmt::Debug {
    fn ring(&self, changed: Key);
}

/// For a control plane in which nobody waits.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoDoorbell;

impl Doorbell for NoDoorbell {
    fn ring(&self, _: Key) {}
}
