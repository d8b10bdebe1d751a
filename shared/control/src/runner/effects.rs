//! What follows from a runner's state, once it is written. Each effect is safe to repeat, and refresh repeats it.

use super::Applied;
use crate::control::Control;
use crate::error::{Refused, chain};
use crate::ports::queue::QueueName;
use motorpool_domain::alert::Incident;
use motorpool_domain::claim::Claim;
use motorpool_domain::pool::{Dispatch, Pool};
use motorpool_domain::record::Key;
use motorpool_domain::runner::{Holder, Presence, Runner, RunnerEvent, RunnerState};
use motorpool_domain::{Actor, Timestamp};
use motorpool_wire::queue::IdleNotice;

impl Control {
    /// The effects of being in this state. Not of leaving the last one: that is `notify_dependents`.
    pub(super) async fn effects(&self, pool: &Pool, runner: &Runner, now: Timestamp) -> Result<(), Refused> {
        self.wake(Key::from(&runner.id));
        match &runner.state {
            RunnerState::Idle => match pool.rules.dispatch {
                Dispatch::Claim => self.announce(runner, now).await,
                Dispatch::Hook => self.ask_for_attention(runner).await,
                Dispatch::Lease => Ok(()),
            },
            RunnerState::Releasing { .. } | RunnerState::Resetting { .. } if Self::is_attended(pool) => {
                self.ask_for_attention(runner).await
            }
            RunnerState::Terminating { .. } => self.end_machine(pool, runner, now).await,
            RunnerState::Quarantined { why } => {
                tracing::warn!(target: "alert", runner = %runner.id, pool = %runner.pool, why, "a runner is quarantined: a person must look");
                self.raise(Incident::RunnerQuarantined { runner: runner.id.clone() }, why, now).await;
                match Self::is_attended(pool) {
                    true => self.ask_for_attention(runner).await,
                    false => Ok(()),
                }
            }
            RunnerState::Created { .. }
            | RunnerState::Resetting { .. }
            | RunnerState::Claimed { .. }
            | RunnerState::Running { .. }
            | RunnerState::Releasing { .. }
            | RunnerState::Terminated { .. } => Ok(()),
        }
    }

    /// What others make of a change: whoever has or had the runner, and the claims that wait for an idle one.
    pub(crate) async fn notify_dependents(&self, applied: &Applied, now: Timestamp) -> Result<(), Refused> {
        self.notify_dependents_with(applied, None, now).await
    }

    /// The same by who has read the holder's record already, however long ago.
    pub(super) async fn notify_dependents_with(
        &self,
        applied: &Applied,
        known: Option<Claim>,
        now: Timestamp,
    ) -> Result<(), Refused> {
        let (before, after) = match applied {
            Applied::Changed { before, after } => (before, after),
            Applied::Stayed | Applied::Refused(_) | Applied::Overtaken => return Ok(()),
        };
        if after.state.makes_room() {
            Box::pin(self.offer_to_waiting(&after.pool, now)).await?;
        }
        match before.holder().or(after.holder()) {
            Some(holder @ Holder::Claim(id)) => {
                match known.filter(|claim| claim.id == *id) {
                    Some(claim) => Box::pin(self.reconcile_claim(claim, now)).await?,
                    None => Box::pin(self.reconcile(id, now)).await?,
                };
                self.wake(Key::from(holder));
            }
            Some(Holder::Checkpoint(_)) | None => {}
        }
        // One that was attached to a claim's hold, or that its machine's proof has just come to its end.
        match before.checkpoint.as_ref() {
            Some(checkpoint) => self.look_at_checkpoint(checkpoint, now).await,
            None => Ok(()),
        }
    }

    /// Tells the queue that this runner is idle.
    pub(crate) async fn announce(&self, runner: &Runner, now: Timestamp) -> Result<(), Refused> {
        let notice =
            IdleNotice { runner: runner.id.clone(), epoch: runner.epoch, offer: runner.offer.clone() };
        let body = serde_json::to_string(&notice).map_err(|error| Refused::internal(&error))?;
        self.queue.send(&QueueName::Idle(runner.pool.clone()), body).await?;
        Ok(self.store.note_announced(&runner.id, runner.epoch, now).await?)
    }

    /// Tells the provider; the intent is committed. If the machine is gone already, so is the runner.
    async fn end_machine(&self, pool: &Pool, runner: &Runner, now: Timestamp) -> Result<(), Refused> {
        match self.backend(pool.rules.backend)?.ensure_gone(runner).await {
            Ok(Presence::Gone) => {
                // Boxed, since `transition` acts; it goes no deeper, as nothing follows from `terminated`.
                Box::pin(self.transition(pool, runner, &RunnerEvent::ProviderGone, &Actor::Control, now))
                    .await?;
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
