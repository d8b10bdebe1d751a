//! Many workflows at once for fewer machines. Invariants 3, 17 and 23 over HTTP: each runner has one holder, `max` is never
//! exceeded, and nobody who waits is forgotten.

#![allow(clippy::indexing_slicing, reason = "what a JSON value lacks is null")]

use anyhow::{Context, Result, ensure};
use futures_util::future::join_all;
use motorpool_tests::harness::api::Api;
use motorpool_tests::harness::books::{agree, claims, holders, is_open, live, members, never_more_than};
use motorpool_tests::harness::serve::Serve;
use motorpool_tests::harness::story::text;
use motorpool_tests::harness::wait::until;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::task::{JoinHandle, JoinSet};

const RUNNERS: usize = 100;
const WORKFLOWS: usize = 200;

#[tokio::test(flavor = "multi_thread")]
async fn inv_03_17_23_two_hundred_provisions_share_a_hundred_idle_runners() -> Result<()> {
    let serve = Serve::start(
        "refresh_seconds = 1\n\
         [pools.p]\nbackend = \"local\"\nmax = 100\nmin_idle = 100\nheartbeat_seconds = 15\n\
         idle_minutes = 30\nwait_minutes = 30\ncreated_minutes = 10\nclaimed_minutes = 10\nreleasing_minutes = 10",
    )?;
    let api = serve.api();
    let watch = Watch::start(api, RUNNERS as u64);
    until("all runners are idle", async || {
        spare_the_processor().await;
        Ok((count(api, "idle").await? == RUNNERS).then_some(()))
    })
    .await?;

    let workflows: Vec<String> = (0..WORKFLOWS).map(|n| format!("w-{n}")).collect();
    let opened = at_once(&workflows, |workflow| {
        let api = api.clone();
        async move { api.provision(&workflow, "p", 1).await }
    })
    .await?;
    let ids: BTreeSet<String> = opened.iter().map(|claim| text(claim, "claim")).collect::<Result<_>>()?;
    ensure!(ids.len() == WORKFLOWS, "{} claims for {WORKFLOWS} workflows", ids.len());

    let (first, waiting) = until("a hundred claims are ready, and the others wait", async || {
        spare_the_processor().await;
        let (ready, waiting) = split(claims(api, "p").await?);
        ensure!(ready.len() <= RUNNERS, "more claims are ready than there are runners");
        Ok((ready.len() == RUNNERS).then_some((ready, waiting)))
    })
    .await?;
    each_has_one_warm_runner(&first)?;
    ensure!(waiting.len() == WORKFLOWS - RUNNERS, "{} claims wait", waiting.len());
    for claim in &waiting {
        let why = text(claim, "why")?;
        ensure!(claim["state"] == "pending" && claim["short"] == 1 && members(claim)?.is_empty(), "{claim}");
        ensure!(
            why.contains("pool p is at its maximum: 100 of 100"),
            "it does not say why it waits: {claim}"
        );
    }
    agree(api, "p").await?;

    // Nobody asks for the claims that wait: that they are served is not left to those who follow them.
    release(api, &first).await?;
    let second = until("those who waited are served", async || {
        spare_the_processor().await;
        let (ready, _) = split(claims(api, "p").await?);
        Ok((ready.len() == WORKFLOWS - RUNNERS).then_some(ready))
    })
    .await?;
    each_has_one_warm_runner(&second)?;
    let served: BTreeSet<String> = second.iter().map(|claim| text(claim, "claim")).collect::<Result<_>>()?;
    let waited: BTreeSet<String> = waiting.iter().map(|claim| text(claim, "claim")).collect::<Result<_>>()?;
    ensure!(served == waited, "others were served than those who waited");
    agree(api, "p").await?;

    release(api, &second).await?;
    until("all runners are idle again", async || {
        spare_the_processor().await;
        Ok((count(api, "idle").await? == RUNNERS).then_some(()))
    })
    .await?;
    agree(api, "p").await?;
    let ended = claims(api, "p").await?;
    ensure!(ended.iter().all(|claim| claim["state"] == "released"), "a claim did not end as it was asked to");
    watch.saw_nothing().await
}

/// Runs while the test does, and must not find anything.
struct Watch(JoinHandle<Result<()>>);

impl Watch {
    fn start(api: &Api, max: u64) -> Self {
        Self(tokio::spawn(never_more_than(api.clone(), "p".to_owned(), max)))
    }

    async fn saw_nothing(self) -> Result<()> {
        if self.0.is_finished() {
            return self.0.await.context("the watch broke off")?;
        }
        self.0.abort();
        Ok(())
    }
}

