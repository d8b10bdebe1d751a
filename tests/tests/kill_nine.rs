//! Faults 21 and 26: serve is killed with SIGKILL, ten times, while 64 callers at once have it write, and so in the middle of commits that many of them
//! share. After each start nothing that was acknowledged is lost, nothing is there by half or held twice, slots are whole, and the agents have lived on;
//! at the end the queue has announced every runner.

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
const CALLERS: u64 = 64;
/// So many of them wait for their runners, and keep them for a while. The others are in a hurry: they have the ledger write, and hardly ever get a
/// runner, of which there are few.
const PATIENT: u64 = 6;

#[tokio::test(flavor = "multi_thread")]
async fn fault_21_26_serve_is_killed_ten_times_under_64_callers() -> Result<()> {
    // Fewer machines than even the patient ask for at most. No time is over while the test runs: what is lost is lost by the kill.
    let mut serve = Serve::start(
        "refresh_seconds = 1\n[pools.p]\nbackend = \"local\"\nmax = 8\nheartbeat_seconds = 1\n\
         idle_minutes = 60\ncreated_minutes = 10\nclaimed_minutes = 10\nreleasing_minutes = 10\n\
         resetting_minutes = 10\nwait_minutes = 60\nmax_runtime_minutes = 60",
    )?;
    let seed = seed()?;
    let mut random = StdRng::seed_from_u64(seed);
    let mut callers: Vec<Caller> = (0..CALLERS).map(|name| Caller::new(name, seed)).collect();
    for round in 0..ROUNDS {
        let acknowledged = Semaphore::new(0);
        let calls = random.random_range(64..400);
        let api = fresh(&serve)?;
        let calling = try_join_all(callers.iter_mut().map(|caller| caller.call(&api, &acknowledged)));
        let killing = async {
            let enough = timeout(PATIENCE, acknowledged.acquire_many(calls)).await;
            enough.with_context(|| format!("serve did not answer {calls} calls"))??.forget();
            serve.kill()
        };
        // The callers end when nobody answers any more.
        tokio::try_join!(calling, killing).with_context(|| format!("round {round}"))?;
        let agents = agents(&serve)?;
        serve.start_again()?;
        let api = fresh(&serve)?;
        after_a_restart(&api, &mut callers)
            .await
            .with_context(|| format!("after the kill in round {round}"))?;
        ensure!(same_agents(&agents, &serve), "agents did not outlive the kill in round {round}: {agents:?}");
    }
    let in_doubt: u32 = callers.iter().map(|caller| caller.in_doubt).sum();
    ensure!(in_doubt > 0, "no kill ever came between a call and its answer");
    let deals = || callers.iter().flat_map(|caller| &caller.deals);
    let released = deals().filter(|deal| deal.release == Release::Acknowledged).count();
    let served = deals().filter(|deal| deal.runners.is_some()).count();
    eprintln!(
        "{} claims, {served} seen ready, {released} released, {in_doubt} calls in doubt",
        deals().count()
    );
    ensure!(served > 0 && released > 0, "no load: {served} claims were seen ready, {released} were released");
    at_the_end(&serve, &callers).await
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
struct Caller {
    name: u64,
    is_patient: bool,
    random: StdRng,
    deals: Vec<Deal>,
    /// How many calls that change something got no answer.
    in_doubt: u32,
}

impl Caller {
    fn new(name: u64, seed: u64) -> Self {
        let random = StdRng::seed_from_u64(seed.wrapping_add(1 + name));
        Self { name, is_patient: name < PATIENT, random, deals: Vec::new(), in_doubt: 0 }
    }

    /// Calls until a call gets no answer. A wrong answer is an error.
    async fn call(&mut self, api: &Api, acknowledged: &Semaphore) -> Result<()> {
        while self.step(api).await? {
            acknowledged.add_permits(1);
        }
        Ok(())
    }

    /// One call, and whether it was answered.
    async fn step(&mut self, api: &Api) -> Result<bool> {
        let Self { name, is_patient, random, deals, .. } = self;
        let number = deals.len();
        let Some(deal) = deals.last_mut().filter(|deal| deal.release != Release::Acknowledged) else {
            let workflow = format!("w{name}-{number}");
            let count = random.random_range(1..=2);
            deals.push(Deal { workflow, count, claim: None, runners: None, release: Release::NotAsked });
            return self.provision(api).await;
        };
        // Of the patient, most wait until they are served, and then go; some go before, and some stay.
        let (looks, wait_s) = match (*is_patient, &deal.runners) {
            (true, None) => (0.8, 2),
            (true, Some(_)) => (0.3, 2),
            (false, None | Some(_)) => (0.2, 0),
        };
        if random.random_bool(looks) { look(api, deal, wait_s).await } else { self.release(api).await }
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

async fn look(api: &Api, deal: &mut Deal, wait_s: u64) -> Result<bool> {
    let claim = deal.claim.as_ref().context("no claim")?;
    let Ok(answer) = api.get(&format!("claims/{claim}?wait={wait_s}")).await else { return Ok(false) };
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
async fn after_a_restart(api: &Api, callers: &mut [Caller]) -> Result<()> {
    all_as_known(api, callers).await?;
    try_join_all(
        callers.iter_mut().filter_map(|caller| caller.deals.last_mut()).map(|deal| ask_again(api, deal)),
    )
    .await?;
    agree(api, "p").await?;
    all_as_known(api, callers).await
}

async fn ask_again(api: &Api, deal: &mut Deal) -> Result<()> {
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
    Ok(())
}

/// Every claim that was acknowledged is there under its id, as it was acknowledged; every release that was, has released its claim; and no workflow
/// has a claim besides, as one would that was there by half.
async fn all_as_known(api: &Api, callers: &[Caller]) -> Result<()> {
    let mut seen: BTreeMap<String, Value> = BTreeMap::new();
    let mut workflows = BTreeSet::new();
    for claim in claims(api, "p").await? {
        ensure!(
            workflows.insert(text(&claim, "workflow")?),
            "a workflow has two claims, and asked for one: {claim}"
        );
        seen.insert(text(&claim, "claim")?, claim);
    }
    for deal in callers.iter().flat_map(|caller| &caller.deals) {
        let Some(claim) = &deal.claim else { continue };
        let seen = seen.get(claim).with_context(|| format!("an acknowledged claim is lost: {deal:?}"))?;
        deal.must_be_as_known(seen)?;
    }
    Ok(())
}

/// All is given back: every runner becomes idle, has one agent, and can be claimed exactly once.
async fn at_the_end(serve: &Serve, callers: &[Caller]) -> Result<()> {
    let api = &fresh(serve)?;
    for deal in callers.iter().filter_map(|caller| caller.deals.last()) {
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

/// What the callers do and when serve is killed follows from it; how their calls meet does not.
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
