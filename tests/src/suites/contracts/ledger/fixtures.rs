//! Records for the cases, and short ways to bring a ledger into a state. No case of its own.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use motorpool_control::store::{
    ClaimGain, ClaimOpening, ClaimWrite, IntentsWrite, IntentsWritten, Opened, Page, PoolWrite, RunnerWrite,
    Store, Taken, Written,
};
use motorpool_domain::claim::{Ask, Claim, ClaimKey, Member};
use motorpool_domain::pool::{Pool, Rules};
use motorpool_domain::record::Key;
use motorpool_domain::runner::{Hold, NewRunner, Runner, RunnerState};
use motorpool_domain::samples;
use motorpool_domain::spec::Want;
use motorpool_domain::{
    AuditEntry, ClaimId, LaunchId, Owner, PoolName, RunnerId, Threshold, Timestamp, Workflow,
};
use tokio::task::JoinSet;

pub type Shared = Arc<Store>;

/// The one pool that most cases need.
pub const POOL: &str = "small";

/// How long after [`at`]`(0)` every record's threshold lies, unless a case says otherwise.
pub const LIMIT: u64 = 600_000;

/// The year 2096. A table deletes what its own clock says has outlived its time, so that what the cases write must
/// not be over yet by any clock.
const BEGINNING_MS: u64 = 4_000_000_000_000;

/// A time in milliseconds after the beginning.
pub fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(BEGINNING_MS + millis)
}

pub fn pool_name(name: &str) -> Result<PoolName> {
    Ok(PoolName::parse(name)?)
}

pub fn runner_id(id: impl Into<String>) -> Result<RunnerId> {
    Ok(RunnerId::parse(id)?)
}

pub fn claim_id(id: impl Into<String>) -> Result<ClaimId> {
    Ok(ClaimId::parse(id)?)
}

pub fn pool(name: &str, max: u32) -> Result<Pool> {
    Ok(samples::pool(name, Rules { max, ..samples::rules() }))
}

/// A launch intent for [`POOL`], of a launch that is named after the runner.
pub fn intent(id: &str) -> Result<Runner> {
    let launch: String = id.chars().filter(char::is_ascii_alphanumeric).collect();
    let new = NewRunner {
        launch: LaunchId::parse(format!("l-{launch}"))?,
        threshold: Threshold(at(LIMIT)),
        ..samples::new_runner(id, at(0))
    };
    Ok(Runner::intent(new, at(0)))
}

pub fn key(workflow: &str, pool: &str) -> Result<ClaimKey> {
    Ok(ClaimKey { owner: Owner::operator(), workflow: Workflow::parse(workflow)?, pool: pool_name(pool)? })
}

/// A claim on [`POOL`] of two runners, for a workflow that is called as it is.
pub fn claim(id: &str) -> Result<Claim> {
    claim_of(id, id, POOL)
}

pub fn claim_of(id: &str, workflow: &str, pool: &str) -> Result<Claim> {
    let ask = Ask { count: 2, want: Want::default(), max_runtime: Duration::from_secs(60), idle_only: false };
    Ok(Claim::open(claim_id(id)?, key(workflow, pool)?, ask, Duration::from_millis(LIMIT), at(0)))
}

pub fn entry(millis: u64, what: &str) -> AuditEntry {
    AuditEntry { to: Some("somewhere".to_owned()), ..samples::entry(at(millis), what) }
}

pub fn hold(claim: &Claim) -> Hold {
    Hold { holder: (&claim.id).into(), warm: true, max_runtime: claim.ask.max_runtime }
}

/// The record as the next write makes it, in `state`.
pub fn moved(runner: &Runner, state: RunnerState) -> Runner {
    let at_rest = matches!(state, RunnerState::Quarantined { .. } | RunnerState::Terminated { .. });
    let threshold = if at_rest { None } else { runner.threshold };
    Runner { state, threshold, rev: runner.rev + 1, ..runner.clone() }
}

pub fn terminated(runner: &Runner) -> Runner {
    moved(runner, RunnerState::Terminated { why: "its time was over".to_owned() })
}

/// The next life of a runner.
pub fn reset(runner: &Runner) -> Runner {
    let state =
        RunnerState::Resetting { attempt: 1, not_before: at(0), why: "it was used".to_owned(), step: None };
    Runner { epoch: runner.epoch.next(), ..moved(runner, state) }
}

/// What `claim` becomes when it gains `runner`, and what the runner becomes.
pub fn taking(claim: &Claim, runner: &Runner) -> (Claim, Runner) {
    let (state, warm) = if let RunnerState::Created { launched_at, attempt, .. } = &runner.state {
        let (launched_at, attempt) = (*launched_at, attempt.clone());
        (RunnerState::Created { hold: Some(hold(claim)), launched_at, attempt }, false)
    } else {
        (RunnerState::Claimed { hold: hold(claim) }, true)
    };
    let member = Member { runner: runner.id.clone(), epoch: runner.epoch, warm };
    (claim.gaining([member]), moved(runner, state))
}

pub async fn write(ledger: &Shared, before: &Runner, after: &Runner) -> Result<Written<Runner>> {
    let entry = entry(after.rev, "moved");
    Ok(ledger.write_runner(RunnerWrite { before, after, look_at: None, entry: &entry }).await?)
}

/// Writes what must win, and gives the record as it is then.
pub async fn must_write(ledger: &Shared, before: &Runner, after: &Runner) -> Result<Runner> {
    let written = write(ledger, before, after).await?;
    ensure!(written == Written::Done, "the write was {written:?}");
    read(ledger, &after.id).await
}

