//! What follows from a runner's state, once it is written. Each effect is safe to repeat, and refresh repeats it.

use crate::apply::Applied;
use crate::control::Control;
use crate::ports::queue::QueueName;
use crate::refused::{Refused, chain};
use motorpool_domain::Actor;
use motorpool_domain::pool::Pool;
use motorpool_domain::record::Key;
use motorpool_domain::runner::{Presence, Runner, RunnerEvent, RunnerState};
use motorpool_wire::queue::IdleNotice;

impl Control {
    /// The effects of being in this state. Not of leaving the last one: that is `follow`.
    pub(crate) async fn act(&self, pool: &Pool, runner: &Runner) -> Result<(), Refused> {
        match &runner.state {
            RunnerState::Idle => {
                self.announce(runner).await?;
                self.ring(Key::from(&runner.id));
            }
            RunnerState::Terminating { .. } => {
                self.ring(Key::from(&runner.id));
                self.end_machine(pool, runner).await?;
            }
            RunnerState::Quarantined { why } => {
                tracing::warn!(target: "alert", runner = %runner.id, pool = %runner.pool, why, "a runner is quarantined: a person must look");
                self.ring(Key::from(&runner.id));
            }
            RunnerState::Created { .. }
            | RunnerState::Resetting { .. }
            | RunnerState::Claimed { .. }
            | RunnerState::Running { .. }
            | RunnerState::Releasing { .. }
            | RunnerState::Terminated { .. } => self.ring(Key::from(&runner.id)),
        }
        Ok(())
    }

    /// What others make of a change: the claim that has or had the runner, and whoever waits for an idle one.
    pub(crate) async fn follow(&self, applied: &Applied) -> Result<(), Refused> {
        let (before, after) = match applied {
            Applied::Changed { before, after } => (before, after),
            Applied::Stayed | Applied::Refused(_) | Applied::Overtaken => return Ok(()),
        };
        if after.state.makes_room() {
            Box::pin(self.offer_to_waiting(&after.pool)).await?;
        }
        let holder = before.state.hold().or(after.state.hold());
        if let Some(hold) = holder {
            Box::pin(self.advance(&hold.claim)).await?;
            self.ring(Key::from(&hold.claim));
        }
        Ok(())
    }

    /// Tells the queue that this runner is idle.
    pub(crate) async fn announce(&self, runner: &Runner) -> Result<(), Refused> {
        let notice =
            IdleNotice { runner: runner.id.clone(), epoch: runner.epoch, offer: runner.offer.clone() };
        let body = serde_json::to_string(&notice).map_err(|error| Refused::internal(&error))?;
        self.queue.send(&QueueName::Idle(runner.pool.clone()), body).await?;
        Ok(self.store.note_announced(&runner.id, runner.epoch, self.now()).await?)
    }

    /// Tells the provider; the intent is committed. If the machine is gone already, so is the runner.
    pub(crate) async fn end_machine(&self, pool: &Pool, runner: &Runner) -> Result<(), Refused> {
        match self.backend(pool.rules.backend)?.ensure_gone(runner).await {
            Ok(Presence::Gone) => {
                // Boxed, since `apply` acts; it goes no deeper, as nothing follows from `terminated`.
                Box::pin(self.apply(pool, runner, &RunnerEvent::ProviderGone, &Actor::Control)).await?;
                Ok(())
            }
            Ok(Presence::There | Presence::Unknown) => Ok(()),
            Err(error) => {
                tracing::warn!(runner = %runner.id, error = chain(&error), "the provider was not told; refresh will tell it again");
                Ok(())
            }
        }
    }
}
