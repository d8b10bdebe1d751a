//! inv_20: an agent that is cut off from the control plane ends its work at its threshold and, unless its machine is kept, itself
//! a grace later: whether the control plane is dead or frozen, the agent itself is frozen, or the packets are gone.

use anyhow::{Context, Result, ensure};
use motorpool_tests::fakes::fake_agent::{register, secret_of};
use motorpool_tests::harness::api::Api;
use motorpool_tests::harness::network::Network;
use motorpool_tests::harness::serve::{Serve, binary, processes_in};
use motorpool_tests::harness::story::{comes_to, must_be_gone, ready, refreshed_to, text, used};
use motorpool_tests::harness::wait::{Deadline, at_deadline, boot_ms, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A pool `p` whose jobs leave a daemon behind: twice forked, in a session of its own.
fn pools(backend: &str, more: &str) -> String {
    format!(
        "refresh_seconds = 3600\nsweep_seconds = 86400\n\
         [pools.p]\nbackend = \"{backend}\"\nheartbeat_seconds = 1\n\
         run_cmd = \"(setsid sleep 7001 &); exec sleep 7002\"\n{more}"
    )
}

const SHORT: &str = "max = 1\nmax_runtime_seconds = 8\ngrace_seconds = 4";
const GRACE: Duration = Duration::from_secs(4);

/// Agent, supervisor, the job and its daemon; where the job is another user's, also the first process of its namespaces.
fn at_work() -> usize {
    if rustix::process::geteuid().is_root() { 5 } else { 4 }
}

async fn job_runs(dir: &Path) -> Result<()> {
    until("the job and its daemon run", async || Ok((processes_in(dir).len() >= at_work()).then_some(())))
        .await
}

/// Nothing but the agent itself: its work is gone.
async fn only_agent_left(dir: &Path, agent: i32) -> Result<()> {
    until("only the agent is left", async || agent_alone(dir, agent)).await
}

fn agent_alone(dir: &Path, agent: i32) -> Result<Option<()>> {
    let left = processes_in(dir);
    ensure!(left.contains(&agent), "the agent went before or with its work");
    Ok((left.len() == 1).then_some(()))
}

fn nobody(dir: &Path) -> Result<Option<()>> {
    Ok(processes_in(dir).is_empty().then_some(()))
}

/// The runner's threshold, as its agent counts it: from when it sent the request, whose answer is held for a heartbeat, a second here.
async fn threshold(api: &Api, runner: &str) -> Result<Deadline> {
    const HELD_MS: u64 = 3_000;
    let asked_ms = boot_ms();
    let in_ms = api.runner(runner).await?["threshold_in_ms"].as_u64().context("it has no threshold")?;
    Ok(Deadline::told(in_ms, asked_ms, boot_ms(), HELD_MS))
}

/// The agent has been told when its time is over: it was heard again since its runner runs.
async fn knows_its_threshold(api: &Api, runner: &str) -> Result<()> {
    until("the agent knows its threshold", async || {
        let seen = api.runner(runner).await?;
        ensure!(seen["state"] == "running", "{seen}");
        Ok((seen["seen_ms_ago"].as_u64() < seen["in_state_ms"].as_u64()).then_some(()))
    })
    .await
}

/// A local runner at work.
struct AtWork {
    runner: String,
    dir: PathBuf,
    agent: i32,
    threshold: Deadline,
}

impl AtWork {
    async fn on(serve: &Serve) -> Result<Self> {
        let runner = ready(serve.api(), "w", "p", 1).await?.runners.pop().context("no runner")?;
        let dir = serve.runner_dir(&runner);
        job_runs(&dir).await?;
        knows_its_threshold(serve.api(), &runner).await?;
        let agent = serve.agent_pid(&runner).context("no agent")?.as_raw_nonzero().get();
        let threshold = threshold(serve.api(), &runner).await?;
        Ok(Self { runner, dir, agent, threshold })
    }

    /// Its work ends at its threshold, and its agent is there to see it.
    async fn work_ends(&self) -> Result<()> {
        let Self { dir, agent, threshold, .. } = self;
        at_deadline("only the agent is left", *threshold, async || agent_alone(dir, *agent)).await
    }

    /// Its agent ends at its fence, because nobody spoke to it.
    async fn agent_ends(&self) -> Result<()> {
        let Self { dir, threshold, .. } = self;
        at_deadline("no process is left", threshold.after(GRACE), async || nobody(dir)).await?;
        let log = std::fs::read_to_string(dir.join("agent.log")).context("the agent's log")?;
        let why = "it heard nothing from the control plane until its fence";
        ensure!(log.contains(why), "it ended for another reason: {log}");
        Ok(())
    }
}

/// After the cut: the control plane is there again, and finds out.
async fn is_settled(serve: &Serve, runner: &str) -> Result<()> {
    let api = serve.api();
    refreshed_to(api, runner, "terminated").await?;
    // A machine that was found gone leaves its directory to the inventory.
    api.post("refresh?sweep=now", json!({})).await?.expect(200)?;
    must_be_gone(serve, runner)?;
    ensure!(used(api, "p").await? == 0, "the slot was not given back");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_agents_work_ends_at_its_threshold_and_the_agent_when_it_wakes() -> Result<()> {
    let serve = Serve::start(&pools("local", SHORT))?;
    let at_work = AtWork::on(&serve).await?;
    // The control plane sleeps as well: it can't be the one that ends anything.
    serve.signal(Signal::STOP)?;
    serve.signal_agent(&at_work.runner, Signal::STOP)?;
    at_work.work_ends().await?;
    serve.signal_agent(&at_work.runner, Signal::CONT)?;
    at_work.agent_ends().await?;
    serve.signal(Signal::CONT)?;
    is_settled(&serve, &at_work.runner).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_gets_no_answer_ends_its_work_at_its_threshold_and_itself_a_grace_later() -> Result<()>
{
    let serve = Serve::start(&pools("local", SHORT))?;
    let at_work = AtWork::on(&serve).await?;
    // The kernel goes on to accept connections for it: nobody answers, and nobody refuses.
    serve.signal(Signal::STOP)?;
    at_work.work_ends().await?;
    at_work.agent_ends().await?;
    serve.signal(Signal::CONT)?;
    is_settled(&serve, &at_work.runner).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_refused_a_connection_ends_its_work_and_itself() -> Result<()> {
    let mut serve = Serve::start(&pools("local", SHORT))?;
    let at_work = AtWork::on(&serve).await?;
    serve.kill()?;
    at_work.work_ends().await?;
    at_work.agent_ends().await?;
    serve.start_again()?;
    is_settled(&serve, &at_work.runner).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_killed_takes_its_work_with_it() -> Result<()> {
    let serve = Serve::start(&pools("local", "max = 1"))?;
    let AtWork { runner, dir, .. } = AtWork::on(&serve).await?;
    serve.signal(Signal::STOP)?;
    serve.signal_agent(&runner, Signal::KILL)?;
    // Its threshold is half an hour away.
    until("no process is left", async || nobody(&dir)).await?;
    serve.signal(Signal::CONT)?;
    Ok(())
}

/// `motorpool agent run` on a machine of the operator's own.
struct OwnMachine {
    dir: TempDir,
    child: Child,
}

impl OwnMachine {
    /// Registered as `m-1`, with its agent started in another network if one is named.
    async fn start(api: &Api, server: &str, network: Option<&Network>) -> Result<Self> {
        let secret = secret_of(&register(api, "p", "m-1", json!({})).await?)?;
        let dir = TempDir::with_prefix("motorpool-own-")?;
        let secret_file = dir.path().join("secret");
        std::fs::write(&secret_file, secret)?;
        std::fs::set_permissions(&secret_file, std::fs::Permissions::from_mode(0o600))?;
        let mut command = match network {
            Some(network) => network.command(&binary()?),
            None => Command::new(binary()?),
        };
        command.args(["agent", "run", "--insecure-http", "--server", server, "--runner", "m-1", "--dir"]);
        command.arg(dir.path().join("agent")).arg("--secret-file").arg(&secret_file);
        if rustix::process::geteuid().is_root() {
            command.args(["--job-uid", "49999"]);
        }
        let log = std::fs::File::create(dir.path().join("agent.log"))?;
        let child =
            command.env("NO_PROXY", "*").stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()?;
        let machine = Self { dir, child };
        comes_to(api, "m-1", "idle").await?;
        ensure!(!secret_file.exists(), "the redeemed secret is left on the disk");
        Ok(machine)
    }

    fn dir(&self) -> PathBuf {
        self.dir.path().join("agent")
    }

    fn pid(&self) -> Result<i32> {
        Ok(i32::try_from(self.child.id())?)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.pid()?).context("no agent")?;
        kill_process(pid, signal).context("a signal to the agent")
    }

    /// Waits for the agent's own end.
    async fn exit_code(&mut self) -> Result<Option<i32>> {
        let Self { dir, child } = self;
        let child = std::sync::Mutex::new(child);
        let ended = until("the agent ends", async || {
            let mut child = child.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            Ok(child.try_wait()?)
        });
        let code = ended.await?.code();
        let left = processes_in(&dir.path().join("agent"));
        ensure!(left.is_empty(), "processes {left:?} outlived their agent");
        Ok(code)
    }
}

impl Drop for OwnMachine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_of_ones_own_works_is_cleaned_works_again_and_stops_cleanly() -> Result<()> {
    let more = "cleanup_cmd = 'rm -rf \"$MOTORPOOL_WORK_DIR\"/*; echo clean >> \"$MOTORPOOL_RUNNER_DIR/cleaned\"'\n\
                register_cmd = 'echo job > \"$MOTORPOOL_WORK_DIR/left-by-a-job\"'";
    let serve = Serve::start(&pools("bare_metal", more))?;
    let api = serve.api();
    let mut machine = OwnMachine::start(api, api.base(), None).await?;
    let (dir, litter) = (machine.dir(), machine.dir().join("work/left-by-a-job"));
    for life in 1..=2 {
        ready(api, "w", "p", 1).await?;
        job_runs(&dir).await?;
        ensure!(litter.exists(), "its registration was not done");
        api.release("w").await?;
        comes_to(api, "m-1", "idle").await?;
        only_agent_left(&dir, machine.pid()?).await?;
        let cleaned = std::fs::read_to_string(dir.join("cleaned"))?;
        // Once when it joined, and once after each use.
        ensure!(!litter.exists() && cleaned.lines().count() == life + 1, "it was not cleaned once a life");
        let seen = api.runner("m-1").await?;
        ensure!(seen["proof"] == "its cleanup succeeded" && seen["epoch"] == life + 2, "{seen}");
    }
    ready(api, "w", "p", 1).await?;
    job_runs(&dir).await?;
    machine.signal(Signal::TERM)?;
    ensure!(machine.exit_code().await? == Some(0), "it did not stop cleanly");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_08_an_agent_that_wakes_after_its_removal_is_told_and_ends_with_its_work() -> Result<()> {
    let serve = Serve::start(&pools("bare_metal", "cleanup_cmd = \"true\""))?;
    let api = serve.api();
    let mut machine = OwnMachine::start(api, api.base(), None).await?;
    let held = ready(api, "w", "p", 1).await?;
    job_runs(&machine.dir()).await?;
    machine.signal(Signal::STOP)?;
    api.delete("runners/m-1?force=true").await?.expect(202)?;
    comes_to(api, "m-1", "terminated").await?;
    ensure!(processes_in(&machine.dir()).len() >= at_work(), "somebody ended the job while its agent slept");
    machine.signal(Signal::CONT)?;
    ensure!(machine.exit_code().await? == Some(0), "it did not end as it was told");
    let seen = api.claim(&held.claim).await?;
    ensure!(seen["short"] == 1, "{seen}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_packets_are_gone_a_kept_machine_ends_its_work_and_is_cleaned_once_they_are_back()
-> Result<()> {
    let Some(network) = Network::make("that a kept machine ends its work when the packets are gone")? else {
        return Ok(());
    };
    let serve = Serve::start(&pools(
        "bare_metal",
        "cleanup_cmd = \"true\"\nmax_runtime_seconds = 8\ngrace_seconds = 1",
    ))?;
    let api = serve.api();
    let (server, _relay) = network.relay_to(api.base()).await?;
    let machine = OwnMachine::start(api, &server, Some(&network)).await?;
    let held = ready(api, "w", "p", 1).await?;
    job_runs(&machine.dir()).await?;
    knows_its_threshold(api, "m-1").await?;

    let threshold = threshold(api, "m-1").await?;

    network.cut()?;
    let (dir, agent) = (machine.dir(), machine.pid()?);
    at_deadline("only the agent is left", threshold, async || agent_alone(&dir, agent)).await?;
    refreshed_to(api, "m-1", "resetting").await?;
    let seen = api.claim(&held.claim).await?;
    ensure!(seen["state"] == "released" && seen["why"] == "its time was over", "{seen}");
    network.join()?;
    comes_to(api, "m-1", "idle").await?;
    only_agent_left(&machine.dir(), machine.pid()?).await?;
    ensure!(text(&api.runner("m-1").await?, "proof")? == "its cleanup succeeded");
    Ok(())
}
