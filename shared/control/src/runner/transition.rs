//! Moves one runner by one event: decide, write conditionally, act. Losing the race is an outcome.

use crate::control::Control;
use crate::error::Refused;
use crate::store::{RunnerWrite, Written};
use crate::tries::Tries;
use motorpool_domain::pool::Pool;
use motorpool_domain::runner::{Change, Decision, Refusal, Runner, RunnerEvent, RunnerState, decide};
use motorpool_domain::{Actor, AuditEntry, Timestamp};

#[derive(Debug)]
pub(crate) enum Applied {
    Changed {
        before: Box<Runner>,
        after: Box<Runner>,
    },
    Stayed,
    Refused(Refusal),
    /// Somebody else moved it on meanwhile: the event belongs to a state that is gone.
    Overtaken,
}

impl Applied {
    /// The record after the change, if there was one.
    pub(crate) fn after(&self) -> Option<&Runner> {
        match self {
            Self::Changed { after, .. } => Some(after),
            Self::Stayed | Self::Refused(_) | Self::Overtaken => None,
        }
    }
}

/// What came of one attempt to write.
pub(crate) enum AsRead {
    Applied(Applied),
    /// The record is no longer what was decided upon.
    Lost {
        found: Box<Runner>,
    },
}

impl Control {
    pub(crate) async fn transition(
        &self,
        pool: &Pool,
        runner: &Runner,
        event: &RunnerEvent,
        who: &Actor,
        now: Timestamp,
    ) -> Result<Applied, Refused> {
        let mut current = runner.clone();
        let mut tries = Tries::new();
        loop {
            tries.again(|| format!("runner {}", runner.id))?;
            match self.transition_as_read(pool, &current, event, who, now).await? {
                AsRead::Applied(applied) => return Ok(applied),
                // Who reported this came with a token that is another's, or nobody's, by now.
                AsRead::Lost { found } if is_an_agent(who) && !found.has_the_token_of(&current) => {
                    return Ok(Applied::Overtaken);
                }
                AsRead::Lost { found } if event.is_meant_for(&found, &current) => current = *found,
                AsRead::Lost { .. } => return Ok(Applied::Overtaken),
            }
        }
    }

    /// Applies `event` to the record as it was read, or not at all.
    pub(crate) async fn transition_as_read(
        &self,
        pool: &Pool,
        before: &Runner,
        event: &RunnerEvent,
        who: &Actor,
        now: Timestamp,
    ) -> Result<AsRead, Refused> {
        let Change { after, why } = match decide(before, event, &pool.rules, now) {
            Decision::Change(change) => *change,
            Decision::Stay => return Ok(AsRead::Applied(Applied::Stayed)),
            Decision::Refuse(refusal) => return Ok(AsRead::Applied(Applied::Refused(refusal))),
        };
        let entry = AuditEntry::of_runner(now, who.clone(), before, &after, &why);
        match self.store.write_runner(RunnerWrite::of(before, &after, &pool.rules, &entry)).await? {
            Written::Done => {}
            Written::Lost { found } => return Ok(AsRead::Lost { found: Box::new(found) }),
            Written::Missing => return Ok(AsRead::Applied(Applied::Overtaken)),
        }
        Box::pin(self.follow_up(pool, before, &after, who, &why, now)).await?;
        Ok(AsRead::Applied(Applied::Changed { before: Box::new(before.clone()), after: Box::new(after) }))
    }

    /// What comes after a runner's write: its line in the log, the effects of its state, and the end of what it no longer has: an incident, a registration.
    pub(crate) async fn follow_up(
        &self,
        pool: &Pool,
        before: &Runner,
        after: &Runner,
        who: &Actor,
        why: &str,
        now: Timestamp,
    ) -> Result<(), Refused> {
        tracing::info!(
            runner = %after.id,
            pool = %after.pool,
            epoch = after.epoch.0,
            from = %before.state.name(),
            to = %after.state.name(),
            who = %who,
            why,
            "a runner moved on"
        );
        // One that was idle and stays so is announced already; the sweep repeats it.
        if after.state != RunnerState::Idle || before.state != RunnerState::Idle {
            self.effects(pool, after, now).await?;
        }
        self.resolve_quarantine(before, after, now).await;
        self.forget_registration(before, after).await;
        Ok(())
    }
}

fn is_an_agent(who: &Actor) -> bool {
    match who {
        Actor::Runner(_) => true,
        Actor::Owner(_) | Actor::Refresh | Actor::Control => false,
    }
}
