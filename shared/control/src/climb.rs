//! Climbs the ladder for a launch: calls the provider for the attempt that is written down; what it does not give is written down
//! for the next rung, and asked for there. Begun again after a crash, it goes on where it stood, and makes no machine twice.

use crate::control::Control;
use crate::ports::backend::{LaunchError, LaunchOrder, Machine, Ordered};
use crate::refused::{Refused, chain};
use crate::store::{AllWritten, RunnerWrite};
use futures_util::StreamExt;
use motorpool_domain::ladder::{CapacityOption, Choice, Lacking, Shortage, choose};
use motorpool_domain::pool::Pool;
use motorpool_domain::runner::{
    Change, Decision, Runner, RunnerEvent, call_of, decide, is_of, is_unlaunched, may_be_unseen, next_look,
    run_from,
};
use motorpool_domain::spec::Want;
use motorpool_domain::{Actor, RunnerId, Timestamp};
use std::collections::HashMap;
use std::time::Duration;

pub(crate) enum Climbed {
    /// Every runner has its machine, or refresh goes on with it.
    UnderWay,
    /// Some have none, and are over. The provider is left alone until then.
    Short { why: String, until: Timestamp },
}

/// What came of one call.
enum Called {
    /// The rest has no machine, and the rung none to give.
    Rest {
        rest: Vec<Runner>,
        shortage: Shortage,
    },
    Over(Climbed),
}

/// How many rungs one call of a use case tries; refresh goes on with the rest. So no request takes minutes.
const RUNGS_AT_ONCE: usize = 8;
/// How many records are written at the same time.
const ABREAST: usize = 8;

impl Control {
    /// What to launch next for `want`, as far as the provider and the ledger know.
    pub(crate) async fn choose_rung(&self, pool: &Pool, want: &Want) -> Result<Choice, Refused> {
        match self.ladder_of(pool, want).await? {
            Ok(ladder) => self.choose_from(pool, want, &ladder).await,
            Err(why) => Ok(Choice::Wait { until: self.now().after(pool.rules.limits.heartbeat), why }),
        }
    }

    /// Or why the provider can't say what it has.
    pub(crate) async fn ladder_of(
        &self,
        pool: &Pool,
        want: &Want,
    ) -> Result<Result<Vec<CapacityOption>, String>, Refused> {
        Ok(self.backend(pool.rules.backend)?.ladder(pool, want).await.map_err(|error| {
            tracing::warn!(pool = %pool.name, error = chain(&error), "the provider can't say what it has");
            format!("the provider can't say what it has: {}", chain(&error))
        }))
    }

    async fn choose_from(
        &self,
        pool: &Pool,
        want: &Want,
        ladder: &[CapacityOption],
    ) -> Result<Choice, Refused> {
        let now = self.now();
        let shortages = self.store.shortages(&pool.name, now).await?;
        Ok(choose(ladder, want, &shortages, now))
    }

    /// `runners` are those of one attempt that is written on each of them, in the order of their index.
    pub(crate) async fn climb(
        &self,
        pool: &Pool,
        mut runners: Vec<Runner>,
        want: &Want,
    ) -> Result<Climbed, Refused> {
        for _ in 0..RUNGS_AT_ONCE {
            let (rest, shortage) = match self.call(pool, &runners).await? {
                Called::Rest { rest, shortage } => (rest, shortage),
                Called::Over(climbed) => return Ok(climbed),
            };
            tracing::warn!(pool = %pool.name, of = shortage.of.key(), why = shortage.why, "the provider has none left of this, and is not asked for it for a while");
            self.store.note_shortage(&pool.name, &shortage).await?;
            let Ok(ladder) = self.ladder_of(pool, want).await? else {
                // Being asked too often, say, uses up nothing: refresh makes the same call again, and goes on from there.
                self.ask_later(pool, &rest).await?;
                return Ok(Climbed::UnderWay);
            };
            match self.choose_from(pool, want, &ladder).await? {
                Choice::Try(rung) => match self.attempt_next(pool, &rest, &rung).await? {
                    Some(next) => runners = next,
                    // Whoever wrote them meanwhile goes on with them.
                    None => return Ok(Climbed::UnderWay),
                },
                Choice::Wait { until, why } => {
                    self.give_up(pool, &rest, &why).await?;
                    return Ok(Climbed::Short { why, until });
                }
                Choice::NoneFits { why } => {
                    self.give_up(pool, &rest, &why).await?;
                    return Ok(Climbed::Short { why, until: shortage.until });
                }
            }
        }
        Ok(Climbed::UnderWay)
    }

