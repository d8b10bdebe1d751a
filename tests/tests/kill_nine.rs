//! Fault 21: serve is killed with SIGKILL, ten times, while claims race. After each start nothing that was acknowledged is lost,
//! nothing is held twice, slots are whole, and the agents have lived on; at the end the queue has announced every runner.

#![allow(clippy::indexing_slicing, reason = "what a JSON value lacks is null")]

use anyhow::{Context, Result, bail, ensure};
use futures_util::future::try_join_all;
use motorpool_tests::harness::api::Api;
use motorpool_tests::harness::books::{agree, claims, is_open, live, members};
use motorpool_tests::harness::serve::{ADMIN_TOKEN, Serve};
use motorpool_tests::harness::story::text;
use motorpool_tests::harness::wait::{PATIENCE, until};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::process::Pid;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::Semaphore;
use tokio::time::timeout;

const ROUNDS: u64 = 10;
const WORKERS: u64 = 6;

#[tokio::test(flavor = "multi_thread")]
async fn fault_21_serve_is_killed_ten_times_while_claims_race() -> Result<()> {
    // Fewer machines than the workers ask for at most. No time is over while the test runs: what is lost is lost by the kill.
    let mut serve = Serve::start(
        "refresh_seconds = 1\n[pools.p]\nbackend = \"local\"\nmax = 8\nheartbeat_seconds = 1\n\
         idle_minutes = 60\ncreated_minutes = 10\nclaimed_minutes = 10\nreleasing_minutes = 10\n\
         resetting_minutes = 10\nwait_minutes = 60\nmax_runtime_minutes = 60",
    )?;
    let seed = seed()?;
    let mut random = StdRng::seed_from_u64(seed);
    let mut workers: Vec<Worker> = (0..WORKERS).map(|name| Worker::new(name, seed)).collect();
    for round in 0..ROUNDS {
        let acknowledged = Semaphore::new(0);
        let calls = random.random_range(8..40);
        let api = fresh(&serve)?;
        let working = try_join_all(workers.iter_mut().map(|worker| worker.work(&api, &acknowledged)));
        let killing = async {
            let enough = timeout(PATIENCE, acknowledged.acquire_many(calls)).await;
            enough.with_context(|| format!("serve did not answer {calls} calls"))??.forget();
            serve.kill()
        };
        // The workers end when nobody answers any more.
        tokio::try_join!(working, killing).with_context(|| format!("round {round}"))?;
        let agents = agents(&serve)?;
        serve.start_again()?;
        let api = fresh(&serve)?;
        after_a_restart(&api, &mut workers)
            .await
            .with_context(|| format!("after the kill in round {round}"))?;
        ensure!(same_agents(&agents, &serve), "agents did not outlive the kill in round {round}: {agents:?}");
    }
    let in_doubt: u32 = workers.iter().map(|worker| worker.in_doubt).sum();
    ensure!(in_doubt > 0, "no kill ever came between a call and its answer");
    at_the_end(&serve, &workers).await
}

/// What a workflow knows of its claim.
#[derive(Debug)]
struct Deal {
    workflow: String,
    count: u32,
    /// None: it was asked for, and there was no answer.
    claim: Option<String>,
    /// Its runners, once it was seen ready.
    runners: Option<Value>,
    release: Release,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Release {
    NotAsked,
    /// There was no answer.
    Asked,
    Acknowledged,
}

/// Has one claim at a time: provisions it, looks at it, releases it.
struct Worker {
    name: u64,
    random: StdRng,
    deals: Vec<Deal>,
    /// How many calls that change something got no answer.
    in_doubt: u32,
}

impl Worker {
    fn new(name: u64, seed: u64) -> Self {
        let random = StdRng::seed_from_u64(seed.wrapping_add(1 + name));
        Self { name, random, deals: Vec::new(), in_doubt: 0 }
    }

    /// Works until a call gets no answer. A wrong answer is an error.
    async fn work(&mut self, api: &Api, acknowledged: &Semaphore) -> Result<()> {
        while self.step(api).await? {
            acknowledged.add_permits(1);
        }
        Ok(())
    }

