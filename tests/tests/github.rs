//! A pool that is bound to GitHub, from serve through a real agent to a stand-in for the runner program: register, job, register again,
//! job, deregister; what GitHub still lists afterwards is removed; and the configuration is nowhere to be found.

use anyhow::{Context, Result, ensure};
use motorpool_ci_tests::fake_github::{FakeGitHub, TOKEN, Trick, said, traces_of_canary};
use motorpool_tests::fakes::fake_agent::FakeAgent;
use motorpool_tests::harness::serve::{Serve, fresh_dir};
use motorpool_tests::harness::wait::until;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Stands in for GitHub's runner program: it reads its configuration as that does, waits for one job, does it and ends.
const PROGRAM: &str = r#"
files=$(printf %s "$ACTIONS_RUNNER_INPUT_JITCONFIG" | base64 -d)
name=$(printf %s "$files" | sed 's/.*"\.runner":"\([^"]*\)".*/\1/' | base64 -d | sed 's/.*"agentName":"\([^"]*\)".*/\1/')
echo "$name" >> STAGE/listening
until [ -e "STAGE/job-of-$name" ]; do sleep 0.05; done
echo "$name" >> STAGE/done
"#;

struct Site {
    serve: Serve,
    github: FakeGitHub,
    stage: PathBuf,
    /// What stands in for the runner program.
    program: String,
    _stage: tempfile::TempDir,
}

async fn site() -> Result<Site> {
    let github = FakeGitHub::start().await;
    github.state().limit = Some((4_321, 4_102_444_800));
    let (dir, stage) = (fresh_dir()?, fresh_dir()?);
    let token = dir.path().join("github-token");
    std::fs::write(&token, TOKEN)?;
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600))?;
    let program = PROGRAM.replace("STAGE", &stage.path().display().to_string());
    let pools = format!(
        r#"
refresh_seconds = 1

[github]
token_file = "github-token"
api_url = "{}"

[pools.small]
backend = "local"
max = 2
heartbeat_seconds = 1
run_cmd = '''{program}'''

[pools.small.ci]
system = "github"
scope = "our-org"
labels = ["linux"]

[pools.metal]
backend = "bare_metal"
clean = "keep"
ci = {{ system = "github", scope = "our-org", minimum_version = "2.329.0" }}
"#,
        github.server.url
    );
    // The stand-in writes where the test sees it, and so it is root's where serve is.
    let serve = Serve::start_in(dir, &pools, vec!["--work-as-root".into()])?;
    Ok(Site { serve, github, program, stage: stage.path().to_owned(), _stage: stage })
}

