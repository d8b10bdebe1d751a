//! Those who do not flood: a team's claims, one after the other, and agents' heartbeats.

use super::POOLS_BESIDE;
use crate::clock::Stopwatch;
use crate::pools;
use crate::samples::Samples;
use anyhow::{Context, Result, ensure};
use motorpool_domain::RunnerId;
use motorpool_tests::harness::api::Api;
use motorpool_tests::harness::seeded::{BOOT_ID, token};
use serde_json::json;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep, timeout};

/// Between two claims. Not at once: a flood is measured over a while, and a pool has a thousand runners.
const BETWEEN_CLAIMS: Duration = Duration::from_millis(20);
const BETWEEN_SYNCS: Duration = Duration::from_secs(1);
/// A control plane that does not hear from an agent for so long counts it as silent, with the default heartbeat of 15 s.
const SILENCE: Duration = Duration::from_secs(60);

/// One caller's warm claims over that time.
pub(super) async fn claims(api: &Api, name: &str, lasts: Duration) -> Result<Samples> {
    let mut samples = Samples::default();
    let (all, mut pace) = (Stopwatch::start(), interval(BETWEEN_CLAIMS));
    while all.elapsed() < lasts {
        pace.tick().await;
        let workflow = format!("{name}-{}", samples.len());
        let pool = pools::name(samples.len() % POOLS_BESIDE);
        let watch = Stopwatch::start();
        let claim = api.post("provision", json!({"workflow": workflow, "pool": pool})).await?.expect(202)?;
        samples.add(watch.elapsed());
        ensure!(claim["runners"][0]["warm"] == true, "it was not warm: {claim}");
    }
    Ok(samples)
}

pub(super) struct Heartbeats {
    over: watch::Sender<bool>,
    agents: JoinSet<Result<Heard>>,
}

#[derive(Default)]
pub(super) struct Heard {
    pub(super) syncs: Samples,
    /// Those that were not answered with 200 before the agent counts as silent.
    pub(super) lost: usize,
}

impl Heartbeats {
    pub(super) fn start(api: &Api, runners: Vec<RunnerId>) -> Self {
        let over = watch::Sender::new(false);
        let mut agents = JoinSet::new();
        for runner in runners {
            agents.spawn(beats(api.as_who(Some(&token(&runner))), runner, over.subscribe()));
        }
        Self { over, agents }
    }

    pub(super) async fn end(mut self) -> Result<Heard> {
        self.over.send_replace(true);
        let mut all = Heard::default();
        while let Some(heard) = self.agents.join_next().await {
            let Heard { syncs, lost } = heard.context("an agent panicked")??;
            all.syncs.extend(syncs);
            all.lost += lost;
        }
        Ok(all)
    }
}

async fn beats(api: Api, runner: RunnerId, mut over: watch::Receiver<bool>) -> Result<Heard> {
    let mut heard = Heard::default();
    loop {
        let report = json!({
            "runner": runner, "epoch": 1, "boot_id": BOOT_ID, "protocol": 3, "agent_version": "bench",
            "registered": null, "results": [], "wait_ms": 0,
        });
        let watch = Stopwatch::start();
        match timeout(SILENCE, api.post("agent/sync", report)).await {
            Ok(Ok(answer)) if answer.status == 200 => heard.syncs.add(watch.elapsed()),
            Ok(_) | Err(_) => heard.lost += 1,
        }
        tokio::select! {
            _ = over.wait_for(|over| *over) => return Ok(heard),
            () = sleep(BETWEEN_SYNCS) => {}
        }
    }
}