    /// One call, and whether it was answered.
    async fn step(&mut self, api: &Api) -> Result<bool> {
        let Self { name, random, deals, .. } = self;
        let number = deals.len();
        let Some(deal) = deals.last_mut().filter(|deal| deal.release != Release::Acknowledged) else {
            let workflow = format!("w{name}-{number}");
            let count = random.random_range(1..=2);
            deals.push(Deal { workflow, count, claim: None, runners: None, release: Release::NotAsked });
            return self.provision(api).await;
        };
        // Most wait until they are served, and then go; some go before, and some stay.
        let looks = if deal.runners.is_none() { 0.8 } else { 0.3 };
        if random.random_bool(looks) { look(api, deal).await } else { self.release(api).await }
    }

    async fn provision(&mut self, api: &Api) -> Result<bool> {
        let deal = self.deals.last_mut().context("no deal")?;
        let asked = json!({"workflow": deal.workflow, "pool": "p", "count": deal.count});
        let Ok(answer) = api.post("provision", asked).await else {
            self.in_doubt += 1;
            return Ok(false);
        };
        deal.claim = Some(text(&answer.expect(202)?, "claim")?);
        Ok(true)
    }

    async fn release(&mut self, api: &Api) -> Result<bool> {
        let deal = self.deals.last_mut().context("no deal")?;
        deal.release = Release::Asked;
        let Ok(answer) = api.post("release", json!({"workflow": deal.workflow})).await else {
            self.in_doubt += 1;
            return Ok(false);
        };
        let released = answer.expect(202)?;
        ensure!(released["state"] == "released", "the answer to a release: {released}");
        deal.release = Release::Acknowledged;
        Ok(true)
    }
}

async fn look(api: &Api, deal: &mut Deal) -> Result<bool> {
    let claim = deal.claim.as_ref().context("no claim")?;
    let Ok(answer) = api.get(&format!("claims/{claim}?wait=2")).await else { return Ok(false) };
    let seen = answer.expect(200)?;
    deal.must_be_as_known(&seen)?;
    if seen["state"] == "ready" {
        deal.runners = Some(lives(&seen)?);
    }
    Ok(true)
}

impl Deal {
    /// Nothing takes a runner away here: a claim that was ready stays so, with the same runners in the same lives.
    fn must_be_as_known(&self, seen: &Value) -> Result<()> {
        let state = text(seen, "state")?;
        ensure!(seen["workflow"] == self.workflow && seen["count"] == self.count, "not as asked for: {seen}");
        let good = match (self.release, &self.runners) {
            (Release::Acknowledged, _) => state == "released",
            (Release::Asked, _) if state == "released" => true,
            (Release::Asked | Release::NotAsked, Some(runners)) => {
                state == "ready" && seen["short"] == 0 && lives(seen)? == *runners
            }
            (Release::Asked | Release::NotAsked, None) => {
                state == "ready"
                    || state == "pending" && seen["why"].as_str().is_some_and(|why| !why.is_empty())
            }
        };
        ensure!(good, "{self:?} is {seen}");
        Ok(())
    }
}

/// The claim's runners, each with the life that the claim has of it.
fn lives(claim: &Value) -> Result<Value> {
    let runners = claim["runners"].as_array().context("no list of runners")?;
    Ok(runners.iter().map(|member| json!([member["runner"], member["epoch"], member["warm"]])).collect())
}

/// What was acknowledged is there. What was not is asked for again, as anybody would who got no answer.
async fn after_a_restart(api: &Api, workers: &mut [Worker]) -> Result<()> {
    all_as_known(api, workers).await?;
    for worker in workers.iter_mut() {
        let Some(deal) = worker.deals.last_mut() else { continue };
        if let Some(claim) = &deal.claim {
            deal.must_be_as_known(&api.claim(claim).await?)?;
        } else {
            deal.claim = Some(text(&api.provision(&deal.workflow, "p", deal.count).await?, "claim")?);
        }
        if deal.release == Release::Asked {
            let released = api.release(&deal.workflow).await?;
            ensure!(released["state"] == "released", "the answer to a release: {released}");
            deal.release = Release::Acknowledged;
        }
    }
    agree(api, "p").await?;
    all_as_known(api, workers).await
}

async fn all_as_known(api: &Api, workers: &[Worker]) -> Result<()> {
    let mut seen: BTreeMap<String, Value> = BTreeMap::new();
    let mut workflows = BTreeSet::new();
    for claim in claims(api, "p").await? {
        ensure!(
            workflows.insert(text(&claim, "workflow")?),
            "a workflow has two claims, and asked for one: {claim}"
        );
        seen.insert(text(&claim, "claim")?, claim);
    }
    for deal in workers.iter().flat_map(|worker| &worker.deals) {
        let Some(claim) = &deal.claim else { continue };
        let seen = seen.get(claim).with_context(|| format!("an acknowledged claim is lost: {deal:?}"))?;
        deal.must_be_as_known(seen)?;
    }
    Ok(())
}

/// All is given back: every runner becomes idle, has one agent, and can be claimed exactly once.
async fn at_the_end(serve: &Serve, workers: &[Worker]) -> Result<()> {
    let api = &fresh(serve)?;
    for deal in workers.iter().filter_map(|worker| worker.deals.last()) {
        api.release(&deal.workflow).await?;
    }
    let runners: BTreeSet<String> = until("every runner is idle", async || {
        let live = live(api, "p").await?;
        let idle = live.iter().all(|runner| runner["state"] == "idle");
        idle.then(|| live.iter().map(|runner| text(runner, "runner")).collect()).transpose()
    })
    .await?;
    ensure!(!claims(api, "p").await?.iter().any(is_open), "a claim is open that was released");
    agree(api, "p").await?;
    ensure!(agents(serve)?.into_keys().collect::<BTreeSet<_>>() == runners, "other machines than runners");
    for runner in &runners {
        let processes = serve.processes_of(runner);
        ensure!(processes.len() == 1, "{runner} is idle and has the processes {processes:?}");
    }

    let mut claimed = BTreeSet::new();
    loop {
        let workflow = format!("last-{}", claimed.len());
        let answer = api.post("claim", json!({"workflow": workflow, "pool": "p"})).await?;
        if answer.status == 404 {
            let (code, message) = answer.refusal(404)?;
            ensure!(code == "not_found" && message.starts_with("pool empty"), "{code}: {message}");
            break;
        }
        for runner in members(&answer.expect(200)?)? {
            ensure!(claimed.insert(runner.clone()), "{runner} was claimed twice");
        }
    }
    ensure!(claimed == runners, "{runners:?} were idle, and {claimed:?} could be claimed");
    agree(api, "p").await
}

/// The agent of each machine on this host.
fn agents(serve: &Serve) -> Result<BTreeMap<String, Pid>> {
    let mut agents = BTreeMap::new();
    for dir in std::fs::read_dir(serve.data_dir().join("runners")).context("the machines' directories")? {
        let Ok(runner) = dir?.file_name().into_string() else { bail!("a machine's name is not text") };
        if let Some(pid) = serve.agent_pid(&runner) {
            agents.insert(runner, pid);
        }
    }
    Ok(agents)
}

fn same_agents(agents: &BTreeMap<String, Pid>, serve: &Serve) -> bool {
    agents.iter().all(|(runner, pid)| {
        serve.agent_pid(runner) == Some(*pid)
            && serve.processes_of(runner).contains(&pid.as_raw_nonzero().get())
    })
}

/// What the workers do and when serve is killed follows from it; how their calls meet does not.
fn seed() -> Result<u64> {
    match std::env::var("MOTORPOOL_SEED") {
        Ok(seed) => seed.parse().context("MOTORPOOL_SEED is not a number"),
        Err(_) => Ok(20_261_116),
    }
}

/// Without connections of an earlier life.
fn fresh(serve: &Serve) -> Result<Api> {
    Api::new(serve.api().base(), ADMIN_TOKEN)
}