pub async fn read(ledger: &Shared, id: &RunnerId) -> Result<Runner> {
    ledger.runner(id).await?.with_context(|| format!("{id} is missing"))
}

pub async fn read_claim(ledger: &Shared, id: &ClaimId) -> Result<Claim> {
    ledger.claim(id).await?.with_context(|| format!("{id} is missing"))
}

pub async fn used(ledger: &Shared) -> Result<u32> {
    Ok(ledger.pool(&pool_name(POOL)?).await?.context("the pool is missing")?.used)
}

pub async fn write_claim(ledger: &Shared, before: &Claim, after: &Claim) -> Result<Written<Claim>> {
    let entry = entry(after.rev, "moved");
    Ok(ledger.write_claim(ClaimWrite { before, after, entry: &entry }).await?)
}

pub async fn must_write_claim(ledger: &Shared, before: &Claim, after: &Claim) -> Result<()> {
    let written = write_claim(ledger, before, after).await?;
    ensure!(written == Written::Done, "the write was {written:?}");
    Ok(())
}

pub async fn open(ledger: &Shared, claim: &Claim, replaces: Option<&ClaimId>) -> Result<Opened> {
    Ok(ledger.open_claim(claim, ClaimOpening { replaces, entry: &entry(0, "opened") }).await?)
}

/// An open claim that is in the ledger.
pub async fn opened(ledger: &Shared, id: &str) -> Result<Claim> {
    let claim = claim(id)?;
    ensure!(open(ledger, &claim, None).await? == Opened::Done, "{id} could not be opened");
    Ok(claim)
}

pub async fn launch(
    ledger: &Shared,
    max: u32,
    only_if_used: Option<u32>,
    runners: &[Runner],
) -> Result<IntentsWritten> {
    let (pool, entry) = (pool_name(POOL)?, entry(0, "launched"));
    let write = IntentsWrite {
        pool: &pool,
        seen: seen(ledger, &pool).await?,
        max,
        only_if_used,
        runners,
        look_at: None,
        claim: None,
        entry: &entry,
    };
    Ok(ledger.write_launch_intents(write).await?)
}

/// The revision of the pool's definition as it is now.
pub async fn seen(ledger: &Shared, pool: &PoolName) -> Result<u64> {
    Ok(ledger.pool(pool).await?.map_or(0, |record| record.rev))
}

/// The pool as it should be, whatever it was.
pub async fn define(ledger: &Shared, pool: &Pool) -> Result<()> {
    let seen = seen(ledger, &pool.name).await?;
    let write = PoolWrite { seen, rev: seen + 1, pool, only_unused: false };
    let written = ledger.write_pool(write).await?;
    ensure!(written == Written::Done, "the pool was {written:?}");
    Ok(())
}

/// [`POOL`] with a launch intent for each id.
pub async fn launched(ledger: &Shared, ids: &[&str]) -> Result<Vec<Runner>> {
    define(ledger, &pool(POOL, 1_000)?).await?;
    let runners = ids.iter().map(|id| intent(id)).collect::<Result<Vec<_>>>()?;
    for some in runners.chunks(25) {
        let written = launch(ledger, 1_000, None, some).await?;
        ensure!(written == IntentsWritten::Done, "the launch was {written:?}");
    }
    Ok(runners)
}

/// [`POOL`] with one idle runner.
pub async fn idle(ledger: &Shared, id: &str) -> Result<Runner> {
    let runners = launched(ledger, &[id]).await?;
    let created = runners.first().context("nothing was launched")?;
    must_write(ledger, created, &moved(created, RunnerState::Idle)).await
}

pub async fn take(ledger: &Shared, claim: &Claim, runner: &Runner) -> Result<Taken> {
    let (claim_after, runner_after) = taking(claim, runner);
    let entry = entry(5, "took");
    let claim = ClaimWrite { before: claim, after: &claim_after, entry: &entry };
    let runner = RunnerWrite { before: runner, after: &runner_after, look_at: None, entry: &entry };
    Ok(ledger.take_idle(claim.into(), runner).await?)
}

/// Opens the claim with the runner.
pub async fn open_taking(
    ledger: &Shared,
    claim: &Claim,
    replaces: Option<&ClaimId>,
    runner: &Runner,
) -> Result<Taken> {
    let (claim_after, runner_after) = taking(claim, runner);
    let (opened, took) = (entry(4, "opened"), entry(5, "took"));
    let write = ClaimWrite { before: claim, after: &claim_after, entry: &took };
    let opening = Some(ClaimOpening { replaces, entry: &opened });
    let runner = RunnerWrite { before: runner, after: &runner_after, look_at: None, entry: &took };
    Ok(ledger.take_idle(ClaimGain { write, opening }, runner).await?)
}

/// What came of so many calls at the same time, each of which has the ledger and its number.
pub async fn at_once<T, F>(ledger: &Shared, count: u32, call: impl Fn(Shared, u32) -> F) -> Result<Vec<T>>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let calls: JoinSet<_> = (0..count).map(|number| call(Arc::clone(ledger), number)).collect();
    calls.join_all().await.into_iter().collect()
}

/// What a subject's log says was done, newest first.
pub async fn log(ledger: &Shared, subject: Key) -> Result<Vec<String>> {
    let listed = ledger.audit(&subject, Page::first(1_000)).await?;
    ensure!(listed.next.is_none(), "the log is too long for a case");
    Ok(listed.items.into_iter().map(|entry| entry.what).collect())
}
