//! The backend whose machines are agent processes on this host, each with a directory of its own. It starts and ends
//! them, and chooses the user of each one's jobs; it neither talks to an agent nor isolates one runner from another itself.
//!
//! The truth about a machine is a lock: its agent holds `agent.lock` for its whole life, and the kernel lets go of it
//! however the agent ends. So an agent outlives the process that started it, and is found again by the next one.

mod agents;
mod directory;
mod ending;
mod error;
mod lock;
mod stragglers;
mod users;

pub use users::JobUsers;

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use motorpool_control::ports::backend::{
    Backend, BackendError, LaunchError, LaunchOrder, Machine, Ordered, Unfit,
};
use motorpool_domain::pool::Rules;
use motorpool_domain::runner::{Presence, Runner};
use motorpool_domain::{PoolName, RunnerId};
use tokio::process::Command;

use agents::Agents;
use directory::{Root, RunnerDir, Tag};
use error::{Failure, blocking};

#[derive(Debug, Clone)]
pub struct LocalConfig {
    /// Tells this host's machines from those of other hosts, whose control planes may share the ledger. The same after a restart.
    pub site: String,
    /// The agent's program, and what comes before its own command `run`.
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// Each runner has its directory in here. Made if it is missing.
    pub root: PathBuf,
    /// Where the agents reach the control plane.
    pub server_url: String,
    /// What they trust there, if not what the host trusts.
    pub ca_file: Option<PathBuf>,
    /// Whether they may send their tokens there over plain HTTP, though it is not this host.
    pub insecure_http: bool,
    pub users: JobUsers,
    /// Of which jobs see nothing.
    pub hidden: Vec<PathBuf>,
    /// There are callers whom the operator does not vouch for: then a pool whose jobs can do what this process can must say so itself.
    pub has_teams: bool,
}

#[derive(Debug, Clone)]
pub struct LocalBackend {
    config: Arc<LocalConfig>,
    agents: Agents,
    /// Held by who looks for an agent and, finding none, starts one.
    launching: Arc<Mutex<()>>,
}

impl LocalBackend {
    pub fn new(config: LocalConfig) -> Self {
        Self { config: Arc::new(config), agents: Agents::default(), launching: Arc::default() }
    }

    fn root(&self) -> Root {
        Root::new(self.config.root.clone())
    }

    fn provider_id(&self, runner: &RunnerId) -> String {
        format!("local:{}:{runner}", self.config.site)
    }

    /// Whether the record names a machine of another host: here is nothing to see of it, and nothing to end.
    fn is_elsewhere(&self, runner: &Runner) -> bool {
        runner.provider_id.as_ref().is_some_and(|id| *id != self.provider_id(&runner.id))
    }

    async fn end(&self, runner: &RunnerId) -> Result<Presence, BackendError> {
        ending::end(self.root(), &self.agents, runner)
            .await
            .map_err(|failure| failure.while_trying(format!("end the agent of {runner}")))
    }
}

#[async_trait]
impl Backend for LocalBackend {
    /// All of them, or an error: what an earlier one of the order has started is found running when the order comes again.
    async fn launch(&self, order: &LaunchOrder<'_>) -> Result<Vec<Machine>, LaunchError> {
        let LaunchOrder { pool, launch, attempt: _, machines, launch_secret: _ } = order;
        let tagged: Vec<(Tag, String)> = machines
            .iter()
            .map(|Ordered { runner, secret }| {
                let (pool, launch) = (pool.name.clone(), (*launch).clone());
                let tag = Tag { runner: runner.clone(), pool, launch, job_uid: None };
                (tag, secret.clone())
            })
            .collect();
        let backend = self.clone();
        blocking(move || tagged.iter().try_for_each(|(tag, secret)| backend.start(tag, secret)))
            .await
            .map_err(|failure| LaunchError::Unconfirmed(Box::new(failure)))??;
        let machine =
            |runner: &RunnerId| Machine { runner: runner.clone(), provider_id: self.provider_id(runner) };
        Ok(machines.iter().map(|ordered| machine(&ordered.runner)).collect())
    }

    fn accepts(&self, rules: &Rules) -> Result<(), Unfit> {
        let LocalConfig { users, has_teams, .. } = self.config.as_ref();
        if users.are_apart() || !has_teams || rules.trusted {
            return Ok(());
        }
        Err(Unfit {
            why: "its jobs would run as the control plane's own user, who can read all of its secrets, and there are teams".to_owned(),
            hint: "start `motorpool serve` as root, which gives each runner's jobs a user of their own; or, if you trust whoever may use \
                   the pool with this host, say `trusted = true` in it"
                .to_owned(),
        })
    }

    /// An agent that was started a moment ago has no lock yet: it is there, too.
    async fn describe(&self, runner: &Runner) -> Result<Presence, BackendError> {
        if self.is_elsewhere(runner) {
            return Ok(Presence::Unknown);
        }
        if self.agents.alive(&runner.id) {
            return Ok(Presence::There);
        }
        let (root, id) = (self.root(), runner.id.clone());
        let held = blocking(move || root.find(&id)?.map(|dir| dir.lock().held()).transpose())
            .await
            .and_then(|held| held)
            .map_err(|failure| failure.while_trying(format!("look for the agent of {}", runner.id)))?;
        Ok(match held {
            Some(true) => Presence::There,
            Some(false) => Presence::Gone,
            // Never launched, or launched by another host whose answer is not noted yet.
            None if runner.provider_id.is_none() => Presence::Unknown,
            None => Presence::Gone,
        })
    }

