//! An agent's life from start to end: lock, state, bootstrap, the loop around the machine, the end. What to do when is
//! the machine's to say.

mod bootstrap;
mod confine;
mod end_host;
mod keys;
mod notices;
mod program;
mod reactor;
mod report;
mod signals;
mod works;

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use motorpool_domain::RunnerId;
use reqwest::header::InvalidHeaderValue;
use secrecy::ExposeSecret;
use thiserror::Error as ThisError;

use crate::cli::{RUNNER_DIR, RunArgs, Who};
use crate::clock::{BootClock, BootInstant};
use crate::home::{Home, HomeError};
use crate::http::{CallError, ClientError, ControlPlane, Server, ServerError};
use crate::identity;
use crate::imds::{Imds, ImdsError, Instance};
use crate::jobs::{Jobs, JobsError};
use crate::machine::{Machine, Settings};
use crate::socket::{self, Forward, ListenError, Listening, SocketArgs, SocketPlace};
use crate::state::{StateError, Store};
use crate::work::{self, SupervisorCommand};
pub(crate) use keys::LentToken;

use bootstrap::{Bootstrap, Bootstrapped, Member};
use keys::Keys;
use notices::Notices;
use reactor::{Caller, Ending, Reactor};
use signals::Signals;
use works::Works;

/// `supervisor` lacks only the agent's directory, as its last argument.
pub(crate) async fn run(args: &RunArgs, mut supervisor: SupervisorCommand) -> Result<ExitCode, AgentError> {
    let first_contact_by = BootClock.now() + Duration::from_secs(args.first_contact_seconds);
    let server = Server::parse(&args.server, args.insecure_http)?;
    let control_plane = ControlPlane::new(server.clone(), args.ca_file.as_deref())?;
    let mut signals = Signals::listen().map_err(AgentError::Signals)?;
    let home = Home::open(&args.dir)?;
    let _lock = home.lock().await?;
    let jobs = Jobs::of(&args.jobs, &home, args.who.is_ec2())?;
    let boot_id = identity::boot_id().map_err(AgentError::BootId)?;
    let identified = tokio::select! {
        identified = identify(args, first_contact_by) => identified?,
        () = signals.stop() => return Ok(ExitCode::SUCCESS),
    };
    let Identity { runner, instance, imds } = match identified {
        Identified::Known(identity) => identity,
        Identified::Nobody { why } => return Ok(end_host::end(args.end_host_cmd.as_deref(), &why).await),
    };
    let store = Store::at(home.state_file());
    let found = store.load()?;
    if let Some(found) = found.as_ref().filter(|found| found.runner != runner) {
        return Err(AgentError::OtherRunner { dir: home.dir().to_owned(), found: found.runner.clone() });
    }
    let owner = owner(&runner, &home);
    let left_behind = work::sweep(&owner).await;
    if left_behind > 0 {
        tracing::error!(left_behind, "processes of an earlier agent could not be killed");
    }
    supervisor.env.push((RUNNER_DIR.into(), home.dir().into()));
    let (home, jobs) = confine::settle(home, jobs, &supervisor, &owner).await?;
    let bootstrap = Bootstrap {
        control_plane: &control_plane,
        store: &store,
        runner: &runner,
        instance: instance.as_ref(),
        boot_id: &boot_id,
        secret_file: args.secret_file.as_deref(),
        give_up_at: first_contact_by,
    };
    let bootstrapped = tokio::select! {
        bootstrapped = bootstrap.run(found) => bootstrapped?,
        () = signals.stop() => return Ok(ExitCode::SUCCESS),
    };
    let Member { state, joined } = match bootstrapped {
        Bootstrapped::Joined(member) => *member,
        Bootstrapped::Over { why } => return Ok(end_host::end(args.end_host_cmd.as_deref(), &why).await),
    };
    tracing::info!(%runner, pool = %joined.pool, server = server.as_str(), "the agent is at work");

    let program_dir = std::path::absolute(&args.program_dir).map_err(AgentError::ProgramDir)?;
    let listening = listen(&args.socket, &home, jobs.as_ref())?;
    let socket =
        listening.as_ref().map(Listening::path).filter(|at| args.socket.is_seen_by(jobs.as_ref(), at));
    let env = works::environment(&runner, &joined.pool, &server, &home, &program_dir, socket);
    let works = Works::new(works::Place { home, jobs, program_dir, owner, env }, supervisor, left_behind);
    let session = identity::new_session();
    let next_token = state.next_token.as_ref().map(|token| identity::sha256_hex(token.expose_secret()));
    let settings = Settings {
        runner: runner.clone(),
        boot_id: boot_id.clone(),
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        session: session.clone(),
        next_token,
        seed: rand::random(),
        first_contact_by,
    };
    let memory = joined.memory.clone().after_restart(joined.boot_id == boot_id);
    let machine = Machine::new(settings, memory, BootClock.now());
    let keys = Keys::of(&state).map_err(AgentError::Token)?;
    let forward = Forward { control_plane: control_plane.clone(), token: keys.lend() };
    let hooks = listening.map(|listening| tokio::spawn(socket::serve(listening, forward)));
    let caller = Rc::new(Caller { runner, session, control_plane });
    let pool = joined.pool;
    let notices = imds.map_or_else(Notices::none, Notices::of);
    let reactor = Reactor { machine, works, caller, keys, store, state, pool, boot_id, signals, notices };
    let ending = reactor.run().await;
    if let Some(hooks) = hooks {
        // And with it the socket's file.
        hooks.abort();
        let _aborted = hooks.await;
    }
    Ok(match ending {
        Ending::Host { why } => end_host::end(args.end_host_cmd.as_deref(), &why).await,
        Ending::Agent { why } => {
            tracing::info!(why, "the agent ends, and no work is left");
            ExitCode::SUCCESS
        }
    })
}

