//! inv_25: the same calls give the same answers, whatever the adapter. Random calls from a seed, over few names, with
//! records as they are and as they were, so that many calls lose.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use motorpool_control::ports::entropy::{Entropy, SeededEntropy};
use motorpool_control::ports::ledger::LedgerError;
use motorpool_control::store::{
    ClaimGain, ClaimOpening, ClaimWrite, IntentsWrite, Page, PoolWrite, RunnerWrite, Store, WhichClaims,
};
use motorpool_domain::claim::{Claim, Member};
use motorpool_domain::record::Key;
use motorpool_domain::refresh::RefreshMemory;
use motorpool_domain::runner::{
    Decision, Hold, Holder, Presence, ProofKind, Removal, Runner, RunnerEvent, StateName, decide,
};
use motorpool_domain::{AuditEntry, Epoch, LaunchId, Owner, Threshold, Timestamp, Workflow};
use motorpool_ledger::MemoryLedger;

use super::fixtures::{
    Shared, at, claim_id, claim_of, entry, intent, pool, pool_name, runner_id, seen, taking,
};

const CALLS: u64 = 500;
const SEEDS: [u64; 2] = [25, 2_025];
/// What the calls must have come to between them, for the case to prove anything.
const OUTCOMES: [&str; 16] = [
    "DoneDone",
    "Lost { found: PoolRecord",
    "Lost { found: Runner",
    "Lost { found: Claim",
    "Lost { found: Some(ClaimId",
    "ClaimLost",
    "RunnerLost { found: Some",
    "NoSlots",
    "PoolChanged",
    "NoPool",
    "Exists",
    "InUse",
    "Missing",
    "[Path {",
    "[Claim {",
    "Listed { items: [Runner",
];
const POOLS: [&str; 2] = ["small", "large"];

/// Each seed goes on in the same ledger, from where the one before left it.
pub async fn inv_25_the_same_calls_give_the_same_answers_as_in_memory(ledger: Shared) -> Result<()> {
    let memory: Shared = Arc::new(Store::new(Arc::new(MemoryLedger::new())));
    let mut unseen = BTreeSet::from(OUTCOMES);
    for seed in SEEDS {
        let mut calls = Calls { dice: SeededEntropy::new(seed), now: at(0), runners: vec![], claims: vec![] };
        for call in 0..CALLS {
            let (what, told) = calls.next(&memory, &ledger).await?;
            ensure!(
                told.0 == told.1,
                "call {call} of seed {seed}: {what}\nin memory: {}\nhere:      {}",
                told.0,
                told.1
            );
            unseen.retain(|outcome| !told.0.starts_with(outcome));
        }
    }
    ensure!(unseen.is_empty(), "no call came to {unseen:?}");
    Ok(())
}

/// What both ledgers answered.
type Told = (String, String);

/// Makes the calls, and remembers records that it has seen, for stale writes.
struct Calls {
    dice: SeededEntropy,
    now: Timestamp,
    runners: Vec<Runner>,
    claims: Vec<Claim>,
}

/// The same call on both.
macro_rules! both {
    ($memory:ident, $other:ident, |$ledger:ident| $call:expr) => {{
        let first = {
            let $ledger = $memory;
            told($call.await)
        };
        let second = {
            let $ledger = $other;
            told($call.await)
        };
        (first, second)
    }};
}

/// An error says why in its adapter's own words; that it is one is what counts.
fn told<T: Debug>(answer: Result<T, LedgerError>) -> String {
    match answer {
        Ok(answer) => format!("{answer:?}"),
        Err(_) => "an error".to_owned(),
    }
}

impl Calls {
    async fn next(&mut self, memory: &Shared, other: &Shared) -> Result<(String, Told)> {
        self.now = self.now.after(std::time::Duration::from_millis(self.roll(3) * 200));
        match self.roll(20) {
            0 => self.pool(memory, other).await,
            1..=3 => self.launch(memory, other).await,
            4..=8 => self.move_runner(memory, other).await,
            9..=11 => self.take(memory, other).await,
            12 => self.beside(memory, other).await,
            13 | 14 => self.open(memory, other).await,
            15 | 16 => self.move_claim(memory, other).await,
            17 => self.list(memory, other).await,
            18 => self.read(memory, other).await,
            _ => self.log(memory, other).await,
        }
    }

