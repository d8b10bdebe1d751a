//! The local backend over real processes: a shell script stands in for the agent, and takes the lock as the agent does.
#![cfg(target_os = "linux")]

mod host;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result, bail, ensure};
use host::{
    Host, SECRET, SITE, ended, eventually, exists, launch, launch_outcome, marked, pid_in, provider_id,
    ready, runner, running, runs,
};
use motorpool_backend_local::{JobUsers, LocalBackend, LocalConfig};
use motorpool_control::ports::backend::{Backend, LaunchError, Machine};
use motorpool_domain::pool::Rules;
use motorpool_domain::runner::{Presence, Runner};
use motorpool_domain::{PoolName, samples};
use rustix::process::{Signal, getpgid, kill_process};

#[tokio::test]
async fn launching_twice_makes_one_process_and_repeats_the_answer() -> Result<()> {
    let (host, backend, runner) = ready("polite")?;
    let (first, second) = tokio::join!(launch(&backend, &runner), launch(&backend, &runner));
    let pid = host.agent(&runner).await?;
    let third = launch(&backend, &runner).await?;
    for launched in [first?, second?, third] {
        ensure!(Some(launched.provider_id) == runner.provider_id);
    }
    ensure!(host.agent(&runner).await? == pid, "another agent took over");
    ensure!(marked(&host.dir(&runner))? == [pid], "there is more than the one process");
    let log = fs::read_to_string(host.dir(&runner).join("agent.log"))?;
    ensure!(log.matches("arguments:").count() == 1, "the program was started more than once: {log}");
    ended(&backend, &runner).await
}

#[tokio::test]
async fn the_agent_is_told_all_and_nothing_of_ours() -> Result<()> {
    let (host, backend, runner, _) = running("polite").await?;
    let dir = host.dir(&runner);
    let log = fs::read_to_string(dir.join("agent.log"))?;
    let arguments = format!(
        "arguments: polite run --server https://127.0.0.1:1 --runner {} --dir {} --secret-file {}\n",
        runner.id,
        dir.display(),
        dir.join("bootstrap-secret").display(),
    );
    ensure!(log.contains(&arguments), "{log}\nlacks\n{arguments}");
    ensure!(log.contains(&format!("secret: {SECRET}\n")), "{log}");
    ensure!(log.contains(&format!("environment: MOTORPOOL_RUNNER_DIR={} \n", dir.display())), "{log}");
    ended(&backend, &runner).await
}

/// What the operator allowed is told to the agent as an argument: our environment is kept from it.
#[tokio::test]
async fn refuse_26_an_agent_is_told_that_plain_http_is_allowed_only_where_it_is() -> Result<()> {
    for insecure_http in [false, true] {
        let (host, _, runner) = ready("polite")?;
        let backend = LocalBackend::new(LocalConfig { insecure_http, ..host.config("polite") });
        launch(&backend, &runner).await?;
        host.agent(&runner).await?;
        let log = fs::read_to_string(host.dir(&runner).join("agent.log"))?;
        ensure!(log.contains("--insecure-http") == insecure_http, "{insecure_http}: {log}");
        ended(&backend, &runner).await?;
    }
    Ok(())
}

/// Where jobs can do what the control plane can, an operator with teams says that he trusts them.
#[test]
fn refuse_21_with_teams_a_pool_whose_jobs_are_not_kept_apart_must_be_trusted() -> Result<()> {
    let host = Host::new()?;
    for (users, has_teams, trusted, accepted) in [
        (JobUsers::Same, true, false, false),
        (JobUsers::Root, true, false, false),
        (JobUsers::Same, true, true, true),
        (JobUsers::Root, true, true, true),
        (JobUsers::Same, false, false, true),
        (JobUsers::OneEach(500..=504), true, false, true),
    ] {
        let config = LocalConfig { users: users.clone(), has_teams, ..host.config("polite") };
        let judged = LocalBackend::new(config).accepts(&Rules { trusted, ..samples::rules() });
        ensure!(judged.is_ok() == accepted, "{users:?} {has_teams} {trusted}");
        ensure!(judged.err().is_none_or(|unfit| unfit.hint.contains("`trusted = true`")));
    }
    Ok(())
}

