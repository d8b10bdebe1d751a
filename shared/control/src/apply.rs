//! Applies one event to one runner: decide, write conditionally, act. Losing the race is an outcome.

use crate::control::Control;
use crate::refused::Refused;
use crate::store::{RunnerWrite, Written};
use motorpool_domain::pool::Pool;
use motorpool_domain::runner::{
    Change, Decision, Refusal, Runner, RunnerEvent, RunnerState, decide, next_look,
};
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

/// How often a write that lost to another change within the same state is decided anew.
const ATTEMPTS: usize = 8;

impl Control {
    pub(crate) async fn apply(
        &self,
        pool: &Pool,
        runner: &Runner,
        event: &RunnerEvent,
        who: &Actor,
    ) -> Result<Applied, Refused> {
        let mut current = runner.clone();
        for _ in 0..ATTEMPTS {
            match self.apply_as_read(pool, &current, event, who).await? {
                AsRead::Applied(applied) => return Ok(applied),
                AsRead::Lost { found } if event.is_meant_for(&found, &current) => current = *found,
                AsRead::Lost { .. } => return Ok(Applied::Overtaken),
            }
        }
        Err(Refused::contended(&format!("runner {}", runner.id)))
    }

    /// Applies `event` to the record as it was read, or not at all.
    pub(crate) async fn apply_as_read(
        &self,
        pool: &Pool,
        before: &Runner,
        event: &RunnerEvent,
        who: &Actor,
    ) -> Result<AsRead, Refused> {
        let now = self.now();
        let Change { after, why } = match decide(before, event, &pool.rules, now) {
            Decision::Change(change) => *change,
            Decision::Stay => return Ok(AsRead::Applied(Applied::Stayed)),
            Decision::Refuse(refusal) => return Ok(AsRead::Applied(Applied::Refused(refusal))),
        };
        let entry = self.transition(before, &after, who, &why, now);
        let look_at = next_look(&after, &pool.rules.limits, now);
        let write = RunnerWrite { before, after: &after, look_at, entry: &entry };
        match self.store.write_runner(write).await? {
            Written::Done => {}
            Written::Lost { found } => return Ok(AsRead::Lost { found: Box::new(found) }),
            Written::Missing => return Ok(AsRead::Applied(Applied::Overtaken)),
        }
        log(before, &after, who, &why);
        // One that was idle and stays so is announced already; the sweep repeats it.
        if after.state != RunnerState::Idle || before.state != RunnerState::Idle {
            self.act(pool, &after).await?;
        }
        self.forget_registration(before, &after).await;
        Ok(AsRead::Applied(Applied::Changed { before: Box::new(before.clone()), after: Box::new(after) }))
    }

    pub(crate) fn transition(
        &self,
        before: &Runner,
        after: &Runner,
        who: &Actor,
        why: &str,
        now: Timestamp,
    ) -> AuditEntry {
        AuditEntry {
            at: now,
            who: who.clone(),
            what: "transition".to_owned(),
            from: Some(format!("{}@{}", before.state.name(), before.epoch)),
            to: Some(format!("{}@{}", after.state.name(), after.epoch)),
            why: why.to_owned(),
        }
    }
}

fn log(before: &Runner, after: &Runner, who: &Actor, why: &str) {
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
}