/// A claim of several runners may get some of them and wait for the others. With more of them than the pool can serve at once,
/// they must not wait for each other: each comes to its turn.
#[tokio::test(flavor = "multi_thread")]
async fn inv_03_17_23_claims_of_mixed_sizes_crowd_a_small_pool() -> Result<()> {
    const MAX: u64 = 10;
    const CROWD: usize = 40;
    let serve = Serve::start(
        "refresh_seconds = 1\n\
         [pools.p]\nbackend = \"local\"\nmax = 10\nheartbeat_seconds = 5\nwait_minutes = 30",
    )?;
    let api = serve.api();
    let watch = Watch::start(api, MAX);
    let mut random = StdRng::seed_from_u64(20_261_116);
    let (is_ready, mut ready) = tokio::sync::mpsc::unbounded_channel::<String>();
    let mut crowd = Vec::new();
    for n in 0..CROWD {
        let (workflow, count) = (format!("w-{n}"), random.random_range(1..=3));
        // Some change their mind before they are served.
        let leaves = random.random_ratio(1, 5);
        // Who asks all the time may find a runner before it is offered to those who came first.
        let wait = if random.random_ratio(1, 2) { "" } else { "?wait=20" };
        let (api, is_ready) = (api.clone(), is_ready.clone());
        crowd.push(async move {
            let opened = api.provision(&workflow, "p", count).await?;
            if leaves {
                return api.release(&workflow).await;
            }
            let claim = no_longer_pending(&api, &text(&opened, "claim")?, wait).await?;
            if claim["state"] == "ready" {
                is_ready.send(workflow).context("nobody releases any more")?;
            }
            anyhow::Ok(claim)
        });
    }
    drop(is_ready);
    let releasing = async {
        let mut some = Vec::new();
        while ready.recv_many(&mut some, CROWD).await > 0 {
            some.shuffle(&mut random);
            for workflow in some.drain(..) {
                api.release(&workflow).await?;
            }
        }
        anyhow::Ok(())
    };
    let (ends, released) = tokio::join!(join_all(crowd), releasing);
    released?;
    for claim in ends {
        let claim = claim?;
        let members: BTreeSet<String> = members(&claim)?.into_iter().collect();
        let whole = members.len() as u64 == claim["count"] && claim["short"] == 0;
        ensure!(
            claim["state"] == "released" || claim["state"] == "ready" && whole,
            "it was not served: {claim}"
        );
    }

    until("nobody holds a runner any more", async || {
        let open = claims(api, "p").await?.iter().filter(|claim| is_open(claim)).count();
        Ok((open == 0 && count(api, "idle").await? == live(api, "p").await?.len()).then_some(()))
    })
    .await?;
    agree(api, "p").await?;
    watch.saw_nothing().await
}

async fn at_once<F>(workflows: &[String], call: impl Fn(String) -> F) -> Result<Vec<Value>>
where
    F: Future<Output = Result<Value>> + Send + 'static,
{
    let mut calls = JoinSet::new();
    for workflow in workflows {
        calls.spawn(call(workflow.clone()));
    }
    calls.join_all().await.into_iter().collect()
}

async fn release(api: &Api, claims: &[Value]) -> Result<()> {
    let workflows: Vec<String> = claims.iter().map(|claim| text(claim, "workflow")).collect::<Result<_>>()?;
    at_once(&workflows, |workflow| {
        let api = api.clone();
        async move { api.release(&workflow).await }
    })
    .await
    .map(|_| ())
}

async fn no_longer_pending(api: &Api, claim: &str, wait: &str) -> Result<Value> {
    until("the claim is no longer pending", async || {
        let seen = api.get(&format!("claims/{claim}{wait}")).await?.expect(200)?;
        Ok((seen["state"] != "pending").then_some(seen))
    })
    .await
}

/// The open claims: those that are ready, and those that wait.
fn split(claims: Vec<Value>) -> (Vec<Value>, Vec<Value>) {
    claims.into_iter().filter(is_open).partition(|claim| claim["state"] == "ready")
}

fn each_has_one_warm_runner(ready: &[Value]) -> Result<()> {
    for claim in ready {
        let warm =
            claim["runners"].as_array().is_some_and(|runners| runners.iter().all(|r| r["warm"] == true));
        ensure!(members(claim)?.len() == 1 && claim["short"] == 0 && warm, "not one warm runner: {claim}");
    }
    let holders = holders(ready)?;
    ensure!(holders.len() == ready.len(), "{} runners in {} claims", holders.len(), ready.len());
    Ok(())
}

/// A hundred agents need it more than a look at long lists.
async fn spare_the_processor() {
    tokio::time::sleep(Duration::from_millis(200)).await;
}

async fn count(api: &Api, state: &str) -> Result<usize> {
    let runners = live(api, "p").await?;
    Ok(runners.iter().filter(|runner| runner["state"] == state).count())
}