    /// Takes up a launch that was not confirmed, from any one of its runners.
    pub(crate) async fn climb_again(&self, pool: &Pool, runner: &Runner) -> Result<(), Refused> {
        let attempt = call_of(runner);
        let ids = match pool.rules.backend.launches() {
            true => attempt.runners(&runner.launch),
            false => vec![runner.id.clone()],
        };
        let want = self.want_of(runner).await?;
        let group: Vec<Option<Runner>> = self.store.runners(&ids).await?;
        let whole: Vec<Runner> =
            group.iter().flatten().filter(|known| is_of(known, &attempt)).cloned().collect();
        if whole.len() == ids.len() {
            let climbed = self.climb(pool, whole, &want).await?;
            return self.tell_holder(runner, &climbed).await;
        }
        // The same call again would make machines for those who are over: see what came of it instead, and go on one by one.
        let backend = self.backend(pool.rules.backend)?;
        let machines = match backend.inventory(&pool.name).await {
            Ok(machines) => machines,
            Err(error) => {
                tracing::warn!(pool = %pool.name, error = chain(&error), "what came of a launch can't be seen; refresh asks again");
                return Ok(());
            }
        };
        let rest = self.note_machines(pool, whole, &machines).await?;
        // A machine that is not shown yet would be made twice: the runners stay due, and are looked for again.
        if may_be_unseen(group.iter().flatten(), backend.shown_within(), self.now()) {
            return Ok(());
        }
        for alone in rest {
            let Choice::Try(rung) = self.choose_rung(pool, &want).await? else { return Ok(()) };
            if let Some(next) = self.attempt_next(pool, std::slice::from_ref(&alone), &rung).await? {
                let climbed = self.climb(pool, next, &want).await?;
                self.tell_holder(&alone, &climbed).await?;
            }
        }
        Ok(())
    }

