//! What must hold between calls to the provider, their tokens, the machines that came of them, and the records.
//!
//! How invariant 17 counts. A machine is its runner's own if it came of the call that was written on the record when the call arrived, and no
//! denial of that call came before; or if the record names it. Own machines, and live records without one, never exceed `max`: so a record may
//! only end when its own machine is gone. Every other machine is one too many, and nothing on our side can prevent it: its order arrived when
//! its sender was gone, or when another call for the same runners had gone further. Such a one gets no work (its agent is refused), and is
//! found and ended within T (invariant 16). Once faults stop there are none: the machines are then at most `max`, all of them.

use super::{Oracle, Scene};
use crate::clocks::MOST_OFF_MS;
use crate::ledger::RunnerChange;
use crate::schedule::SimClock;
use crate::yard::{Power, Yard};
use motorpool_control::ports::backend::LaunchOrder;
use motorpool_domain::ladder::{Lacking, LaunchCall, Shortage};
use motorpool_domain::runner::{Notice, Runner, RunnerState, StateName};
use motorpool_domain::{Epoch, LaunchId, PoolName, RunnerId};
use std::collections::{BTreeMap, BTreeSet};

/// What a call is known by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Token {
    pub(crate) launch: LaunchId,
    pub(crate) number: u32,
    pub(crate) from: u32,
}

impl Token {
    fn of(launch: &LaunchId, attempt: &LaunchCall) -> Self {
        Self { launch: launch.clone(), number: attempt.number, from: attempt.from }
    }
}

#[derive(Debug, Default)]
pub(super) struct Calls {
    /// As they were written down, each with the runners whose records have it.
    written: BTreeMap<Token, (LaunchCall, BTreeSet<RunnerId>)>,
    made: BTreeMap<String, Made>,
    /// Runners that the provider had nothing for, with the number of the call.
    denied: BTreeSet<(RunnerId, u32)>,
    /// When it said, and was heard, that there is none of something.
    empty: BTreeMap<(PoolName, String), Vec<u64>>,
    /// As the ledger has them, each with when it was written.
    noted: BTreeMap<(PoolName, String), (u64, Shortage)>,
}

#[derive(Debug)]
struct Made {
    runner: RunnerId,
    pool: PoolName,
    token: Token,
    /// One too many, as far as is known.
    beside: bool,
}

/// For so long after it was noted that there is none of something, a choice may still be on its way that was made before.
const CHOSEN_BEFORE_MS: u64 = 60_000;
/// A shortage is remembered for three minutes. So often may all planes together be told of the same one within that time: those who asked
/// at the same moment, and those whose note was lost.
const REMEMBERED_MS: u64 = 180_000;
const MOST_TOLD: usize = 30;

impl Oracle {
    /// Invariant 15: the order is the call that is written on every one of its runners.
    pub(crate) fn ordered(&mut self, now_ms: u64, order: &LaunchOrder<'_>) {
        let runners = order.attempt.runners(order.launch);
        let ordered = order.machines.iter().map(|machine| &machine.runner);
        let written = self.calls.written.get(&Token::of(order.launch, order.attempt));
        let right = written.is_some_and(|(attempt, on)| {
            attempt == order.attempt
                && runners.iter().all(|runner| on.contains(runner))
                && runners.iter().eq(ordered)
        });
        if !right {
            let what = format!(
                "the provider is called for {} with {:?}, and {written:?} is written",
                order.launch, order.attempt
            );
            let about = RunnerId::of_launch(order.launch, order.attempt.from);
            self.fails_at(now_ms, 15, &[&about, order.launch], what);
        }
    }

    /// The machines that a call made before.
    pub(crate) fn made_by(&self, token: &Token) -> Vec<(RunnerId, String)> {
        let of = self.calls.made.iter().filter(|(_, made)| made.token == *token);
        let mut of: Vec<(RunnerId, String)> =
            of.map(|(id, made)| (made.runner.clone(), id.clone())).collect();
        let place = |runner: &RunnerId| self.runner(runner).map_or(u32::MAX, |runner| runner.index);
        of.sort_by_key(|(runner, _)| place(runner));
        of
    }

