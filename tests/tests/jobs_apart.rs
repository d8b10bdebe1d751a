//! A job is neither the agent nor the control plane: on `local`, on a machine of one's own as its unit starts the agent, and in the layout of
//! EC2's user data, a job looks for every secret there is, and gets none. As root, who alone can have jobs of other users.

#[path = "jobs_apart/attack.rs"]
mod attack;
#[path = "jobs_apart/own_machine.rs"]
mod own_machine;

use anyhow::{Context, Result, ensure};
use attack::{Attack, JOB};
use motorpool_tests::harness::serve::{ADMIN_TOKEN, Serve, fresh_dir};
use motorpool_tests::harness::story::{comes_to, ready};
use own_machine::{OwnMachine, Powers};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

const AWS_KEY: &str = "canary-of-the-aws-secret-key";
const CI_TOKEN: &str = "canary-of-the-github-token";
const AGENT_VARIABLE: &str = "canary-in-the-agents-environment";

/// Whoever cannot be root here says so; the test is not left out silently.
fn can_be_tried() -> Result<bool> {
    if std::env::var_os("MOTORPOOL_LEAVE_OUT_USERS").is_some() {
        return Ok(false);
    }
    ensure!(
        rustix::process::geteuid().is_root(),
        "this test gives jobs users of their own: run it as root, or set MOTORPOOL_LEAVE_OUT_USERS=1 to leave it out"
    );
    Ok(true)
}

fn private(path: &Path, content: &str) -> Result<()> {
    fs::write(path, content)?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o600))?)
}

