//! A pool whose jobs the CI system hands out: a real `serve`, a real agent of a machine that is somebody's own, and the verbs that a job's hooks call.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers too"
)]

mod gitlab;
mod machine;
mod whole_job;

use std::fs;

use machine::Machine;

const POOLS: &str = r#"
refresh_seconds = 1
[pools.macs]
backend = "bare_metal"
dispatch = "hook"
clean = "reset"
cleanup_cmd = "echo cleaned >> \"$MOTORPOOL_RUNNER_DIR/did\""
reset_cmd = "echo reset >> \"$MOTORPOOL_RUNNER_DIR/did\""
readiness_cmd = "echo ready >> \"$MOTORPOOL_RUNNER_DIR/did\""
run_cmd = "exec sleep 1000"
heartbeat_seconds = 1
grace_seconds = 5
"#;

impl Machine {
    /// What the pool's commands did, in order.
    fn did(&self) -> Vec<String> {
        let did = fs::read_to_string(self.path("agent/did")).unwrap_or_default();
        did.lines().map(str::to_owned).collect()
    }
}

/// The agent's token changes with each reset, and hooks go on: no call of theirs looks like a thief's.
#[test]
fn a_job_after_another_finds_the_machine_clean_and_hooks_know_no_token() {
    let machine = Machine::ready(POOLS);
    assert_eq!(machine.did(), ["reset", "ready"], "a machine that joins is reset first");
    let first = machine.create("42");
    assert!(first.starts_with("job-42-"), "{first}");
    assert_eq!(machine.create("42"), first, "the same job again");
    let (code, said) = machine.hook(&["create", "--job-id", "43"]);
    assert!(code == Some(1) && said.contains("active checkpoint already exists"), "{said}");
    assert_eq!(machine.operator(&["runners", "show", "mac-01"])["state"], "running");
    let state = |machine: &Machine, name: &str| machine.hook(&["status", "--checkpoint", name]).1;
    assert!(state(&machine, &first).contains("is created: its job runs"));

    let finalize = |name: &str, status: &str| {
        machine.hook(&["finalize", "--checkpoint", name, "--status", status, "--source", "hook"])
    };
    assert_eq!(finalize(&first, "success"), (Some(0), format!("Finalize queued: checkpoint {first}\n")));
    machine.until("what it left is gone", |machine| state(machine, &first).contains("is deleted"));
    assert_eq!(machine.did(), ["reset", "ready", "cleaned", "ready"]);
    let second = machine.create("44");
    assert_eq!(finalize(&second, "failure").0, Some(0));
    machine.until("it is reset", |machine| state(machine, &second).contains("is reset"));
    assert_eq!(machine.did(), ["reset", "ready", "cleaned", "ready", "reset", "ready"]);
    let (code, said) = finalize(&second, "success");
    assert_eq!(
        (code, said.as_str()),
        (Some(0), &*format!("Already finalized: checkpoint {second} is reset\n"))
    );

    let unknown = machine.hook(&["status", "--checkpoint", "job-9-1-00000000"]);
    assert!(unknown.0 == Some(4) && unknown.1.contains("there is no checkpoint"), "{unknown:?}");
    let log = fs::read_to_string(machine.path("serve.log")).unwrap();
    assert!(!log.contains("has replaced"), "{log}");
    assert_eq!(machine.operator(&["runners", "show", "mac-01"])["state"], "idle");
}

const UNRESETTABLE: &str = r#"
refresh_seconds = 1
[pools.macs]
backend = "bare_metal"
dispatch = "hook"
clean = "reset"
reset_cmd = 'test ! -e "$MOTORPOOL_RUNNER_DIR/../broken"'
run_cmd = "exec sleep 1000"
heartbeat_seconds = 1
grace_seconds = 5
"#;

#[test]
fn a_machine_that_can_not_be_reset_is_let_out_of_quarantine_by_a_person() {
    let machine = Machine::ready(UNRESETTABLE);
    let shown = |field: &str| machine.operator(&["runners", "show", "mac-01"])[field].clone();
    let incidents = || machine.operator(&["alerts"])["alerts"].clone();
    fs::write(machine.path("broken"), "").unwrap();
    let checkpoint = machine.create("42");
    let end = ["finalize", "--checkpoint", &checkpoint, "--status", "failure"];
    assert_eq!(machine.hook(&end).0, Some(0));
    machine.until("it is quarantined", |_| shown("state") == "quarantined");
    let why = shown("why").to_string();
    assert!(why.contains("it could not be cleaned in 3 attempts"), "{why}");
    let told = machine.hook(&["status", "--checkpoint", &checkpoint]).1;
    assert!(told.contains("is finalize_queued"), "nobody says that its machine is clean: {told}");
    machine.until("people are told", |_| incidents()[0]["subject"] == "mac-01");
    assert_eq!(incidents()[0]["incident"], "runner_quarantined");
    assert_eq!(machine.hook(&["ready"]).0, Some(1));
    for subject in ["mac-01", &checkpoint] {
        let why = machine.why(subject);
        for part in
            ["quarantined", "could not be cleaned in 3 attempts", "`motorpool runners release mac-01`"]
        {
            assert!(why.contains(part), "{part}\n{why}");
        }
    }
    let log = machine.operator(&["audit", "mac-01"]);
    let failures = log["entries"].as_array().unwrap().iter().filter(|entry| entry["result"] == "error");
    assert_eq!(failures.count(), 3, "{log}");

    fs::remove_file(machine.path("broken")).unwrap();
    let released = machine.operator(&["runners", "release", "mac-01"]);
    assert_eq!((&released["state"], &released["epoch"]), (&"resetting".into(), &4.into()));
    machine.until("it is clean", |machine| {
        machine.hook(&["status", "--checkpoint", &checkpoint]).1.contains("is reset")
    });
    assert_eq!((shown("state"), shown("epoch")), ("idle".into(), 4.into()));
    assert_eq!(shown("proof"), "its reset succeeded");
    machine.until("it is over for people, too", |_| incidents() == serde_json::json!([]));
}
