//! An agent on this host as a unit of `infra/` starts it: its arguments are the unit's, with every path under a directory of the test.

use anyhow::{Context, Result, ensure};
use motorpool_tests::fakes::fake_agent::{register, secret_of};
use motorpool_tests::harness::serve::{Serve, binary};
use motorpool_tests::harness::story::comes_to;
use serde_json::json;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// What the agent may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Powers {
    /// The unit's capabilities, and none beside.
    OfTheUnit,
    /// As in most containers.
    WithoutNamespaces,
}

impl Powers {
    pub(crate) fn lacks_sandbox(self) -> bool {
        match self {
            Self::OfTheUnit => false,
            Self::WithoutNamespaces => true,
        }
    }
}

pub(crate) struct OwnMachine {
    root: TempDir,
    agent_dir: &'static str,
    child: Child,
}

fn infra(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra").join(path)
}

/// The agent's arguments in a unit, as one line of shell.
fn arguments_of(unit: &str) -> Result<String> {
    let text = unit.replace("\\\n", "");
    let line =
        text.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/motorpool-agent run "));
    Ok(line.context("ExecStart")?.to_owned())
}

impl OwnMachine {
    pub(crate) async fn of_the_unit(serve: &Serve, powers: Powers, canary: &str) -> Result<Self> {
        let unit = fs::read_to_string(infra("systemd/motorpool-agent.service"))?;
        let line = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet="));
        let all = line.context("CapabilityBoundingSet")?.to_lowercase().replace("cap_", "+");
        let kept: Vec<&str> =
            all.split_whitespace().filter(|name| !powers.lacks_sandbox() || *name != "+sys_admin").collect();
        let bounding = format!("--bounding-set=-all,{}", kept.join(","));
        let root = TempDir::with_prefix("motorpool-own-")?;
        let arguments = arguments_of(&unit)?;
        ensure!(arguments.contains("--job-user motorpool-job"), "{arguments}");
        Self::start(serve, root, "/var/lib/motorpool-agent", &arguments, &bounding, canary).await
    }

    /// Installed by the script that the user data has, from an image with this runner program.
    pub(crate) async fn of_user_data(serve: &Serve, program: &str, canary: &str) -> Result<Self> {
        let root = TempDir::with_prefix("motorpool-own-")?;
        fs::set_permissions(root.path(), Permissions::from_mode(0o755))?;
        let runner = root.path().join("opt/motorpool/runner");
        fs::create_dir_all(&runner)?;
        fs::write(runner.join("run.sh"), program)?;
        fs::set_permissions(runner.join("run.sh"), Permissions::from_mode(0o755))?;
        let agent = root.path().join("usr/local/bin/motorpool-agent");
        fs::create_dir_all(agent.parent().context("a parent")?)?;
        std::os::unix::fs::symlink(binary()?, &agent)?;
        let installed = Command::new("/bin/sh")
            .arg(infra("runner/install.sh"))
            .env("MOTORPOOL_ROOT", root.path())
            .env("MOTORPOOL_JOB_USER", "nobody")
            .output()?;
        ensure!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
        let unit = fs::read_to_string(infra("systemd/motorpool-agent-ec2.service"))?;
        // Which of its launch it is, it is told here: no metadata service says so, and no launch was made.
        let arguments = arguments_of(&unit)?
            .replace("--launch ${MOTORPOOL_LAUNCH}", "--runner ${MOTORPOOL_RUNNER}")
            .replace("--from ${MOTORPOOL_FROM}", "")
            .replace("--ec2", "")
            .replace("--end-host-cmd 'systemctl poweroff'", "");
        Self::start(serve, root, "/var/lib/motorpool", &arguments, "--bounding-set=+all", canary).await
    }

    async fn start(
        serve: &Serve,
        root: TempDir,
        agent_dir: &'static str,
        arguments: &str,
        bounding: &str,
        canary: &str,
    ) -> Result<Self> {
        let secret = secret_of(&register(serve.api(), "p", "m-1", json!({})).await?)?;
        let at = |path: &str| root.path().join(path.trim_start_matches('/'));
        let mut arguments = arguments.replace("--job-user motorpool-job", "--job-user nobody");
        for path in ["/var/lib/motorpool", "/etc/motorpool", "/run/motorpool", "/opt/motorpool"] {
            arguments = arguments.replace(&format!(" {path}"), &format!(" {}", at(path).display()));
        }
        for file in ["/etc/motorpool/bootstrap-secret", "/run/motorpool/launch-secret"] {
            if arguments.contains(at(file).to_str().context("UTF-8")?) {
                fs::create_dir_all(at(file).parent().context("a parent")?)?;
                fs::write(at(file), &secret)?;
                fs::set_permissions(at(file), Permissions::from_mode(0o600))?;
            }
        }
        // As the units have it made: RuntimeDirectory.
        fs::create_dir_all(at("/run/motorpool"))?;
        fs::set_permissions(at("/run/motorpool"), Permissions::from_mode(0o755))?;
        let log = fs::File::create(at("agent.log"))?;
        let mut command = Command::new("setpriv");
        command.args([bounding, "--inh-caps=-all", "--no-new-privs", "--", "/bin/sh", "-c"]);
        command.arg(format!("exec \"$AGENT\" agent run {arguments}"));
        command
            .env("AGENT", binary()?)
            .env("MOTORPOOL_SERVER", serve.api().base())
            .env("MOTORPOOL_RUNNER", "m-1")
            .env("MOTORPOOL_AGENT_OPTIONS", "")
            .env("SECRET_OF_THE_AGENT", canary)
            .env("NO_PROXY", "*");
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()?;
        let machine = Self { root, agent_dir, child };
        comes_to(serve.api(), "m-1", "idle").await.with_context(|| machine.log())?;
        Ok(machine)
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    pub(crate) fn agent_dir(&self) -> PathBuf {
        self.at(self.agent_dir)
    }

    /// Where jobs have their directories: elsewhere, on a host that hides nothing.
    pub(crate) fn jobs_dir(&self) -> Result<PathBuf> {
        match fs::read_to_string(self.agent_dir().join("jobs-dir")) {
            Ok(named) => Ok(named.into()),
            Err(_) => Ok(self.agent_dir()),
        }
    }

    pub(crate) fn pid(&self) -> Result<i32> {
        Ok(i32::try_from(self.child.id())?)
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.at("agent.log")).unwrap_or_default()
    }
}

impl Drop for OwnMachine {
    fn drop(&mut self) {
        // It has been told to end by nobody; its supervisors end its work.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Ok(dir) = self.jobs_dir()
            && dir != self.agent_dir()
        {
            let _ = fs::remove_dir_all(dir);
        }
    }
}
