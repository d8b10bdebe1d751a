//! Takes one runner for a claim, if both are still as they were read.

use super::Draft;
use crate::control::Control;
use crate::error::Refused;
use crate::store::{RunnerWrite, Taken};
use motorpool_domain::claim::Member;
use motorpool_domain::pool::Pool;
use motorpool_domain::record::Key;
use motorpool_domain::runner::{Change, Decision, Hold, Runner, RunnerEvent, RunnerState, decide};
use motorpool_domain::{Actor, AuditEntry, Timestamp};

impl Control {
    /// The claim and the runner in one write, whether it is idle or on its way for nobody.
    pub(super) async fn take_one(
        &self,
        pool: &Pool,
        draft: &mut Draft,
        runner: &Runner,
        now: Timestamp,
    ) -> Result<Taken, Refused> {
        let claim = &draft.claim;
        let warm = runner.state == RunnerState::Idle;
        let hold = Hold { holder: (&claim.id).into(), warm, max_runtime: claim.ask.max_runtime };
        let Change { after: taken, why } =
            match decide(runner, &RunnerEvent::Taken { hold }, &pool.rules, now) {
                Decision::Change(change) => *change,
                Decision::Refuse(_) | Decision::Stay => return Ok(Taken::RunnerLost { found: None }),
            };
        let gained = claim.gaining([Member { runner: runner.id.clone(), epoch: runner.epoch, warm }]);
        let who = || Actor::Owner(claim.key.owner.clone());
        let runner_entry = AuditEntry::of_runner(now, who(), runner, &taken, &why);
        let (what, was) = match warm {
            true => ("took an idle runner", "was idle"),
            false => ("took a machine on its way", "was coming for nobody"),
        };
        let why = format!("{} {was} and fits", runner.id);
        let claim_entry = AuditEntry::of_claim(now, who(), what, claim, &gained, why);
        let write = RunnerWrite::of(runner, &taken, &pool.rules, &runner_entry);
        let outcome = self.store.take_idle(draft.gain(&gained, &claim_entry), write).await?;
        if outcome == Taken::Done {
            tracing::debug!(claim = %claim.id, runner = %runner.id, pool = %pool.name, warm, "a claim took a runner");
            self.wake(Key::from(&runner.id));
            self.wake(Key::from(&claim.id));
            draft.took(gained, taken);
        }
        Ok(outcome)
    }
}
