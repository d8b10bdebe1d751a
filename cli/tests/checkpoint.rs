//! `motorpool checkpoint`, as a hook meets it: what is on stdout, what on stderr, and the exit code. The agent is a stand-in that answers one line.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

const NAME: &str = "job-42-1700000000-0123abcd";

fn checkpoint(socket: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_motorpool"));
    command.arg("checkpoint").args(args).env("MOTORPOOL_SOCKET", socket).output().unwrap()
}

/// What the agent was asked, and how the verb ended.
fn answered(args: &[&str], answer: &str) -> (Value, Output) {
    let dir = TempDir::new().unwrap();
    let socket = dir.path().join("agent.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let answer = format!("{answer}\n");
    let agent = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        stream.write_all(answer.as_bytes()).unwrap();
        serde_json::from_str(&line).unwrap()
    });
    let output = checkpoint(&socket, args);
    (agent.join().unwrap(), output)
}

fn view() -> String {
    json!({"ok": {"name": NAME, "runner_id": "mac-01", "job_id": "42", "state": "created",
                  "created_at": "2026-11-18T12:00:00Z", "why": "its job runs"}})
    .to_string()
}

fn told(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn create_prints_the_name_and_nothing_else() {
    let args = ["create", "--job-id", "42", "--project", "group/app", "--attempt", "2", "--caller", "mac-01"];
    let (asked, output) = answered(&args, &view());
    let expected = json!({"job_id": "42", "project": "group/app", "attempt": 2, "caller": "mac-01"});
    assert_eq!(asked, json!({"create": expected}));
    assert_eq!(told(&output), (Some(0), format!("{NAME}\n"), String::new()));
    let (asked, output) = answered(&["create", "--job-id", "42", "--json"], &view());
    assert_eq!(asked, json!({"create": {"job_id": "42"}}));
    let whole: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((json!({"ok": whole}).to_string(), output.status.code()), (view(), Some(0)));
}

#[test]
fn the_other_verbs_tell_one_line() {
    let queued = json!({"ok": {"detail": "Already finalized", "checkpoint_name": NAME, "state": "reset"}});
    let args = ["finalize", "--checkpoint", NAME, "--status", "canceled"];
    let (asked, output) = answered(&args, &queued.to_string());
    let expected = json!({"checkpoint_name": NAME, "status": "canceled", "source": "agent"});
    assert_eq!(asked, json!({"finalize": expected}));
    let line = format!("Already finalized: checkpoint {NAME} is reset\n");
    assert_eq!(told(&output), (Some(0), line, String::new()));

    let (asked, output) = answered(&["status", "--checkpoint", NAME], &view());
    assert_eq!(asked, json!({"status": {"checkpoint_name": NAME}}));
    let line = format!("checkpoint {NAME} of job 42 on runner mac-01 is created: its job runs\n");
    assert_eq!(told(&output), (Some(0), line, String::new()));

    for (ready, code, line) in [
        (true, 0, "runner mac-01 can take a job\n"),
        (false, 1, "runner mac-01 can take no job now: it is resetting\n"),
    ] {
        let answer = json!({"ok": {"runner_id": "mac-01", "ready": ready, "state": "resetting"}});
        let (asked, output) = answered(&["ready"], &answer.to_string());
        assert_eq!(asked, json!({"readiness": {}}));
        assert_eq!(told(&output), (Some(code), line.to_owned(), String::new()));
    }
}

#[test]
fn each_refusal_has_its_exit_code_and_says_what_to_do() {
    for (code, status, exit) in [
        ("conflict", 409, 1),
        ("gone", 410, 1),
        ("internal", 503, 1),
        ("invalid_request", 400, 2),
        ("unauthorized", 401, 3),
        ("forbidden", 403, 3),
        ("not_found", 404, 4),
        ("too_many_requests", 429, 5),
    ] {
        let error = json!({"code": code, "message": "no\u{1b}[2J", "hint": "do this", "status": status});
        let (_, output) = answered(&["create", "--job-id", "42"], &json!({"error": error}).to_string());
        let said = "error: no␛[2J\nhint: do this\n".to_owned();
        assert_eq!(told(&output), (Some(exit), String::new(), said), "{code}");
    }
}

#[test]
fn an_agent_that_is_not_there_or_makes_no_sense_is_told_of() {
    let dir = TempDir::new().unwrap();
    let socket = dir.path().join("agent.sock");
    let (code, stdout, stderr) = told(&checkpoint(&socket, &["ready"]));
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(
        stderr.starts_with(&format!("error: no agent listens at {}\nhint: ", socket.display())),
        "{stderr}"
    );
    for answer in ["", "what?", "{\"ok\":{}}", "{\"fine\":1}"] {
        let (_, output) = answered(&["create", "--job-id", "42"], answer);
        let (code, stdout, stderr) = told(&output);
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{answer}: {stderr}");
        assert!(stderr.starts_with("error: "), "{answer}: {stderr}");
    }
}
