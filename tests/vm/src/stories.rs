//! The stories: a machine that lives, works and ends by itself; and one that can't be made a runner. One control plane sees both.

use crate::clock::Stopwatch;
use crate::downloads::Downloads;
use crate::job::{self, Report};
use crate::machine::Machine;
use crate::metadata::{Metadata, Told};
use crate::plane::Plane;
use crate::wait::until;
use crate::{Settings, inspect};
use anyhow::{Context, Result, ensure};
use motorpool_ci_tests::fake_github::{FakeGitHub, TOKEN};
use motorpool_ec2_tests::moto::{self, Place, asked, user_data};
use serde_json::Value;
use std::path::Path;

/// Where the agent keeps the output of the program that it runs.
const JOB_OUTPUT: &str = "/var/lib/motorpool/logs/run.log";

/// How long a claim lasts. On a busy host the job takes a minute to tell what it saw.
const RUNTIME_SECONDS: u32 = 150;
const GRACE_SECONDS: u32 = 15;

pub(crate) async fn tell(settings: &Settings, dir: &Path) -> Result<()> {
    let watch = Stopwatch::start();
    let mut plane = Plane::at(dir, &settings.moto)?;
    let agent = std::fs::read(&settings.agent).context("the agent's binary")?;
    let program = job::program(&format!("{}/health", plane.url()))?;
    let offered = [("motorpool-agent", agent), ("runner.tar.gz", program)];
    let downloads = Downloads::start(&settings.image, offered).await?;
    let github = FakeGitHub::start().await;
    let place = moto::place(&settings.moto).await?;
    plane.furnish(&pools(&downloads, &place, &github.server.url)?, TOKEN)?;
    plane.start().await?;

    let mut story = Story { settings, dir, plane, github, watch };
    story.lives_works_and_ends().await?;
    story.can_not_be_made_a_runner().await
}

struct Story<'a> {
    settings: &'a Settings,
    dir: &'a Path,
    plane: Plane,
    github: FakeGitHub,
    watch: Stopwatch,
}

