//! A serve with many idle runners, which were written into its ledger before it started.

use crate::clock::now;
use anyhow::{Context, Result};
use motorpool_control::store::{PoolWrite, Store};
use motorpool_domain::pool::{Pool, Source};
use motorpool_domain::runner::Runner;
use motorpool_domain::spec::Spec;
use motorpool_domain::{PoolName, RunnerId};
use motorpool_ledger::sqlite::SqliteLedger;
use motorpool_tests::harness::seeded;
use motorpool_tests::harness::serve::{Serve, fresh_dir};
use motorpool_wire::pool_settings::PoolSettings;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// As many as a pool may have.
pub(crate) const POOL_MAX: usize = 1_000;
const HOUR: Duration = Duration::from_secs(3600);

/// The name of the numbered pool.
pub(crate) fn name(number: usize) -> String {
    format!("bench{number}")
}

/// Who hands work to the runners of a benchmark.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HandsOut {
    Workflows,
    /// A CI system, whose jobs' hooks come with the runners' tokens.
    CiSystem,
}

/// A serve with `runners` idle runners, in pools of a thousand.
pub(crate) async fn serve_with(runners: usize) -> Result<(Serve, Vec<RunnerId>)> {
    serve_with_teams(runners, "").await
}

/// The same, with this about teams in its pools file.
pub(crate) async fn serve_with_teams(runners: usize, teams: &str) -> Result<(Serve, Vec<RunnerId>)> {
    serve_of(HandsOut::Workflows, runners, teams).await
}

/// The same for runners that take the jobs of a CI system.
pub(crate) async fn serve_with_jobs(runners: usize) -> Result<(Serve, Vec<RunnerId>)> {
    serve_of(HandsOut::CiSystem, runners, "").await
}

async fn serve_of(hands_out: HandsOut, runners: usize, teams: &str) -> Result<(Serve, Vec<RunnerId>)> {
    let dir = fresh_dir()?;
    let pools = runners.div_ceil(POOL_MAX);
    let ids = seed(&dir, hands_out, runners, pools).await?;
    let file: String = (0..pools).map(|number| section(&name(number), hands_out)).collect();
    let serve = Serve::start_in(dir, &format!("refresh_seconds = 30\n{teams}{file}"), Vec::new())?;
    Ok((serve, ids))
}

fn section(pool: &str, hands_out: HandsOut) -> String {
    let cleaned = match hands_out {
        HandsOut::Workflows => "clean = \"keep\"\n",
        HandsOut::CiSystem => "dispatch = \"hook\"\nclean = \"cleanup\"\ncleanup_cmd = \"true\"\n",
    };
    format!(
        "[pools.{pool}]\nbackend = \"bare_metal\"\n{cleaned}max = {POOL_MAX}\nheartbeat_seconds = 600\nidle_minutes = 600\n"
    )
}

fn settings(hands_out: HandsOut) -> Value {
    match hands_out {
        HandsOut::Workflows => json!({"backend": "bare_metal", "clean": "keep"}),
        HandsOut::CiSystem => {
            json!({"backend": "bare_metal", "dispatch": "hook", "clean": "cleanup", "cleanup_cmd": "true"})
        }
    }
}

async fn seed(dir: &TempDir, hands_out: HandsOut, runners: usize, pools: usize) -> Result<Vec<RunnerId>> {
    let data = dir.path().join("data");
    let ledger = SqliteLedger::open(&data).context("the ledger to be seeded")?;
    let store = Store::new(Arc::new(ledger));
    let mut ids = Vec::new();
    for number in 0..pools {
        let pool = PoolName::parse(name(number))?;
        let settings: PoolSettings = serde_json::from_value(settings(hands_out))?;
        let rules = settings.rules(Spec { cpu: 2, memory_mb: 2048 })?;
        let defined = Pool { name: pool.clone(), source: Source::File, retired: false, rules };
        store.write_pool(PoolWrite { seen: 0, rev: 1, pool: &defined, only_unused: false }).await?;
        let here = (runners - number * POOL_MAX).min(POOL_MAX);
        let made = (0..here).map(|number| seeded::idle(&pool, number, true, 10 * HOUR, now()));
        let made: Vec<Runner> = made.collect::<Result<_>>()?;
        seeded::write(&store, &made, now()).await?;
        match hands_out {
            HandsOut::Workflows => {}
            HandsOut::CiSystem => seeded::write_tokens(&store, &made, now()).await?,
        }
        ids.extend(made.into_iter().map(|runner| runner.id));
    }
    Ok(ids)
}
