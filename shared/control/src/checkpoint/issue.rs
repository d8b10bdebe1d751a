//! How a runner with a checkpoint is to be cleaned: settled once, on what is known of its job at that moment, before its agent is given the task.

use crate::control::Control;
use crate::error::Refused;
use crate::store::{RunnerWrite, Written};
use crate::tries::Tries;
use motorpool_domain::checkpoint::clean_step;
use motorpool_domain::pool::Pool;
use motorpool_domain::record::Key;
use motorpool_domain::runner::{Change, Decision, Runner, RunnerEvent, awaits_pause, awaits_step, decide};
use motorpool_domain::{Actor, AuditEntry, Timestamp};

impl Control {
    /// The runner with its clean step settled, where it waits for that and nothing stands in the way; else as it is.
    pub(crate) async fn settle_clean_step(
        &self,
        pool: &Pool,
        runner: Runner,
        now: Timestamp,
    ) -> Result<Runner, Refused> {
        let (mut current, mut tries) = (runner, Tries::new());
        loop {
            if !awaits_step(&current) || awaits_pause(&current, &pool.rules) {
                return Ok(current);
            }
            tries.again(|| format!("runner {}", current.id))?;
            let checkpoint = match &current.checkpoint {
                Some(name) => self.store.checkpoint(name).await?,
                None => None,
            };
            let step = clean_step(&current, checkpoint.as_ref(), &pool.rules, now);
            let event = RunnerEvent::CleanIssued { step };
            let Decision::Change(change) = decide(&current, &event, &pool.rules, now) else {
                return Ok(current);
            };
            let Change { after, why } = *change;
            let entry = AuditEntry::of_runner(now, Actor::Control, &current, &after, &why);
            let write = RunnerWrite::of(&current, &after, &pool.rules, &entry);
            match self.store.issue_clean(write, checkpoint.as_ref()).await? {
                Written::Done => {
                    tracing::info!(runner = %after.id, pool = %pool.name, epoch = after.epoch.0, why, "how a runner is cleaned is settled");
                    self.wake(Key::from(&after.id));
                    return Ok(after);
                }
                Written::Lost { found } => current = found,
                Written::Missing => return Ok(current),
            }
        }
    }
}
