//! A job's hooks and the agent's socket: what is handed on, with which token, what is tried again, and what is refused.

mod refusals;
mod scripts;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Output};

use axum::http::StatusCode;
use motorpool_agent::jobs::namespaces_can_be_made;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::STAYS;
use crate::control_plane::{Bench, CHECKPOINT, Goal, HookFailure, Plan};

const AGENT: &str = env!("CARGO_BIN_EXE_motorpool-agent");
const CREATE: [&str; 3] = ["create", "--job-id", "42"];

impl Bench {
    /// A verb as a hook calls it. It does not hold up the control plane, which runs in this process.
    async fn hook(&self, args: &[&str]) -> Output {
        let socket = self.path("agent/socket/agent.sock");
        let mut command = Command::new(AGENT);
        command.arg("checkpoint").args(args).arg("--socket").arg(socket).env_remove("MOTORPOOL_SOCKET");
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    fn hook_calls(&self) -> Vec<String> {
        self.seen().hook_calls.iter().map(|call| call.what.clone()).collect()
    }

    fn token(&self) -> String {
        let state: Value = serde_json::from_slice(&fs::read(self.path("agent/state.json")).unwrap()).unwrap();
        format!("Bearer {}", state["token"].as_str().unwrap())
    }
}

fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[tokio::test]
async fn each_verb_is_handed_on_with_the_agents_token_and_its_answer_comes_back() {
    let bench = Bench::up(Plan::run(STAYS)).await;
    let create = ["create", "--job-id", "42", "--project", "a/b c", "--attempt", "2", "--caller", "x"];
    let name = format!("{CHECKPOINT}\n");
    assert_eq!(
        said(&bench.hook(&create).await),
        (Some(0), name, String::new()),
        "the name, and nothing else"
    );
    let finalize = ["finalize", "--checkpoint", CHECKPOINT, "--status", "failure"];
    let queued = format!("Finalize queued: checkpoint {CHECKPOINT}\n");
    assert_eq!(said(&bench.hook(&finalize).await), (Some(0), queued.clone(), String::new()));
    let by_hook = [&finalize[..], &["--source", "hook"]].concat();
    assert_eq!(said(&bench.hook(&by_hook).await), (Some(0), queued, String::new()));
    let shown = format!("checkpoint {CHECKPOINT} of job 42 on runner r-1 is created: its job runs\n");
    let status = bench.hook(&["status", "--checkpoint", CHECKPOINT]).await;
    assert_eq!(said(&status), (Some(0), shown, String::new()));
    let ready = "runner r-1 can take no job now: it is running\n".to_owned();
    assert_eq!(said(&bench.hook(&["ready"]).await), (Some(1), ready, String::new()));

    let finalized = |source| json!({"checkpoint_name": CHECKPOINT, "status": "failure", "source": source});
    let expected = [
        (
            "POST /checkpoint/create".to_owned(),
            json!({"job_id": "42", "project": "a/b c", "attempt": 2, "caller": "x"}),
        ),
        ("POST /checkpoint/finalize".to_owned(), finalized("agent")),
        ("POST /checkpoint/finalize".to_owned(), finalized("hook")),
        (format!("GET /checkpoint/status/{CHECKPOINT}"), Value::Null),
        ("GET /runner/readiness".to_owned(), Value::Null),
    ];
    let token = bench.token();
    let seen = bench.seen();
    let calls: Vec<_> = seen.hook_calls.iter().map(|call| (call.what.clone(), call.body.clone())).collect();
    assert_eq!(calls, expected);
    assert!(seen.hook_calls.iter().all(|call| call.authorization == token));
}

#[tokio::test]
async fn with_json_a_hook_gets_the_whole_answer() {
    let bench = Bench::up(Plan::run(STAYS)).await;
    let output = bench.hook(&["create", "--job-id", "42", "--json"]).await;
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&answer["name"], &answer["why"]), (&json!(CHECKPOINT), &json!("its job runs")));
    bench.seen().hook_failures = vec![HookFailure::Status(StatusCode::NOT_FOUND)];
    let output = bench.hook(&["status", "--checkpoint", CHECKPOINT, "--json"]).await;
    let error: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(error["error"]["message"], "not this one");
}

#[tokio::test]
async fn a_job_finds_the_socket_in_its_environment() {
    let program = format!("'{AGENT}' checkpoint create --job-id 42 > ../../name; touch up; exec sleep 1000");
    let bench = Bench::up(Plan::run(&program)).await;
    assert_eq!(fs::read_to_string(bench.path("name")).unwrap(), format!("{CHECKPOINT}\n"));
}

/// A job that is another user's, in its sandbox: it uses the socket, and neither changes it nor sees more of the agent than before.
#[tokio::test]
async fn refuse_20_refuse_21_a_job_of_another_user_reaches_the_socket_and_nothing_else_of_the_agent() {
    const UID: u32 = 50_321;
    if !rustix::process::geteuid().is_root() || !namespaces_can_be_made() {
        return;
    }
    let job = r#"
        "$MOTORPOOL_PROGRAM_DIR/motorpool-agent" checkpoint create --job-id 42 > name 2>&1
        here=$(dirname "$MOTORPOOL_SOCKET")
        touch "$here/mine" 2>/dev/null && echo "it made a file" >> bad
        rm -f "$MOTORPOOL_SOCKET" 2>/dev/null
        test -S "$MOTORPOOL_SOCKET" || echo "it removed the socket" >> bad
        ls -A "$here/.." > beside
        cat "$here/../state.json" >> bad 2>/dev/null
        touch up; exec sleep 1000"#;
    let mut bench = Bench::new(Plan::run(job)).await;
    fs::create_dir(bench.path("program")).unwrap();
    fs::copy(AGENT, bench.path("program/motorpool-agent")).unwrap();
    bench.start_agent_for_user(UID);
    bench.until_file("agent/work/up").await;
    let left = |name: &str| fs::read_to_string(bench.path("agent/work").join(name)).unwrap_or_default();
    assert_eq!(left("name"), format!("{CHECKPOINT}\n"));
    assert_eq!(left("bad"), "");
    let mut beside: Vec<String> = left("beside").lines().map(str::to_owned).collect();
    beside.sort();
    assert_eq!(beside, ["home", "program", "socket", "work"]);
    let who = |name: &str| {
        let found = fs::symlink_metadata(bench.path(name)).unwrap();
        (found.uid(), found.gid(), found.mode() & 0o7777)
    };
    assert_eq!(who("agent/socket"), (0, UID, 0o710));
    assert_eq!(who("agent/socket/agent.sock"), (0, UID, 0o660));
}

