//! What floods cost those who do not flood: thousands of silent connections, slow bodies and a flood of requests with one team's token, and a
//! flood of HTTP/2 streams with none, all at once on one `serve`; beside them another team's claims, and the heartbeats of agents. The floor is
//! the same claims undisturbed.

mod attack;
mod beside;

use crate::memory::{Resident, resident_mb};
use crate::pools;
use crate::report;
use crate::samples::{ms, ratio};
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
/// Long enough for a percentile, and shorter than what a silent connection is kept for.
const LASTS: Duration = Duration::from_secs(8);

const FLOODING: &str = "mp_team_that_floods_0123456789abcdef";
const BESIDE: &str = "mp_team_beside_0123456789abcdef";

pub(crate) async fn run() -> Result<()> {
    raise_open_files()?;
    let teams = format!(
        "[teams.flooding]\ntoken_sha256 = [\"{}\"]\n[teams.beside]\ntoken_sha256 = [\"{}\"]\n",
        sha256_hex(FLOODING),
        sha256_hex(BESIDE),
    );
    let (serve, runners) = pools::serve_with_teams(2 * pools::POOL_MAX + AGENTS, &teams).await?;
    // The first pool is for who does not flood, the second for who does. Nobody claims those of the third: their agents only say that they live.
    let agents = runners.into_iter().skip(2 * pools::POOL_MAX).collect();
    let heartbeats = Heartbeats::start(serve.api(), agents);
    let team = serve.api().as_who(Some(BESIDE));

    let before_mb = resident_mb(serve.pid(), Resident::Now)?;
    claims(&team, "warm-up", Duration::from_secs(1)).await?;
    let undisturbed = claims(&team, "undisturbed", LASTS).await?;
    let attack = Attack::start(serve.api().base(), FLOODING)?;
    let disturbed = claims(&team, "disturbed", LASTS).await?;
    let attacked = attack.end()?;
    let heard = heartbeats.end().await?;

    report(&json!({
        "name": "flood",
        "silent_connections": SILENT,
        "slow_bodies": SLOW_BODIES,
        "stream_connections": STREAM_CONNECTIONS,
        "flooders": FLOODERS,
        "attack": attacked,
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
