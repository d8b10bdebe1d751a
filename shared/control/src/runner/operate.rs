//! What an operator does to a runner: removes it, or releases it from quarantine.

use super::Applied;
use crate::caller::Caller;
use crate::control::Control;
use crate::error::Refused;
use crate::tries::Tries;
use motorpool_domain::RunnerId;
use motorpool_domain::runner::{Refusal, Removal, Runner, RunnerEvent};
use motorpool_wire::api::RunnerView;

impl Control {
    pub async fn remove_runner(
        &self,
        caller: &Caller,
        runner: &RunnerId,
        removal: Removal,
    ) -> Result<RunnerView, Refused> {
        caller.must_be_operator("remove a runner")?;
        self.command(caller, runner, &RunnerEvent::OperatorRemove { removal }).await
    }

    /// Out of quarantine: it is cleaned, and then back in the pool.
    pub async fn release_runner(&self, caller: &Caller, runner: &RunnerId) -> Result<RunnerView, Refused> {
        caller.must_be_operator("release a runner from quarantine")?;
        self.command(caller, runner, &RunnerEvent::OperatorRelease).await
    }

    async fn command(
        &self,
        caller: &Caller,
        id: &RunnerId,
        event: &RunnerEvent,
    ) -> Result<RunnerView, Refused> {
        let now = self.now();
        let mut tries = Tries::new();
        loop {
            tries.again(|| format!("runner {id}"))?;
            let runner = self.runner_record(id).await?;
            let pool = self.pool_record(&runner.pool).await?.pool;
            let applied = self.transition(&pool, &runner, event, &caller.actor(), now).await?;
            match &applied {
                Applied::Changed { .. } | Applied::Stayed => {
                    self.notify_dependents(&applied, now).await?;
                    return Ok(self.runner_view(&self.runner_record(id).await?, &pool.rules, now));
                }
                Applied::Refused(refusal) => return Err(not_now(&runner, *refusal)),
                Applied::Overtaken => {}
            }
        }
    }
}

fn not_now(runner: &Runner, refusal: Refusal) -> Refused {
    match refusal {
        Refusal::Held => Refused::conflict(
            format!("runner {} is {} for a claim", runner.id, runner.state.name()),
            "drain it (`--drain`, `?drain=true`) to let its holder finish, or take it away (`--force`, `?force=true`)",
        ),
        Refusal::NotNow | Refusal::HandedOut => Refused::conflict(
            format!("runner {} is {}, not quarantined", runner.id, runner.state.name()),
            "only a quarantined runner needs to be released",
        ),
        Refusal::Expired => Refused::conflict(
            format!("the time of runner {} is over", runner.id),
            "refresh decides about it in a moment",
        ),
    }
}
