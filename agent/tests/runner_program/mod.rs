//! The agent with the runner program of a CI system: stand-ins that take what they need as the real ones do.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use axum::http::StatusCode;
use motorpool_domain::ci::CiSystem;
use motorpool_domain::runner::TaskOutcome;
use rustix::process::Signal;

use crate::control_plane::{
    Bench, CI_CANARY, Goal, Plan, file_contains, jit_config, jit_files, outcome, processes,
};

/// Unpacks its configuration beside itself, as GitHub's does; then waits for a job, does it, and ends.
const RUN_SH: &str = r#"#!/bin/sh
set -eu
here=$(dirname "$0")
printf %s "$ACTIONS_RUNNER_INPUT_JITCONFIG" | base64 -d | tr '{},' '\n\n\n' | tr -d '"' | tr : ' ' |
    while read -r name content; do
        [ -z "$name" ] || printf %s "$content" | base64 -d >"$here/$name"
    done
unset ACTIONS_RUNNER_INPUT_JITCONFIG
echo "$# arguments, at $MOTORPOOL_CI_URL" >>"$here/../seen"
cat "$here/.runner" >>"$here/../seen"
echo >>"$here/../seen"
mkdir -p "$here/_work" && echo "of an earlier job" >"$here/_work/file"
until rm "$here/../job" 2>/dev/null; do sleep 0.05; done
echo 2.331.0 >"$here/version"
"#;

const LISTENER: &str = "#!/bin/sh\n[ \"$1\" = --version ] && cat \"$(dirname \"$0\")/../version\"\n";

fn install(bench: &Bench, name: &str, script: &str) {
    let path = bench.path("program").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
}

async fn with_github(plan: Plan) -> Bench {
    let bench = Bench::new(plan).await;
    install(&bench, "run.sh", RUN_SH);
    install(&bench, "bin/Runner.Listener", LISTENER);
    fs::write(bench.path("program/version"), "2.330.0\n").unwrap();
    bench
}

fn counts(bench: &Bench) -> Vec<u32> {
    bench.seen().registrations.iter().map(|request| request.count).collect()
}

/// The stand-in that has this registration waits for a job.
async fn until_waiting(bench: &Bench, count: u32) {
    let line = format!("mp-ab12cd-r-1.1.{count}\"");
    bench.eventually("the program has begun", |bench| file_contains(&bench.path("seen"), &line)).await;
}

/// What of the secret could be found somewhere.
fn canaries(count: u32) -> Vec<String> {
    let files =
        jit_files(count).into_iter().map(|(_name, text)| text).filter(|text| text.contains(CI_CANARY));
    files.chain([jit_config(count), CI_CANARY.to_owned()]).collect()
}

fn files_under(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let plain = entries.filter(|path| path.is_dir() || path.is_file());
    plain.flat_map(|path| if path.is_dir() { files_under(&path) } else { vec![path] }).collect()
}

