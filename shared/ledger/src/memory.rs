//! The ledger in memory, for the simulator and for tests. One lock, no clock, no chance; nothing outlives the process,
//! and nothing expires.

mod state;

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use motorpool_control::ports::ledger::{
    AllWritten, ClaimGain, ClaimOpening, ClaimWrite, Deleted, Due, IntentsWrite, IntentsWritten, Ledger,
    LedgerError, Listed, Opened, Page, PoolRecord, PoolWrite, RefreshMemory, RunnerWrite, Subject, Taken,
    WhichClaims, Written,
};
use motorpool_domain::audit::AuditEntry;
use motorpool_domain::claim::{Claim, ClaimKey};
use motorpool_domain::ladder::Shortage;
use motorpool_domain::runner::{Runner, StateName};
use motorpool_domain::{ClaimId, Epoch, Owner, PoolName, RunnerId, Timestamp, Workflow};

use crate::{keys, listing, repeats};
use state::State;

#[derive(Debug, Default)]
pub struct MemoryLedger {
    state: Mutex<State>,
}

impl MemoryLedger {
    pub fn new() -> Self {
        Self::default()
    }

    /// A panic in another holder's thread leaves no half-done write: conditions are checked before anything is changed.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Ledger for MemoryLedger {
    async fn write_pool(&self, write: PoolWrite<'_>) -> Result<Written<PoolRecord>, LedgerError> {
        let mut state = self.state();
        let PoolWrite { seen, rev, pool, only_unused } = write;
        let found = state.pools.get(&pool.name);
        let used = found.map_or(0, |record| record.used);
        if found.map_or(0, |record| record.rev) == seen && (used == 0 || !only_unused) {
            state.pools.insert(pool.name.clone(), PoolRecord { pool: pool.clone(), rev, used });
            return Ok(Written::Done);
        }
        Ok(match found {
            Some(found) if write.made(found) => Written::Done,
            Some(found) => Written::Lost { found: found.clone() },
            None => Written::Missing,
        })
    }

    async fn pool(&self, name: &PoolName) -> Result<Option<PoolRecord>, LedgerError> {
        Ok(self.state().pools.get(name).cloned())
    }

    async fn pools(&self) -> Result<Vec<PoolRecord>, LedgerError> {
        Ok(self.state().pools.values().cloned().collect())
    }

    async fn delete_pool(&self, name: &PoolName, seen: u64) -> Result<Deleted, LedgerError> {
        let mut state = self.state();
        match state.pools.get(name) {
            None => Ok(Deleted::Missing),
            Some(PoolRecord { rev, .. }) if *rev != seen => Ok(Deleted::Changed),
            Some(PoolRecord { used, .. }) if *used > 0 => Ok(Deleted::InUse { used: *used }),
            Some(_) => {
                state.pools.remove(name);
                Ok(Deleted::Done)
            }
        }
    }

    async fn runner(&self, id: &RunnerId) -> Result<Option<Runner>, LedgerError> {
        Ok(self.state().runner(id).cloned())
    }

    async fn runners(&self, ids: &[RunnerId]) -> Result<Vec<Option<Runner>>, LedgerError> {
        let state = self.state();
        Ok(ids.iter().map(|id| state.runner(id).cloned()).collect())
    }

    async fn list_runners(
        &self,
        pool: &PoolName,
        state: Option<StateName>,
        page: Page,
    ) -> Result<Listed<Runner>, LedgerError> {
        let span = listing::runner_span(pool, state, &page)?;
        let runners = self.state().listed_runners(span).take(listing::to_read(&page)).cloned().collect();
        Ok(listing::cut(runners, &page, listing::runner_position))
    }

    async fn count_runners(
        &self,
        pool: &PoolName,
        state: StateName,
        at_most: u32,
    ) -> Result<u32, LedgerError> {
        let span = listing::runner_span(pool, Some(state), &Page::first(at_most))?;
        let limit = usize::try_from(at_most).unwrap_or(usize::MAX);
        let counted = self.state().listed_runners(span).take(limit).count();
        Ok(u32::try_from(counted).unwrap_or(u32::MAX))
    }

