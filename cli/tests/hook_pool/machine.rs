//! A real `serve` with one machine of somebody's own, its agent, and the verbs that operators and hooks call.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_motorpool");

pub(crate) struct Machine {
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

fn motorpool(dir: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"MOTORPOOL_") {
            command.env_remove(name);
        }
    }
    command.current_dir(dir).env("NO_PROXY", "*");
    command
}

fn told(output: &Output) -> (Option<i32>, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

impl Machine {
    /// With its agent, clean and idle.
    pub(crate) fn ready(pools: &str) -> Self {
        Self::ready_in(TempDir::new().unwrap(), pools, &[])
    }

    /// The same in a directory that may hold something already, with this said of the machine. `home` and `tmp` in it are those of the agent's user.
    pub(crate) fn ready_in(dir: TempDir, pools: &str, about: &[&str]) -> Self {
        fs::write(dir.path().join("pools.toml"), pools).unwrap();
        let log = fs::File::create(dir.path().join("serve.log")).unwrap();
        let mut command = motorpool(dir.path());
        command.args(["serve", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).stderr(log);
        let mut serve = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(serve.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let server = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        let mut machine = Self { dir, serve, agent: None, server };
        let added = machine.operator(&[&["runners", "add", "mac-01", "--pool", "macs"], about].concat());
        fs::write(machine.path("secret"), added["bootstrap_secret"].as_str().unwrap()).unwrap();
        fs::set_permissions(machine.path("secret"), fs::Permissions::from_mode(0o600)).unwrap();
        let log = fs::File::create(machine.path("agent.log")).unwrap();
        let mut command = motorpool(machine.dir.path());
        for (variable, name) in [("HOME", "home"), ("TMPDIR", "tmp")] {
            fs::create_dir_all(machine.path(name)).unwrap();
            command.env(variable, machine.path(name));
        }
        command.args(["agent", "run", "--runner", "mac-01", "--dir", "agent", "--secret-file", "secret"]);
        command.args(["--server", &machine.server]).stderr(log);
        command.args(rustix::process::geteuid().is_root().then_some("--work-as-root"));
        machine.agent = Some(command.spawn().unwrap());
        machine.until("it is ready", |machine| machine.hook(&["ready"]).0 == Some(0));
        machine
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// What `motorpool` answers an operator, as JSON.
    pub(crate) fn operator(&self, args: &[&str]) -> Value {
        let output = motorpool(self.dir.path())
            .args(args)
            .args(["--json", "--server", &self.server])
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}: {}", told(&output).1);
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// What an operator who asks for it is told in words.
    pub(crate) fn why(&self, subject: &str) -> String {
        let mut command = motorpool(self.dir.path());
        let (code, said) = told(&command.args(["why", subject, "--server", &self.server]).output().unwrap());
        assert_eq!(code, Some(0), "{said}");
        said
    }

    /// What `/metrics` tells.
    pub(crate) fn figures(&self) -> String {
        let address = self.server.strip_prefix("http://").unwrap();
        let token = fs::read_to_string(self.path("motorpool-data/admin-token")).unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let token = token.trim();
        write!(stream, "GET /metrics HTTP/1.0\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// A copy of the ledger as it is now, in a directory that only this copy is in.
    pub(crate) fn copy_of_ledger(&self) -> TempDir {
        let copy = TempDir::new().unwrap();
        let file = copy.path().join("ledger.db");
        let mut command = motorpool(self.dir.path());
        let output =
            command.arg("backup").arg(&file).args(["--data-dir", "motorpool-data"]).output().unwrap();
        assert!(output.status.success(), "{}", told(&output).1);
        copy
    }

    pub(crate) fn hook(&self, args: &[&str]) -> (Option<i32>, String) {
        let mut command = motorpool(self.dir.path());
        command.arg("checkpoint").args(args).env("MOTORPOOL_SOCKET", self.socket());
        told(&command.output().unwrap())
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path("agent/socket/agent.sock")
    }

    /// Its name.
    pub(crate) fn create(&self, job: &str) -> String {
        let (code, said) = self.hook(&["create", "--job-id", job]);
        assert_eq!(code, Some(0), "{said}");
        said.trim_end().to_owned()
    }

    pub(crate) fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        for _ in 0..600 {
            if holds(self) {
                return;
            }
            sleep(Duration::from_millis(100));
        }
        panic!("gave up waiting until {what}\n{}", self.logs());
    }

    pub(crate) fn logs(&self) -> String {
        let log = |name| fs::read_to_string(self.path(name)).unwrap_or_default();
        format!("--- serve ---\n{}\n--- agent ---\n{}", log("serve.log"), log("agent.log"))
    }
}