/// The stand-in becomes nobody, and needs not.
#[tokio::test]
async fn refuse_21_an_agent_is_told_whose_its_jobs_are_and_what_they_must_not_see() -> Result<()> {
    let (host, _, runner) = ready("polite")?;
    let (users, hidden) = (JobUsers::OneEach(500..=500), vec!["/srv/serve".into(), "/srv/more".into()]);
    let backend = LocalBackend::new(LocalConfig { users, hidden, ..host.config("polite") });
    launch(&backend, &runner).await?;
    host.agent(&runner).await?;
    let log = fs::read_to_string(host.dir(&runner).join("agent.log"))?;
    let told = " --job-uid 500 --guard-uids 500-500 --hide /srv/serve --hide /srv/more\n";
    ensure!(log.contains(told), "{log} lacks {told}");
    ended(&backend, &runner).await
}

/// Once more, in a process that has a secret of ours in its environment.
#[test]
fn refuse_17_a_token_in_our_environment_does_not_reach_the_agent() -> Result<()> {
    let output = std::process::Command::new(std::env::current_exe()?)
        .args(["--exact", "the_agent_is_told_all_and_nothing_of_ours"])
        .env("MOTORPOOL_ADMIN_TOKEN", "canary")
        .output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success() && printed.contains("1 passed"), "{printed}");
    Ok(())
}

#[tokio::test]
async fn refuse_20_others_can_read_neither_directory_nor_files() -> Result<()> {
    let (host, backend, runner, _) = running("polite").await?;
    let dir = host.dir(&runner);
    for (path, expected) in [
        (host.root(), 0o700),
        (dir.clone(), 0o700),
        (dir.join("machine.json"), 0o600),
        (dir.join("bootstrap-secret"), 0o600),
        (dir.join("agent.log"), 0o600),
    ] {
        let mode = fs::metadata(&path)?.permissions().mode() & 0o7777;
        ensure!(mode == expected, "{} has mode {mode:o}", path.display());
    }
    ended(&backend, &runner).await
}

#[tokio::test]
async fn a_killed_agent_is_gone_and_no_zombie_and_may_be_launched_again() -> Result<()> {
    let (host, backend, runner) = ready("polite")?;
    ensure!(backend.describe(&runner).await? == Presence::Gone, "nothing was launched yet");
    launch(&backend, &runner).await?;
    ensure!(backend.describe(&runner).await? == Presence::There, "it starts");
    let pid = host.agent(&runner).await?;
    ensure!(backend.describe(&runner).await? == Presence::There, "it runs");
    kill_process(pid, Signal::KILL)?;
    eventually("the agent is gone", async || Ok(backend.describe(&runner).await? == Presence::Gone)).await?;
    eventually("it is collected", async || Ok(!exists(pid))).await?;
    ensure!(host.dir(&runner).exists(), "its directory stays until it is told to go");
    launch(&backend, &runner).await?;
    eventually("another agent runs", async || Ok(host.agent(&runner).await? != pid)).await?;
    ended(&backend, &runner).await
}

#[tokio::test]
async fn an_agent_that_ends_when_asked_is_gone() -> Result<()> {
    let (host, backend, runner, pid) = running("polite").await?;
    ended(&backend, &runner).await?;
    ensure!(!exists(pid));
    ensure!(!host.dir(&runner).exists(), "its directory goes with it");
    ended(&backend, &runner).await.context("once more")
}

#[tokio::test]
async fn an_agent_that_ignores_sigterm_is_ended() -> Result<()> {
    let (_host, backend, runner, pid) = running("stubborn").await?;
    ended(&backend, &runner).await?;
    ensure!(!exists(pid));
    Ok(())
}

#[tokio::test]
async fn a_stopped_agent_is_there_and_is_ended() -> Result<()> {
    let (_host, backend, runner, pid) = running("polite").await?;
    kill_process(pid, Signal::STOP)?;
    ensure!(backend.describe(&runner).await? == Presence::There, "it only stands still");
    ended(&backend, &runner).await?;
    ensure!(!exists(pid));
    Ok(())
}

