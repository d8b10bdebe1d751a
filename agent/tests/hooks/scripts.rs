//! The hooks of `infra/hooks`, run as the CI systems run them, against a real agent.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::{AGENT, said};
use crate::STAYS;
use crate::control_plane::{Bench, CHECKPOINT, HookFailure, Plan};

/// What a job calls programs of its own, in case that a hook looks for its programs where the job says.
const CALLED: [&str; 6] = ["motorpool-agent", "cat", "nohup", "sh", "sleep", "kill"];

impl Bench {
    /// The hook as it is installed on this machine: with the agent's own program and socket in the place of the usual ones.
    fn script(&self, name: &str) -> PathBuf {
        let mut text =
            fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/hooks").join(name))
                .unwrap();
        let socket = self.path("agent/socket/agent.sock").display().to_string();
        for (variable, usual, here) in [
            ("AGENT", "/usr/local/bin/motorpool-agent", AGENT),
            ("SOCKET", "/run/motorpool/agent.sock", socket.as_str()),
        ] {
            let usual = format!("\n{variable}={usual}\n");
            assert_eq!(text.matches(&usual).count(), 1, "{name} says once where the agent is");
            text = text.replace(&usual, &format!("\n{variable}='{here}'\n"));
        }
        let installed = self.path(name);
        fs::write(&installed, text).unwrap();
        installed
    }

    /// A shell with the variables of a job that would rather have the hook speak to something else.
    fn shell(&self) -> Command {
        let (own, false_path) = (self.path("a-jobs-own"), self.path("a-jobs-own/agent.sock"));
        fs::create_dir_all(&own).unwrap();
        for program in CALLED {
            let path = own.join(program);
            fs::write(
                &path,
                format!("#!/bin/sh\n: > '{}'\necho job-1-2-0123abcd\n", self.path("bad").display()),
            )
            .unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mut command = Command::new("/bin/sh");
        command
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", own.display()))
            .env("MOTORPOOL_SOCKET", &false_path)
            .env("SOCKET", &false_path)
            .env("AGENT", own.join("motorpool-agent"))
            .env("RUNNER_TEMP", self.path(""));
        command
    }

    /// Nothing of the job's own was run.
    fn is_not_fooled(&self) {
        assert!(!self.path("bad").exists());
    }

    fn asked(&self) -> Vec<Value> {
        self.seen().hook_calls.iter().map(|call| call.body.clone()).collect()
    }
}

#[tokio::test]
async fn refuse_13_gitlabs_hook_hands_on_gitlabs_values_as_they_are_and_is_led_astray_by_none() {
    let bench = Bench::up(Plan::run(STAYS)).await;
    let hostile = "a; touch bad $(touch bad) `touch bad` \" ' *";
    let run = |id: &'static str| {
        let mut command = bench.shell();
        command.arg("-e").arg(bench.script("gitlab-pre-build.sh")).current_dir(bench.path("agent/work"));
        command.envs([("CI_JOB_ID", id), ("CI_PROJECT_ID", "7"), ("CI_RUNNER_DESCRIPTION", hostile)]);
        tokio::task::spawn_blocking(move || command.output().unwrap())
    };
    let told = format!("motorpool: checkpoint {CHECKPOINT}\n");
    assert_eq!(said(&run("42").await.unwrap()), (Some(0), told, String::new()));
    assert_eq!(bench.asked(), [json!({"job_id": "42", "project": "7", "caller": hostile})]);
    assert!(!bench.path("agent/work/bad").exists());
    bench.is_not_fooled();

    let (code, stdout, stderr) = said(&run("$(id)").await.unwrap());
    assert_eq!((code, stdout.as_str()), (Some(2), ""), "{stderr}");
    bench.seen().hook_failures = vec![HookFailure::Status(StatusCode::CONFLICT)];
    let (code, stdout, stderr) = said(&run("42").await.unwrap());
    assert_eq!((code, stdout.as_str()), (Some(1), ""), "the job does not begin");
    assert!(stderr.contains("error: not this one") && stderr.contains("(exit code 1)"), "{stderr}");
}

