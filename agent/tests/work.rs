//! Work with real processes: how it ends, and that nothing of it is left.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use motorpool_agent::clock::BootClock;
use motorpool_agent::work::{End, Outcome, SupervisorCommand, sweep};
use rustix::process::{Pid, Signal, kill_process};

mod harness;
use harness::{Bench, eventually, parent_of, within};

/// A daemon by double fork in a session of its own, another one that also hides its environment, and one in plain sight.
/// `daemons-ready` is there when all run. Each takes no part in the output pipe, but the last.
const DAEMONS: &str = r#"
(setsid sh -c 'touch d1; sleep 1000' </dev/null >/dev/null 2>&1 &)
(env -i PATH="$PATH" setsid sh -c 'touch d2; sleep 1000; : "$1"' sh "$MARK" </dev/null >/dev/null 2>&1 &)
sleep 1000 &
until [ -e d1 ] && [ -e d2 ]; do sleep 0.01; done
touch daemons-ready
"#;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test]
#[ignore = "the process that other tests start as their agent"]
async fn agent_stand_in() {
    harness::be_stand_in().await;
}

#[tokio::test]
async fn exit_code_and_output_are_told() {
    let bench = Bench::new();
    let outcome = bench.run(bench.order("echo out; echo err >&2; exit 7")).await;
    assert_eq!(outcome.end, End::Exited { code: 7 });
    assert_eq!((outcome.output.text.as_str(), outcome.output.cut_bytes), ("out\nerr\n", 0));
    assert!(!outcome.succeeded());
    assert!(bench.run(bench.order("true")).await.succeeded());
}

#[tokio::test]
async fn a_command_that_is_killed_says_by_which_signal() {
    let bench = Bench::new();
    assert_eq!(bench.run(bench.order("kill -KILL $$")).await.end, End::Signaled { signal: 9 });
}

#[tokio::test]
async fn daemons_are_gone_when_the_command_has_ended() {
    let bench = Bench::new();
    let outcome = bench.run(bench.order(&format!("{DAEMONS} exit 3"))).await;
    // No waiting here: the outcome itself is the promise.
    assert_eq!(bench.processes(), []);
    assert_eq!((outcome.end, outcome.left_behind), (End::Exited { code: 3 }, 0));
}

#[tokio::test]
async fn daemons_are_gone_when_the_time_is_out() {
    let bench = Bench::new();
    let mut order = bench.order(&format!("{DAEMONS} echo waiting; sleep 1000"));
    order.timeout = Some(seconds(5));
    let outcome = bench.run(order).await;
    assert_eq!(bench.processes(), []);
    assert_eq!((outcome.end, outcome.left_behind), (End::TimedOut, 0));
    assert_eq!(outcome.output.text, "waiting\n");
}

#[tokio::test]
async fn a_killed_agent_leaves_nothing() {
    let bench = Bench::new();
    let agent = bench.stand_in(&bench.order(&format!("{DAEMONS} sleep 1000")), &[]);
    bench.until_file("daemons-ready").await;
    assert!(!bench.processes().is_empty());
    agent.signal(Signal::KILL);
    bench.until_gone().await;
}

#[tokio::test]
async fn a_frozen_agents_work_ends_at_its_fence() {
    let bench = Bench::new();
    let mut order = bench.order(&format!("{DAEMONS} sleep 1000"));
    let fence_at = BootClock.now() + seconds(8);
    order.fence_at = Some(fence_at);
    let agent = bench.stand_in(&order, &[]);
    bench.until_file("daemons-ready").await;
    agent.signal(Signal::STOP);
    bench.until_gone().await;
    assert!(fence_at.passed(BootClock.now()), "the work ended before its fence");
    // Thawed, the agent learns what happened meanwhile.
    agent.signal(Signal::CONT);
    bench.until_file("outcome.json").await;
    let outcome: Outcome = serde_json::from_slice(&fs::read(bench.path("outcome.json")).unwrap()).unwrap();
    assert_eq!((outcome.end, outcome.left_behind), (End::Fenced, 0));
}

#[tokio::test]
async fn a_renewed_fence_holds_and_the_latest_one_counts() {
    let bench = Bench::new();
    let mut order = bench.order("touch started; sleep 1000");
    let first_fence = BootClock.now() + seconds(5);
    order.fence_at = Some(first_fence);
    let work = bench.start(order).await;
    work.renew_fence(seconds(1000));
    bench.until_file("started").await;
    BootClock.sleep_until(first_fence + seconds(1)).await;
    assert!(!bench.processes().is_empty(), "the work ended in spite of the renewal");
    work.fence_at(BootClock.now());
    assert_eq!(within(work.outcome()).await.end, End::Fenced);
    assert_eq!(bench.processes(), []);
}

#[tokio::test]
async fn behind_its_fence_nothing_starts() {
    let bench = Bench::new();
    let mut order = bench.order("touch started");
    order.fence_at = Some(BootClock.now());
    assert_eq!(bench.run(order).await.end, End::Fenced);
    assert!(!bench.path("started").exists());
}