    /// Says whether the runner has another, or waits for none.
    pub(crate) fn machine_made(
        &mut self,
        now_ms: u64,
        machine: &str,
        runner: &RunnerId,
        token: &Token,
    ) -> bool {
        let record = self.runner(runner);
        let pool = record.map(|record| record.pool.clone());
        let waits = record.is_some_and(|record| match &record.state {
            RunnerState::Created { launched_at: None, attempt: Some(attempt), .. } => {
                Token::of(&record.launch, attempt) == *token
            }
            RunnerState::Created { .. }
            | RunnerState::Resetting { .. }
            | RunnerState::Idle
            | RunnerState::Claimed { .. }
            | RunnerState::Running { .. }
            | RunnerState::Releasing { .. }
            | RunnerState::Quarantined { .. }
            | RunnerState::Terminating { .. }
            | RunnerState::Terminated { .. } => false,
        });
        let denied = self.calls.denied.contains(&(runner.clone(), token.number));
        let others: Vec<&Made> = self.calls.made.values().filter(|made| made.runner == *runner).collect();
        if others.iter().any(|made| made.token == *token) {
            let what = format!("the call {token:?} makes a second machine for {runner}, {machine}");
            self.fails_at(now_ms, 15, &[runner, &machine], what);
            return true;
        }
        let doubled = !waits || !others.is_empty();
        let Some(pool) = pool else {
            let what = format!("{machine} is made for {runner}, of which there never was a record");
            self.fails_at(now_ms, 15, &[runner], what);
            return doubled;
        };
        let made = Made { runner: runner.clone(), pool, token: token.clone(), beside: !waits || denied };
        self.calls.made.insert(machine.to_owned(), made);
        doubled
    }

    /// The provider has made so many of a call's machines, the first ones, whether or not anybody hears of it.
    pub(crate) fn answered(&mut self, token: &Token, came: usize) {
        let Some((attempt, _)) = self.calls.written.get(token) else { return };
        let denied = attempt.runners(&token.launch).into_iter().skip(came);
        self.calls.denied.extend(denied.map(|runner| (runner, token.number)));
    }

    /// Fault 22: a shortage is remembered, and nobody walks the same ladder again and again.
    pub(crate) fn told_empty(&mut self, now_ms: u64, pool: &PoolName, of: &Lacking) {
        let told = self.calls.empty.entry((pool.clone(), of.key())).or_default();
        told.retain(|at_ms| now_ms - at_ms < REMEMBERED_MS);
        told.push(now_ms);
        let times = told.len();
        if times > MOST_TOLD {
            let what =
                format!("pool {pool} was told {times} times in three minutes that there is no {}", of.key());
            self.fails_at(now_ms, 23, &[pool], what);
        }
    }

    pub(super) fn shortage_noted(&mut self, scene: &Scene<'_>, pool: &PoolName, shortage: &Shortage) {
        let key = (pool.clone(), shortage.of.key());
        self.calls.noted.insert(key, (scene.now_ms, shortage.clone()));
    }

    /// A call is written on a record.
    pub(super) fn call_written(&mut self, scene: &Scene<'_>, runner: &Runner) {
        let RunnerState::Created { attempt: Some(attempt), .. } = &runner.state else { return };
        let token = Token::of(&runner.launch, attempt);
        let (known, on) =
            self.calls.written.entry(token).or_insert_with(|| (attempt.clone(), BTreeSet::new()));
        let same = known == attempt;
        let known = known.clone();
        if !on.insert(runner.id.clone()) && same {
            return;
        }
        if !same {
            let what =
                format!("one token stands for two calls of {}: {known:?} and {attempt:?}", runner.launch);
            self.fails(scene, 15, &[&runner.id], what);
        }
        // Whoever chose may have had a clock that was ahead.
        let now = SimClock::timestamp(scene.now_ms + MOST_OFF_MS);
        let noted = self.calls.noted.iter().find(|((pool, _), (at_ms, noted))| {
            *pool == runner.pool
                && noted.until > now
                && noted.of.covers(&attempt.rung)
                && scene.now_ms > at_ms + CHOSEN_BEFORE_MS
        });
        if let Some((_, (at_ms, noted))) = noted {
            let ago_s = (scene.now_ms - at_ms) / 1_000;
            let what = format!(
                "{} is to be asked for as {}, and that there is none was noted {ago_s} s ago: {}",
                runner.id,
                attempt.rung.in_words(),
                noted.of.key()
            );
            self.fails(scene, 23, &[&runner.id, &runner.pool], what);
        }
    }