#[tokio::test]
async fn what_failed_is_tried_again_within_the_callers_time() {
    let bench = Bench::up(Plan::run(STAYS)).await;
    bench.seen().hook_failures = vec![
        HookFailure::RetryAfter(StatusCode::TOO_MANY_REQUESTS, 1),
        HookFailure::HangUp,
        HookFailure::Status(StatusCode::INTERNAL_SERVER_ERROR),
        HookFailure::RetryAfter(StatusCode::SERVICE_UNAVAILABLE, 1),
    ];
    let name = format!("{CHECKPOINT}\n");
    assert_eq!(said(&bench.hook(&CREATE).await), (Some(0), name, String::new()));
    assert_eq!(bench.hook_calls(), ["POST /checkpoint/create"; 5]);
}

#[tokio::test]
async fn a_refusal_is_handed_on_at_once_with_an_exit_code_of_its_own() {
    let bench = Bench::up(Plan::run(STAYS)).await;
    for (failure, code) in [
        (HookFailure::Status(StatusCode::CONFLICT), 1),
        (HookFailure::Status(StatusCode::GONE), 1),
        (HookFailure::Status(StatusCode::BAD_REQUEST), 2),
        (HookFailure::Status(StatusCode::UNAUTHORIZED), 3),
        (HookFailure::Status(StatusCode::FORBIDDEN), 3),
        (HookFailure::Status(StatusCode::NOT_FOUND), 4),
        (HookFailure::Status(StatusCode::TOO_MANY_REQUESTS), 5),
        // Longer than a caller is kept waiting.
        (HookFailure::RetryAfter(StatusCode::TOO_MANY_REQUESTS, 3_600), 5),
    ] {
        bench.seen().hook_calls.clear();
        bench.seen().hook_failures = vec![failure];
        let refused = "error: not this one\nhint: ask somebody\n".to_owned();
        assert_eq!(said(&bench.hook(&CREATE).await), (Some(code), String::new(), refused), "{failure:?}");
        assert_eq!(bench.hook_calls().len(), 1, "{failure:?}");
    }
}

/// A call for a hook tells nothing of the agent's session: one that comes with a replaced token would look like a thief's.
#[tokio::test]
async fn a_token_is_not_replaced_while_a_hooks_call_is_under_way_and_the_next_one_comes_with_the_new() {
    let bench = Bench::up(Plan { token_due: true, hold_hooks: true, ..Plan::run(STAYS) }).await;
    let old = bench.token();
    let held = bench.hook(&CREATE);
    tokio::pin!(held);
    tokio::select! {
        _answered = &mut held => panic!("nothing is answered yet"),
        () = bench.eventually("the call came", |bench| !bench.seen().hook_calls.is_empty()) => {}
    }
    bench.want(Goal::Clean);
    let syncs = bench.seen().syncs.len();
    tokio::select! {
        _answered = &mut held => panic!("nothing is answered yet"),
        () = bench.eventually("it syncs on", |bench| bench.seen().syncs.len() > syncs + 8) => {}
    }
    assert!(bench.seen().syncs.iter().all(|sync| sync.next_token_sha256.is_none()), "no token is named");
    bench.change(|plan| plan.hold_hooks = false);
    assert_eq!(held.await.status.code(), Some(0));
    bench.eventually("it has another token", |bench| bench.token() != old).await;
    assert_eq!(bench.hook(&CREATE).await.status.code(), Some(0));
    let new = bench.token();
    let came_with: Vec<String> =
        bench.seen().hook_calls.iter().map(|call| call.authorization.clone()).collect();
    assert_eq!(came_with, [old, new]);
}

#[tokio::test]
async fn the_socket_goes_with_its_agent_and_that_of_a_killed_one_is_replaced() {
    let mut bench = Bench::up(Plan::run(STAYS)).await;
    let socket = bench.path("agent/socket/agent.sock");
    bench.signal(Signal::KILL);
    bench.agent_exit().await;
    assert!(socket.exists());
    let (code, stdout, stderr) = said(&bench.hook(&CREATE).await);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(stderr.contains("no agent listens at") && stderr.contains("hint: is the agent up?"), "{stderr}");
    bench.until_no_work().await;
    fs::remove_file(bench.path("agent/work/up")).unwrap();
    bench.start_agent(&[]);
    bench.until_file("agent/work/up").await;
    assert_eq!(bench.hook(&CREATE).await.status.code(), Some(0));
    bench.signal(Signal::TERM);
    assert!(bench.agent_exit().await.success());
    assert!(!socket.exists());
    assert_eq!(bench.hook(&CREATE).await.status.code(), Some(1));
}