/// The runner's own token, as its agent has it on disk.
fn token_in(agent_dir: &Path) -> Result<String> {
    let state: serde_json::Value = serde_json::from_slice(&fs::read(agent_dir.join("state.json"))?)?;
    Ok(state["token"].as_str().context("a token")?.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn refuse_17_refuse_21_a_job_on_local_gets_nothing_of_serve_agent_or_neighbour() -> Result<()> {
    if !can_be_tried()? {
        return Ok(());
    }
    // As a hardened host starts services. This process is this test's alone.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let dir = fresh_dir()?;
    private(&dir.path().join("github-token"), CI_TOKEN)?;
    let pools = format!(
        "[github]\ntoken_file = \"github-token\"\n\
         [pools.p]\nbackend = \"local\"\nmax = 2\nheartbeat_seconds = 1\n\
         job_env = {{ GREETING = \"hello job\" }}\nrun_cmd = '''{JOB}'''\n"
    );
    let environment = vec![("AWS_SECRET_ACCESS_KEY".to_owned(), AWS_KEY.to_owned())];
    let serve = Serve::start_with(dir, &pools, Vec::new(), environment)?;
    let held = ready(serve.api(), "w", "p", 2).await?;
    let dirs: Vec<_> = held.runners.iter().map(|runner| serve.runner_dir(runner)).collect();
    // The neighbour works, too, and has something of its own.
    private(&dirs[1].join("work/secret"), "canary-of-the-neighbour")?;
    private(&serve.data_dir().join("admin-token"), ADMIN_TOKEN)?;
    let agents = held.runners.iter().map(|runner| serve.agent_pid(runner).context("no agent"));
    let agents: Vec<i32> = agents.map(|pid| Ok(pid?.as_raw_nonzero().get())).collect::<Result<_>>()?;
    let data = serve.data_dir();
    let attack = Attack {
        agent_dir: dirs[0].clone(),
        files: vec![
            data.join("admin-token"),
            data.join("server-secret"),
            data.join("ledger.db"),
            data.join("../github-token"),
            dirs[0].join("state.json"),
            dirs[1].join("state.json"),
            dirs[1].join("work/secret"),
            dirs[1].join("machine.json"),
        ],
        processes: [agents.clone(), vec![i32::try_from(serve.pid())?]].concat(),
        canaries: vec![
            ADMIN_TOKEN.to_owned(),
            fs::read_to_string(data.join("server-secret"))?,
            AWS_KEY.to_owned(),
            CI_TOKEN.to_owned(),
            token_in(&dirs[0])?,
            token_in(&dirs[1])?,
            "canary-of-the-neighbour".to_owned(),
        ],
    };
    let report = attack.made().await?;
    ensure!(report.contains("GREETING=hello job"), "{report}");
    let owners =
        dirs.iter().map(|dir| Ok(fs::metadata(dir.join("work"))?.uid())).collect::<Result<Vec<_>>>()?;
    ensure!(owners[0] != owners[1] && owners.iter().all(|uid| *uid > 0), "one user a runner: {owners:?}");
    ensure!(report.contains(&format!("uid={}", owners[0])), "{report}");
    for agent in agents {
        ensure!(Path::new(&format!("/proc/{agent}")).exists(), "an agent is gone");
    }
    let said = fs::read_to_string(dirs[0].join("agent.log"))?;
    ensure!(said.contains("in a sandbox") && !said.contains("allows no sandbox"), "{said}");

    // What it left behind is gone with the next cleanup, and so is what it had of its own.
    serve.api().release("w").await?;
    comes_to(serve.api(), &held.runners[0], "idle").await?;
    let left = |dir: &str| fs::read_dir(dirs[0].join(dir)).map_or(0, Iterator::count);
    ensure!((left("work"), left("home")) == (0, 0), "{} {}", left("work"), left("home"));
    ensure!(!dirs[0].join("tmp/made").exists());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn refuse_17_refuse_21_a_job_on_a_machine_of_ones_own_gets_nothing_of_its_agent() -> Result<()> {
    if !can_be_tried()? {
        return Ok(());
    }
    for powers in [Powers::OfTheUnit, Powers::WithoutNamespaces] {
        let serve = Serve::start(&format!(
            "[pools.p]\nbackend = \"bare_metal\"\nheartbeat_seconds = 1\njob_env = {{ GREETING = \"hello job\" }}\n\
             cleanup_cmd = \"id -u > cleaned-by; echo $GREETING >> cleaned-by; rm -rf \\\"$MOTORPOOL_WORK_DIR\\\"/*\"\n\
             run_cmd = '''{JOB}'''\n"
        ))?;
        let machine = OwnMachine::of_the_unit(&serve, powers, AGENT_VARIABLE).await?;
        let held = ready(serve.api(), "w", "p", 1).await?;
        ensure!(held.runners == ["m-1"]);
        let agent_dir = machine.agent_dir();
        let attack = Attack {
            agent_dir: machine.jobs_dir()?,
            files: vec![
                agent_dir.join("state.json"),
                agent_dir.join("agent.lock"),
                agent_dir.join("logs/run.log"),
            ],
            processes: vec![machine.pid()?],
            canaries: vec![AGENT_VARIABLE.to_owned(), token_in(&agent_dir)?],
        };
        let report = attack.made().await.with_context(|| machine.log())?;
        ensure!(report.contains("uid=") && !report.contains("uid=0("), "{report}");
        ensure!(report.contains("GREETING=hello job"), "{report}");
        // The operator's own command runs where no job could have put anything, with the agent's rights, and without what is the job's.
        ensure!(fs::read_to_string(agent_dir.join("cleaned-by"))?.trim() == "0", "{powers:?}");
        let said = machine.log();
        ensure!(said.contains("this host allows no sandbox") == powers.lacks_sandbox(), "{powers:?}: {said}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn refuse_16_refuse_21_a_job_in_the_layout_of_ec2_gets_nothing_and_leaves_the_program_as_it_was()
-> Result<()> {
    if !can_be_tried()? {
        return Ok(());
    }
    // The runner program of the image is the job: it attacks, and it tries to be there for the next one.
    let program = format!("#!/bin/sh\ncd \"$MOTORPOOL_WORK_DIR\"\n{JOB}");
    let spoil = "here=$MOTORPOOL_PROGRAM_DIR; id -u >\"$here/.runner\" && echo works-beside-itself\n\
                 echo bad >>\"$here/run.sh\" || echo cannot-write-through-its-copy\n\
                 rm -f \"$here/run.sh\"; echo 'echo bad >\"$MOTORPOOL_WORK_DIR/bad\"' >\"$here/run.sh\"; chmod +x \"$here/run.sh\"\n\
                 echo bad >>\"$PROGRAM_OF_ROOT/run.sh\" || echo cannot-change-the-program\n";
    let serve = Serve::start(
        "[pools.p]\nbackend = \"bare_metal\"\nheartbeat_seconds = 1\ncleanup_cmd = \"rm -rf \\\"$MOTORPOOL_WORK_DIR\\\"/*\"\n\
         run_cmd = '\"$MOTORPOOL_PROGRAM_DIR/run.sh\"'\n",
    )?;
    let machine = OwnMachine::of_user_data(&serve, &program, AGENT_VARIABLE).await?;
    for life in 1..=2 {
        ready(serve.api(), "w", "p", 1).await?;
        let agent_dir = machine.agent_dir();
        let attack = Attack {
            agent_dir: agent_dir.clone(),
            files: vec![agent_dir.join("state.json"), machine.at("/run/motorpool/launch-secret")],
            processes: vec![machine.pid()?],
            canaries: vec![AGENT_VARIABLE.to_owned(), token_in(&agent_dir)?],
        };
        let more = format!("PROGRAM_OF_ROOT='{}'\n{spoil}", machine.at("/opt/motorpool/runner").display());
        let report = attack.made_with(&more).await.with_context(|| machine.log())?;
        for says in ["works-beside-itself", "cannot-write-through-its-copy", "cannot-change-the-program"] {
            ensure!(report.contains(says), "life {life}: {report}");
        }
        serve.api().release("w").await?;
        comes_to(serve.api(), "m-1", "idle").await?;
    }
    Ok(())
}

/// Never silently as root.
#[test]
fn refuse_21_a_root_agent_without_a_user_for_jobs_does_not_start() -> Result<()> {
    if !can_be_tried()? {
        return Ok(());
    }
    let dir = fresh_dir()?;
    for (args, says) in [
        (&["--job-user", "motorpool-of-nobody"][..], "`useradd --system"),
        (&["--job-user", "root"], "root is root, and jobs must not be"),
        (&["--job-uid", "0"], "is root, and jobs must not be"),
    ] {
        let ended = std::process::Command::new(motorpool_tests::harness::serve::binary()?)
            .args(["agent", "run", "--server", "http://127.0.0.1:1", "--runner", "m-1", "--dir"])
            .arg(dir.path().join("agent"))
            .args(args)
            .output()?;
        let told = String::from_utf8_lossy(&ended.stderr).into_owned();
        ensure!(ended.status.code() == Some(1) && told.contains(says), "{args:?}: {told}");
    }
    Ok(())
}

/// Where jobs are not kept apart, an operator with teams says that he trusts them.
#[test]
fn refuse_21_with_teams_a_local_pool_without_root_must_be_trusted() -> Result<()> {
    if !can_be_tried()? {
        return Ok(());
    }
    let team = format!("[teams.web]\ntoken_sha256 = [\"{}\"]\n", "ab".repeat(32));
    let refused = "its jobs would run as the control plane's own user";
    for (teams, trusted, as_root, starts) in [
        (&team[..], "", false, false),
        (&team, "trusted = true", false, true),
        ("", "", false, true),
        (&team, "", true, false),
        (&team, "trusted = true", true, true),
    ] {
        let dir = fresh_dir()?;
        fs::write(
            dir.path().join("pools.toml"),
            format!("{teams}[pools.p]\nbackend = \"local\"\n{trusted}\n"),
        )?;
        std::os::unix::fs::chown(dir.path(), Some(65_534), None)?;
        let (mut command, more) = match as_root {
            true => (std::process::Command::new("env"), Some("--work-as-root")),
            false => (std::process::Command::new("setpriv"), None),
        };
        if !as_root {
            command.args(["--reuid", "65534", "--clear-groups"]);
        }
        command.arg(motorpool_tests::harness::serve::binary()?);
        command.args(["serve", "--listen", "127.0.0.1:0", "--pools"]).arg(dir.path().join("pools.toml"));
        command
            .arg("--data-dir")
            .arg(dir.path().join(if as_root { "data-of-root" } else { "data" }))
            .args(more);
        let mut child =
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn()?;
        let mut line = String::new();
        std::io::BufRead::read_line(
            &mut std::io::BufReader::new(child.stdout.take().context("stdout")?),
            &mut line,
        )?;
        let listens = line.starts_with("listening on ");
        child.kill()?;
        let told = String::from_utf8_lossy(&child.wait_with_output()?.stderr).into_owned();
        ensure!(listens == starts, "{teams:?} {trusted:?} {as_root}: {line}{told}");
        ensure!(
            starts
                || (told.contains("pool p: ") && told.contains(refused) && told.contains("`trusted = true`")),
            "{told}"
        );
    }
    Ok(())
}

/// With `run_cmd`, a local pool is a shell on the host of the control plane.
#[tokio::test(flavor = "multi_thread")]
async fn refuse_21_an_admin_token_is_no_shell_on_a_host_without_local_pools() -> Result<()> {
    let metal = "[pools.m]\nbackend = \"bare_metal\"\nclean = \"keep\"\n";
    let shell = serde_json::json!({"backend": "local", "max": 1, "run_cmd": "id"});
    let serve = Serve::start(metal)?;
    let answer = serve.api().put("pools/shell", shell.clone()).await?;
    answer.refusal(400)?;
    serve.api().get("pools/shell").await?.refusal(404)?;
    let asked_for = Serve::start(&format!("{metal}[pools.l]\nbackend = \"local\"\n"))?;
    asked_for.api().put("pools/shell", shell).await?.expect(200)?;
    Ok(())
}