    async fn pool(&mut self, memory: &Shared, other: &Shared) -> Result<(String, Told)> {
        let max = 3 + u32::try_from(self.roll(4))?;
        let pool = pool(self.pick(&POOLS)?, max)?;
        let name = pool.name.clone();
        let seen = memory.pool(&name).await?.map_or(0, |record| record.rev);
        let seen = if self.roll(4) == 0 { self.roll(5) } else { seen };
        match self.roll(4) {
            0 => Ok((
                format!("delete {name} as {seen}"),
                both!(memory, other, |on| on.delete_pool(&name, seen)),
            )),
            1 => Ok(("list pools".to_owned(), both!(memory, other, |on| on.pools()))),
            _ => {
                let only_unused = self.roll(3) == 0;
                let write = PoolWrite { seen, rev: seen + 1, pool: &pool, only_unused };
                Ok((format!("{write:?}"), both!(memory, other, |on| on.write_pool(write))))
            }
        }
    }

    async fn launch(&mut self, memory: &Shared, other: &Shared) -> Result<(String, Told)> {
        let pool = pool_name(self.pick(&POOLS)?)?;
        let opens = self.roll(4) == 0;
        let claim = match opens {
            true => Some(self.new_claim()?),
            false if self.roll(2) == 0 => self.some_claim(memory).await?,
            false => None,
        };
        let launch = LaunchId::parse(format!("l-{}", self.roll(30)))?;
        let epoch = Epoch(1 + self.roll(3));
        let mut runners = Vec::new();
        for _ in 0..=self.roll(3) {
            let id = format!("r-{}", self.roll(8));
            let threshold = Some(Threshold(self.now.after(std::time::Duration::from_secs(1 + self.roll(5)))));
            let (pool, launch) = (pool.clone(), launch.clone());
            runners.push(Runner { pool, launch, epoch, threshold, entered_at: self.now, ..intent(&id)? });
        }
        let (opened, entry) = (self.entry("opened"), self.entry("launched"));
        let member = |r: &Runner| Member { runner: r.id.clone(), epoch: r.epoch, warm: false };
        let after = claim.as_ref().map(|claim| claim.gaining(runners.iter().map(member)));
        let write = IntentsWrite {
            pool: &pool,
            seen: seen(memory, &pool).await? + u64::from(self.roll(8) == 0),
            max: 6,
            only_if_used: (self.roll(4) == 0).then_some(2),
            runners: &runners,
            look_at: (self.roll(2) == 0).then_some(self.now),
            claim: claim.as_ref().zip(after.as_ref()).map(|(before, after)| ClaimGain {
                write: ClaimWrite { before, after, entry: &entry },
                opening: opens.then_some(ClaimOpening { replaces: None, entry: &opened }),
            }),
            entry: &entry,
        };
        let again = self.roll(5) == 0;
        let mut answer = both!(memory, other, |on| on.write_launch_intents(write));
        if again {
            let repeated = both!(memory, other, |on| on.write_launch_intents(write));
            answer = (answer.0 + &repeated.0, answer.1 + &repeated.1);
        }
        Ok((format!("{write:?}"), answer))
    }

    async fn move_runner(&mut self, memory: &Shared, other: &Shared) -> Result<(String, Told)> {
        let Some(before) = self.some_runner(memory).await? else { return self.launch(memory, other).await };
        let rules = pool(before.pool.as_str(), 6)?.rules;
        let event = self.event()?;
        let after = match decide(&before, &event, &rules, self.now) {
            Decision::Change(change) => change.after,
            Decision::Stay | Decision::Refuse(_) => Runner { rev: before.rev + 1, ..before.clone() },
        };
        let entry = self.entry("moved");
        let look_at = (self.roll(2) == 0).then_some(self.now);
        let write = RunnerWrite { before: &before, after: &after, look_at, entry: &entry };
        Ok((format!("{write:?}"), both!(memory, other, |on| on.write_runner(write))))
    }