#[tokio::test]
async fn refuse_17_a_jit_runner_registers_anew_for_each_job_and_leaves_nothing_of_its_secret() {
    let mut bench = with_github(Plan::ci(CiSystem::GitHub)).await;
    bench.start_agent(&[]);
    for count in 1..=3 {
        until_waiting(&bench, count).await;
        bench.until_sync("it is registered", |sync| sync.registered.is_some()).await;
        for (pid, process) in processes() {
            for canary in canaries(count) {
                assert!(!file_contains(&process.join("cmdline"), &canary), "in the process list, of {pid}");
            }
        }
        let agent = bench.agent.as_ref().unwrap().id().to_string();
        let supervisors = bench.supervisors().into_iter().map(|pid| pid.to_string());
        for pid in supervisors.chain([agent]) {
            let environ = format!("/proc/{pid}/environ");
            assert!(!file_contains(Path::new(&environ), &jit_config(count)), "it is for the program alone");
        }
        if count < 3 {
            fs::write(bench.path("job"), "").unwrap();
        }
    }
    assert!(
        file_contains(&bench.path("program/.credentials"), CI_CANARY),
        "the stand-in is like the real one"
    );
    bench.want(Goal::Clean);
    bench.until_sync("it is clean", |sync| outcome(sync, "cleanup") == Some(&TaskOutcome::Done)).await;
    bench.until_no_work().await;
    assert!(!bench.path("program/_work").exists(), "nor of its jobs");
    for file in files_under(&bench.path("")) {
        for canary in (1..=3).flat_map(canaries) {
            assert!(!file_contains(&file, &canary), "in {}", file.display());
        }
    }

    let seen = bench.seen();
    let asked: Vec<_> = seen
        .registrations
        .iter()
        .map(|it| (it.runner.as_str(), it.epoch.0, it.label.as_str(), it.count))
        .collect();
    let expected = [1, 2, 3].map(|count| ("r-1", 1, "motorpool-c-1", count));
    assert_eq!(asked, expected);
    assert!(seen.authorizations.iter().all(|one| *one == seen.authorizations[0]), "the runner's own token");
    let told = fs::read_to_string(bench.path("seen")).unwrap();
    assert_eq!(told.matches("0 arguments, at https://ci.example\n").count(), 3, "{told}");
}

/// As on EC2, where the program is another user's.
#[tokio::test]
async fn where_a_link_of_roots_leads_is_cleaned_and_where_another_leads_is_not() {
    let mut bench = with_github(Plan::ci(CiSystem::GitHub)).await;
    for dir in ["_work", "_diag"] {
        let there = bench.path("elsewhere").join(dir);
        fs::create_dir_all(&there).unwrap();
        fs::write(there.join("of-a-job"), "").unwrap();
        std::os::unix::fs::symlink(&there, bench.path("program").join(dir)).unwrap();
    }
    let is_root = rustix::process::getuid().is_root();
    if is_root {
        std::os::unix::fs::lchown(bench.path("program/_diag"), Some(65_534), None).unwrap();
    }
    bench.start_agent(&[]);
    until_waiting(&bench, 1).await;
    bench.want(Goal::Clean);
    bench.until_sync("it is clean", |sync| outcome(sync, "cleanup") == Some(&TaskOutcome::Done)).await;
    assert!(bench.path("elsewhere/_work").exists(), "it may be all that its user owns there");
    assert_eq!(bench.path("elsewhere/_work/of-a-job").exists(), !is_root);
    assert_eq!(fs::symlink_metadata(bench.path("program/_work")).is_ok(), is_root, "root's link stays");
    assert!(bench.path("elsewhere/_diag/of-a-job").exists(), "a job may have made that link");
    assert!(fs::symlink_metadata(bench.path("program/_diag")).is_err(), "and so it is gone");
}

/// The directory that root's link leads to stands where the job may put something else in its place.
#[tokio::test]
async fn a_link_that_a_job_put_where_roots_link_leads_is_not_followed() {
    let mut bench = with_github(Plan::ci(CiSystem::GitHub)).await;
    let precious = bench.path("precious");
    fs::create_dir_all(&precious).unwrap();
    fs::write(precious.join("of-the-host"), "").unwrap();
    std::os::unix::fs::symlink(&precious, bench.path("of-the-job")).unwrap();
    std::os::unix::fs::symlink(bench.path("of-the-job"), bench.path("program/_work")).unwrap();
    bench.start_agent(&[]);
    until_waiting(&bench, 1).await;
    bench.want(Goal::Clean);
    bench.until_sync("it is clean", |sync| outcome(sync, "cleanup") == Some(&TaskOutcome::Done)).await;
    assert!(precious.join("of-the-host").exists());
}

#[tokio::test]
async fn the_programs_version_is_told_and_told_again_when_it_brought_itself_up_to_date() {
    let mut bench = with_github(Plan::ci(CiSystem::GitHub)).await;
    bench.start_agent(&[]);
    until_waiting(&bench, 1).await;
    let is = |version: &'static str| {
        move |sync: &motorpool_wire::agent::SyncRequest| sync.program_version.as_deref() == Some(version)
    };
    bench.until_sync("it is told", is("2.330.0")).await;
    fs::write(bench.path("job"), "").unwrap();
    bench.until_sync("the new one is told", is("2.331.0")).await;
}

