//! Applies one event to one runner: decide, write conditionally, act. Losing the race is an outcome.

use crate::control::Control;
use crate::ports::ledger::{RunnerWrite, Written};
use crate::refused::Refused;
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
            let now = self.now();
            let Change { after, why } = match decide(&current, event, &pool.rules, now) {
                Decision::Change(change) => *change,
                Decision::Stay => return Ok(Applied::Stayed),
                Decision::Refuse(refusal) => return Ok(Applied::Refused(refusal)),
            };
            let entry = self.transition(&current, &after, who, &why, now);
            let write = RunnerWrite {
                before: &current,
                after: &after,
                look_at: next_look(&after, &pool.rules.limits, now),
                entry: &entry,
            };
            match self.ledger.write_runner(write).await? {
                Written::Done => {
                    log(&current, &after, who, &why);
                    // One that was idle and stays so is announced already; the sweep repeats it.
                    if after.state != RunnerState::Idle || current.state != RunnerState::Idle {
                        self.act(pool, &after).await?;
                    }
                    self.forget_registration(pool, &current, &after).await;
                    return Ok(Applied::Changed { before: Box::new(current), after: Box::new(after) });
                }
                Written::Lost { found }
                    if found.epoch == current.epoch && found.state.name() == current.state.name() =>
                {
                    current = found;
                }
                Written::Lost { .. } | Written::Missing => return Ok(Applied::Overtaken),
            }
        }
        Err(Refused::contended(&format!("runner {}", runner.id)))
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
