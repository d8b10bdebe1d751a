//! Machines whose CI system hands out their jobs, and many who say at one instant that these have ended: on two serves with one DynamoDB and one SQS it is hook,
//! webhook and poller, on one serve two hundred hooks. Each end has one effect.

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use motorpool_ci_tests::server::{Reply, Seen, Server, TestClock};
use motorpool_tests::fakes::fake_agent::FakeAgent;
use motorpool_tests::harness::api::Api;
use motorpool_tests::harness::functions_target::SharedLedger;
use motorpool_tests::harness::serve::{Serve, fresh_dir};
use motorpool_tests::harness::wait::until;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const MACHINES: usize = 12;
const PROJECT: &str = "380";
const SECRET: &str = "mp_gitlab_webhook_for_tests_only_0123456789";

/// GitLab's side of the jobs: each runs until the test says that it has failed.
#[derive(Debug, Default)]
struct Jobs {
    failed: BTreeSet<String>,
    /// Those that somebody has asked about while they ran.
    polled: BTreeSet<String>,
    /// Each runner's calls to be paused or unpaused, in order.
    paused: BTreeMap<String, Vec<bool>>,
}

/// As much of GitLab's API as is asked of it: a job, a runner that is paused or not, and the jobs that it has.
fn answer(jobs: &Mutex<Jobs>, asked: &Seen) -> Reply {
    let mut jobs = locked(jobs);
    let parts: Vec<&str> = asked.path.trim_start_matches("/api/v4/").split('/').collect();
    match (asked.method.as_str(), parts.as_slice()) {
        ("GET", ["projects", PROJECT, "jobs", job]) => {
            let status = if jobs.failed.contains(*job) { "failed" } else { "running" };
            jobs.polled.insert((*job).to_owned());
            Reply::new(200, json!({"id": job.parse::<u64>().unwrap_or_default(), "status": status}))
        }
        ("PUT", ["runners", runner]) => {
            let paused = asked.body["paused"] == true;
            jobs.paused.entry((*runner).to_owned()).or_default().push(paused);
            Reply::new(200, json!({"paused": paused, "job_execution_status": "idle"}))
        }
        ("GET", ["runners", _, "jobs"]) => Reply::new(200, json!([])),
        (_, _) => Reply::new(404, json!({"message": "404 Not Found"})),
    }
}

fn locked(jobs: &Mutex<Jobs>) -> MutexGuard<'_, Jobs> {
    jobs.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(ledger: &SharedLedger, gitlab: &Server) -> Result<Serve> {
    let dir = fresh_dir()?;
    for (file, secret) in [("gitlab-token", "glpat-for-tests-only"), ("webhook", SECRET)] {
        let path = dir.path().join(file);
        std::fs::write(&path, secret)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    }
    let pools = format!(
        r#"
refresh_seconds = 1
[gitlab]
url = "{}"
token_file = "gitlab-token"
webhook_secret_file = "webhook"
[pools.macs]
backend = "bare_metal"
dispatch = "hook"
clean = "reset"
max = 20
reset_cmd = "true"
cleanup_cmd = "true"
heartbeat_seconds = 600
poll_seconds = 1
poll_after_seconds = 1
ci = {{ system = "gitlab", scope = "groups/7" }}
"#,
        gitlab.url
    );
    let args = ["--ledger", "dynamodb"].map(Into::into).to_vec();
    Serve::start_with(dir, &pools, args, ledger.environment_outside()?)
}