#[tokio::test]
async fn an_agent_that_has_no_lock_yet_is_there_and_is_ended() -> Result<()> {
    let (host, backend, runner) = ready("slow")?;
    launch(&backend, &runner).await?;
    ensure!(backend.describe(&runner).await? == Presence::There);
    ended(&backend, &runner).await?;
    ensure!(marked(&host.dir(&runner))?.is_empty(), "it is still there");
    Ok(())
}

#[tokio::test]
async fn fault_21_one_started_by_a_process_that_was_killed_is_ended_though_it_has_no_lock() -> Result<()> {
    let host = Host::new()?;
    let runner = runner("small")?;
    launch(&host.backend("slow"), &runner).await?;
    // This one knows of no agent: it has only the directory to go by.
    let next = host.backend("slow");
    ended(&next, &runner).await?;
    ensure!(marked(&host.dir(&runner))?.is_empty(), "it is still there");
    Ok(())
}

#[test]
fn fault_21_an_agent_outlives_who_started_it_and_is_known_to_the_next() -> Result<()> {
    let host = Host::new()?;
    let runner = runner("small")?;
    let pid = tokio::runtime::Runtime::new()?.block_on(async {
        launch(&host.backend("polite"), &runner).await?;
        host.agent(&runner).await
    })?;
    // The runtime that started it is gone, and all its tasks.
    tokio::runtime::Runtime::new()?.block_on(async {
        let next = host.backend("polite");
        ensure!(getpgid(Some(pid))? == pid, "a signal to our process group would reach it");
        ensure!(next.describe(&runner).await? == Presence::There);
        launch(&next, &runner).await?;
        ensure!(host.agent(&runner).await? == pid && marked(&host.dir(&runner))? == [pid], "it was replaced");
        ended(&next, &runner).await
    })
}

