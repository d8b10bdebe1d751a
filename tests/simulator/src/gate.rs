//! Gates: every call of a control plane to ledger, queue or provider waits at one until the schedule opens it. So use cases
//! interleave at every await point, in an order that follows from the seed; and a control plane that is dropped at a gate has
//! crashed there.

use super::ground::Ground;
use super::schedule::Event;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Where a call is when it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// On its way: nothing has happened yet.
    Before,
    /// Done; its answer is on the way back.
    After,
}

/// Whom a call goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Toward {
    Ledger,
    Queue,
    Provider,
    /// Also the provider: an order for machines.
    Launch,
    Ci,
}

#[derive(Debug, Default)]
pub(crate) struct Gates {
    made: u64,
    closed: BTreeMap<u64, Slot>,
}

#[derive(Debug)]
struct Slot {
    task: u64,
    side: Side,
    toward: Toward,
    open: bool,
    waker: Option<Waker>,
}

impl Gates {
    /// Opens it, and says whose it is; nothing if its task is gone.
    pub(crate) fn open(&mut self, id: u64) -> Option<(u64, Option<Waker>)> {
        let slot = self.closed.get_mut(&id)?;
        slot.open = true;
        Some((slot.task, slot.waker.take()))
    }

    /// Whose gate it is, and where that call is.
    pub(crate) fn waiting(&self, id: u64) -> Option<(u64, Side, Toward)> {
        self.closed.get(&id).map(|slot| (slot.task, slot.side, slot.toward))
    }
}

#[derive(Debug)]
#[must_use]
pub(crate) struct Gate {
    ground: Arc<Ground>,
    wait_ms: u64,
    side: Side,
    toward: Toward,
    id: Option<u64>,
}

impl Gate {
    pub(crate) fn new(ground: &Arc<Ground>, wait_ms: u64, side: Side, toward: Toward) -> Self {
        Self { ground: Arc::clone(ground), wait_ms, side, toward, id: None }
    }
}

impl Future for Gate {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(id) = self.id else {
            // Outside of a use case, while the world is set up, nobody waits.
            let Some(acting) = self.ground.acting() else { return Poll::Ready(()) };
            let id = {
                let mut gates = self.ground.gates();
                gates.made += 1;
                let slot = Slot {
                    task: acting.task,
                    side: self.side,
                    toward: self.toward,
                    open: false,
                    waker: Some(cx.waker().clone()),
                };
                let id = gates.made;
                gates.closed.insert(id, slot);
                id
            };
            self.ground.plan_in(self.wait_ms, Event::Gate(id));
            self.id = Some(id);
            return Poll::Pending;
        };
        match self.ground.gates().closed.get_mut(&id) {
            Some(slot) if !slot.open => {
                slot.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            Some(_) | None => Poll::Ready(()),
        }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.ground.gates().closed.remove(&id);
        }
    }
}
