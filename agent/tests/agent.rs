//! The whole agent: the real binary against a control plane over real HTTP, with real processes as its work.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use axum::http::StatusCode;
use motorpool_domain::runner::TaskOutcome;
use rustix::process::Signal;

#[cfg(test)]
mod control_plane;
#[cfg(test)]
mod hooks;
#[cfg(test)]
mod imds;
#[cfg(test)]
mod on_ec2;
#[cfg(test)]
mod runner_program;
use control_plane::{Bench, Goal, Plan, SECRET, file_contains, outcome, processes};

/// Says that it is up, and stays, with a daemon beside it.
const STAYS: &str = "(setsid sleep 1000 </dev/null >/dev/null 2>&1 &) ; touch up; exec sleep 1000";

#[tokio::test]
async fn a_whole_life_from_bootstrap_to_end() {
    let mut plan = Plan::run(STAYS);
    plan.prepare = Some("env | grep ^MOTORPOOL_ | sort > ../../prepare.env".to_owned());
    plan.register = Some("env | grep ^MOTORPOOL_ | sort > ../../register.env; pwd > ../../pwd".to_owned());
    plan.deregister = Some("test -e up && touch ../../deregistered".to_owned());
    let mut bench = Bench::up(plan).await;
    bench.until_sync("it is registered", |sync| sync.registered.is_some()).await;
    assert!(!bench.path("secret").exists(), "the redeemed secret is deleted");
    assert_eq!(
        fs::read_to_string(bench.path("pwd")).unwrap(),
        format!("{}/work\n", bench.path("agent").display())
    );
    let registering = fs::read_to_string(bench.path("register.env")).unwrap();
    for line in bench.environment() {
        assert!(registering.contains(&line), "{line} is not in {registering}");
    }
    assert!(!fs::read_to_string(bench.path("prepare.env")).unwrap().contains("MOTORPOOL_LABEL"));
    assert_eq!(bench.supervisors().len(), 1, "marked as what runs under them");

    let outside = bench.path("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("precious"), "").unwrap();
    let work = bench.path("agent/work");
    std::os::unix::fs::symlink(&outside, work.join("link")).unwrap();
    fs::create_dir_all(work.join("a/locked")).unwrap();
    fs::write(work.join("a/locked/file"), "").unwrap();
    fs::set_permissions(work.join("a/locked"), fs::Permissions::from_mode(0o500)).unwrap();

    bench.want(Goal::Clean);
    bench.until_sync("it is clean", |sync| outcome(sync, "cleanup") == Some(&TaskOutcome::Done)).await;
    assert!(bench.path("deregistered").exists(), "the script ran before the cleanup");
    assert_eq!(fs::read_dir(&work).unwrap().count(), 0);
    assert!(outside.join("precious").exists(), "no link is followed");
    assert_eq!(bench.work_processes(), []);
    assert!(bench.seen().syncs.last().unwrap().registered.is_none());

    bench.want(Goal::End);
    assert!(bench.agent_exit().await.success());
    assert!(bench.path("host-ended").exists());
    assert_eq!(bench.seen().bootstraps.len(), 1);
}

#[tokio::test]
async fn a_lost_bootstrap_answer_is_asked_for_again_with_the_same_token() {
    let mut bench = Bench::new(Plan::run(STAYS)).await;
    bench.seen().bootstrap_failures = vec![StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS];
    bench.start_agent(&[]);
    bench.eventually("the first call came", |bench| !bench.seen().bootstraps.is_empty()).await;
    bench.signal(Signal::KILL);
    bench.agent_exit().await;
    bench.start_agent(&[]);
    bench.until_file("agent/work/up").await;
    let seen = bench.seen();
    assert!(seen.bootstraps.len() >= 3);
    let first = &seen.bootstraps[0];
    assert_eq!((first.secret.as_str(), first.token_sha256.len(), first.machine_id.len()), (SECRET, 64, 64));
    for again in &seen.bootstraps {
        assert_eq!((&again.token_sha256, &again.machine_id), (&first.token_sha256, &first.machine_id));
    }
}

#[tokio::test]
async fn a_refused_secret_ends_the_agent_with_a_reason() {
    let mut bench = Bench::new(Plan::run(STAYS)).await;
    bench.seen().bootstrap_failures = vec![StatusCode::CONFLICT];
    bench.start_agent(&[]);
    assert_eq!(bench.agent_exit().await.code(), Some(3));
    assert!(bench.log().contains("not this one (ask somebody)"), "{}", bench.log());
    assert!(bench.path("secret").exists());
    assert!(!bench.path("host-ended").exists());
}

#[tokio::test]
async fn refuse_20_a_secret_that_others_can_read_is_redeemed_by_nobody() {
    for mode in [0o640, 0o604, 0o620, 0o602] {
        let mut bench = Bench::new(Plan::run(STAYS)).await;
        bench.give_secret(SECRET, mode);
        bench.start_agent(&[]);
        assert_eq!(bench.agent_exit().await.code(), Some(1), "{mode:o}");
        assert!(bench.seen().bootstraps.is_empty(), "{mode:o}: it was sent all the same");
        let mends = format!("chmod 600 {}", bench.path("secret").display());
        assert!(bench.log().contains(&mends) && !bench.log().contains(SECRET), "{}", bench.log());
        bench.give_secret(SECRET, 0o600);
        bench.start_agent(&[]);
        bench.until_file("agent/work/up").await;
    }
}

/// An agent that could not delete its secret, where the directory is another user's, finds it again at each start.
#[tokio::test]
async fn a_redeemed_secret_that_others_can_read_keeps_no_agent_from_its_work() {
    let mut bench = Bench::up(Plan::run(STAYS)).await;
    bench.signal(Signal::TERM);
    assert!(bench.agent_exit().await.success());
    bench.give_secret(SECRET, 0o644);
    let syncs = bench.seen().syncs.len();
    bench.start_agent(&[]);
    bench.eventually("it syncs again", |bench| bench.seen().syncs.len() > syncs).await;
    assert_eq!(bench.seen().bootstraps.len(), 1);
}

#[tokio::test]
async fn a_new_secret_gets_a_new_token_and_keeps_what_the_agent_knows() {
    let mut bench =
        Bench::new(Plan { register: Some("touch up".to_owned()), run: None, ..Plan::run("") }).await;
    bench.start_agent(&[]);
    bench.until_sync("it is registered", |sync| sync.registered.is_some()).await;
    bench.signal(Signal::TERM);
    assert!(bench.agent_exit().await.success());
    bench.give_secret("another secret", 0o600);
    let syncs = bench.seen().syncs.len();
    bench.start_agent(&[]);
    bench.eventually("it syncs again", |bench| bench.seen().syncs.len() > syncs).await;
    let seen = bench.seen();
    assert_eq!(seen.bootstraps.len(), 2);
    assert_ne!(seen.bootstraps[0].token_sha256, seen.bootstraps[1].token_sha256);
    assert_ne!(seen.authorizations.first(), seen.authorizations.last());
    assert!(seen.syncs[syncs].registered.is_some());
}

#[tokio::test]
async fn over_tls_only_a_known_authority_is_trusted() {
    let mut bench = Bench::over_tls(Plan::run(STAYS)).await;
    bench.start_agent(&["--first-contact-seconds", "1"]);
    assert!(bench.agent_exit().await.success());
    assert!(bench.seen().bootstraps.is_empty(), "the secret is told to no stranger");
    assert!(bench.log().contains("UnknownIssuer"), "{}", bench.log());
    let ca_file = bench.path("ca.pem").display().to_string();
    bench.start_agent(&["--ca-file", &ca_file]);
    bench.until_file("agent/work/up").await;
}

#[tokio::test]
async fn inv_19_cut_off_from_the_control_plane_work_ends_at_the_threshold() {
    let mut bench = Bench::up(Plan { threshold_in_ms: Some(3_000), ..Plan::run(STAYS) }).await;
    assert!(!bench.work_processes().is_empty());
    bench.want(Goal::Silence);
    bench.until_no_work().await;
    assert!(bench.agent_runs(), "the fence is far away");
    assert!(!bench.path("host-ended").exists());
}

#[tokio::test]
async fn inv_20_cut_off_from_the_control_plane_the_host_ends_at_the_fence() {
    let mut bench = Bench::up(Plan { fence_in_ms: Some(3_000), ..Plan::run(STAYS) }).await;
    bench.want(Goal::Silence);
    assert!(bench.agent_exit().await.success());
    assert_eq!(bench.work_processes(), []);
    assert!(bench.path("host-ended").exists());
}

#[tokio::test]
async fn inv_20_cut_off_on_a_kept_machine_the_work_ends_and_the_agent_comes_back() {
    let plan = Plan { kept: true, fence_in_ms: Some(3_000), ..Plan::run(STAYS) };
    let mut bench = Bench::up(plan).await;
    bench.want(Goal::Gone);
    assert!(bench.agent_exit().await.success(), "gone ends the agent of a kept machine");
    assert!(!bench.path("host-ended").exists());

    fs::remove_file(bench.path("agent/work/up")).unwrap();
    bench.want(Goal::Run);
    bench.start_agent(&[]);
    bench.until_file("agent/work/up").await;
    bench.want(Goal::Outage);
    bench.until_no_work().await;
    assert!(bench.agent_runs());
    fs::remove_file(bench.path("agent/work/up")).unwrap();
    bench.want(Goal::Run);
    bench.until_file("agent/work/up").await;
    assert!(!bench.path("host-ended").exists());
}

#[tokio::test]
async fn fault_05_a_frozen_agents_work_ends_and_on_waking_it_ends_its_host() {
    let plan = Plan { threshold_in_ms: Some(3_000), fence_in_ms: Some(3_000), ..Plan::run(STAYS) };
    let mut bench = Bench::up(plan).await;
    bench.signal(Signal::STOP);
    bench.until_no_work().await;
    assert!(!bench.path("host-ended").exists());
    bench.want(Goal::Silence);
    bench.signal(Signal::CONT);
    assert!(bench.agent_exit().await.success());
    assert!(bench.path("host-ended").exists());
}

#[tokio::test]
async fn fault_08_gone_ends_work_and_host() {
    let mut bench = Bench::up(Plan::run(STAYS)).await;
    bench.want(Goal::Gone);
    assert!(bench.agent_exit().await.success());
    assert_eq!(bench.work_processes(), []);
    assert!(bench.path("host-ended").exists());
}

#[tokio::test]
async fn a_stop_gives_work_its_grace_and_leaves_nothing() {
    let gentle = "trap 'touch ../../had-grace; exit' TERM; touch up; while :; do sleep 0.05; done";
    let mut bench = Bench::up(Plan::run(gentle)).await;
    bench.signal(Signal::TERM);
    assert!(bench.agent_exit().await.success());
    assert!(bench.path("had-grace").exists());
    assert_eq!(bench.work_processes(), []);
    assert!(!bench.path("host-ended").exists(), "an agent that is stopped ends nothing but itself");
}

#[tokio::test]
async fn a_killed_agents_successor_goes_on_without_its_program_and_registers_again() {
    let mut bench = Bench::up(Plan::run(STAYS)).await;
    bench.until_sync("it is registered", |sync| sync.registered.is_some()).await;
    bench.signal(Signal::KILL);
    bench.agent_exit().await;
    bench.until_no_work().await;
    fs::remove_file(bench.path("agent/work/up")).unwrap();
    let syncs = bench.seen().syncs.len();
    bench.start_agent(&[]);
    bench.until_file("agent/work/up").await;
    bench.until_sync("it is registered again", |sync| sync.registered.is_some()).await;
    let seen = bench.seen();
    assert_eq!(seen.bootstraps.len(), 1);
    let first = &seen.syncs[syncs];
    assert_eq!((&first.registered, outcome(first, "register")), (&None, None));
    assert_eq!(outcome(first, "prepare"), Some(&TaskOutcome::Done), "what was done stays done");
}

#[tokio::test]
async fn a_program_that_ends_after_its_job_is_started_again() {
    let one_job = "echo job >> ../../jobs; touch up; test $(wc -l < ../../jobs) -lt 3 || exec sleep 1000";
    let bench = Bench::up(Plan::run(one_job)).await;
    let jobs = |bench: &Bench| fs::read_to_string(bench.path("jobs")).unwrap().lines().count();
    bench.eventually("there were three", |bench| jobs(bench) == 3).await;
    bench.until_sync("it is registered", |sync| sync.registered.is_some()).await;
}

#[tokio::test]
async fn a_failed_task_is_reported_in_one_line_and_logged_whole() {
    let prepare = Some("echo first; echo no such tool >&2; exit 9".to_owned());
    let mut bench = Bench::new(Plan { prepare, ..Plan::run(STAYS) }).await;
    bench.start_agent(&[]);
    bench.until_sync("it is reported", |sync| outcome(sync, "prepare").is_some()).await;
    let why = "it ended with exit code 9: first | no such tool".to_owned();
    assert_eq!(outcome(bench.seen().syncs.last().unwrap(), "prepare"), Some(&TaskOutcome::Failed { why }));
    let log = fs::read_to_string(bench.path("agent/logs/prepare.log")).unwrap();
    assert_eq!(log, "first\nno such tool\n");
}

#[tokio::test]
async fn a_directory_has_one_agent() {
    let mut bench = Bench::up(Plan::run(STAYS)).await;
    let first = bench.agent.take();
    bench.start_agent(&[]);
    assert_eq!(bench.agent_exit().await.code(), Some(1));
    assert!(bench.log().contains("another agent uses"), "{}", bench.log());
    bench.agent = first;
    assert!(bench.agent_runs());
}

#[tokio::test]
async fn without_any_answer_the_host_ends_at_the_time_for_first_contact() {
    let mut bench = Bench::new(Plan { goal: Goal::Silence, ..Plan::run(STAYS) }).await;
    bench.start_agent(&["--first-contact-seconds", "2"]);
    assert!(bench.agent_exit().await.success());
    assert!(bench.path("host-ended").exists());
}

#[tokio::test]
async fn refuse_17_refuse_20_token_and_secret_are_in_no_log_and_no_process_list_and_files_are_private() {
    let bench = Bench::up(Plan::run(STAYS)).await;
    bench.until_sync("it is registered", |sync| sync.registered.is_some()).await;
    let state: serde_json::Value =
        serde_json::from_slice(&fs::read(bench.path("agent/state.json")).unwrap()).unwrap();
    let token = state["token"].as_str().unwrap().to_owned();
    assert!(token.starts_with("mp_runner_") && token.len() == "mp_runner_".len() + 43);
    assert_eq!(bench.seen().authorizations.last(), Some(&format!("Bearer {token}")));

    let (log, run_log) = (bench.path("agent.log"), bench.path("agent/logs/run.log"));
    for canary in [token.as_str(), SECRET] {
        assert!(!file_contains(&log, canary), "in the log, even at its loudest");
        assert!(!file_contains(&run_log, canary));
        for (pid, process) in processes() {
            for file in ["cmdline", "environ"] {
                assert!(!file_contains(&process.join(file), canary), "in {file} of {pid}");
            }
        }
    }
    assert!(!file_contains(&bench.path("agent/state.json"), SECRET));

    let mode = |name| fs::metadata(bench.path(name)).unwrap().permissions().mode() & 0o777;
    for (name, expected) in [
        ("agent", 0o700),
        ("agent/state.json", 0o600),
        ("agent/agent.lock", 0o600),
        ("agent/logs/run.log", 0o600),
    ] {
        assert_eq!(mode(name), expected, "{name}");
    }
    let pid = fs::read_to_string(bench.path("agent/agent.lock")).unwrap();
    assert_eq!(pid, bench.agent.as_ref().unwrap().id().to_string());
}