    async fn call(&self, pool: &Pool, runners: &[Runner]) -> Result<Called, Refused> {
        // Of those that came by it before, some have moved on, and no longer say by which call: those that wait for it do.
        let Some(first) = runners.iter().find(|runner| is_unlaunched(runner)) else {
            return Ok(Called::Over(Climbed::UnderWay));
        };
        let attempt = call_of(first);
        let order = LaunchOrder {
            pool,
            launch: &first.launch,
            attempt: &attempt,
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
                    return Ok(Called::Over(Climbed::UnderWay));
                }
                let why = format!(
                    "the provider gave {} of {} as {}",
                    machines.len(),
                    runners.len(),
                    attempt.rung.in_words()
                );
                let shortage = Shortage::seen(Lacking::rung(&attempt.rung), why, now);
                Ok(Called::Rest { rest, shortage })
            }
            Err(LaunchError::NoCapacity { of, why }) => {
                let rest = runners.iter().filter(|runner| is_unlaunched(runner)).cloned().collect();
                let shortage = Shortage::seen(of, why, now);
                Ok(Called::Rest { rest, shortage })
            }
            Err(LaunchError::Refused(why)) => {
                tracing::warn!(target: "alert", pool = %pool.name, launch = %first.launch, why, "the provider refused a launch");
                self.give_up(pool, runners, &why).await?;
                Ok(Called::Over(Climbed::Short { why, until: now.after(pool.rules.limits.heartbeat) }))
            }
            Err(error @ LaunchError::Throttled(_)) => {
                tracing::warn!(pool = %pool.name, launch = %first.launch, error = chain(&error), "a launch must wait; refresh asks again");
                self.ask_later(pool, runners).await?;
                Ok(Called::Over(Climbed::UnderWay))
            }
            Err(error @ LaunchError::Unconfirmed(_)) => {
                tracing::warn!(pool = %pool.name, launch = %first.launch, error = chain(&error), "a launch is unconfirmed; refresh asks again");
                Ok(Called::Over(Climbed::UnderWay))
            }
        }
    }

    /// Notes each machine on its runner's record, and returns the runners that have none.
    async fn note_machines(
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
        self.apply(pool, runner, &RunnerEvent::Launched { provider_id }, &Actor::Control).await.map(|_| ())
    }

    /// Writes the next attempt on all of `rest` at once, before the provider is called; or nothing, if somebody else was quicker.
    async fn attempt_next(
        &self,
        pool: &Pool,
        rest: &[Runner],
        rung: &CapacityOption,
    ) -> Result<Option<Vec<Runner>>, Refused> {
        let Some(first) = rest.first() else { return Ok(None) };
        let rest = run_from(first.index, rest);
        let count = u32::try_from(rest.len()).unwrap_or(u32::MAX);
        let next = call_of(first).next(first.index, count, rung.clone());
        let event = RunnerEvent::Attempted { attempt: next };
        let now = self.now();
        let mut afters = Vec::new();
        for runner in rest {
            match decide(runner, &event, &pool.rules, now) {
                Decision::Change(change) => afters.push(*change),
                Decision::Stay | Decision::Refuse(_) => return Ok(None),
            }
        }
        let entries: Vec<_> = rest
            .iter()
            .zip(&afters)
            .map(|(before, Change { after, why })| self.transition(before, after, &Actor::Control, why, now))
            .collect();
        let writes: Vec<RunnerWrite<'_>> = rest
            .iter()
            .zip(&afters)
            .zip(&entries)
            .map(|((before, Change { after, .. }), entry)| RunnerWrite {
                before,
                after,
                look_at: next_look(after, &pool.rules.limits, now),
                entry,
            })
            .collect();
        match self.store.write_runners(&writes).await? {
            AllWritten::Done => Ok(Some(afters.into_iter().map(|change| change.after).collect())),
            AllWritten::Lost => Ok(None),
        }
    }

    /// Only as they were read: for one that somebody has taken further meanwhile, another call may have made a machine by now.
    pub(crate) async fn give_up(&self, pool: &Pool, runners: &[Runner], why: &str) -> Result<(), Refused> {
        let event = RunnerEvent::LaunchFailed { why: why.to_owned() };
        for runner in runners.iter().filter(|runner| is_unlaunched(runner)) {
            self.apply_as_read(pool, runner, &event, &Actor::Control).await?;
        }
        Ok(())
    }

    /// Between one and two heartbeats from now, so that those who were all sent away do not all come back at once.
    async fn ask_later(&self, pool: &Pool, runners: &[Runner]) -> Result<(), Refused> {
        let heartbeat = pool.rules.limits.heartbeat;
        let spread = u64::try_from(heartbeat.as_millis()).unwrap_or(u64::MAX).max(1);
        let jitter = u64::try_from(self.entropy.bits() % u128::from(spread)).unwrap_or_default();
        let at = self.now().after(heartbeat).after(Duration::from_millis(jitter));
        for runner in runners.iter().filter(|runner| is_unlaunched(runner)) {
            self.store.look_again(runner, at).await?;
        }
        Ok(())
    }

    async fn want_of(&self, runner: &Runner) -> Result<Want, Refused> {
        let Some(hold) = runner.state.hold() else { return Ok(Want::default()) };
        Ok(self.store.claim(&hold.claim).await?.map(|claim| claim.ask.want).unwrap_or_default())
    }

    /// Who holds what could not be launched looks for another, or says why it waits.
    async fn tell_holder(&self, runner: &Runner, climbed: &Climbed) -> Result<(), Refused> {
        match (climbed, runner.state.hold()) {
            (Climbed::Short { .. }, Some(hold)) => Box::pin(self.advance(&hold.claim)).await.map(|_| ()),
            (Climbed::Short { .. } | Climbed::UnderWay, _) => Ok(()),
        }
    }
}
