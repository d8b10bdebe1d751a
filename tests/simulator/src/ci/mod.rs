//! The CI systems of the simulated world, at the port and in the simulator's own time: one like GitHub, that knows runners by the registrations that
//! are made for them, each for one job, and one like GitLab, whose runners were registered by hand and stay. Both hand out jobs by themselves, are down
//! now and then, and lose answers.

mod forge;
mod registry;
mod runs;

pub(crate) use forge::{Forge, SimForge, known_as};
pub(crate) use registry::{Entry, Registry, SimCi};
pub(crate) use runs::{Over, Runs, Taken, whole_seconds};

use super::faults::Fault;
use super::gate::{Gate, Side, Toward};
use super::ground::Ground;
use super::weather::Wind;
use motorpool_control::ports::ci::CiError;
use std::sync::Arc;
use std::time::Duration;

/// The way to a CI system, and back.
#[derive(Debug)]
struct Way {
    ground: Arc<Ground>,
}

impl Way {
    fn new(ground: &Arc<Ground>) -> Self {
        Self { ground: Arc::clone(ground) }
    }

    /// The call arrives, or is not taken.
    async fn there(&self, attempted: &str) -> Result<(), CiError> {
        self.travels(Side::Before).await;
        if !self.ground.strikes(Wind::CiDown) {
            return Ok(());
        }
        self.ground.fired(Fault::CiDown);
        self.ground.tell(|| format!("ci: does not {attempted}"));
        let limited = self.ground.chance().hits(5_000);
        let retry_after = Duration::from_millis(self.ground.chance().between(1_000, 60_000));
        Err(if limited { CiError::RateLimited { retry_after } } else { failed(attempted) })
    }

    /// What was done is done; the answer comes, or is lost.
    async fn back(&self, attempted: &str) -> Result<(), CiError> {
        let lost = self.ground.strikes(Wind::CiDown);
        self.travels(Side::After).await;
        if lost { Err(failed(attempted)) } else { Ok(()) }
    }

    async fn travels(&self, side: Side) {
        let wait_ms = self.ground.chance().skewed(50, 5_000);
        Gate::new(&self.ground, wait_ms, side, Toward::Ci).await;
    }
}

fn failed(attempted: &str) -> CiError {
    CiError::Failed { attempted: attempted.to_owned(), source: "the CI system does not answer".into() }
}