    /// Fault 11, and the use of tokens: another call is made only for what the last one denied, or for who is left of a call whose others are
    /// over. Being asked too often, or a lost answer, uses up nothing.
    pub(super) fn calls_rise(&mut self, scene: &Scene<'_>, changes: &[RunnerChange]) {
        for RunnerChange { before, after } in changes {
            let Some(before) = before else { continue };
            let (
                RunnerState::Created { attempt: Some(last), .. },
                RunnerState::Created { attempt: Some(next), .. },
            ) = (&before.state, &after.state)
            else {
                continue;
            };
            let denied = self.calls.denied.contains(&(before.id.clone(), last.number));
            if last == next || denied || !self.whole(&before.launch, last) {
                continue;
            }
            let what = format!(
                "{} is to be asked for by call {} though nothing is known against call {}",
                before.id, next.number, last.number
            );
            self.fails(scene, 15, &[&before.id], what);
        }
    }

    /// Whether the same call again would be for the same runners.
    fn whole(&self, launch: &LaunchId, attempt: &LaunchCall) -> bool {
        attempt.runners(launch).iter().all(|id| {
            self.runner(id).is_some_and(|runner| match &runner.state {
                RunnerState::Created { attempt: own, .. } => {
                    own.as_ref().is_some_and(|own| own.number == attempt.number)
                }
                RunnerState::Terminating { .. } | RunnerState::Terminated { .. } => false,
                RunnerState::Resetting { .. }
                | RunnerState::Idle
                | RunnerState::Claimed { .. }
                | RunnerState::Running { .. }
                | RunnerState::Releasing { .. }
                | RunnerState::Quarantined { .. } => true,
            })
        })
    }

    /// What a change of a record means for the machines.
    pub(super) fn machines_follow(&mut self, scene: &Scene<'_>, before: &Runner, after: &Runner) {
        if before.kept {
            return;
        }
        self.names_its_machine(scene, before, after);
        if let (RunnerState::Created { attempt: last, .. }, RunnerState::Created { attempt: next, .. }) =
            (&before.state, &after.state)
            && last != next
        {
            self.call_written(scene, after);
            // Whatever came of the last call after all is one too many, unless the record comes to name it.
            for made in self.calls.made.values_mut().filter(|made| made.runner == after.id) {
                made.beside = true;
            }
        }
        if after.state.name() == StateName::Terminated {
            self.ends_rightly(scene, before, after);
        }
        self.noticed_rightly(scene, before, after);
    }

    fn names_its_machine(&mut self, scene: &Scene<'_>, before: &Runner, after: &Runner) {
        let Some(named) = after.provider_id.as_deref().filter(|_| before.provider_id != after.provider_id)
        else {
            return;
        };
        let its = self.calls.made.get(named).is_some_and(|made| made.runner == after.id);
        if !its || before.provider_id.is_some() {
            let what = format!(
                "the record of {} comes to name {named}, after {:?}; that is {:?}",
                after.id,
                before.provider_id,
                self.calls.made.get(named)
            );
            self.fails(scene, 16, &[&after.id, &named], what);
        }
        for (id, made) in self.calls.made.iter_mut().filter(|(_, made)| made.runner == after.id) {
            made.beside = id != named;
        }
    }

    /// Invariant 17: a slot is given back when its machine is gone. And fault 11: a launch is given up only if there was nothing to give.
    fn ends_rightly(&mut self, scene: &Scene<'_>, before: &Runner, after: &Runner) {
        let there = scene.yard.of(&before.id).find(|(id, site)| {
            let own = self.calls.made.get(*id).is_some_and(|made| !made.beside);
            own && site.power != Power::Off
        });
        if let Some((id, site)) = there {
            let what = format!("{} gives its slot back, and its machine {id} is {:?}", before.id, site.power);
            self.fails(scene, 17, &[&before.id, id], what);
        }
        let throttled =
            matches!(&after.state, RunnerState::Terminated { why } if why.contains("too many requests"));
        if let RunnerState::Created { launched_at: None, attempt: Some(attempt), .. } = &before.state
            && (throttled || !self.calls.denied.contains(&(before.id.clone(), attempt.number)))
        {
            let what = format!("{} is given up, and nobody said that there is nothing to give", before.id);
            self.fails(scene, 15, &[&before.id], what);
        }
    }

