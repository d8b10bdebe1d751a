//! The template filled, and what it names: a server with an agent and a runner program on it.

use crate::machine::{FileServer, Machine, infra, output};
use anyhow::{Result, ensure};
use rustix::process::getuid;
use sha2::{Digest, Sha256};
use std::fs;
use std::process::{Command, Output};

pub(crate) const CANARY: &str = "mp_launch_canary_7f3a9c51e0";
#[derive(Clone, Default)]
pub(crate) struct Filling {
    pub(crate) agent: (String, String),
    pub(crate) runner: (String, String),
    pub(crate) ca_pem: String,
}

pub(crate) fn filled(filling: &Filling) -> Result<String> {
    let Filling { agent, runner, ca_pem } = filling;
    let mut text = fs::read_to_string(infra("cloud-init/user-data.yaml.tmpl"))?;
    for (name, value) in [
        ("SERVER_URL", "https://pool.example.org"),
        ("LAUNCH", "l-tjpzfj6tsx32e1ax"),
        ("FROM", "3"),
        ("AGENT_OPTIONS", if ca_pem.is_empty() { "" } else { "--ca-file /etc/motorpool/ca.pem" }),
        ("LAUNCH_SECRET", CANARY),
        ("AGENT_URL", &agent.0),
        ("AGENT_SHA256", &agent.1),
        ("RUNNER_URL", &runner.0),
        ("RUNNER_SHA256", &runner.1),
        ("CA_PEM", &ca_pem.replace('\n', "\\n")),
    ] {
        let placeholder = format!("@@{name}@@");
        ensure!(text.matches(&placeholder).count() == 1, "{placeholder} stands in it once");
        text = text.replace(&placeholder, value);
    }
    ensure!(!text.contains("@@"), "a placeholder was forgotten");
    Ok(text)
}

/// A server with an agent and a runner program, and user data that names both.
pub(crate) struct Offered {
    pub(crate) server: FileServer,
    pub(crate) filling: Filling,
    _dirs: (tempfile::TempDir, tempfile::TempDir),
}

impl Offered {
    pub(crate) fn new() -> Result<Self> {
        let (dir, keys) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let agent = "#!/bin/sh\necho agent\n";
        fs::write(dir.path().join("agent"), agent)?;
        fs::create_dir_all(dir.path().join("tree/bin"))?;
        for (name, says) in [("run.sh", "run"), ("bin/Runner.Listener", "2.329.0")] {
            let path = dir.path().join("tree").join(name);
            fs::write(&path, format!("#!/bin/sh\necho {says}; id -u; echo \"$@\"\n"))?;
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        }
        let packed = dir.path().join("runner.tar.gz");
        let mut tar = Command::new("tar");
        tar.arg("-czf").arg(&packed).arg("-C").arg(dir.path().join("tree")).arg(".");
        ensure!(output(&mut tar)?.status.success());
        let server = FileServer::start(dir.path(), keys.path())?;
        let at = |name: &str| format!("{}/{name}", server.url);
        let filling = Filling {
            agent: (at("agent"), sha256(agent.as_bytes())),
            runner: (at("runner.tar.gz"), sha256(&fs::read(&packed)?)),
            ca_pem: String::new(),
        };
        Ok(Self { server, filling, _dirs: (dir, keys) })
    }

    /// A machine that trusts the server.
    pub(crate) fn machine(&self) -> Result<Machine> {
        let mut machine = Machine::new()?;
        machine.set("CURL_CA_BUNDLE", &self.server.ca);
        machine.set("MOTORPOOL_JOB_USER", job_user()?);
        Ok(machine)
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Root has another user for its jobs; anybody else only has himself.
fn job_user() -> Result<String> {
    let uid = getuid();
    if uid.is_root() {
        return Ok("nobody".to_owned());
    }
    Ok(String::from_utf8(output(Command::new("id").arg("-un"))?.stdout)?.trim().to_owned())
}

pub(crate) fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