#[tokio::test]
async fn githubs_hooks_open_a_checkpoint_and_end_it_after_the_job_and_not_before() {
    let bench = Bench::up(Plan::run(STAYS)).await;
    let mut started = bench.shell();
    started.arg("-e").arg(bench.script("github-job-started.sh")).envs([
        ("GITHUB_RUN_ID", "42"),
        ("GITHUB_RUN_ATTEMPT", "3"),
        ("GITHUB_REPOSITORY", "octo/app"),
        ("RUNNER_NAME", "mac 01"),
    ]);
    let output = tokio::task::spawn_blocking(move || started.output().unwrap()).await.unwrap();
    assert_eq!(said(&output), (Some(0), format!("motorpool: checkpoint {CHECKPOINT}\n"), String::new()));
    let mut asked = bench.asked().pop().unwrap();
    let key = asked.as_object_mut().and_then(|asked| asked.remove("key"));
    assert!(
        key.is_some_and(|key| key.as_str().is_some_and(|key| key.len() == 32)),
        "another job has another"
    );
    assert_eq!(asked, json!({"job_id": "42", "project": "octo/app", "attempt": 3, "caller": "mac 01"}));

    // As the runner's worker does: it starts the hook, goes on for a while, and ends.
    let worker = r#"/bin/sh -e "$HOOK" && touch "$RUNNER_TEMP/hook-ended"; read -r _until_told"#;
    let mut worker = bench
        .shell()
        .args(["-c", worker])
        .env("HOOK", bench.script("github-job-completed.sh"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    bench.until_file("hook-ended").await;
    assert_eq!(bench.asked().len(), 1, "the job is not complete yet");
    drop(worker.stdin.take());
    worker.wait().unwrap();
    bench.eventually("it is told", |bench| bench.asked().len() == 2).await;
    let finalized = json!({"checkpoint_name": CHECKPOINT, "status": "failure", "source": "hook"});
    assert_eq!(bench.asked().last(), Some(&finalized));
    bench.is_not_fooled();

    fs::remove_file(bench.path("motorpool-checkpoint")).unwrap();
    let mut completed = bench.shell();
    completed.arg("-e").arg(bench.script("github-job-completed.sh"));
    assert_eq!(completed.output().unwrap().status.code(), Some(0), "a job without one does not fail for it");
}

/// Its two scripts as Jenkins hands them to a shell, with the variables that the step around them sets.
#[tokio::test]
async fn refuse_13_jenkins_hook_hands_on_jenkins_values_as_they_are_and_tells_refusals_apart() {
    let bench = Bench::up(Plan::run(STAYS)).await;
    let hook =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/hooks/jenkins.groovy"));
    let hook = hook.unwrap();
    for usual in ["'AGENT=/usr/local/bin/motorpool-agent'", "'SOCKET=/run/motorpool/agent.sock'"] {
        assert_eq!(hook.matches(usual).count(), 1, "it says once where the agent is");
    }
    let [_, create, _, finalize, _] = hook.split("'''").collect::<Vec<_>>()[..] else {
        panic!("it has two scripts: {hook}")
    };
    let hostile = "a; touch bad $(touch bad) `touch bad` \" ' *";
    let run = |script: &str, values: &[(&str, &str)]| {
        let mut command = bench.shell();
        command.args(["-e", "-c", script]).current_dir(bench.path("agent/work"));
        command.env("AGENT", AGENT).env("SOCKET", bench.path("agent/socket/agent.sock"));
        command.envs(values.iter().copied());
        tokio::task::spawn_blocking(move || command.output().unwrap())
    };
    let of_build = |number| [("BUILD_NUMBER", number), ("JOB_NAME", hostile), ("NODE_NAME", hostile)];
    let made = said(&run(create, &of_build("42")).await.unwrap());
    assert_eq!(made, (Some(0), format!("0 {CHECKPOINT}\n"), String::new()));
    assert_eq!(bench.asked(), [json!({"job_id": "42", "project": hostile, "caller": hostile})]);

    // What the build sees of a machine that can take no job now, and of a call that is wrong.
    bench.seen().hook_failures = vec![HookFailure::Status(StatusCode::CONFLICT)];
    for (number, told) in [("43", "1 \n"), ("$(id)", "2 \n")] {
        let (code, stdout, stderr) = said(&run(create, &of_build(number)).await.unwrap());
        assert_eq!((code, stdout.as_str()), (Some(0), told), "{stderr}");
        assert!(stderr.contains("error: "), "{stderr}");
    }
    for status in ["success", "failure", "canceled"] {
        let values = [("CHECKPOINT", CHECKPOINT), ("STATUS", status)];
        let (code, _, stderr) = said(&run(finalize, &values).await.unwrap());
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
        let finalized = json!({"checkpoint_name": CHECKPOINT, "status": status, "source": "hook"});
        assert_eq!(bench.asked().last(), Some(&finalized));
    }
    // A build that passed does not fail because its end could not be told.
    bench.seen().hook_failures = vec![HookFailure::Status(StatusCode::CONFLICT)];
    let values = [("CHECKPOINT", CHECKPOINT), ("STATUS", "success")];
    let (code, _, stderr) = said(&run(finalize, &values).await.unwrap());
    assert!(code == Some(0) && stderr.contains("could not be told"), "{code:?} {stderr}");
    assert!(!bench.path("agent/work/bad").exists());
    bench.is_not_fooled();
}
