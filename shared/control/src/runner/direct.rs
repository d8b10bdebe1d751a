//! Runners with a fixed token: they have no agent that syncs. Where nobody needs hands on their machines, what an agent would report is known without one,
//! and each of their calls counts as a sync with nothing to report. So does a look of whoever attends to them, since the end of a job may be told by others.

use super::{Applied, not_its_token};
use crate::control::Control;
use crate::error::{Refused, chain};
use motorpool_domain::pool::Pool;
use motorpool_domain::runner::{Runner, advance_unattended};
use motorpool_domain::{Actor, RunnerId, Timestamp};

/// From `created` it is two steps to idle, and from `releasing` as many.
const STEPS: usize = 4;

impl Control {
    /// The runner that a call came from, as it is with that call. Whoever has no fixed token is as it was.
    pub(crate) async fn heard_directly(&self, runner: Runner, now: Timestamp) -> Result<Runner, Refused> {
        if !runner.has_fixed_token() {
            return Ok(runner);
        }
        let pool = self.pool_record(&runner.pool).await?.pool;
        self.hear(&pool, &runner, now).await?;
        let who = Actor::Runner(runner.id.clone());
        let found = Box::pin(self.advance_unattended(&pool, runner.clone(), &who, now)).await?;
        match found.has_the_token_of(&runner) {
            true => Ok(found),
            false => Err(not_its_token()),
        }
    }

    /// The same after the call has done what it was for: whatever keeps the runner from going on now, refresh makes up for.
    pub(crate) async fn heard_directly_at_last(&self, id: &RunnerId, now: Timestamp) {
        let heard = async { self.heard_directly(self.runner_record(id).await?, now).await };
        if let Err(error) = heard.await {
            tracing::warn!(runner = %id, error = chain(&error), "a runner did not go on after its call; refresh takes it on");
        }
    }

    /// The runner as far as it gets by itself.
    pub(crate) async fn advance_unattended(
        &self,
        pool: &Pool,
        runner: Runner,
        who: &Actor,
        now: Timestamp,
    ) -> Result<Runner, Refused> {
        let mut current = runner;
        for _ in 0..STEPS {
            let Some(event) = advance_unattended(&current, &pool.rules) else { break };
            let applied = self.transition(pool, &current, &event, who, now).await?;
            self.notify_dependents(&applied, now).await?;
            match applied {
                Applied::Changed { after, .. } => current = *after,
                Applied::Stayed | Applied::Refused(_) => break,
                Applied::Overtaken => return self.runner_record(&current.id).await,
            }
        }
        Ok(current)
    }
}