#[tokio::test]
async fn a_restarted_agent_goes_on_counting_its_registrations() {
    let mut bench = with_github(Plan::ci(CiSystem::GitHub)).await;
    bench.start_agent(&[]);
    until_waiting(&bench, 1).await;
    bench.until_sync("it is registered", |sync| sync.registered.is_some()).await;
    bench.signal(Signal::KILL);
    bench.agent_exit().await;
    bench.until_no_work().await;
    bench.start_agent(&[]);
    until_waiting(&bench, 2).await;
    assert_eq!(counts(&bench), [1, 2]);
}

#[tokio::test]
async fn a_registration_that_may_come_later_is_asked_for_again_and_one_that_is_refused_fails_the_task() {
    let mut bench = with_github(Plan::ci(CiSystem::GitHub)).await;
    let later = [
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::INTERNAL_SERVER_ERROR,
        StatusCode::CONFLICT,
    ];
    bench.seen().registration_failures = later.to_vec();
    bench.start_agent(&[]);
    // After the conflict it asks for the next: the first may have been handed out to somebody else.
    until_waiting(&bench, 2).await;
    assert_eq!(counts(&bench), [1, 2, 2, 2, 2]);

    bench.seen().registration_failures = vec![StatusCode::FORBIDDEN];
    fs::write(bench.path("job"), "").unwrap();
    bench
        .until_sync("it failed", |sync| outcome(sync, "register").is_some_and(|it| *it != TaskOutcome::Done))
        .await;
    let why = "its registration was refused: not this one (ask somebody)".to_owned();
    assert_eq!(outcome(bench.seen().syncs.last().unwrap(), "register"), Some(&TaskOutcome::Failed { why }));
    assert_eq!(counts(&bench), [1, 2, 2, 2, 2, 3]);
}

#[tokio::test]
async fn who_waits_for_a_registration_is_given_back_all_the_same() {
    let mut bench = with_github(Plan::ci(CiSystem::GitHub)).await;
    bench.seen().registration_failures = vec![StatusCode::SERVICE_UNAVAILABLE; 1_000];
    bench.start_agent(&[]);
    bench
        .until_sync("it is at it", |sync| {
            sync.busy.as_ref().is_some_and(|task| task.as_str() == "1-register-1")
        })
        .await;
    bench.want(Goal::Clean);
    bench.until_sync("it is clean", |sync| outcome(sync, "cleanup") == Some(&TaskOutcome::Done)).await;
    assert!(!bench.path("seen").exists(), "no program has begun");
}

#[tokio::test]
async fn refuse_17_gitlabs_program_is_told_its_token_once_and_no_job_finds_it() {
    // It reads its settings to their end, writes beside them, and passes its environment on.
    const GITLAB_RUNNER: &str = r#"#!/bin/sh
if [ "$1" = --version ]; then
    printf 'Version:      17.5.1\nGit revision: affd9e7d\n'
    exit
fi
here=$(dirname "$0")/..
token=
while IFS= read -r line; do
    case $line in
    token*) token=$line ;;
    *) echo "$line" ;;
    esac
