//! Redeems the launch secret: once for each secret, with one token, however often the answer is lost.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use motorpool_domain::RunnerId;
use motorpool_wire::agent::{BootstrapAnswer, BootstrapRequest};
use reqwest::StatusCode;
use secrecy::{ExposeSecret, SecretString};

use super::AgentError;
use crate::clock::{BootClock, BootInstant};
use crate::http::{CallError, ControlPlane};
use crate::identity;
use crate::imds::Instance;
use crate::machine::Memory;
use crate::private::exposed;
use crate::state::{Joined, State, Store};

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

pub(super) struct Bootstrap<'a> {
    pub(super) control_plane: &'a ControlPlane,
    pub(super) store: &'a Store,
    pub(super) runner: &'a RunnerId,
    /// What its provider calls this machine. On EC2 the control plane may hear of it before it knows of its launch.
    pub(super) instance: Option<&'a Instance>,
    pub(super) boot_id: &'a str,
    pub(super) secret_file: Option<&'a Path>,
    pub(super) give_up_at: BootInstant,
}

pub(super) enum Bootstrapped {
    Joined(Box<Member>),
    /// The runner is over before it began.
    Over {
        why: String,
    },
}

pub(super) struct Member {
    pub(super) state: State,
    pub(super) joined: Joined,
}

impl Bootstrap<'_> {
    /// Safe to cancel: the next start goes on with the same token.
    pub(super) async fn run(&self, found: Option<State>) -> Result<Bootstrapped, AgentError> {
        let Some(secret) = self.read_secret(found.as_ref())? else {
            return found.and_then(member).ok_or(AgentError::NoSecret);
        };
        let state = self.with_token_for(&secret, found)?;
        let request = BootstrapRequest {
            runner: self.runner.clone(),
            secret: secret.expose_secret().to_owned(),
            token_sha256: identity::sha256_hex(state.token.expose_secret()),
            machine_id: state.machine_id.clone(),
            boot_id: self.boot_id.to_owned(),
        };
        let bootstrapped = match member(state.clone()) {
            // The last agent redeemed it, and died before it could delete it.
            Some(bootstrapped) => bootstrapped,
            None => match self.redeem(&request).await? {
                Redeemed::Taken(answer) => self.join(state, answer)?,
                Redeemed::Over { why } => return Ok(Bootstrapped::Over { why }),
            },
        };
        self.delete_secret();
        Ok(bootstrapped)
    }

    /// A file that is not there was redeemed and deleted. One that others can read is of no harm only once it is redeemed: an agent that may not
    /// delete it goes on.
    fn read_secret(&self, found: Option<&State>) -> Result<Option<SecretString>, AgentError> {
        let Some(path) = self.secret_file else { return Ok(None) };
        let failed = |source| AgentError::SecretFile { path: path.to_owned(), source };
        let exposed = match fs::metadata(path) {
            Ok(metadata) => exposed(&metadata),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let text = SecretString::from(fs::read_to_string(path).map_err(failed)?);
        let secret: SecretString = match text.expose_secret().trim() {
            "" => return Err(failed(io::Error::other("it is empty"))),
            secret => secret.into(),
        };
        match exposed {
            Some(mode) if !found.is_some_and(|state| has_redeemed(state, &secret)) => {
                Err(AgentError::SecretExposed { path: path.to_owned(), mode })
            }
            Some(_) | None => Ok(Some(secret)),
        }
    }

    /// The token is on disk before anybody hears of it. A new secret gets a new token: the old one may be why it was asked for.
    fn with_token_for(&self, secret: &SecretString, found: Option<State>) -> Result<State, AgentError> {
        let secret_sha256 = identity::sha256_hex(secret.expose_secret());
        let (machine_id, joined) = match found {
            Some(state) if state.secret_sha256 == secret_sha256 => return Ok(state),
            Some(State { machine_id, joined, .. }) => (machine_id, joined),
            None => match self.instance {
                Some(instance) => (instance.id.clone(), None),
                None => (identity::machine_id(self.runner), None),
            },
        };
        let (runner, token) = (self.runner.clone(), identity::new_token());
        let state =
            State { runner, machine_id, token, next_token: None, secret_sha256, redeemed: false, joined };
        self.store.save(&state)?;
        Ok(state)
    }

    async fn redeem(&self, request: &BootstrapRequest) -> Result<Redeemed, AgentError> {
        let mut pause = FIRST_PAUSE;
        loop {
            let call = tokio::select! {
                call = self.control_plane.bootstrap(request) => call,
                () = BootClock.sleep_until(self.give_up_at) => return Ok(self.out_of_time()),
            };
            let error = match call {
                Ok(answer) => return Ok(Redeemed::Taken(answer)),
                Err(CallError::Refused { status: StatusCode::GONE, message, retry_after: _ }) => {
                    return Ok(Redeemed::Over {
                        why: format!("the control plane says that it is gone: {message}"),
                    });
                }
                Err(error) if self.is_final(&error) => return Err(AgentError::Refused(error)),
                Err(error) => error,
            };
            tracing::warn!(error = &error as &dyn std::error::Error, "the secret could not be redeemed yet");
            // Half of it by chance, so that machines launched together do not come back together.
            let told = match &error {
                CallError::Refused { retry_after, .. } => retry_after.unwrap_or_default().min(LONGEST_PAUSE),
                CallError::Unreachable(_) | CallError::NotUnderstood(_) => Duration::ZERO,
            };
            let again_at = BootClock.now() + told + pause.mul_f64(rand::random_range(0.5..1.0));
            BootClock.sleep_until(again_at.min(self.give_up_at)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Whether asking again would get the same answer.
    fn is_final(&self, error: &CallError) -> bool {
        match error {
            CallError::Refused { status: StatusCode::CONFLICT, .. } => self.instance.is_none(),
            CallError::Refused { status, message: _, retry_after: _ } => {
                status.is_client_error()
                    && *status != StatusCode::TOO_MANY_REQUESTS
                    && *status != StatusCode::REQUEST_TIMEOUT
            }
            CallError::Unreachable(_) | CallError::NotUnderstood(_) => false,
        }
    }

    fn out_of_time(&self) -> Redeemed {
        Redeemed::Over { why: "its secret could not be redeemed in time".to_owned() }
    }

    fn join(&self, mut state: State, answer: BootstrapAnswer) -> Result<Bootstrapped, AgentError> {
        let BootstrapAnswer { pool, epoch } = answer;
        let memory = match state.joined.take().map(|joined| joined.memory) {
            Some(memory) if memory.epoch == epoch => memory,
            Some(mut memory) => {
                memory.enter(epoch);
                memory
            }
            None => Memory::fresh(epoch),
        };
        let joined = Joined { pool, boot_id: self.boot_id.to_owned(), memory };
        state.joined = Some(joined.clone());
        state.redeemed = true;
        self.store.save(&state)?;
        Ok(Bootstrapped::Joined(Box::new(Member { state, joined })))
    }

    fn delete_secret(&self) {
        let Some(path) = self.secret_file else { return };
        if let Err(error) = fs::remove_file(path) {
            tracing::warn!(path = %path.display(), %error, "the redeemed secret could not be deleted");
        }
    }
}

enum Redeemed {
    Taken(BootstrapAnswer),
    Over { why: String },
}

fn has_redeemed(state: &State, secret: &SecretString) -> bool {
    state.redeemed && state.secret_sha256 == identity::sha256_hex(secret.expose_secret())
}

fn member(state: State) -> Option<Bootstrapped> {
    let joined = state.joined.clone().filter(|_| state.redeemed)?;
    Some(Bootstrapped::Joined(Box::new(Member { state, joined })))
}
