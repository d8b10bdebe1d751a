//! What floods cost those who do not flood: thousands of silent connections, slow bodies and a flood of requests with one team's token, and a
//! flood of HTTP/2 streams with none, all at once on one `serve`; beside them another team's claims, and the heartbeats of agents. The floor is
//! the same claims undisturbed.

mod attack;
mod beside;

use crate::memory::{Resident, resident_mb};
use crate::pools;
use crate::report;
use crate::samples::{Samples, ms, ratio};
use anyhow::{Context, Result};
use attack::Attack;
use beside::{Heartbeats, claims};
use motorpool_tests::fakes::fake_agent::sha256_hex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use std::time::Duration;

pub(crate) const SILENT: usize = 5_000;
pub(crate) const SLOW_BODIES: usize = 1_000;
pub(crate) const STREAM_CONNECTIONS: usize = 16;
pub(crate) const FLOODERS: usize = 64;
const AGENTS: usize = 200;
/// Of one turn: long enough for all of the flood to be at work, and shorter than what a silent connection is kept for.
const LASTS: Duration = Duration::from_secs(6);
/// Of claims undisturbed, and as many in the flood: a machine has its moods, and both must meet the same ones.
const TURNS: usize = 4;
/// Each has a thousand runners, and no claim of a turn should find its pool empty.
const POOLS_BESIDE: usize = 3;

const FLOODING: &str = "mp_team_that_floods_0123456789abcdef";
const BESIDE: &str = "mp_team_beside_0123456789abcdef";

pub(crate) async fn run() -> Result<()> {
    raise_open_files()?;
    let teams = format!(
        "[teams.flooding]\ntoken_sha256 = [\"{}\"]\n[teams.beside]\ntoken_sha256 = [\"{}\"]\n",
        sha256_hex(FLOODING),
        sha256_hex(BESIDE),
    );
    // The first pools are for who does not flood, the next for who does. Nobody claims those of the last: their agents only say that they live.
    let claimed = (POOLS_BESIDE + 1) * pools::POOL_MAX;
    let (serve, runners) = pools::serve_with_teams(claimed + AGENTS, &teams).await?;
    let agents = runners.into_iter().skip(claimed).collect();
    let heartbeats = Heartbeats::start(serve.api(), agents);
    let team = serve.api().as_who(Some(BESIDE));

    let before_mb = resident_mb(serve.pid(), Resident::Now)?;
    claims(&team, "warm-up", Duration::from_secs(1)).await?;
    let (mut undisturbed, mut disturbed) = (Samples::default(), Samples::default());
    let mut attacked = Vec::new();
    for turn in 0..TURNS {
        undisturbed.extend(claims(&team, &format!("undisturbed-{turn}"), LASTS).await?);
        let attack = Attack::start(serve.api().base(), FLOODING)?;
        disturbed.extend(claims(&team, &format!("disturbed-{turn}"), LASTS).await?);
        attacked.push(attack.end()?);
    }
    let heard = heartbeats.end().await?;

    report(&json!({
        "name": "flood",
        "silent_connections": SILENT,
        "slow_bodies": SLOW_BODIES,
        "stream_connections": STREAM_CONNECTIONS,
        "flooders": FLOODERS,
        "attacks": attacked,
        "claims": disturbed.len(),
        "p50_ms": ms(disturbed.p50()),
        "p99_ms": ms(disturbed.percentile(0.99)),
        "floor_claims": undisturbed.len(),
        "floor_p50_ms": ms(undisturbed.p50()),
        "floor_p99_ms": ms(undisturbed.percentile(0.99)),
        "agents": AGENTS,
        "syncs": heard.syncs.len(),
        "syncs_lost": heard.lost,
        "sync_slowest_ms": ms(heard.syncs.percentile(1.0)),
        "memory_before_mb": before_mb,
        "memory_peak_mb": resident_mb(serve.pid(), Resident::Peak)?,
        "aim": 3,
        "ratio": ratio(
            disturbed.percentile(0.99).as_secs_f64(),
            undisturbed.percentile(0.99).as_secs_f64(),
        ),
    }));
    Ok(())
}

/// Each connection is a file of this process too.
fn raise_open_files() -> Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).context("the limit of open files")
}