impl Site {
    fn lines(&self, file: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.stage.join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The name that the program listens under for the `count`-th time.
    async fn listening(&self, count: usize) -> Result<String> {
        until(&format!("program {count} listens"), async || {
            Ok(self.lines("listening").get(count - 1).cloned())
        })
        .await
    }

    async fn gets_a_job(&self, name: &str) -> Result<()> {
        self.github.job_done(name);
        std::fs::write(self.stage.join(format!("job-of-{name}")), "")?;
        until("the job is done", async || {
            Ok(self.lines("done").iter().any(|done| done == name).then_some(()))
        })
        .await
    }

    async fn claim(&self, workflow: &str) -> Result<String> {
        self.claim_in("small", workflow).await
    }

    async fn claim_in(&self, pool: &str, workflow: &str) -> Result<String> {
        let claim = self.serve.api().provision(workflow, pool, 1).await?;
        let id = claim["claim"].as_str().context("no claim")?.to_owned();
        until("the claim is ready", async || {
            Ok((self.serve.api().claim(&id).await?["state"] == "ready").then_some(()))
        })
        .await?;
        Ok(id)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn register_job_register_again_job_and_deregister() -> Result<()> {
    let site = site().await?;
    let claim = site.claim("gh-42").await?;
    let first = site.listening(1).await?;
    let labels = site.github.labels_of(&first);
    ensure!(
        labels.contains(&format!("motorpool-{claim}")) && labels.contains(&"linux".to_owned()),
        "{labels:?}"
    );
    ensure!(labels.iter().any(|label| label.contains("gh-42")), "the workflow is no label: {labels:?}");
    site.gets_a_job(&first).await?;
    let second = site.listening(2).await?;
    ensure!(second != first, "a configuration is good for one job");
    ensure!(site.serve.api().claim(&claim).await?["state"] == "ready", "the claim lives on");
    site.gets_a_job(&second).await?;
    let third = site.listening(3).await?;
    ensure!(site.github.state().made == 3);
    site.serve.api().release("gh-42").await?;
    until("GitHub is told to forget the last one", async || {
        Ok((site.github.state().removed == [third.clone()]).then_some(()))
    })
    .await?;
    until("the runner is idle again", async || {
        let runners = site.serve.api().runners("small").await?;
        Ok(runners.iter().any(|runner| runner["state"] == "idle").then_some(()))
    })
    .await?;
    ensure!(site.github.names().is_empty(), "GitHub still lists {:?}", site.github.names());
    let pool = site.serve.api().pool("small").await?;
    ensure!(pool["ci"]["rate_remaining"] == 4321, "the rate limit is not shown: {pool}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registration_is_taken_back_where_it_was_made_though_its_pool_moved_on() -> Result<()> {
    let site = site().await?;
    let pool = |scope: &str| {
        let run_cmd = &site.program;
        let ci = json!({"system": "github", "scope": scope});
        json!({"backend": "local", "max": 1, "heartbeat_seconds": 1, "run_cmd": run_cmd, "ci": ci})
    };
    ensure!(site.serve.api().put("pools/own", pool("our-org")).await?.status == 200);
    site.claim_in("own", "gh-1").await?;
    let first = site.listening(1).await?;
    ensure!(site.github.names_in("our-org") == [first.as_str()]);
    ensure!(site.serve.api().put("pools/own", pool("new-org")).await?.status == 200);
    // The next registration is made at the new place, and takes the last one back at the old.
    std::fs::write(site.stage.join(format!("job-of-{first}")), "")?;
    let second = site.listening(2).await?;
    until("GitHub is told to forget the first", async || {
        Ok((site.github.state().removed == [first.clone()]).then_some(()))
    })
    .await?;
    ensure!(site.github.names_in("new-org") == [second.as_str()]);
    // A pool without a CI system takes back what it had made, too.
    let mut without = pool("new-org");
    without["ci"] = serde_json::Value::Null;
    ensure!(site.serve.api().put("pools/own", without).await?.status == 200);
    site.serve.api().release("gh-1").await?;
    until("GitHub is told to forget the second", async || {
        Ok((site.github.state().removed == [first.clone(), second.clone()]).then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_removes_ghosts_of_its_own_and_nobody_elses() -> Result<()> {
    let site = site().await?;
    site.claim("gh-1").await?;
    let own = site.listening(1).await?;
    // `mp-INSTALLATION-RUNNER.EPOCH.COUNT`
    let installation = own.split('-').nth(1).context("no installation in the name")?;
    let runner =
        own.splitn(3, '-').nth(2).and_then(|rest| rest.split('.').next()).context("no runner in the name")?;
    let ghosts = [format!("mp-{installation}-r-gone-0.1.1"), format!("mp-{installation}-{runner}.0.1")];
    let others = ["mp-ffffff-r-gone-0.1.1", "laptop", &own];
    for name in ghosts.iter().map(String::as_str).chain(["mp-ffffff-r-gone-0.1.1", "laptop"]) {
        site.github.has("our-org", name, false);
    }
    site.serve.api().post("refresh?sweep=now", json!({})).await?.expect(200)?;
    let mut removed = site.github.state().removed.clone();
    removed.sort();
    let mut expected = ghosts.to_vec();
    expected.sort();
    ensure!(removed == expected, "{removed:?}");
    for name in others {
        ensure!(site.github.names().iter().any(|listed| listed == name), "{name} was removed");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refuse_17_a_configuration_is_in_no_log_no_command_line_and_no_file() -> Result<()> {
    let site = site().await?;
    site.claim("gh-1").await?;
    let name = site.listening(1).await?;
    let traces = traces_of_canary();
    for process in std::fs::read_dir("/proc")?.flatten() {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        ensure!(!holds(&line, &traces), "a command line holds it: {line}");
    }
    site.gets_a_job(&name).await?;
    site.listening(2).await?;
    site.serve.api().release("gh-1").await?;
    until("the runner is idle again", async || {
        let runners = site.serve.api().runners("small").await?;
        Ok(runners.iter().any(|runner| runner["state"] == "idle").then_some(()))
    })
    .await?;
    ensure!(!holds(&site.serve.log(), &traces), "serve's log holds it");
    for file in files_in(&site.serve.data_dir())? {
        let content = String::from_utf8_lossy(&std::fs::read(&file).unwrap_or_default()).into_owned();
        ensure!(!holds(&content, &traces), "{} holds it", file.display());
        ensure!(!content.contains(TOKEN), "{} holds the token for GitHub", file.display());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_limit_is_told_to_the_agent_who_asks_once_more_when_it_is_over() -> Result<()> {
    let site = site().await?;
    let refused = said(429, "You have exceeded a secondary rate limit.").with("retry-after", 4);
    site.github.trick("/generate-jitconfig", Trick::Answer(refused));
    site.claim("gh-1").await?;
    site.listening(1).await?;
    ensure!(site.github.state().made == 1);
    let metrics = site.serve.api().get("/metrics").await?.expect(200)?;
    let metrics = metrics.as_str().context("no metrics")?;
    let asked: Vec<&str> = metrics.lines().filter(|line| line.contains("/agent/registration")).collect();
    let line = |status: &str| {
        let route = "route=\"/api/v1/agent/registration\",method=\"POST\"";
        format!("motorpool_http_requests_total{{{route},status=\"{status}\"}} 1")
    };
    ensure!(
        asked.len() == 2 && [line("2xx"), line("4xx")].iter().all(|it| asked.contains(&it.as_str())),
        "{asked:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_is_too_old_is_shown_and_raises_one_alert() -> Result<()> {
    let site = site().await?;
    let agent = FakeAgent::idle(site.serve.api(), "metal", "mac-01", json!({})).await?;
    let mut report = agent.report();
    for (version, outdated) in [("2.328.1", true), ("2.328.1", true), ("2.329.0", false)] {
        report["program_version"] = json!(version);
        agent.say(report.clone()).await?.expect(200)?;
        let shown = site.serve.api().runner("mac-01").await?;
        ensure!(shown["program_version"] == version && shown["program_outdated"] == outdated, "{shown}");
    }
    let alerts = site.serve.log().matches("older than the pool's minimum").count();
    ensure!(alerts == 1, "{alerts} alerts for one version");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refuse_22_a_registration_is_handed_out_once_and_again_only_to_who_did_not_hear() -> Result<()> {
    let site = site().await?;
    let agent = FakeAgent::idle(site.serve.api(), "metal", "mac-01", json!({})).await?;
    let claim = site.serve.api().provision("gh-1", "metal", 1).await?;
    let ask = async |count: u32, session: &str| {
        let request = json!({
            "runner": "mac-01", "epoch": agent.epoch, "label": claim["label"], "count": count, "session": session,
        });
        agent.api.post("agent/registration", request).await
    };
    ask(1, "its own").await?.expect(200)?;
    ask(1, "its own").await?.expect(200).context("its answer was lost")?;
    ask(1, "a thief's").await?.refusal(409)?;
    ensure!(site.github.state().made == 2, "something was made for a thief");
    ensure!(site.serve.log().contains("a registration was asked for a second time"), "nobody was told");
    ask(2, "its own, begun anew").await?.expect(200)?;
    ask(1, "its own").await?.refusal(409)?;
    ensure!(site.github.state().made == 3);
    Ok(())
}

fn holds(text: &str, traces: &[String]) -> bool {
    traces.iter().any(|trace| text.contains(trace.as_str()))
}

fn files_in(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir)?.flatten() {
        let path = entry.path();
        match entry.file_type()? {
            kind if kind.is_dir() => all.extend(files_in(&path)?),
            kind if kind.is_file() => all.push(path),
            _ => {}
        }
    }
    Ok(all)
}
