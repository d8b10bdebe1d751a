//! The hooks of `infra/hooks`, run as the CI systems run them, against a real agent.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::{AGENT, said};
use crate::STAYS;
use crate::control_plane::{Bench, CHECKPOINT, HookFailure, Plan};

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/hooks").join(name)
}

impl Bench {
    /// Finds the agent's program and its socket, and nothing else of ours.
    fn shell(&self) -> Command {
        let programs = Path::new(AGENT).parent().unwrap().display().to_string();
        let mut command = Command::new("/bin/sh");
        command
            .env_clear()
            .env("PATH", format!("{programs}:/usr/bin:/bin"))
            .env("MOTORPOOL_SOCKET", self.path("agent/socket/agent.sock"))
            .env("RUNNER_TEMP", self.path(""));
        command
    }

    fn asked(&self) -> Vec<Value> {
        self.seen().hook_calls.iter().map(|call| call.body.clone()).collect()
    }
}

#[tokio::test]
async fn refuse_13_gitlabs_hook_hands_on_gitlabs_values_as_they_are() {
    let bench = Bench::up(Plan::run(STAYS)).await;
    let hostile = "a; touch bad $(touch bad) `touch bad` \" ' *";
    let run = |id: &'static str| {
        let mut command = bench.shell();
        command.arg("-e").arg(script("gitlab-pre-build.sh")).current_dir(bench.path("agent/work"));
        command.envs([("CI_JOB_ID", id), ("CI_PROJECT_ID", "7"), ("CI_RUNNER_DESCRIPTION", hostile)]);
        tokio::task::spawn_blocking(move || command.output().unwrap())
    };
    let told = format!("motorpool: checkpoint {CHECKPOINT}\n");
    assert_eq!(said(&run("42").await.unwrap()), (Some(0), told, String::new()));
    assert_eq!(bench.asked(), [json!({"job_id": "42", "project": "7", "caller": hostile})]);
    assert!(!bench.path("agent/work/bad").exists());

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
    started.arg("-e").arg(script("github-job-started.sh")).envs([
        ("GITHUB_RUN_ID", "42"),
        ("GITHUB_RUN_ATTEMPT", "3"),
        ("GITHUB_REPOSITORY", "octo/app"),
        ("RUNNER_NAME", "mac 01"),
    ]);
    let output = tokio::task::spawn_blocking(move || started.output().unwrap()).await.unwrap();
    assert_eq!(said(&output), (Some(0), format!("motorpool: checkpoint {CHECKPOINT}\n"), String::new()));
    let created = json!({"job_id": "42", "project": "octo/app", "attempt": 3, "caller": "mac 01"});
    assert_eq!(bench.asked(), [created]);

    // As the runner's worker does: it starts the hook, goes on for a while, and ends.
    let worker = r#"sh -e "$HOOK" && touch "$RUNNER_TEMP/hook-ended"; read -r _until_told"#;
    let mut worker = bench
        .shell()
        .args(["-c", worker])
        .env("HOOK", script("github-job-completed.sh"))
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

    fs::remove_file(bench.path("motorpool-checkpoint")).unwrap();
    let mut completed = bench.shell();
    completed.arg("-e").arg(script("github-job-completed.sh"));
    assert_eq!(completed.output().unwrap().status.code(), Some(0), "a job without one does not fail for it");
}