    /// Invariant 14: who is taken away for the provider's sake had a notice.
    fn noticed_rightly(&mut self, scene: &Scene<'_>, before: &Runner, after: &Runner) {
        let leaving = |runner: &Runner| matches!(runner.state, RunnerState::Running { leaving: true, .. });
        let ended = |runner: &Runner| match &runner.state {
            RunnerState::Terminating { why, .. } => {
                [Notice::Interruption, Notice::Rebalance].iter().any(|notice| notice.in_words() == why)
            }
            RunnerState::Created { .. }
            | RunnerState::Resetting { .. }
            | RunnerState::Idle
            | RunnerState::Claimed { .. }
            | RunnerState::Running { .. }
            | RunnerState::Releasing { .. }
            | RunnerState::Quarantined { .. }
            | RunnerState::Terminated { .. } => false,
        };
        let now = (leaving(after) && !leaving(before)) || (ended(after) && !ended(before));
        if now && !scene.yard.of(&after.id).any(|(_, site)| site.notice().is_some()) {
            let what = format!("{} is to go for a notice that its machine never had", after.id);
            self.fails(scene, 14, &[&after.id], what);
        }
    }

    /// Invariant 17, machine by machine.
    pub(crate) fn within_max(&mut self, now_ms: u64, yard: &Yard, pool: &PoolName) {
        let there = self.machines_and_intents(yard, pool);
        let Some(most) = self.most_allowed(pool, there) else { return };
        if there > most {
            let what = format!(
                "pool {pool} has {there} machines and records without one, and at most {most} are allowed"
            );
            self.fails_at(now_ms, 17, &[pool], what);
        }
    }

    /// The machines that are their runners' own, and the live records without one.
    pub(super) fn machines_and_intents(&self, yard: &Yard, pool: &PoolName) -> u32 {
        let own =
            |id: &String| self.calls.made.get(id).is_some_and(|made| !made.beside && made.pool == *pool);
        let there: Vec<(&String, &RunnerId)> = yard
            .all()
            .filter(|(id, site)| site.power != Power::Off && own(id))
            .map(|(id, site)| (id, &site.runner))
            .collect();
        let intents = self
            .live()
            .filter(|runner| runner.pool == *pool && !there.iter().any(|(_, of)| **of == runner.id))
            .count();
        u32::try_from(there.len() + intents).unwrap_or(u32::MAX)
    }

    /// Whether this machine's agent may do the runner's work: it is the one that the record names.
    pub(crate) fn may_work(&mut self, now_ms: u64, runner: &RunnerId, machine: &str) {
        let named = self.runner(runner).and_then(|runner| runner.provider_id.clone());
        if named.as_deref() != Some(machine) {
            let what = format!("{machine} does the work of {runner}, whose machine is {named:?}");
            self.fails_at(now_ms, 16, &[runner, &machine], what);
        }
    }

    /// Whether it runs for a claim that has ended and let go of its runners, as its machine was to go. One whose time is over ends its work
    /// by itself, and is for refresh alone.
    pub(crate) fn is_left_over(&self, now_ms: u64, runner: &RunnerId) -> bool {
        let now = SimClock::timestamp(now_ms);
        self.runner(runner).is_some_and(|runner| {
            let RunnerState::Running { hold, leaving: true } = &runner.state else { return false };
            let expired = runner.threshold.is_some_and(|threshold| threshold.passed(now));
            let claim = hold.holder.claim().and_then(|claim| self.claim(claim));
            !expired && claim.is_some_and(|claim| !claim.state.open())
        })
    }

    /// An agent has told of a notice three times, and was answered: its runner must be on its way out.
    pub(crate) fn notice_counts(&mut self, now_ms: u64, runner: &RunnerId, epoch: Epoch) {
        let stays = self.runner(runner).filter(|runner| runner.epoch == epoch).is_some_and(|runner| {
            match &runner.state {
                RunnerState::Created { .. }
                | RunnerState::Resetting { .. }
                | RunnerState::Idle
                | RunnerState::Claimed { .. }
                | RunnerState::Running { leaving: false, .. } => true,
                RunnerState::Running { leaving: true, .. }
                | RunnerState::Releasing { .. }
                | RunnerState::Quarantined { .. }
                | RunnerState::Terminating { .. }
                | RunnerState::Terminated { .. } => false,
            }
        });
        if stays {
            let state = self.runner(runner).map(|runner| runner.state.name());
            let what =
                format!("{runner} told three times that its machine is to go, and is {state:?} all the same");
            self.fails_at(now_ms, 23, &[runner], what);
        }
    }
}
