//! What happens next, and the clock: events by simulated time, and in the order in which they were planned where times are equal.

use super::calls::{Call, Caller, Reply};
use super::host::HostEvent;
use super::jobs::JobEvent;
use super::ledger::Write;
use super::provider::LateOrder;
use motorpool_domain::Timestamp;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub(crate) enum Event {
    /// A call of a use case arrives, or its answer does.
    Gate(u64),
    Refresh {
        plane: usize,
    },
    Restart {
        plane: usize,
    },
    /// A request reaches a control plane.
    Arrive {
        plane: usize,
        caller: Caller,
        call: Call,
    },
    /// A reply reaches its caller.
    Reply {
        to: Caller,
        reply: Reply,
    },
    /// A workflow does its next step.
    Work(usize),
    Host {
        host: usize,
        life: u32,
        event: HostEvent,
    },
    /// A write whose sender has given up or is gone reaches the ledger all the same.
    LateWrite(Box<Write>),
    /// And so does an order reach the provider.
    LateOrder(Box<LateOrder>),
    /// The provider's machine starts, or stops.
    PowerOn(String),
    PowerOff(String),
    /// The cloud wants a machine back, or may.
    Notice,
    /// It takes this one, which it said was likely, with the usual notice.
    Interrupt(String),
    /// Something happens to a machine by itself.
    Mishap,
    Operator,
    Intruder,
    /// The CI system looks for a runner for the next job.
    Dispatch,
    Job {
        number: usize,
        life: u32,
        event: JobEvent,
    },
    /// A job comes for the runner program of this name, which is about to be taken back.
    JobInThePause(String),
    /// It tells of the end of a job.
    Webhook(usize),
    /// All that ran on a host is ended.
    Emptied {
        host: usize,
    },
    /// A worker of this plane looks into the finalize queue.
    Attend {
        plane: usize,
    },
    /// A message comes that nobody can use.
    Litter,
    Check,
}

#[derive(Debug, Default)]
pub(crate) struct Schedule {
    planned: u64,
    events: BTreeMap<(u64, u64), Event>,
}

impl Schedule {
    pub(crate) fn plan(&mut self, at_ms: u64, event: Event) {
        self.planned += 1;
        self.events.insert((at_ms, self.planned), event);
    }

    pub(crate) fn next(&mut self) -> Option<(u64, Event)> {
        self.events.pop_first().map(|((at_ms, _), event)| (at_ms, event))
    }
}

/// The world's own clock: milliseconds since the simulation began. What a control plane takes for the time is in `clocks`.
#[derive(Debug, Default)]
pub(crate) struct SimClock(AtomicU64);

const BEGAN_AT_MS: u64 = 1_700_000_000_000;

impl SimClock {
    pub(crate) fn now_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn turn_to(&self, at_ms: u64) {
        self.0.store(at_ms, Ordering::Relaxed);
    }

    pub(crate) fn timestamp(at_ms: u64) -> Timestamp {
        Self::timestamp_ahead(at_ms, 0)
    }

    /// As a clock shows it that is so far ahead, or behind.
    pub(crate) fn timestamp_ahead(at_ms: u64, ahead_ms: i64) -> Timestamp {
        Timestamp::from_millis((BEGAN_AT_MS + at_ms).saturating_add_signed(ahead_ms))
    }
}
