//! A runner's CI system is told to bring it jobs again: when it is clean, and by the sweep, since what was told may not have arrived. A call that is
//! under way must not undo a pause that comes after it: so it is written down first, and whoever pauses looks.

use crate::control::Control;
use crate::error::{Refused, chain};
use crate::ports::ci::CiError;
use motorpool_domain::Timestamp;
use motorpool_domain::ci::CiBinding;
use motorpool_domain::pool::Pool;
use motorpool_domain::runner::{
    Runner, RunnerEvent, Unpausing, is_open_in_ci, is_to_be_paused, is_to_be_unpaused, known_in_ci,
};

/// What became of such a call.
#[derive(Debug)]
enum Told {
    Done,
    /// The runner has moved on, or somebody else is at it: nobody was told anything.
    Overtaken,
    /// Whether it arrives, nobody knows.
    Failed(CiError),
}

impl Control {
    /// The runner, noted as open for jobs again where it is clean and its CI system was told so; else as it is.
    pub(super) async fn unpause_in_ci(
        &self,
        pool: &Pool,
        runner: Runner,
        now: Timestamp,
    ) -> Result<Runner, Refused> {
        let (true, Some(binding)) = (is_to_be_unpaused(&runner, &pool.rules), &pool.rules.ci) else {
            return Ok(runner);
        };
        if let Some(known) = known_in_ci(&runner, binding) {
            match self.tell_to_unpause(binding, &runner, &known, now).await? {
                Told::Done => {}
                Told::Overtaken => return self.runner_record(&runner.id).await,
                Told::Failed(error) => {
                    tracing::warn!(target: "alert", runner = %runner.id, pool = %pool.name, error = chain(&error), "a clean runner could not be unpaused in its CI system; refresh will try again");
                    return Ok(runner);
                }
            }
        }
        self.note_in_ci(pool, runner, &RunnerEvent::Unpaused, now).await
    }

    /// What was told and did not arrive, or arrived too late, is told again: an idle runner is brought jobs, and one that a person must look at is not.
    pub(crate) async fn assert_in_ci(&self, pool: &Pool, runner: &Runner) -> Result<(), Refused> {
        let Some(binding) = &pool.rules.ci else { return Ok(()) };
        let now = self.now();
        if is_to_be_paused(runner, &pool.rules) {
            return Box::pin(self.pause_in_ci(pool, runner.clone(), now)).await.map(drop);
        }
        if is_open_in_ci(runner, &pool.rules)
            && let Some(known) = known_in_ci(runner, binding)
            && let Told::Failed(error) = self.tell_to_unpause(binding, runner, &known, now).await?
        {
            return Err(error.into());
        }
        Ok(())
    }

    /// Whether a call that has jobs brought to the runner again may still arrive.
    pub(super) async fn may_be_unpaused(&self, runner: &Runner, now: Timestamp) -> Result<bool, Refused> {
        let last = self.store.unpausing(&runner.id).await?;
        Ok(last.is_some_and(|last| last.may_arrive(now)))
    }

    async fn tell_to_unpause(
        &self,
        binding: &CiBinding,
        runner: &Runner,
        known: &str,
        now: Timestamp,
    ) -> Result<Told, Refused> {
        let ci = self.ci_system(binding.system)?;
        let last = self.store.unpausing(&runner.id).await?;
        let drawn = u32::try_from(self.entropy.bits() & u128::from(u32::MAX)).unwrap_or_default();
        let Some(call) = Unpausing::begin(&runner.id, last.as_ref(), drawn, now) else {
            return Ok(Told::Overtaken);
        };
        if !self.store.begin_unpausing(runner, last.as_ref(), &call).await? {
            return Ok(Told::Overtaken);
        }
        let told = ci.unpause(&binding.scope, known).await;
        let left = match &told {
            Ok(()) | Err(CiError::Refused(_) | CiError::RateLimited { .. } | CiError::Silent { .. }) => {
                call.settled(now)
            }
            Err(CiError::Failed { .. }) => Some(call.given_up()),
        };
        self.store.end_unpausing(&call, left.as_ref()).await?;
        Ok(told.map_or_else(Told::Failed, |()| Told::Done))
    }
}