impl Story<'_> {
    async fn lives_works_and_ends(&mut self) -> Result<()> {
        let (mut machine, instance) = self.booted("cloud", "gh-1").await?;
        let guest = machine.guest();

        let plane = &self.plane;
        until("the agent has joined", &mut machine, async || {
            Ok(plane.runner("cloud").await?.filter(|runner| runner["seen_ms_ago"].is_u64()))
        })
        .await?;
        self.tell("cloud-init installed the agent, and its unit started it: it has joined");
        until("the claim is ready", &mut machine, async || {
            let claim =
                plane.motorpool(&["provision", "--pool", "cloud", "--workflow", "gh-1", "--no-wait"]).await?;
            Ok((claim["state"] == "ready").then_some(()))
        })
        .await?;
        ensure!(self.github.state().made == 1, "GitHub made {} runners", self.github.state().made);
        self.tell("the claim is ready, with a runner that is registered with GitHub");

        let report = until("the job has told what it saw", &mut machine, async || {
            let output = guest.sh(&format!("cat {JOB_OUTPUT}")).await?;
            Ok(output.as_deref().and_then(Report::read))
        })
        .await?;
        report.judge(&inspect::agent_uid(&guest).await?)?;
        self.tell(&format!(
            "a job runs {}; of agent, launch and metadata it gets nothing",
            report.in_words()?
        ));
        inspect::machine(&guest).await?;
        self.tell("root finds the units as they should be, and the launch secret nowhere");

        self.plane.kill().await?;
        ensure!(machine.ended()?.is_none(), "the machine ended before its time");
        self.tell("the control plane is killed; the machine hears of nobody any more");
        self.powers_off(&mut machine, &["its host is ended", "reboot: Power down"]).await?;
        self.tell("its time was over, and it powered itself off");

        // As EC2 would: what powers off is terminated.
        asked(&self.settings.moto, &format!("TerminateInstances&InstanceId.1={instance}")).await?;
        self.plane.start().await?;
        let plane = &self.plane;
        motorpool_tests::harness::wait::until("the runner's slot is free", async || {
            Ok(plane.runner("cloud").await?.is_none().then_some(()))
        })
        .await?;
        self.tell("the control plane is back, and has closed the books on it");
        Ok(())
    }

    /// Its agent is not what its checksum says.
    async fn can_not_be_made_a_runner(&mut self) -> Result<()> {
        let (mut machine, _) = self.booted("broken", "gh-2").await?;
        let told = "this machine could not be made a runner, and powers off";
        self.powers_off(&mut machine, &[told, "has the SHA-256", "reboot: Power down"]).await?;
        ensure!(!machine.console().contains("Started motorpool-agent.service"), "its agent was started");
        self.tell("a machine whose agent has another checksum says so on its console, and powers off");
        Ok(())
    }

    /// A machine for a claim on this pool, which has been told what EC2 was asked to tell it.
    async fn booted(&self, pool: &str, workflow: &str) -> Result<(Machine, String)> {
        let ask = ["provision", "--pool", pool, "--workflow", workflow, "--no-wait"];
        self.plane.motorpool(&ask).await?;
        let plane = &self.plane;
        let runner = motorpool_tests::harness::wait::until("an instance is launched", async || {
            Ok(plane.runner(pool).await?.filter(|runner| runner["provider_id"].is_string()))
        })
        .await?;
        let instance = text(&runner, "provider_id")?;
        let user_data = user_data(&self.settings.moto, &instance).await?;
        let bytes = user_data.len();
        let metadata = Metadata::start(Told { instance: instance.clone(), user_data }).await?;
        let machine = Machine::boot(&self.settings.image, self.dir, metadata)?;
        self.tell(&format!(
            "serve had EC2 launch {instance}; a machine with its {bytes} bytes of user data is switched on"
        ));
        Ok((machine, instance))
    }

    /// By itself, having said this on its console.
    async fn powers_off(&self, machine: &mut Machine, says: &[&str]) -> Result<()> {
        let status = machine.end().await?;
        ensure!(status.success(), "QEMU ended with {status}");
        let console = machine.console();
        let unsaid: Vec<_> = says.iter().filter(|words| !console.contains(*words)).collect();
        ensure!(unsaid.is_empty(), "its console does not say {unsaid:?}");
        Ok(())
    }

    fn tell(&self, what: &str) {
        eprintln!("    {}  {what}", self.watch);
    }
}

fn pools(downloads: &Downloads, place: &Place, github: &str) -> Result<String> {
    let Place { image, subnets, security_groups } = place;
    let mut text =
        format!("refresh_seconds = 1\n[github]\ntoken_file = \"github-token\"\napi_url = \"{github}\"\n");
    let agents = [
        ("cloud", downloads.named("motorpool-agent")?),
        ("broken", downloads.claimed("motorpool-agent", &"0".repeat(64))),
    ];
    for (pool, agent) in agents {
        let program = downloads.named("runner.tar.gz")?;
        text += &format!(
            r#"
[pools.{pool}]
backend = "ec2"
clean = "replace"
max = 1
cpu = 2
memory_mb = 4096
usage = "on-demand"
heartbeat_seconds = 2
created_minutes = 20
wait_minutes = 20
max_runtime_seconds = {RUNTIME_SECONDS}
grace_seconds = {GRACE_SECONDS}
terminating_seconds = 1

[pools.{pool}.ec2]
image = "{image}"
subnets = {subnets:?}
security_groups = {security_groups:?}
agent = {agent}
runner_program = {program}

[pools.{pool}.ci]
system = "github"
scope = "our-org"
"#
        );
    }
    Ok(text)
}

fn text(value: &Value, name: &str) -> Result<String> {
    Ok(value[name].as_str().with_context(|| format!("no {name} in {value}"))?.to_owned())
}