/// None where it could not be made in the place that is its own by default: a pool without hooks can do without.
fn listen(args: &SocketArgs, home: &Home, jobs: Option<&Jobs>) -> Result<Option<Listening>, AgentError> {
    let listening = SocketPlace::of(args, home, jobs).and_then(|place| Listening::at(&place));
    match listening {
        Ok(listening) => {
            tracing::info!(socket = %listening.path().display(), "hooks of jobs are listened to");
            if !args.is_seen_by(jobs, listening.path()) {
                tracing::warn!(
                    "the jobs that this agent starts do not see its socket: it is in a place that is hidden from them"
                );
            }
            Ok(Some(listening))
        }
        Err(error) if args.is_named() => Err(error.into()),
        Err(error) => {
            tracing::warn!(error = &error as &dyn Error, "hooks of jobs cannot reach this agent");
            Ok(None)
        }
    }
}

/// Which runner this is.
struct Identity {
    runner: RunnerId,
    /// On EC2 only, and so the next.
    instance: Option<Instance>,
    imds: Option<Imds>,
}

enum Identified {
    Known(Identity),
    /// Nobody will ever ask for a machine that does not know what it is.
    Nobody {
        why: String,
    },
}

async fn identify(args: &RunArgs, give_up_at: BootInstant) -> Result<Identified, AgentError> {
    let (launch, from, metadata_url) = match args.who.who().ok_or(AgentError::Who)? {
        Who::Told(runner) => {
            let identity = Identity { runner: runner.clone(), instance: None, imds: None };
            return Ok(Identified::Known(identity));
        }
        Who::Ec2 { launch, from, metadata_url } => (launch, from, metadata_url),
    };
    let imds = Imds::at(metadata_url)?;
    let instance = match imds.instance_until(give_up_at).await {
        Ok(instance) => instance,
        Err(error) => {
            tracing::error!(error = &error as &dyn Error, "the instance metadata could not be had in time");
            return Ok(Identified::Nobody { why: "it could not find out which runner it is".to_owned() });
        }
    };
    let runner = RunnerId::of_launch(launch, from.saturating_add(instance.launch_index));
    tracing::info!(%runner, instance = instance.id, %launch, "this instance knows which runner it is");
    Ok(Identified::Known(Identity { runner, instance: Some(instance), imds: Some(imds) }))
}

/// A name for this agent's work that no other agent on this host has: the lock makes its directory its own.
fn owner(runner: &RunnerId, home: &Home) -> String {
    let directory: String = identity::sha256_hex(home.dir()).chars().take(16).collect();
    format!("{runner}@{directory}")
}

#[derive(Debug, ThisError)]
pub(crate) enum AgentError {
    #[error("say which runner this is: --runner, or on EC2 --ec2 with --launch and --from")]
    Who,
    #[error(transparent)]
    Metadata(#[from] ImdsError),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Home(#[from] HomeError),
    #[error(transparent)]
    Jobs(#[from] JobsError),
    #[error(transparent)]
    Socket(#[from] ListenError),
    #[error("the metadata service of this machine could not be closed to its jobs: {0}")]
    MetadataOpen(String),
    #[error(transparent)]
    State(#[from] StateError),
    #[error("the agent's own executable could not be started")]
    Executable(#[source] io::Error),
    #[error("the agent's runtime could not be made")]
    Runtime(#[source] io::Error),
    #[error("the path of the runner program's directory is of no use")]
    ProgramDir(#[source] io::Error),
    #[error("signals cannot be listened for")]
    Signals(#[source] io::Error),
    #[error("this boot's id could not be read")]
    BootId(#[source] io::Error),
    #[error("{dir} is the directory of runner {found}; give each runner a directory of its own")]
    OtherRunner { dir: String, found: RunnerId },
    #[error(
        "this agent has not been bootstrapped, and there is no secret; give --secret-file with the secret that the \
         control plane showed for this runner"
    )]
    NoSecret,
    #[error("the secret file {path} could not be read", path = path.display())]
    SecretFile { path: PathBuf, source: io::Error },
    #[error(
        "the secret file {path} is open to other users (mode {mode:03o}), so they may know the secret; ask the control plane for a \
         new one (motorpool runners token), or if nobody can have read it, close the file: chmod 600 {path}",
        path = path.display()
    )]
    SecretExposed { path: PathBuf, mode: u32 },
    #[error("the secret could not be redeemed; ask the control plane for a new one for this runner")]
    Refused(#[source] CallError),
    #[error("the agent's token cannot be sent; ask for a new bootstrap secret")]
    Token(#[source] InvalidHeaderValue),
}

impl AgentError {
    /// The control plane said no, and will say so again.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_))
    }
}
