//! Records written straight into a ledger, where a test or a benchmark needs more runners than it could bring up one by one.

use anyhow::{Result, ensure};
use futures_util::future::try_join_all;
use motorpool_control::store::{IntentsWrite, IntentsWritten, RunnerWrite, Store, Written};
use motorpool_control::token_sha256;
use motorpool_domain::runner::{CleanProof, Credential, NewRunner, ProofKind, Runner, RunnerState};
use motorpool_domain::samples;
use motorpool_domain::{LaunchId, PoolName, RunnerId, Threshold, Timestamp};
use std::time::Duration;

/// What all of its machines say they are.
pub const BOOT_ID: &str = "seeded";

/// A runner that is clean, idle and just heard from, until `idle` is over.
pub fn idle(pool: &PoolName, number: usize, kept: bool, idle: Duration, now: Timestamp) -> Result<Runner> {
    let new = NewRunner {
        pool: pool.clone(),
        launch: LaunchId::parse(format!("l-seeded{number:06}"))?,
        kept,
        threshold: Threshold::in_(idle, now),
        ..samples::new_runner(&format!("{pool}-{number:06}"), now)
    };
    let mut runner = Runner::intent(new, now);
    runner.state = RunnerState::Idle;
    runner.provider_id = Some(format!("seeded:{}", runner.id));
    runner.credential = Some(Credential {
        token_sha256: token_sha256(&token(&runner.id)),
        machine_id: runner.id.to_string(),
        named: None,
        fixed: false,
    });
    runner.boot_id = Some(BOOT_ID.to_owned());
    runner.proof = Some(CleanProof { how: ProofKind::NewMachine, at: now, task: None });
    runner.seen_at = Some(now);
    Ok(runner)
}

/// What the agent of a seeded runner would show.
pub fn token(runner: &RunnerId) -> String {
    format!("mp_runner_of_{runner}")
}

/// All of them, whatever the pool's own maximum.
pub async fn write(store: &Store, runners: &[Runner], now: Timestamp) -> Result<()> {
    let entry = samples::entry(now, "seeded");
    for some in runners.chunks(25) {
        let Some(first) = some.first() else { continue };
        let write = IntentsWrite {
            pool: &first.pool,
            seen: store.pool(&first.pool).await?.map_or(0, |record| record.rev),
            max: u32::MAX,
            only_if_used: None,
            runners: some,
            look_at: None,
            claim: None,
            entry: &entry,
        };
        let written = store.write_launch_intents(write).await?;
        ensure!(written == IntentsWritten::Done, "runners were not seeded: {written:?}");
    }
    Ok(())
}

/// Seeded runners are found by their tokens from now on, as after their agents' bootstrap. `runners` are as `write` left them.
pub async fn write_tokens(store: &Store, runners: &[Runner], now: Timestamp) -> Result<()> {
    let entry = samples::entry(now, "bootstrapped");
    let bootstraps = runners.iter().map(async |runner| {
        let before = Runner { credential: None, ..runner.clone() };
        let after = Runner { rev: runner.rev + 1, ..runner.clone() };
        let write = RunnerWrite { before: &before, after: &after, look_at: None, entry: &entry };
        let written = store.write_runner(write).await?;
        ensure!(written == Written::Done, "the token of {} was not seeded: {written:?}", runner.id);
        Ok(())
    });
    try_join_all(bootstraps).await?;
    Ok(())
}