    /// One that names no machine and has none here counts as gone. If another host has one all the same, that host's sweep finds it
    /// without a live record.
    async fn ensure_gone(&self, runner: &Runner) -> Result<Presence, BackendError> {
        if self.is_elsewhere(runner) {
            return Ok(Presence::Unknown);
        }
        self.end(&runner.id).await
    }

    async fn inventory(&self, pool: &PoolName) -> Result<Vec<Machine>, BackendError> {
        let root = self.root();
        let tags = blocking(move || root.tags())
            .await
            .and_then(|tags| tags)
            .map_err(|failure| failure.while_trying(format!("list the machines of pool {pool}")))?;
        let of_pool = tags.into_iter().filter(|tag| &tag.pool == pool);
        Ok(of_pool
            .map(|tag| Machine { provider_id: self.provider_id(&tag.runner), runner: tag.runner })
            .collect())
    }

    fn answers_for(&self, runner: &Runner) -> bool {
        !self.is_elsewhere(runner)
    }

    async fn discard(&self, machine: &Machine) -> Result<(), BackendError> {
        match self.end(&machine.runner).await? {
            Presence::Gone => Ok(()),
            Presence::There | Presence::Unknown => {
                let runner = machine.runner.clone();
                Err(Failure::StillThere { runner }.while_trying(format!("discard {}", machine.provider_id)))
            }
        }
    }
}

impl LocalBackend {
    /// Blocks. The program runs afterwards, or an earlier one still does.
    fn start(&self, tag: &Tag, secret: &str) -> Result<(), LaunchError> {
        let unconfirmed = |failure: Failure| LaunchError::Unconfirmed(Box::new(failure));
        let _launching = self.launching.lock().unwrap_or_else(PoisonError::into_inner);
        let (dir, new) = self.root().make(&tag.runner).map_err(unconfirmed)?;
        if self.agents.alive(&tag.runner) || dir.lock().held().map_err(unconfirmed)? {
            return Ok(());
        }
        let tag = &self.with_user(tag, &dir).map_err(unconfirmed)?;
        dir.write(tag, secret).map_err(unconfirmed)?;
        let command = self.command(tag, &dir).map_err(unconfirmed)?;
        let Err(error) = self.agents.start(&tag.runner, command) else { return Ok(()) };
        let program = self.config.program.clone();
        // All else that a start can fail for (no memory, too many processes) may be over in a moment.
        if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) {
            return Err(unconfirmed(Failure::Start { program, source: error }));
        }
        if new && let Err(failure) = dir.remove() {
            tracing::warn!(runner = %tag.runner, error = %failure.in_full(), "the directory of a refused launch stays behind");
        }
        Err(LaunchError::Refused(format!("the agent's program {} can't be run: {error}", program.display())))
    }

    /// The same user as before, if this runner was launched before.
    fn with_user(&self, tag: &Tag, dir: &RunnerDir) -> Result<Tag, Failure> {
        let range = match &self.config.users {
            JobUsers::Same | JobUsers::Root => return Ok(tag.clone()),
            JobUsers::OneEach(range) => range,
        };
        let known = dir.tag()?.and_then(|known| known.job_uid).filter(|uid| range.contains(uid));
        let uid = match known {
            Some(uid) => uid,
            None => {
                let taken = self.root().tags()?.into_iter().filter_map(|other| other.job_uid).collect();
                users::free_user(range, &taken, &tag.runner).ok_or(Failure::NoUser)?
            }
        };
        Ok(Tag { job_uid: Some(uid), ..tag.clone() })
    }

    fn command(&self, tag: &Tag, dir: &RunnerDir) -> Result<Command, Failure> {
        let LocalConfig {
            site: _,
            program,
            args,
            root: _,
            server_url,
            ca_file,
            insecure_http,
            users,
            hidden,
            has_teams: _,
        } = self.config.as_ref();
        let mut command = Command::new(program);
        command.args(args).arg("run");
        command.arg("--server").arg(server_url);
        command.arg("--runner").arg(tag.runner.as_str());
        command.arg("--dir").arg(dir.path());
        command.arg("--secret-file").arg(dir.secret_file());
        if let Some(file) = ca_file {
            command.arg("--ca-file").arg(file);
        }
        if *insecure_http {
            command.arg("--insecure-http");
        }
        match users {
            JobUsers::Same => {}
            JobUsers::Root => {
                command.arg("--work-as-root");
            }
            JobUsers::OneEach(range) => {
                let uid = tag.job_uid.ok_or(Failure::NoUser)?;
                command.arg("--job-uid").arg(uid.to_string());
                command.arg("--guard-uids").arg(format!("{}-{}", range.start(), range.end()));
                for dir in hidden {
                    command.arg("--hide").arg(dir);
                }
            }
        }
        // What the control plane was told through its environment, its tokens and credentials above all, is not for an agent.
        command.env_clear().envs(std::env::vars_os().filter(|(name, _value)| passes(name)));
        command.env(stragglers::MARK, dir.path());
        let (stdout, stderr) = dir.open_log()?;
        // In a group of its own, a signal to ours (Ctrl-C in a terminal, too) does not reach it.
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).process_group(0);
        Ok(command)
    }
}

/// What an agent needs of this process's environment: how to find programs and the control plane, and how to write its log.
fn passes(name: &OsStr) -> bool {
    const NAMES: [&str; 15] = [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "TMPDIR",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TERM",
        "RUST_LOG",
        "RUST_BACKTRACE",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "NO_COLOR",
    ];
    const PROXIES: [&str; 4] = ["http_proxy", "https_proxy", "all_proxy", "no_proxy"];
    name.to_str().is_some_and(|name| {
        NAMES.contains(&name)
            || name.starts_with("LC_")
            || PROXIES.contains(&name.to_ascii_lowercase().as_str())
    })
}
