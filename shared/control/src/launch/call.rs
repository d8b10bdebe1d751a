//! One call to the provider, for the runners on which it is written down, and what is noted of its answer.

use super::Launched;
use crate::claim::Waits;
use crate::control::Control;
use crate::error::{Refused, chain};
use crate::ports::backend::{LaunchError, LaunchOrder, Machine, Ordered};
use crate::runner::ABREAST;
use futures_util::StreamExt;
use motorpool_domain::alert::Incident;
use motorpool_domain::ladder::{Lacking, Shortage};
use motorpool_domain::pool::Pool;
use motorpool_domain::runner::{Runner, RunnerEvent, call_of, is_unlaunched};
use motorpool_domain::{Actor, RunnerId};
use std::collections::HashMap;
use std::time::Duration;

/// What came of one call.
pub(super) enum Called {
    /// The rest has no machine, and the option none to give.
    Rest {
        rest: Vec<Runner>,
        shortage: Shortage,
    },
    Over(Launched),
}

impl Control {
    pub(super) async fn call_provider(&self, pool: &Pool, runners: &[Runner]) -> Result<Called, Refused> {
        // Of those that came by it before, some have moved on, and no longer say by which call: those that wait for it do.
        let Some(first) = runners.iter().find(|runner| is_unlaunched(runner)) else {
            return Ok(Called::Over(Launched::UnderWay));
        };
        let call = call_of(first);
        let order = LaunchOrder {
            pool,
            launch: &first.launch,
            attempt: &call,
            machines: runners
                .iter()
                .map(|runner| Ordered {
                    runner: runner.id.clone(),
                    secret: self.secret.runner_secret(&runner.launch, &runner.id),
                })
                .collect(),
            launch_secret: self.secret.launch_secret(&first.launch),
        };
        let answer = self.backend(pool.rules.backend)?.launch(&order).await;
        // Whatever is to be left alone is so from here on, however long the answer took.
        let now = self.now();
        match answer {
            Ok(machines) => {
                let rest = self.note_machines(pool, runners.to_vec(), &machines).await?;
                if rest.is_empty() {
                    return Ok(Called::Over(Launched::UnderWay));
                }
                let why = format!(
                    "the provider gave {} of {} as {}",
                    machines.len(),
                    runners.len(),
                    call.rung.in_words()
                );
                let shortage = Shortage::seen(Lacking::rung(&call.rung), why, now);
                Ok(Called::Rest { rest, shortage })
            }
            Err(LaunchError::NoCapacity { of, why }) => {
                let rest = runners.iter().filter(|runner| is_unlaunched(runner)).cloned().collect();
                let shortage = Shortage::seen(of, why, now);
                Ok(Called::Rest { rest, shortage })
            }
            Err(LaunchError::Refused(why)) => {
                tracing::warn!(target: "alert", pool = %pool.name, launch = %first.launch, why, "the provider refused a launch");
                self.raise(Incident::LaunchRefused { pool: pool.name.clone() }, &why, now).await;
                self.give_up(pool, runners, &why).await?;
                Ok(Called::Over(Launched::Short(Waits::new(
                    why,
                    Some(now.after(pool.rules.limits.heartbeat)),
                ))))
            }
            Err(error @ LaunchError::Throttled(_)) => {
                tracing::warn!(pool = %pool.name, launch = %first.launch, error = chain(&error), "a launch must wait; refresh asks again");
                self.ask_later(pool, runners).await?;
                Ok(Called::Over(Launched::UnderWay))
            }
            Err(error @ LaunchError::Unconfirmed(_)) => {
                tracing::warn!(pool = %pool.name, launch = %first.launch, error = chain(&error), "a launch is unconfirmed; refresh asks again");
                Ok(Called::Over(Launched::UnderWay))
            }
        }
    }

    /// Notes each machine on its runner's record, and returns the runners that have none.
    pub(super) async fn note_machines(
        &self,
        pool: &Pool,
        runners: Vec<Runner>,
        machines: &[Machine],
    ) -> Result<Vec<Runner>, Refused> {
        let came: HashMap<&RunnerId, &Machine> =
            machines.iter().map(|machine| (&machine.runner, machine)).collect();
        let (with, without): (Vec<Runner>, Vec<Runner>) =
            runners.into_iter().partition(|runner| came.contains_key(&runner.id));
        let notes: Vec<_> = with
            .iter()
            .filter(|runner| is_unlaunched(runner))
            .filter_map(|runner| Some((runner, came.get(&runner.id)?.provider_id.clone())))
            .map(|(runner, provider_id)| self.note_launched(pool, runner, provider_id))
            .collect();
        let mut notes = futures_util::stream::iter(notes).buffer_unordered(ABREAST);
        while let Some(noted) = notes.next().await {
            noted?;
        }
        Ok(without.into_iter().filter(is_unlaunched).collect())
    }

    async fn note_launched(&self, pool: &Pool, runner: &Runner, provider_id: String) -> Result<(), Refused> {
        let launched = RunnerEvent::Launched { provider_id };
        self.transition(pool, runner, &launched, &Actor::Control, self.now()).await.map(|_| ())
    }

    /// Only as they were read: for one that somebody has taken further meanwhile, another call may have made a machine by now.
    pub(super) async fn give_up(&self, pool: &Pool, runners: &[Runner], why: &str) -> Result<(), Refused> {
        let event = RunnerEvent::LaunchFailed { why: why.to_owned() };
        let now = self.now();
        for runner in runners.iter().filter(|runner| is_unlaunched(runner)) {
            self.transition_as_read(pool, runner, &event, &Actor::Control, now).await?;
        }
        Ok(())
    }

    /// Between one and two heartbeats from now, so that those who were all sent away do not all come back at once.
    pub(super) async fn ask_later(&self, pool: &Pool, runners: &[Runner]) -> Result<(), Refused> {
        let heartbeat = pool.rules.limits.heartbeat;
        let spread = u64::try_from(heartbeat.as_millis()).unwrap_or(u64::MAX).max(1);
        let jitter = u64::try_from(self.entropy.bits() % u128::from(spread)).unwrap_or_default();
        let at = self.now().after(heartbeat).after(Duration::from_millis(jitter));
        for runner in runners.iter().filter(|runner| is_unlaunched(runner)) {
            self.store.look_again(runner, at).await?;
        }
        Ok(())
    }
}