    async fn take(&mut self, memory: &Shared, other: &Shared) -> Result<(String, Told)> {
        let opens = self.roll(3) == 0;
        let claim = match opens {
            true => Some(self.new_claim()?),
            false => self.some_claim(memory).await?,
        };
        let runner = self.some_runner(memory).await?;
        let (Some(runner), Some(claim)) = (runner, claim) else { return self.open(memory, other).await };
        let (claim_after, runner_after) = taking(&claim, &runner);
        let (opened, entry) = (self.entry("opened"), self.entry("took"));
        let claim = ClaimGain {
            write: ClaimWrite { before: &claim, after: &claim_after, entry: &entry },
            opening: opens.then_some(ClaimOpening { replaces: None, entry: &opened }),
        };
        let runner = RunnerWrite { before: &runner, after: &runner_after, look_at: None, entry: &entry };
        let mut answer = both!(memory, other, |on| on.take_idle(claim, runner));
        if self.roll(3) == 0 {
            let repeated = both!(memory, other, |on| on.take_idle(claim, runner));
            answer = (answer.0 + &repeated.0, answer.1 + &repeated.1);
        }
        Ok((format!("{claim:?} {runner:?}"), answer))
    }

    async fn beside(&mut self, memory: &Shared, other: &Shared) -> Result<(String, Told)> {
        let Some(runner) = self.some_runner(memory).await? else { return self.launch(memory, other).await };
        let (id, epoch, now) = (&runner.id, runner.epoch, self.now);
        match self.roll(3) {
            0 => Ok((format!("heartbeat {id}"), both!(memory, other, |on| on.heartbeat(id, epoch, now)))),
            1 => Ok((format!("announce {id}"), both!(memory, other, |on| on.note_announced(id, epoch, now)))),
            _ => Ok((format!("look at {id}"), both!(memory, other, |on| on.look_again(&runner, now)))),
        }
    }

    async fn open(&mut self, memory: &Shared, other: &Shared) -> Result<(String, Told)> {
        let claim = self.new_claim()?;
        let replaces = match self.roll(2) {
            0 => memory.claim_by_key(&claim.key).await?.map(|claim| claim.id),
            _ => None,
        };
        let entry = self.entry("opened");
        let opening = ClaimOpening { replaces: replaces.as_ref(), entry: &entry };
        let answer = both!(memory, other, |on| on.open_claim(&claim, opening));
        Ok((format!("open {claim:?} in the place of {replaces:?}"), answer))
    }

    fn new_claim(&mut self) -> Result<Claim> {
        let id = format!("c-{}", self.roll(12));
        let workflow = format!("gh-{}", self.roll(4));
        Ok(Claim { opened_at: self.now, ..claim_of(&id, &workflow, self.pick(&POOLS)?)? })
    }

    async fn move_claim(&mut self, memory: &Shared, other: &Shared) -> Result<(String, Told)> {
        let Some(before) = self.some_claim(memory).await? else { return self.open(memory, other).await };
        let after = match self.roll(4) {
            0 => before.released("done", self.now),
            1 => before.failed("nobody came", self.now),
            2 => before.settled(),
            _ => Claim { waits_for: Some(format!("{}", self.now)), rev: before.rev + 1, ..before.clone() },
        };
        let entry = self.entry("moved");
        let write = ClaimWrite { before: &before, after: &after, entry: &entry };
        Ok((format!("{write:?}"), both!(memory, other, |on| on.write_claim(write))))
    }

    async fn list(&mut self, memory: &Shared, other: &Shared) -> Result<(String, Told)> {
        let pool = pool_name(self.pick(&POOLS)?)?;
        let page = Page::first(u32::try_from(self.roll(5))?);
        let state = *self.pick(&StateName::ALL)?;
        let wanted = (self.roll(2) == 0).then_some(state);
        let which =
            *self.pick(&[WhichClaims::Short, WhichClaims::Waiting, WhichClaims::Open, WhichClaims::All])?;
        match self.roll(4) {
            0 => {
                let answer = both!(memory, other, |on| on.count_runners(&pool, state, page.at_most));
                Ok((format!("count {state} of {pool}"), answer))
            }
            1 => {
                // All that is due, and so no choice among equals.
                let now = self.now;
                Ok((format!("due at {now}"), both!(memory, other, |on| on.due(now, 1_000))))
            }
            2 => {
                let next = memory.list_runners(&pool, wanted, page.clone()).await?.next;
                let second = Page { after: next, ..page };
                let answer = both!(memory, other, |on| on.list_runners(&pool, wanted, second.clone()));
                Ok((format!("list {wanted:?} of {pool}: {second:?}"), answer))
            }
            _ => {
                let next = memory.list_claims(&pool, which, page.clone()).await?.next;
                let second = Page { after: next, ..page };
                let answer = both!(memory, other, |on| on.list_claims(&pool, which, second.clone()));
                Ok((format!("list {which:?} of {pool}: {second:?}"), answer))
            }
        }
    }

