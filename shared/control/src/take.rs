//! Takes one runner for a claim, if both are still as they were read.

use crate::control::Control;
use crate::filling::Filling;
use crate::refused::Refused;
use crate::store::{RunnerWrite, Taken};
use motorpool_domain::claim::{Claim, Member};
use motorpool_domain::pool::Pool;
use motorpool_domain::record::Key;
use motorpool_domain::runner::{
    Announced, Change, Decision, Hold, Runner, RunnerEvent, RunnerState, announced, decide, next_look,
};
use motorpool_domain::{Actor, AuditEntry, Timestamp};

pub(crate) enum Candidate {
    Taken {
        claim: Box<Claim>,
        runner: Box<Runner>,
    },
    /// It is no longer what it was thought to be.
    Stale,
    /// True, but not for this claim.
    Unfit(String),
    ClaimLost,
}

impl Control {
    /// The claim and the runner in one write, whether it is idle or on its way for nobody.
    pub(crate) async fn take(
        &self,
        pool: &Pool,
        filling: &Filling,
        runner: &Runner,
        now: Timestamp,
    ) -> Result<Candidate, Refused> {
        let claim = &filling.claim;
        let warm = runner.state == RunnerState::Idle;
        let hold = Hold { claim: claim.id.clone(), warm, max_runtime: claim.ask.max_runtime };
        let change = match decide(runner, &RunnerEvent::Taken { hold }, &pool.rules, now) {
            Decision::Change(change) => change,
            Decision::Refuse(_) | Decision::Stay => return Ok(Candidate::Stale),
        };
        let Change { after: taken, why } = *change;
        let member = Member { runner: runner.id.clone(), epoch: runner.epoch, warm };
        let gained = claim.gaining([member]);
        let who = Actor::Owner(claim.key.owner.clone());
        let entry = |what: &str, from: String, to: String, why: String| AuditEntry {
            at: now,
            who: who.clone(),
            what: what.to_owned(),
            from: Some(from),
            to: Some(to),
            why,
        };
        let runner_entry = entry(
            "transition",
            format!("{}@{}", runner.state.name(), runner.epoch),
            format!("{}@{}", taken.state.name(), taken.epoch),
            why,
        );
        let claim_entry = entry(
            if warm { "took an idle runner" } else { "took a machine on its way" },
            claim.state.as_str().to_owned(),
            gained.state.as_str().to_owned(),
            format!("{} {} and fits", runner.id, if warm { "was idle" } else { "was coming for nobody" }),
        );
        let outcome = self
            .store
            .take_idle(
                filling.gain(&gained, &claim_entry),
                RunnerWrite {
                    before: runner,
                    after: &taken,
                    look_at: next_look(&taken, &pool.rules.limits, now),
                    entry: &runner_entry,
                },
            )
            .await?;
        Ok(match outcome {
            Taken::Done => {
                tracing::info!(claim = %claim.id, runner = %runner.id, pool = %pool.name, warm, "a claim took a runner");
                self.ring(Key::from(&runner.id));
                self.ring(Key::from(&claim.id));
                Candidate::Taken { claim: Box::new(gained), runner: Box::new(taken) }
            }
            Taken::ClaimLost => Candidate::ClaimLost,
            Taken::RunnerLost { found: Some(found) } => {
                match announced(&found, runner.epoch, &pool.rules.limits, now) {
                    // Something else than its state was written meanwhile.
                    Announced::Takeable | Announced::NotNow(_) => {
                        Candidate::Unfit(format!("{} was changed at the same moment", runner.id))
                    }
                    Announced::Stale => Candidate::Stale,
                }
            }
            Taken::RunnerLost { found: None } => Candidate::Stale,
        })
    }
}