    async fn write_runners(&self, writes: &[RunnerWrite<'_>]) -> Result<AllWritten, LedgerError> {
        repeats::check_together(writes)?;
        let mut state = self.state();
        let found = |write: &RunnerWrite<'_>| state.runner(&write.before.id).cloned();
        let found: Vec<Option<Runner>> = writes.iter().map(found).collect();
        let all = |holds: fn(&Runner, &RunnerWrite<'_>) -> bool| {
            found
                .iter()
                .zip(writes)
                .all(|(found, write)| found.as_ref().is_some_and(|found| holds(found, write)))
        };
        if all(|found, write| is_still(found, write.before)) {
            for RunnerWrite { before: _, after, look_at, entry } in writes {
                state.replace_runner(after, *look_at, entry);
            }
            return Ok(AllWritten::Done);
        }
        let again = all(|found, write| repeats::written_before(found, write.after));
        Ok(if again { AllWritten::Done } else { AllWritten::Lost })
    }

    async fn note_shortage(&self, pool: &PoolName, shortage: &Shortage) -> Result<(), LedgerError> {
        self.state().shortages.insert((pool.clone(), shortage.of.key()), shortage.clone());
        Ok(())
    }

    async fn shortages(&self, pool: &PoolName, now: Timestamp) -> Result<Vec<Shortage>, LedgerError> {
        let state = self.state();
        let of_pool = state.shortages.iter().filter(|((of, _), shortage)| of == pool && shortage.until > now);
        Ok(of_pool.map(|(_, shortage)| shortage.clone()).collect())
    }

    async fn write_runner(&self, write: RunnerWrite<'_>) -> Result<Written<Runner>, LedgerError> {
        let RunnerWrite { before, after, look_at, entry } = write;
        let mut state = self.state();
        match state.runner(&before.id) {
            None => Ok(Written::Missing),
            Some(found) if !is_still(found, before) => Ok(Written::Lost { found: found.clone() }),
            Some(_) => {
                state.replace_runner(after, look_at, entry);
                if before.state.name().live() && !after.state.name().live() {
                    give_slot_back(&mut state, after);
                }
                Ok(Written::Done)
            }
        }
    }

    async fn write_launch_intents(&self, write: IntentsWrite<'_>) -> Result<IntentsWritten, LedgerError> {
        repeats::check_intents(&write)?;
        let mut state = self.state();
        if let Some(refused) = refused(&state, &write) {
            return Ok(refused);
        }
        let IntentsWrite { pool, max: _, only_if_used: _, runners, look_at, claim, entry } = write;
        if let Some(record) = state.pools.get_mut(pool) {
            record.used = record.used.saturating_add(u32::try_from(runners.len()).unwrap_or(u32::MAX));
        }
        for runner in runners {
            state.put_intent(runner, look_at, entry);
        }
        if let Some(claim) = claim {
            gain(&mut state, claim);
        }
        Ok(IntentsWritten::Done)
    }

    async fn take_idle(&self, claim: ClaimGain<'_>, runner: RunnerWrite<'_>) -> Result<Taken, LedgerError> {
        let mut state = self.state();
        let taken = match (state.runner(&runner.before.id), state.claim(&claim.write.before.id)) {
            (found, Some(in_claim)) if repeats::taken_before(found, in_claim, claim.write, runner) => {
                Some(Taken::Done)
            }
            (Some(found), _) if !is_still(found, runner.before) || !found.state.is_free() => {
                Some(Taken::RunnerLost { found: Some(Box::new(found.clone())) })
            }
            (None, _) => Some(Taken::RunnerLost { found: None }),
            (Some(_), _) => (!can_gain(&state, &claim)).then_some(Taken::ClaimLost),
        };
        if let Some(taken) = taken {
            return Ok(taken);
        }
        state.replace_runner(runner.after, runner.look_at, runner.entry);
        gain(&mut state, claim);
        Ok(Taken::Done)
    }

    async fn heartbeat(&self, id: &RunnerId, epoch: Epoch, at: Timestamp) -> Result<(), LedgerError> {
        if let Some(runner) = self.state().runner_mut(id)
            && lives(runner, epoch)
        {
            runner.seen_at = Some(at);
        }
        Ok(())
    }

    async fn note_announced(&self, id: &RunnerId, epoch: Epoch, at: Timestamp) -> Result<(), LedgerError> {
        if let Some(runner) = self.state().runner_mut(id)
            && lives(runner, epoch)
        {
            runner.announced_at = Some(at);
        }
        Ok(())
    }

    async fn look_again(&self, runner: &Runner, at: Timestamp) -> Result<(), LedgerError> {
        let mut state = self.state();
        if state.runner(&runner.id).is_some_and(|found| is_still(found, runner)) {
            state.look_again(&runner.id, at);
        }
        Ok(())
    }

    async fn open_claim(&self, claim: &Claim, opening: ClaimOpening<'_>) -> Result<Opened, LedgerError> {
        let mut state = self.state();
        let found = state.latest(&claim.key).cloned();
        if found.as_ref() == Some(&claim.id) {
            return Ok(Opened::Done);
        }
        if !can_open(&state, claim, opening) {
            return Ok(Opened::Lost { found });
        }
        state.set_latest(claim);
        state.put_claim(claim, opening.entry);
        Ok(Opened::Done)
    }

    async fn claim(&self, id: &ClaimId) -> Result<Option<Claim>, LedgerError> {
        Ok(self.state().claim(id).cloned())
    }

    async fn claim_by_key(&self, key: &ClaimKey) -> Result<Option<Claim>, LedgerError> {
        let state = self.state();
        Ok(state.latest(key).and_then(|id| state.claim(id)).cloned())
    }

    async fn claims_of(&self, owner: &Owner, workflow: &Workflow) -> Result<Vec<Claim>, LedgerError> {
        let state = self.state();
        let latest = state.latest_of(owner, workflow);
        Ok(latest.into_iter().flat_map(|of| of.values()).filter_map(|id| state.claim(id)).cloned().collect())
    }

    async fn write_claim(&self, write: ClaimWrite<'_>) -> Result<Written<Claim>, LedgerError> {
        let ClaimWrite { before, after, entry } = write;
        let mut state = self.state();
        match state.claim(&before.id) {
            None => Ok(Written::Missing),
            Some(found) if !claim_is_still(found, before) => Ok(Written::Lost { found: found.clone() }),
            Some(_) => {
                state.put_claim(after, entry);
                Ok(Written::Done)
            }
        }
    }

    async fn list_claims(
        &self,
        pool: &PoolName,
        which: WhichClaims,
        page: Page,
    ) -> Result<Listed<Claim>, LedgerError> {
        let state = self.state();
        let mut claims: Vec<Claim> = Vec::new();
        for together in listing::claim_spans(pool, which, &page)? {
            let missing = listing::to_read(&page).saturating_sub(claims.len());
            let read = together.into_iter().flat_map(|span| state.listed_claims(span).take(missing));
            let mut read: Vec<Claim> = read.cloned().collect();
            listing::by_age(&mut read);
            claims.extend(read);
        }
        Ok(listing::cut(claims, &page, listing::claim_position))
    }

    async fn due(&self, now: Timestamp, at_most: u32) -> Result<Vec<Due>, LedgerError> {
        let limit = usize::try_from(at_most).unwrap_or(usize::MAX);
        Ok(self.state().due(now).take(limit).cloned().collect())
    }

    async fn audit(&self, subject: &Subject, page: Page) -> Result<Listed<AuditEntry>, LedgerError> {
        let behind = listing::log_position(&page)?;
        let state = self.state();
        let entries = state.entries(keys::subject_pk(subject), behind).take(listing::to_read(&page));
        let Listed { items, next } = listing::cut(entries.collect(), &page, |(sk, _)| (*sk).clone());
        Ok(Listed { items: items.into_iter().map(|(_, entry)| entry.clone()).collect(), next })
    }

    async fn note(&self, subject: &Subject, entry: &AuditEntry) -> Result<(), LedgerError> {
        self.state().note(keys::subject_pk(subject), keys::note_log_sk(entry), entry);
        Ok(())
    }

    async fn refresh_memory(&self) -> Result<Option<RefreshMemory>, LedgerError> {
        Ok(self.state().refresh)
    }

    async fn put_refresh_memory(&self, memory: &RefreshMemory) -> Result<(), LedgerError> {
        self.state().refresh = Some(*memory);
        Ok(())
    }

    async fn ping(&self) -> Result<(), LedgerError> {
        Ok(())
    }
}

fn is_still(found: &Runner, before: &Runner) -> bool {
    found.state.name() == before.state.name() && found.epoch == before.epoch && found.rev == before.rev
}

fn claim_is_still(found: &Claim, before: &Claim) -> bool {
    found.state.as_str() == before.state.as_str() && found.rev == before.rev
}

/// The claim is as it was read; or its key is free, if it is to be opened.
fn can_gain(state: &State, claim: &ClaimGain<'_>) -> bool {
    let ClaimGain { write: ClaimWrite { before, after, entry: _ }, opening } = claim;
    match opening {
        Some(opening) => can_open(state, after, *opening),
        None => state.claim(&before.id).is_some_and(|found| claim_is_still(found, before)),
    }
}

fn can_open(state: &State, claim: &Claim, opening: ClaimOpening<'_>) -> bool {
    let found = state.latest(&claim.key);
    (found.is_none() || found == opening.replaces) && state.claim(&claim.id).is_none()
}

fn gain(state: &mut State, claim: ClaimGain<'_>) {
    let ClaimGain { write: ClaimWrite { before, after, entry }, opening } = claim;
    if let Some(ClaimOpening { replaces: _, entry }) = opening {
        state.set_latest(before);
        state.put_claim(before, entry);
    }
    state.put_claim(after, entry);
}

fn lives(runner: &Runner, epoch: Epoch) -> bool {
    runner.epoch == epoch && runner.state.name().live()
}

/// The end of a machine is written even if its pool should be gone or its counter wrong.
fn give_slot_back(state: &mut State, runner: &Runner) {
    if let Some(record) = state.pools.get_mut(&runner.pool) {
        record.used = record.used.saturating_sub(1);
    }
}

/// Why the intents can't be written as things are, if so; or that they were written before.
fn refused(state: &State, write: &IntentsWrite<'_>) -> Option<IntentsWritten> {
    let taken = |runner: &&Runner| {
        let found = state.runner(&runner.id);
        found.is_some_and(|found| found.state.name().live() || found.epoch >= runner.epoch)
    };
    if let Some(first) = write.runners.first().filter(taken)
        && state.runner(&first.id).is_some_and(|found| repeats::launched_before(found, first))
    {
        return Some(IntentsWritten::Done);
    }
    let Some(PoolRecord { used, .. }) = state.pools.get(write.pool) else {
        return Some(IntentsWritten::NoPool);
    };
    if write.claim.as_ref().is_some_and(|claim| !can_gain(state, claim)) {
        return Some(IntentsWritten::ClaimLost);
    }
    if write.runners.iter().any(|runner| taken(&runner)) {
        return Some(IntentsWritten::Exists);
    }
    let fit = u32::try_from(write.runners.len()).is_ok_and(|more| used.saturating_add(more) <= write.max);
    let as_decided = write.only_if_used.is_none_or(|only| only == *used);
    (!fit || !as_decided).then_some(IntentsWritten::NoSlots { used: *used })
}