    async fn read(&mut self, memory: &Shared, other: &Shared) -> Result<(String, Told)> {
        let ids = (0..8).map(|i| runner_id(format!("r-{i}"))).collect::<Result<Vec<_>>>()?;
        let workflow = Workflow::parse(format!("gh-{}", self.roll(4)))?;
        let rev = self.roll(3);
        let memo =
            RefreshMemory { last_pass_at: self.now, last_sweep_at: at(0), listening_since: at(1), rev };
        match self.roll(5) {
            0 => Ok(("refresh's memory".to_owned(), both!(memory, other, |on| on.refresh_memory()))),
            1 => Ok((format!("{memo:?}"), both!(memory, other, |on| on.put_refresh_memory(&memo)))),
            2 => {
                let answer = both!(memory, other, |on| on.claims_of(&Owner::operator(), &workflow));
                Ok((format!("claims of {workflow}"), answer))
            }
            _ => Ok(("all runners".to_owned(), both!(memory, other, |on| on.runners(&ids)))),
        }
    }

    async fn log(&mut self, memory: &Shared, other: &Shared) -> Result<(String, Told)> {
        let subject = match self.roll(3) {
            0 => Key::from(&runner_id(format!("r-{}", self.roll(8)))?),
            1 => Key::from(&claim_id(format!("c-{}", self.roll(12)))?),
            _ => Key::from(&pool_name(self.pick(&POOLS)?)?),
        };
        if self.roll(3) == 0 {
            let entry = self.entry("noted");
            return Ok((format!("note {subject:?}"), both!(memory, other, |on| on.note(&subject, &entry))));
        }
        let page = Page::first(u32::try_from(self.roll(6))?);
        let next = memory.audit(&subject, page.clone()).await?.next;
        let second = Page { after: next, ..page };
        let answer = both!(memory, other, |on| on.audit(&subject, second.clone()));
        Ok((format!("log of {subject:?}: {second:?}"), answer))
    }

    /// A runner as it is, or as it once was.
    async fn some_runner(&mut self, memory: &Shared) -> Result<Option<Runner>> {
        if self.roll(5) == 0 && !self.runners.is_empty() {
            return Ok(Some(self.pick(&self.runners)?.clone()));
        }
        let found = memory.runner(&runner_id(format!("r-{}", self.roll(8)))?).await?;
        self.runners.extend(found.clone());
        Ok(found)
    }

    async fn some_claim(&mut self, memory: &Shared) -> Result<Option<Claim>> {
        if self.roll(5) == 0 && !self.claims.is_empty() {
            return Ok(Some(self.pick(&self.claims)?.clone()));
        }
        let found = memory.claim(&claim_id(format!("c-{}", self.roll(12)))?).await?;
        self.claims.extend(found.clone());
        Ok(found)
    }

    fn event(&self) -> Result<RunnerEvent> {
        let claim = claim_id(format!("c-{}", self.roll(12)))?;
        Ok(match self.roll(10) {
            0 => RunnerEvent::Launched { provider_id: "i-1".to_owned() },
            1 => RunnerEvent::LaunchFailed { why: "no capacity".to_owned() },
            2..=4 => RunnerEvent::Ready { until: None },
            5 => RunnerEvent::Registered { until: Some(Threshold(self.now)) },
            6 => RunnerEvent::Taken {
                hold: Hold {
                    holder: Holder::Claim(claim),
                    warm: true,
                    max_runtime: std::time::Duration::ZERO,
                },
            },
            7 => RunnerEvent::CleanProven { how: ProofKind::Cleanup, task: None },
            8 => RunnerEvent::Silent { presence: Presence::Gone },
            _ => RunnerEvent::OperatorRemove { removal: Removal::Force },
        })
    }

    fn entry(&self, what: &str) -> AuditEntry {
        AuditEntry { at: self.now, ..entry(0, what) }
    }

    fn roll(&self, sides: u64) -> u64 {
        u64::try_from(self.dice.bits() % u128::from(sides)).unwrap_or_default()
    }

    fn pick<'a, T>(&self, from: &'a [T]) -> Result<&'a T> {
        let index = usize::try_from(self.roll(u64::try_from(from.len())?))?;
        from.get(index).context("nothing to pick from")
    }
}
