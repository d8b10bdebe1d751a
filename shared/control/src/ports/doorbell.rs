//! The doorbell: "look again now". Losing a ring costs latency, never a command.

use motorpool_domain::{ClaimId, RunnerId};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Bell {
    Runner(RunnerId),
    Claim(ClaimId),
}

pub trait Doorbell: Send + Sync + std::fmt::Debug {
    fn ring(&self, bell: Bell);
}

/// For a control plane in which nobody waits.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoDoorbell;

impl Doorbell for NoDoorbell {
    fn ring(&self, _: Bell) {}
}
