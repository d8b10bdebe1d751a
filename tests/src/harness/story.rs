//! What became of runners and claims, as the API tells it. Reading a claim by its id moves it on; so a test of refresh alone reads
//! the runner, the pool and the audit log, which move nothing.

use crate::harness::api::Api;
use crate::harness::serve::Serve;
use crate::harness::wait::until;
use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// A claim whose runners are all ready.
#[derive(Debug, Clone)]
pub struct Held {
    pub claim: String,
    pub runners: Vec<String>,
}

pub async fn ready(api: &Api, workflow: &str, pool: &str, count: u32) -> Result<Held> {
    let opened = api.provision(workflow, pool, count).await?;
    let claim = text(&opened, "claim")?;
    let seen = until(&format!("{workflow} is ready"), async || {
        let seen = api.get(&format!("claims/{claim}?wait=20")).await?.expect(200)?;
        let state = text(&seen, "state")?;
        ensure!(state == "pending" || state == "ready", "{workflow} came to its end: {seen}");
        Ok((state == "ready").then_some(seen))
    })
    .await?;
    let runners = seen["runners"].as_array().context("no list of runners")?;
    let runners = runners.iter().map(|member| text(member, "runner")).collect::<Result<_>>()?;
    Ok(Held { claim, runners })
}

/// As many idle runners: provisioned together and given back.
pub async fn idle(api: &Api, pool: &str, count: u32) -> Result<Vec<String>> {
    let Held { runners, .. } = ready(api, "to-make-them-idle", pool, count).await?;
    api.release("to-make-them-idle").await?;
    for runner in &runners {
        comes_to(api, runner, "idle").await?;
    }
    Ok(runners)
}

pub async fn state(api: &Api, runner: &str) -> Result<String> {
    text(&api.runner(runner).await?, "state")
}

/// Waits for the runner's state. Whoever brings it there, it is not this.
pub async fn comes_to(api: &Api, runner: &str, wanted: &str) -> Result<()> {
    until(&format!("{runner} is {wanted}"), async || Ok((state(api, runner).await? == wanted).then_some(())))
        .await
}

/// Refreshes until there is an answer. The last report comes with it.
pub async fn refreshed_until<T>(
    api: &Api,
    what: &str,
    ask: impl AsyncFn() -> Result<Option<T>>,
) -> Result<(T, Value)> {
    until(what, async || {
        let report = api.refresh().await?;
        Ok(ask().await?.map(|answer| (answer, report)))
    })
    .await
}

/// Refreshes until the runner is in this state.
pub async fn refreshed_to(api: &Api, runner: &str, wanted: &str) -> Result<()> {
    let what = format!("refresh makes {runner} {wanted}");
    let there = async || Ok((state(api, runner).await? == wanted).then_some(()));
    refreshed_until(api, &what, there).await.map(|_| ())
}

/// The whole audit log of a runner, a claim (by id), or a pool (`pool:NAME`).
pub async fn audit(api: &Api, subject: &str) -> Result<Vec<Value>> {
    let page = api.get(&format!("audit?subject={subject}&limit=500")).await?.expect(200)?;
    ensure!(page["next"].is_null(), "{subject} has a longer log than a test reads");
    page["entries"].as_array().cloned().context("no list of entries")
}

/// How often the log has this step by refresh, from and to with their epochs, as in `idle@1`.
pub async fn steps_by_refresh(api: &Api, runner: &str, from: &str, to: &str, why: &str) -> Result<usize> {
    let told = [("from", from), ("to", to), ("why", why), ("who", "refresh"), ("what", "transition")];
    let entries = audit(api, runner).await?;
    Ok(entries.iter().filter(|entry| told.iter().all(|(key, value)| entry[*key] == *value)).count())
}

pub async fn must_have_stepped(api: &Api, runner: &str, from: &str, to: &str, why: &str) -> Result<()> {
    let steps = steps_by_refresh(api, runner, from, to, why).await?;
    ensure!(
        steps == 1,
        "the log has {steps} times that refresh made it {to} for {why:?}: {:?}",
        audit(api, runner).await?
    );
    Ok(())
}

/// Refresh ended it, from this state for this reason; nothing is left of it on the host.
pub async fn must_have_ended(serve: &Serve, runner: &str, from: &str, why: &str) -> Result<()> {
    let api = serve.api();
    let seen = api.runner(runner).await?;
    ensure!(seen["state"] == "terminated" && seen["why"] == why, "it ended otherwise: {seen}");
    must_have_stepped(api, runner, from, &from.replace(name(from), "terminating"), why).await?;
    must_be_gone(serve, runner)
}

pub fn must_be_gone(serve: &Serve, runner: &str) -> Result<()> {
    let left = serve.processes_of(runner);
    ensure!(left.is_empty(), "processes {left:?} of {runner} are left");
    ensure!(!serve.runner_dir(runner).exists(), "the directory of {runner} is left");
    Ok(())
}

pub async fn used(api: &Api, pool: &str) -> Result<u64> {
    api.pool(pool).await?["used"].as_u64().context("no count of slots")
}

pub fn text(value: &Value, key: &str) -> Result<String> {
    Ok(value[key].as_str().with_context(|| format!("no {key} in {value}"))?.to_owned())
}

fn name(state: &str) -> &str {
    state.split_once('@').map_or(state, |(name, _epoch)| name)
}
