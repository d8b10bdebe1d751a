//! Goes from one capacity option to the next for a launch: calls the provider for what is written down; what it does not give is written down
//! for the next option, and asked for there. Begun again after a crash, it goes on where it stood, and makes no machine twice.

use super::Launched;
use super::call::Called;
use crate::claim::Waits;
use crate::control::Control;
use crate::error::{Refused, chain};
use crate::store::{AllWritten, Found, RunnerWrite};
use motorpool_domain::ladder::{CapacityOption, Choice, choose};
use motorpool_domain::pool::Pool;
use motorpool_domain::runner::{
    Change, Decision, Holder, Runner, RunnerEvent, call_of, decide, is_of, may_be_unseen, run_from,
};
use motorpool_domain::spec::Want;
use motorpool_domain::{Actor, AuditEntry};

/// How many options one call of a use case tries; refresh goes on with the rest. So no request takes minutes.
const OPTIONS_AT_ONCE: usize = 8;

impl Control {
    /// What to launch next for `want`, as far as the provider and the ledger know.
    pub(super) async fn choose_option(&self, pool: &Pool, want: &Want) -> Result<Choice, Refused> {
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

    /// `runners` are those of one call that is written on each of them, in the order of their index.
    pub(super) async fn launch_with_fallback(
        &self,
        pool: &Pool,
        mut runners: Vec<Runner>,
        want: &Want,
    ) -> Result<Launched, Refused> {
        for _ in 0..OPTIONS_AT_ONCE {
            let (rest, shortage) = match Box::pin(self.call_provider(pool, &runners)).await? {
                Called::Rest { rest, shortage } => (rest, shortage),
                Called::Over(launched) => return Ok(launched),
            };
            tracing::warn!(pool = %pool.name, of = shortage.of.key(), why = shortage.why, "the provider has none left of this, and is not asked for it for a while");
            self.store.note_shortage(&pool.name, &shortage).await?;
            let Ok(ladder) = self.ladder_of(pool, want).await? else {
                // Being asked too often, say, uses up nothing: refresh makes the same call again, and goes on from there.
                self.ask_later(pool, &rest).await?;
                return Ok(Launched::UnderWay);
            };
            match self.choose_from(pool, want, &ladder).await? {
                Choice::Try(option) => match self.call_next(pool, &rest, &option).await? {
                    Some(next) => runners = next,
                    // Whoever wrote them meanwhile goes on with them.
                    None => return Ok(Launched::UnderWay),
                },
                Choice::Wait { until, why } => {
                    self.give_up(pool, &rest, &why).await?;
                    return Ok(Launched::Short(Waits::new(why, Some(until))));
                }
                Choice::NoneFits { why } => {
                    self.give_up(pool, &rest, &why).await?;
                    return Ok(Launched::Short(Waits::new(why, Some(shortage.until))));
                }
            }
        }
        Ok(Launched::UnderWay)
    }

    /// Takes up a launch that was not confirmed, from any one of its runners.
    pub(crate) async fn launch_again(&self, pool: &Pool, runner: &Runner) -> Result<(), Refused> {
        let call = call_of(runner);
        let ids = match pool.rules.backend.launches() {
            true => call.runners(&runner.launch),
            false => vec![runner.id.clone()],
        };
        let want = self.want_of(runner).await?;
        let group = self.store.find_runners(&ids).await?;
        let is_unknown = group.contains(&Found::Unreadable);
        let group: Vec<Runner> = group.into_iter().filter_map(Found::into_record).collect();
        let whole: Vec<Runner> = group.iter().filter(|known| is_of(known, &call)).cloned().collect();
        if whole.len() == ids.len() {
            let launched = Box::pin(self.launch_with_fallback(pool, whole, &want)).await?;
            return self.tell_holder(runner, &launched).await;
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
        // A machine that is not shown yet would be made twice: the runners stay due, and are looked for again. Of a call for one whose record
        // can't be read nobody here knows whether it is still made.
        if is_unknown || may_be_unseen(&group, backend.shown_within(), self.now()) {
            return Ok(());
        }
        for alone in rest {
            let Choice::Try(option) = self.choose_option(pool, &want).await? else { return Ok(()) };
            if let Some(next) = self.call_next(pool, std::slice::from_ref(&alone), &option).await? {
                let launched = Box::pin(self.launch_with_fallback(pool, next, &want)).await?;
                self.tell_holder(&alone, &launched).await?;
            }
        }
        Ok(())
    }

    /// Writes the next call on all of `rest` at once, before the provider is called; or nothing, if somebody else was quicker.
    async fn call_next(
        &self,
        pool: &Pool,
        rest: &[Runner],
        option: &CapacityOption,
    ) -> Result<Option<Vec<Runner>>, Refused> {
        let Some(first) = rest.first() else { return Ok(None) };
        let rest = run_from(first.index, rest);
        let count = u32::try_from(rest.len()).unwrap_or(u32::MAX);
        let next = call_of(first).next(first.index, count, option.clone());
        let event = RunnerEvent::Attempted { attempt: next };
        let now = self.now();
        let mut afters = Vec::new();
        for runner in rest {
            match decide(runner, &event, &pool.rules, now) {
                Decision::Change(change) => afters.push(*change),
                Decision::Stay | Decision::Refuse(_) => return Ok(None),
            }
        }
        let entry = |(before, change): (&Runner, &Change)| {
            AuditEntry::of_runner(now, Actor::Control, before, &change.after, &change.why)
        };
        let entries: Vec<AuditEntry> = rest.iter().zip(&afters).map(entry).collect();
        let writes: Vec<RunnerWrite<'_>> = rest
            .iter()
            .zip(&afters)
            .zip(&entries)
            .map(|((before, Change { after, .. }), entry)| RunnerWrite::of(before, after, &pool.rules, entry))
            .collect();
        match self.store.write_runners(&writes).await? {
            AllWritten::Done => Ok(Some(afters.into_iter().map(|change| change.after).collect())),
            AllWritten::Lost => Ok(None),
        }
    }

    async fn want_of(&self, runner: &Runner) -> Result<Want, Refused> {
        let Some(Holder::Claim(claim)) = runner.holder() else { return Ok(Want::default()) };
        Ok(self.store.claim(claim).await?.map(|claim| claim.ask.want).unwrap_or_default())
    }

    /// Who holds what could not be launched looks for another, or says why it waits.
    async fn tell_holder(&self, runner: &Runner, launched: &Launched) -> Result<(), Refused> {
        match (launched, runner.holder()) {
            (Launched::Short(_), Some(Holder::Claim(claim))) => {
                Box::pin(self.reconcile(claim, self.now())).await.map(|_| ())
            }
            (
                Launched::Short(_)
                | Launched::UnderWay
                | Launched::PoolRefused { .. }
                | Launched::PoolGone
                | Launched::ClaimLost
                | Launched::Exists,
                _,
            ) => Ok(()),
        }
    }
}