#[tokio::test]
async fn a_stop_lets_the_work_end_by_itself() {
    let bench = Bench::new();
    let script = "trap 'echo bye; touch tidied; exit 0' TERM; touch started; while :; do sleep 0.01; done";
    let work = bench.start(bench.order(script)).await;
    bench.until_file("started").await;
    work.stop(seconds(1000));
    let outcome = within(work.outcome()).await;
    assert_eq!(outcome.end, End::Stopped);
    assert!(outcome.output.text.ends_with("bye\n"), "{outcome:?}");
    assert!(bench.path("tidied").exists());
    assert_eq!(bench.processes(), []);
}

#[tokio::test]
async fn a_stop_kills_what_does_not_listen() {
    let bench = Bench::new();
    let work = bench.start(bench.order("trap '' TERM; touch started; while :; do sleep 1000; done")).await;
    bench.until_file("started").await;
    work.stop(Duration::from_millis(100));
    assert_eq!(within(work.outcome()).await.end, End::Stopped);
    assert_eq!(bench.processes(), []);
}

#[tokio::test]
async fn work_that_forks_all_the_time_is_gone_too() {
    let bench = Bench::new();
    let script =
        "i=0; while [ $i -lt 2000 ]; do setsid sleep 1000 & i=$((i+1)); [ $i -ne 50 ] || touch many; done";
    let work = bench.start(bench.order(script)).await;
    bench.until_file("many").await;
    work.stop(Duration::ZERO);
    let outcome = within(work.outcome()).await;
    assert_eq!((bench.processes().len(), outcome.left_behind), (0, 0));
}

#[tokio::test]
async fn dropping_the_work_kills_it() {
    let bench = Bench::new();
    let work = bench.start(bench.order(&format!("{DAEMONS} sleep 1000"))).await;
    bench.until_file("daemons-ready").await;
    let outcome = work.outcome();
    drop(work);
    assert_eq!(within(outcome).await.end, End::Abandoned);
    assert_eq!(bench.processes(), []);
}

#[tokio::test]
async fn a_signal_to_the_supervisor_ends_the_work() {
    let bench = Bench::new();
    let work = bench.start(bench.order(&format!("{DAEMONS} kill -TERM $PPID; sleep 1000"))).await;
    assert_eq!(within(work.outcome()).await.end, End::Interrupted { signal: 15 });
    assert_eq!(bench.processes(), []);
}

#[tokio::test]
async fn work_that_kills_its_supervisor_is_found_by_its_mark() {
    let bench = Bench::new();
    let script = "setsid sleep 1000 & env -u MARK sleep 1000 & kill -KILL $PPID; sleep 1000";
    let outcome = bench.run(bench.order(script)).await;
    let End::Lost { message } = &outcome.end else { panic!("{outcome:?}") };
    assert!(message.contains("without a report") && message.contains("signal: 9"), "{message}");
    assert_eq!((bench.processes().len(), outcome.left_behind), (0, 0));
    assert_eq!(harness::processes_with(&format!("owner-{}/", bench.mark)), []);
}

#[tokio::test]
async fn work_that_freezes_its_supervisor_is_killed_by_the_agent() {
    let bench = Bench::new();
    let mut order = bench.order(&format!("{DAEMONS} kill -STOP $PPID; sleep 1000"));
    order.timeout = Some(seconds(2));
    let outcome = bench.run(order).await;
    assert!(matches!(&outcome.end, End::Lost { message } if message.contains("in time")), "{outcome:?}");
    assert_eq!((bench.processes().len(), outcome.left_behind), (0, 0));
}

#[tokio::test]
async fn what_a_killed_agent_and_supervisor_left_is_swept_by_the_next_agent() {
    let bench = Bench::new();
    let order = bench.order("setsid sleep 1000 & touch started; sleep 1000");
    let agent = bench.stand_in(&order, &[]);
    bench.until_file("started").await;
    // Frozen first, so that it cannot clean up itself.
    agent.signal(Signal::STOP);
    kill_process(supervisor_of(&bench), Signal::KILL).unwrap();
    agent.signal(Signal::KILL);
    assert!(!bench.processes().is_empty());
    assert_eq!(sweep("owner-of-others").await, 0);
    assert!(!bench.processes().is_empty());
    assert_eq!(sweep(&order.owner).await, 0);
    assert_eq!(bench.processes(), []);
}

/// The first ancestor that is no process of the work.
fn supervisor_of(bench: &Bench) -> Pid {
    let work = bench.processes();
    let mut pid = *work.first().unwrap();
    while work.contains(&pid) {
        pid = parent_of(pid);
    }
    pid
}