/// The number that GitLab knows a machine by, and the id of its job.
fn number(machine: usize) -> String {
    (1_000 + machine).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn inv_11_fault_06_28_on_two_serves_hook_webhook_and_poller_at_one_instant_are_one_reset() -> Result<()>
{
    let jobs = Arc::new(Mutex::new(Jobs::default()));
    let theirs = Arc::clone(&jobs);
    let gitlab = Server::start(TestClock::start(), move |asked| answer(&theirs, asked)).await;
    let ledger = SharedLedger::fresh();
    let first = serve(&ledger, &gitlab)?;
    let second = serve(&ledger, &gitlab)?;
    let outcome = one_reset_each(&jobs, [first.api(), second.api()]).await;
    let outcome = outcome.and_then(|()| every_webhook_found_its_job(&[first.log(), second.log()]));
    outcome.with_context(|| {
        format!("--- the first serve's log ---\n{}\n--- the second's ---\n{}", first.log(), second.log())
    })
}

async fn one_reset_each(jobs: &Mutex<Jobs>, planes: [&Api; 2]) -> Result<()> {
    let joining = (0..MACHINES).map(|machine| {
        let named = json!({"ci_runner": number(machine)});
        let name = format!("mac-{machine}");
        async move { FakeAgent::idle(planes[machine % 2], "macs", &name, named).await }
    });
    let mut agents = try_join_all(joining).await?;
    let mut names = Vec::new();
    for (machine, agent) in agents.iter().enumerate() {
        let asked = json!({"job_id": number(machine), "project": PROJECT});
        let created = agent.api.post("checkpoint/create", asked).await?.expect(201)?;
        names.push(created["name"].as_str().context("its name")?.to_owned());
    }
    // From here on the pollers ask by themselves, and would find it out without any hook.
    until("every job was asked about", async || Ok((locked(jobs).polled.len() == MACHINES).then_some(())))
        .await?;
    locked(jobs).failed = (0..MACHINES).map(number).collect();

    // The ticker of each serve polls by itself; that it also comes now, is asked for.
    let hooks = agents.iter().zip(&names).map(async |(agent, name)| {
        let ended = json!({"checkpoint_name": name, "status": "failure"});
        agent.api.post("checkpoint/finalize", ended).await?.expect(202)
    });
    let webhooks = (0..MACHINES).map(async |machine| {
        for plane in [planes[(machine + 1) % 2], planes[machine % 2]] {
            webhook(plane, machine).await?;
        }
        anyhow::Ok(())
    });
    let pollers = planes.map(async |plane| plane.refresh().await);
    let (said, heard, polled) =
        tokio::join!(try_join_all(hooks), try_join_all(webhooks), try_join_all(pollers));
    let said: Vec<Value> = said?;
    ensure!(said.iter().all(is_queued_or_was), "{said:?}");
    heard?;
    polled?;

    let cleaning = agents.iter_mut().map(|agent| async move { agent.work_until("idle").await });
    try_join_all(cleaning).await?;
    for (machine, (agent, name)) in agents.iter().zip(&names).enumerate() {
        let (here, there) = (planes[machine % 2], planes[(machine + 1) % 2]);
        let ended = agent.api.get(&format!("checkpoint/status/{name}")).await?.expect(200)?;
        ensure!(ended["state"] == "reset" && ended["finalize_status"] == "failure", "{ended}");
        let seen = there.runner(&agent.runner).await?;
        ensure!(seen["epoch"] == 3, "one life for joining and one for its job: {seen}");
        let log = here.get(&format!("audit?subject={}&limit=200", agent.runner)).await?.expect(200)?;
        for (state, times) in [("releasing", 1), ("resetting", 2), ("quarantined", 0)] {
            let entered = entered(&log, state);
            ensure!(entered == times, "{} entered {state} {entered} times: {log:#}", agent.runner);
        }
        until("it is brought jobs again", async || {
            let calls = locked(jobs).paused.get(&number(machine)).cloned().unwrap_or_default();
            ensure!(calls.contains(&true), "{} was not paused before it was reset", agent.runner);
            Ok((calls.last() == Some(&false)).then_some(()))
        })
        .await?;
    }
    Ok(())
}

fn every_webhook_found_its_job(logs: &[String]) -> Result<()> {
    let taken: Vec<&str> =
        logs.iter().flat_map(|log| log.lines()).filter(|line| line.contains("a webhook was taken")).collect();
    ensure!(taken.len() == 2 * MACHINES, "{taken:#?}");
    ensure!(!taken.iter().any(|line| line.contains("no such job here")), "{taken:#?}");
    Ok(())
}

fn is_queued_or_was(answer: &Value) -> bool {
    answer["detail"] == "Finalize queued" || answer["detail"] == "Already finalized"
}

const CROWD: usize = 200;

const EMBEDDED: &str = r#"
[pools.macs]
backend = "bare_metal"
dispatch = "hook"
clean = "reset"
max = 200
reset_cmd = "true"
cleanup_cmd = "true"
heartbeat_seconds = 600
"#;

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_machines_that_finalize_at_once_on_serve_all_end_and_none_twice() -> Result<()> {
    let serve = Serve::start(EMBEDDED)?;
    let outcome = all_end_once(serve.api()).await;
    outcome.with_context(|| format!("--- serve's log ---\n{}", serve.log()))
}

async fn all_end_once(api: &Api) -> Result<()> {
    let joining = (0..CROWD).map(|machine| {
        let name = format!("mac-{machine}");
        async move { FakeAgent::idle(api, "macs", &name, json!({})).await }
    });
    let mut agents = try_join_all(joining).await?;
    let creating = agents.iter().enumerate().map(async |(machine, agent)| {
        let asked = json!({"job_id": number(machine)});
        let created = agent.api.post("checkpoint/create", asked).await?.expect(201)?;
        anyhow::Ok(created["name"].as_str().context("its name")?.to_owned())
    });
    let names = try_join_all(creating).await?;
    // Each says it twice, as one does that heard no answer.
    let said = agents.iter().zip(&names).flat_map(|(agent, name)| [(agent, name), (agent, name)]);
    let ending = said.map(async |(agent, name)| {
        let ended = json!({"checkpoint_name": name, "status": "failure"});
        agent.api.post("checkpoint/finalize", ended).await?.expect(202)
    });
    // Two of one millisecond are the same write, and each is told that it was queued.
    let answers = try_join_all(ending).await?;
    ensure!(answers.iter().all(is_queued_or_was), "{answers:?}");
    try_join_all(agents.iter_mut().map(|agent| async move { agent.work_until("idle").await })).await?;
    for (agent, name) in agents.iter().zip(&names) {
        let log = api.get(&format!("audit?subject={}&limit=200", agent.runner)).await?.expect(200)?;
        let (releases, resets) = (entered(&log, "releasing"), entered(&log, "resetting"));
        ensure!((releases, resets) == (1, 2), "{}: {log:#}", agent.runner);
        until("its checkpoint is over", async || {
            let ended = agent.api.get(&format!("checkpoint/status/{name}")).await?.expect(200)?;
            Ok((ended["state"] == "reset").then_some(()))
        })
        .await?;
    }
    Ok(())
}

async fn webhook(plane: &Api, machine: usize) -> Result<()> {
    let number = number(machine);
    let id: u64 = number.parse()?;
    let event = json!({
        "object_kind": "build", "build_id": id, "build_status": "failed", "project_id": 380,
        "runner": {"id": id, "description": format!("mac-{machine}")},
    });
    let request = plane.as_who(None).request(Method::POST, "webhooks/gitlab").json(&event);
    let request = request
        .header("x-gitlab-event", "Job Hook")
        .header("x-gitlab-token", SECRET)
        .header("idempotency-key", format!("delivery-{machine}"));
    plane.send(request).await?.expect(200)?;
    Ok(())
}

/// How often a runner came into this state from another one.
fn entered(log: &Value, state: &str) -> usize {
    let is_in =
        |entry: &Value, end: &str| entry[end].as_str().is_some_and(|at| at.split('@').next() == Some(state));
    let entries = log["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
    entries.iter().filter(|entry| is_in(entry, "to") && !is_in(entry, "from")).count()
}
