//! A pool whose jobs the CI system hands out: a real `serve`, a real agent of a machine that is somebody's own, and the verbs that a job's hooks call.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers too"
)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

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

struct Machine {
    dir: TempDir,
    serve: Child,
    agent: Option<Child>,
    server: String,
}

impl Drop for Machine {
    fn drop(&mut self) {
        for child in self.agent.iter_mut().chain([&mut self.serve]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn motorpool(dir: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_motorpool"));
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"MOTORPOOL_") {
            command.env_remove(name);
        }
    }
    command.current_dir(dir.path()).env("NO_PROXY", "*");
    command
}

fn told(output: &Output) -> (Option<i32>, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

impl Machine {
    /// With its agent, clean and idle.
    fn ready() -> Self {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("pools.toml"), POOLS).unwrap();
        let log = fs::File::create(dir.path().join("serve.log")).unwrap();
        let mut command = motorpool(&dir);
        command.args(["serve", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).stderr(log);
        let mut serve = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(serve.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let server = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        let mut machine = Self { dir, serve, agent: None, server };
        let added = machine.operator(&["runners", "add", "mac-01", "--pool", "macs"]);
        let secret = machine.dir.path().join("secret");
        fs::write(&secret, added["bootstrap_secret"].as_str().unwrap()).unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        let log = fs::File::create(machine.dir.path().join("agent.log")).unwrap();
        let mut command = motorpool(&machine.dir);
        command.args(["agent", "run", "--runner", "mac-01", "--dir", "agent", "--secret-file", "secret"]);
        command.args(["--server", &machine.server]).stderr(log);
        command.args(rustix::process::geteuid().is_root().then_some("--work-as-root"));
        machine.agent = Some(command.spawn().unwrap());
        machine.until("it is ready", |machine| machine.hook(&["ready"]).0 == Some(0));
        machine
    }

    fn operator(&self, args: &[&str]) -> Value {
        let output =
            motorpool(&self.dir).args(args).args(["--json", "--server", &self.server]).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", told(&output).1);
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn hook(&self, args: &[&str]) -> (Option<i32>, String) {
        let socket: PathBuf = self.dir.path().join("agent/socket/agent.sock");
        told(
            &motorpool(&self.dir)
                .arg("checkpoint")
                .args(args)
                .env("MOTORPOOL_SOCKET", socket)
                .output()
                .unwrap(),
        )
    }

    /// Its name.
    fn create(&self, job: &str) -> String {
        let (code, said) = self.hook(&["create", "--job-id", job]);
        assert_eq!(code, Some(0), "{said}");
        said.trim_end().to_owned()
    }

    fn did(&self) -> Vec<String> {
        let did = fs::read_to_string(self.dir.path().join("agent/did")).unwrap_or_default();
        did.lines().map(str::to_owned).collect()
    }

    fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        for _ in 0..600 {
            if holds(self) {
                return;
            }
            sleep(Duration::from_millis(100));
        }
        let log = |name| fs::read_to_string(self.dir.path().join(name)).unwrap_or_default();
        panic!("gave up waiting until {what}\n{}\n{}", log("serve.log"), log("agent.log"));
    }
}

/// The agent's token changes with each reset, and hooks go on: no call of theirs looks like a thief's.
#[test]
fn a_job_after_another_finds_the_machine_clean_and_hooks_know_no_token() {
    let machine = Machine::ready();
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
    let log = fs::read_to_string(machine.dir.path().join("serve.log")).unwrap();
    assert!(!log.contains("has replaced"), "{log}");
    assert_eq!(machine.operator(&["runners", "show", "mac-01"])["state"], "idle");
}