#[tokio::test]
async fn values_arrive_as_they_are_and_are_not_executed() {
    let bench = Bench::new();
    let value = "a 'b' \"c\" $(touch executed) `touch executed`\n; touch executed # \\ é *";
    let mut order = bench.order(r#"printf %s "$VALUE""#);
    order.env.insert("VALUE".to_owned(), value.to_owned());
    let outcome = bench.run(order).await;
    assert_eq!((outcome.end, outcome.output.text.as_str()), (End::Exited { code: 0 }, value));
    assert!(!bench.path("executed").exists());
}

#[tokio::test]
async fn refuse_21_the_agents_own_variables_are_not_for_the_work() {
    let bench = Bench::new();
    let mut order = bench.order("env; tr '\\0' '\\n' </proc/$PPID/environ");
    order.env.insert("MOTORPOOL_POOL".to_owned(), "given".to_owned());
    let env = [
        ("MOTORPOOL_SECRET", "canary"),
        ("AWS_SECRET_ACCESS_KEY", "canary"),
        ("PLAIN", "canary"),
        ("LC_TIME", "C"),
    ];
    let _agent = bench.stand_in(&order, &env);
    bench.until_file("outcome.json").await;
    let outcome: Outcome = serde_json::from_slice(&fs::read(bench.path("outcome.json")).unwrap()).unwrap();
    let has = |line: &str| outcome.output.text.lines().any(|found| found == line);
    assert!(has("MOTORPOOL_POOL=given") && has("LC_TIME=C"), "{outcome:?}");
    assert!(!outcome.output.text.contains("canary"), "{outcome:?}");
}

#[tokio::test]
async fn a_flood_of_output_is_bounded_in_memory_and_on_disk() {
    let bench = Bench::new();
    let mut order =
        bench.order("head -c 50000000 /dev/zero | tr '\\0' x; echo; grep VmHWM /proc/$PPID/status");
    order.log_path = Some(bench.path("log"));
    let outcome = bench.run(order).await;
    assert!(outcome.succeeded(), "{outcome:?}");
    assert!(outcome.output.cut_bytes > 49_000_000 && outcome.output.text.len() <= 8192);
    let (_name, peak) = outcome.output.text.rsplit_once("VmHWM:").unwrap();
    let peak_kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak_kib < 30_000, "the supervisor took {peak_kib} KiB");
    let log = fs::metadata(bench.path("log")).unwrap();
    assert!(log.len() > 10 * 1024 * 1024 && log.len() < 10 * 1024 * 1024 + 100, "{}", log.len());
}

#[tokio::test]
async fn the_log_is_private_and_replaced_by_each_command() {
    let bench = Bench::new();
    let (log, elsewhere) = (bench.path("log"), bench.path("elsewhere"));
    fs::write(&elsewhere, "precious").unwrap();
    std::os::unix::fs::symlink(&elsewhere, &log).unwrap();
    for text in ["a longer first text", "second"] {
        let mut order = bench.order(&format!("echo {text}"));
        order.log_path = Some(log.clone());
        assert!(bench.run(order).await.succeeded());
        assert_eq!(fs::read_to_string(&log).unwrap(), format!("{text}\n"));
        assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "precious");
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let bench = Bench::new();
    let mut no_directory = bench.order("true");
    no_directory.cwd = bench.path("nowhere");
    let mut bad_name = bench.order("true");
    bad_name.env.insert("A=B".to_owned(), String::new());
    let mut no_log = bench.order("true");
    no_log.log_path = Some(bench.path("nowhere/log"));
    let too_long = bench.order(&"#".repeat(3_000_000));
    let orders =
        [(no_directory, "nowhere does not exist"), (bad_name, "A=B"), (no_log, "log"), (too_long, "/bin/sh")];
    for (order, expected) in orders {
        let outcome = bench.run(order).await;
        let End::CouldNotStart { message } = &outcome.end else { panic!("{outcome:?}") };
        assert!(message.contains(expected), "{message}");
    }
}

#[tokio::test]
async fn a_supervisor_that_cannot_run_is_an_error_or_lost() {
    let bench = Bench::new();
    let missing = SupervisorCommand { program: bench.path("missing"), args: vec![], env: vec![] };
    let error = missing.start(bench.order("true")).await.unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
    let other =
        SupervisorCommand { program: "/bin/cat".into(), args: vec!["--no-such-option".into()], env: vec![] };
    if let Ok(work) = other.start(bench.order("true")).await {
        assert!(matches!(within(work.outcome()).await.end, End::Lost { .. }));
    }
}

#[tokio::test]
async fn several_works_are_followed_in_one_select() {
    let bench = Bench::new();
    let quick = bench.start(bench.order("true")).await;
    let slow = bench.start(bench.order("sleep 1000")).await;
    let (quick_end, slow_end) = (quick.outcome(), slow.outcome());
    tokio::pin!(slow_end);
    tokio::select! {
        outcome = quick_end => assert!(outcome.succeeded()),
        outcome = &mut slow_end => panic!("{outcome:?}"),
    }
    slow.stop(Duration::ZERO);
    assert_eq!(within(slow_end).await.end, End::Stopped);
    // It may be asked again.
    assert_eq!(within(slow.outcome()).await.end, End::Stopped);
    eventually("nothing is left", || bench.processes().is_empty()).await;
}

#[test]
fn this_executable_can_be_started_again() {
    let SupervisorCommand { program, args, env: _ } = SupervisorCommand::this_executable(["agent"]).unwrap();
    assert_eq!(args, ["agent", "supervise"]);
    let listed = std::process::Command::new(program).arg("--list").output().unwrap();
    assert!(String::from_utf8_lossy(&listed.stdout).contains("this_executable_can_be_started_again"));
}
