//! A real `motorpool serve` on a free port of loopback, with a small local pool, a pool of the operator's own machines, and a team. None of
//! its processes outlives it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::Ended;

pub(super) const ADMIN_TOKEN: &str = "mp_admin_for_the_document";
pub(super) const TEAM_TOKEN: &str = "mp_team_for_the_document";
pub(super) const RUNNER_TOKEN: &str = "mp_runner_for_the_document";
const RUNNER_TOKEN_SHA256: &str = "c52240661e619f01860a8bc8dc3a7fffac972e3d014fee2dd18d41f06c04be37";

/// The pools are those of the document's examples. The hash is that of the team's token.
const POOLS: &str = r#"
[teams.web]
token_sha256 = ["abfcd2da6c950afdeb2bcf00c611ed28f8866b808087f8632f9ab3586be31830"]
[pools.small]
backend = "local"
trusted = true
max = 2
cpu = 2
memory_mb = 2048
[pools.macs]
backend = "bare_metal"
max = 5
cleanup_cmd = "true"
"#;

#[derive(Debug)]
pub(super) struct Serve {
    directory: PathBuf,
    /// `127.0.0.1:PORT`
    address: String,
    /// Held for its end, which comes after that of its agents.
    process: Option<Ended>,
}

impl Serve {
    pub(super) fn start(motorpool: &Path, directory: &Path) -> Result<Self> {
        let pools = directory.join("pools.toml");
        fs::write(&pools, POOLS).with_context(|| format!("cannot write {}", pools.display()))?;
        let log = File::create(directory.join("serve.log")).context("cannot make serve's log")?;
        let child = Command::new(motorpool)
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(directory.join("data"))
            .arg("--pools")
            .arg(&pools)
            .env("MOTORPOOL_ADMIN_TOKEN", ADMIN_TOKEN)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", motorpool.display()))?;
        let mut process = Ended(child);
        let stdout = process.0.stdout.take().context("serve has no stdout")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).context("cannot read serve's first line")?;
        let Some(address) = line.trim_end().strip_prefix("listening on http://") else {
            bail!("serve did not start; its log is {}", directory.join("serve.log").display());
        };
        Ok(Self { directory: directory.to_owned(), address: address.to_owned(), process: Some(process) })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn log(&self) -> PathBuf {
        self.directory.join("serve.log")
    }

    /// Has a machine of the operator's own join, as its agent would, so that `RUNNER_TOKEN` is a runner's.
    pub(super) fn join_runner(&self) -> Result<()> {
        let registered = self.post("runners", &json!({"runner_id": "agent-01", "pool": "macs"}))?;
        let secret = registered.get("bootstrap_secret").context("no secret for a runner")?;
        let joining = json!({"runner": "agent-01", "secret": secret, "token_sha256": RUNNER_TOKEN_SHA256,
            "machine_id": "agent-01", "boot_id": "1"});
        self.post("agent/bootstrap", &joining).map(drop)
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let mut stream = TcpStream::connect(&self.address).context("cannot reach serve")?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let body = body.to_string();
        write!(
            stream,
            "POST /api/v1/{path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).with_context(|| format!("no answer to POST {path}"))?;
        ensure!(answer.starts_with("HTTP/1.1 20"), "POST {path}: {answer}");
        let (_, body) = answer.split_once("\r\n\r\n").context("an answer without a body")?;
        serde_json::from_str(body).with_context(|| format!("POST {path} is not answered in JSON"))
    }

    /// Agents go on without their control plane. The lock file of each has its process id, which may be another's by now: an agent's
    /// command line names its directory.
    fn end_agents(&self) {
        let runners = fs::read_dir(self.directory.join("data/runners"));
        for runner in runners.into_iter().flatten().flatten() {
            let Ok(pid) = fs::read_to_string(runner.path().join("agent.lock")) else { continue };
            let command_line =
                fs::read_to_string(format!("/proc/{}/cmdline", pid.trim())).unwrap_or_default();
            if command_line.contains(&*runner.path().to_string_lossy()) {
                // One that ends by itself meanwhile needs no end.
                let _ = Command::new("kill").args(["-KILL", pid.trim()]).stderr(Stdio::null()).status();
            }
        }
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        // First the one that could launch another.
        drop(self.process.take());
        self.end_agents();
    }
}