done <"$CONFIG_FILE" >"$here/settings"
echo r_0123456789ab >"$(dirname "$CONFIG_FILE")/.runner_system_id"
{
    echo "$*"
    echo "a line of ${#token} characters"
    cat "$here/settings"
    env | grep -E '^(CI_SERVER|RUNNER|MOTORPOOL_CI)_' | sort
} >"$here/seen.new"
mv "$here/seen.new" "$here/seen"
exec sleep 1000
"#;
    let mut bench = Bench::new(Plan::ci(CiSystem::GitLab)).await;
    install(&bench, "gitlab-runner", GITLAB_RUNNER);
    bench.start_agent(&[]);
    bench.until_file("seen").await;
    let work = bench.path("agent/work").display().to_string();
    let expected = [
        "run-single --max-builds 1 --runner mp-ab12cd-r-1.1.1".to_owned(),
        format!("a line of {} characters", format!("token = '''glrt-{CI_CANARY}-1'''").len()),
        "[[runners]]".to_owned(),
        "name = '''mp-ab12cd-r-1.1.1'''".to_owned(),
        "url = '''https://ci.example'''".to_owned(),
        "executor = '''shell'''".to_owned(),
        format!("builds_dir = '''{work}/builds'''"),
        format!("cache_dir = '''{work}/cache'''"),
        "CI_SERVER_URL=https://ci.example".to_owned(),
        "MOTORPOOL_CI_URL=https://ci.example".to_owned(),
        format!("RUNNER_BUILDS_DIR={work}/builds"),
        format!("RUNNER_CACHE_DIR={work}/cache"),
        "RUNNER_EXECUTOR=shell".to_owned(),
        "RUNNER_NAME=mp-ab12cd-r-1.1.1".to_owned(),
    ];
    let seen = fs::read_to_string(bench.path("seen")).unwrap();
    assert_eq!(seen.lines().collect::<Vec<_>>(), expected);
    bench.until_sync("its version is told", |sync| sync.program_version.as_deref() == Some("17.5.1")).await;
    for (pid, process) in processes() {
        assert!(!file_contains(&process.join("cmdline"), CI_CANARY), "in the process list, of {pid}");
    }
    // Whoever wrote it ends with that.
    let is_told =
        |pid: rustix::process::Pid| file_contains(Path::new(&format!("/proc/{pid}/environ")), CI_CANARY);
    bench.eventually("no process has it", |bench| !bench.work_processes().into_iter().any(is_told)).await;
    assert!(!bench.work_processes().is_empty(), "the program runs");
    let pipe = fs::metadata(bench.path("agent/gitlab-runner/config.toml")).unwrap();
    assert!(pipe.file_type().is_fifo() && pipe.permissions().mode() & 0o777 == 0o600);
    for file in files_under(&bench.path("")) {
        assert!(!file_contains(&file, CI_CANARY), "in {}", file.display());
    }
}

#[tokio::test]
async fn a_program_that_dies_at_once_again_and_again_fails_its_task_and_says_why() {
    let mut bench = Bench::new(Plan::run("echo begun >> ../../begun; echo no such tool >&2; exit 7")).await;
    bench.start_agent(&[]);
    bench
        .until_sync("it is reported", |sync| {
            outcome(sync, "register").is_some_and(|it| *it != TaskOutcome::Done)
        })
        .await;
    let Some(TaskOutcome::Failed { why }) = outcome(bench.seen().syncs.last().unwrap(), "register").cloned()
    else {
        panic!("it failed");
    };
    assert!(
        why.contains("3 times in a row") && why.ends_with("it ended with exit code 7: no such tool"),
        "{why}"
    );
    assert_eq!(fs::read_to_string(bench.path("begun")).unwrap().lines().count(), 3);
    assert!(bench.agent_runs());
}

#[tokio::test]
async fn refuse_17_a_program_that_prints_its_secret_does_not_have_it_told() {
    let prints = "echo \"it is $ACTIONS_RUNNER_INPUT_JITCONFIG\"; exit 1".to_owned();
    let mut bench = Bench::new(Plan { run: Some(prints), ..Plan::ci(CiSystem::GitHub) }).await;
    bench.start_agent(&[]);
    bench
        .until_sync("it is reported", |sync| {
            outcome(sync, "register").is_some_and(|it| *it != TaskOutcome::Done)
        })
        .await;
    let told = format!("{:?}", outcome(bench.seen().syncs.last().unwrap(), "register"));
    assert!(told.contains("it is [secret]"), "{told}");
    for count in 1..=3 {
        assert!(!bench.log().contains(&jit_config(count)));
    }
}