#[tokio::test]
async fn nobody_is_left_behind() -> Result<()> {
    let (host, backend, runner, agent) = running("supervising").await?;
    let dir = host.dir(&runner);
    let (supervisor, work) = (pid_in(&dir.join("supervisor"))?, pid_in(&dir.join("work-process"))?);
    ensure!(exists(supervisor) && exists(work));
    ended(&backend, &runner).await?;
    for pid in [agent, supervisor, work] {
        // An orphan is collected by the host's first process, or whoever has taken its place.
        eventually("all are gone", async || Ok(!runs(pid))).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_stale_number_in_a_lock_kills_no_stranger() -> Result<()> {
    let (host, backend, runner) = ready("stubborn")?;
    let mut stranger = tokio::process::Command::new("sleep").arg("120").kill_on_drop(true).spawn()?;
    launch(&backend, &runner).await?;
    let agent = host.agent(&runner).await?;
    fs::write(host.dir(&runner).join("agent.lock"), stranger.id().context("it ended")?.to_string())?;
    ended(&backend, &runner).await?;
    ensure!(!exists(agent), "the agent itself is found all the same");
    ensure!(stranger.try_wait()?.is_none(), "a stranger was killed");
    Ok(stranger.kill().await?)
}

#[tokio::test]
async fn the_inventory_lists_a_pools_machines_running_or_not_and_discard_ends_them() -> Result<()> {
    let host = Host::new()?;
    let backend = host.backend("polite");
    let small = PoolName::parse("small")?;
    ensure!(backend.inventory(&small).await?.is_empty(), "there is not even a directory");
    let runners = [runner("small")?, runner("small")?, runner("large")?];
    for runner in &runners {
        launch(&backend, runner).await?;
    }
    let [first, second, third] = &runners;
    kill_process(host.agent(first).await?, Signal::KILL)?;
    for name in ["r-empty", "r-broken", "Not-an-id"] {
        fs::create_dir(host.root().join(name))?;
    }
    fs::write(host.root().join("r-broken/machine.json"), "{")?;
    fs::write(host.root().join("r-file"), "")?;
    let expected = [first, second]
        .map(|runner| Machine { runner: runner.id.clone(), provider_id: provider_id(SITE, &runner.id) });
    ensure!(backend.inventory(&small).await? == expected);
    // By another process that never heard of them.
    let next = host.backend("polite");
    for machine in &expected {
        next.discard(machine).await?;
        next.discard(machine).await.context("once more")?;
    }
    ensure!(backend.inventory(&small).await?.is_empty());
    ensure!(backend.describe(third).await? == Presence::There, "another pool's is untouched");
    ended(&backend, third).await
}

#[tokio::test]
async fn a_machine_of_another_site_is_unknown_and_left_alone() -> Result<()> {
    let (_host, backend, here, pid) = running("polite").await?;
    // Two hosts launched one intent, and the other's answer was noted.
    let there = Runner { provider_id: Some(provider_id("there", &here.id)), ..here.clone() };
    ensure!(backend.answers_for(&here) && !backend.answers_for(&there));
    ensure!(backend.describe(&there).await? == Presence::Unknown);
    ensure!(backend.ensure_gone(&there).await? == Presence::Unknown);
    ensure!(exists(pid), "the sweep ends it, by its inventory");
    let listed = backend.inventory(&here.pool).await?;
    ensure!(listed == [Machine { runner: here.id.clone(), provider_id: provider_id(SITE, &here.id) }]);
    for machine in &listed {
        backend.discard(machine).await?;
    }
    ensure!(!exists(pid));
    Ok(())
}

#[tokio::test]
async fn an_intent_that_nobody_launched_is_unknown_and_can_be_ended() -> Result<()> {
    let host = Host::new()?;
    let backend = host.backend("polite");
    let intent = Runner { provider_id: None, ..runner("small")? };
    ensure!(backend.describe(&intent).await? == Presence::Unknown, "another host may launch it just now");
    ensure!(backend.ensure_gone(&intent).await? == Presence::Gone);
    launch(&backend, &intent).await?;
    let pid = host.agent(&intent).await?;
    ensure!(backend.describe(&intent).await? == Presence::There, "its answer need not be noted");
    kill_process(pid, Signal::KILL)?;
    eventually("the agent is gone", async || Ok(backend.describe(&intent).await? == Presence::Gone)).await?;
    ensure!(backend.ensure_gone(&intent).await? == Presence::Gone);
    Ok(())
}

#[tokio::test]
async fn a_launch_is_refused_when_the_program_is_missing_or_no_program() -> Result<()> {
    let host = Host::new()?;
    let no_program = host.root.path().join("no-program");
    fs::write(&no_program, "")?;
    for program in [host.root.path().join("missing"), no_program] {
        let backend = LocalBackend::new(LocalConfig { program: program.clone(), ..host.config("polite") });
        let runner = runner("small")?;
        match launch_outcome(&backend, &runner).await? {
            Err(LaunchError::Refused(why)) => {
                ensure!(why.contains(&program.display().to_string()), "{why}");
            }
            other => bail!("expected a refusal, got {other:?}"),
        }
        ensure!(!host.dir(&runner).exists(), "nothing came of it, and nothing is left of it");
        ensure!(backend.describe(&runner).await? == Presence::Gone);
    }
    Ok(())
}

#[tokio::test]
async fn a_launch_that_may_succeed_later_is_unconfirmed() -> Result<()> {
    let (host, backend, runner) = ready("polite")?;
    fs::create_dir(host.root.path().join("data"))?;
    fs::write(host.root(), "a file where the directory should be")?;
    match launch_outcome(&backend, &runner).await? {
        Err(LaunchError::Unconfirmed(_)) => {}
        other => bail!("expected it to be unconfirmed, got {other:?}"),
    }
    fs::remove_file(host.root())?;
    launch(&backend, &runner).await?;
    ended(&backend, &runner).await
}

#[tokio::test]
async fn a_directory_that_its_owner_may_not_change_goes_too() -> Result<()> {
    let (host, backend, runner, _) = running("polite").await?;
    let cache = host.dir(&runner).join("work/cache");
    fs::create_dir_all(cache.join("module"))?;
    fs::write(cache.join("module/file"), "")?;
    for directory in [cache.join("module"), cache] {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o500))?;
    }
    ended(&backend, &runner).await?;
    ensure!(!host.dir(&runner).exists());
    Ok(())
}
