//! The loop around the machine: what happens goes in, what comes out is done. It decides nothing.

use std::future::pending;
use std::pin::Pin;
use std::rc::Rc;

use motorpool_domain::{PoolName, RunnerId};
use motorpool_wire::agent::{RegistrationRequest, SyncRequest};
use reqwest::StatusCode;

use super::keys::{Keys, TakenBack};
use super::notices::Notices;
use super::signals::Signals;
use super::works::Works;
use crate::clock::{BootClock, BootInstant};
use crate::http::{Authorization, CallError, ControlPlane};
use crate::machine::{Effect, Fetch, Input, Machine, Memory, RegistrationFailure, SyncFailure, Token};
use crate::state::{Joined, State, Store};

pub(super) struct Reactor {
    pub(super) machine: Machine,
    pub(super) works: Works,
    pub(super) caller: Rc<Caller>,
    pub(super) keys: Keys,
    pub(super) store: Store,
    pub(super) state: State,
    pub(super) pool: PoolName,
    pub(super) boot_id: String,
    pub(super) signals: Signals,
    pub(super) notices: Notices,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Host { why: String },
    Agent { why: String },
}

/// A call under way.
type Calling = UnderWay<Input>;
type UnderWay<T> = Pin<Box<dyn Future<Output = T>>>;

impl Reactor {
    pub(super) async fn run(mut self) -> Ending {
        let mut syncing: Option<Calling> = None;
        let mut fetching: Option<Calling> = None;
        let mut taking_back: Option<UnderWay<TakenBack>> = None;
        let mut timer: Option<BootInstant> = None;
        let mut input = Input::TimerFired;
        // A program may bring itself up to date whenever it runs.
        let mut version_may_differ = true;
        loop {
            version_may_differ |= matches!(input, Input::RunEnded(_));
            for effect in self.machine.step(input, BootClock.now()) {
                match effect {
                    // The one that is under way is dropped, and with it its connection.
                    Effect::Sync(request, token) => {
                        let calling = Rc::clone(&self.caller).sync(self.keys.which(token), request);
                        syncing = Some(Box::pin(calling));
                    }
                    Effect::MakeToken => taking_back = Some(Box::pin(self.keys.take_back())),
                    Effect::AdoptToken => self.keys.adopt(&mut self.state, &self.store),
                    Effect::StartTask(start) => self.works.start_task(start).await,
                    Effect::StopTask { grace } => self.works.stop_task(grace),
                    Effect::FetchRegistration(fetch) => {
                        let calling = Rc::clone(&self.caller).fetch(self.keys.which(Token::Present), fetch);
                        fetching = Some(Box::pin(calling));
                    }
                    Effect::StartRun(start) => self.works.start_run(start).await,
                    Effect::StopRun { grace } => self.works.stop_run(grace),
                    Effect::RenewFence(at) => self.works.renew_fence(at),
                    Effect::SaveState(memory) => self.save(memory),
                    Effect::SetTimer(at) => timer = Some(at),
                    Effect::EndHost { why } => return Ending::Host { why },
                    Effect::EndAgent { why } => return Ending::Agent { why },
                }
            }
            if version_may_differ {
                version_may_differ = !self.works.find_version().await;
            }
            input = tokio::select! {
                biased;
                () = self.signals.stop() => Input::StopRequested,
                taken_back = or_never(&mut taking_back) => {
                    taking_back = None;
                    self.keys.make(taken_back, &mut self.state, &self.store)
                }
                ended = self.works.next_end() => ended,
                told = or_never(&mut syncing) => {
                    syncing = None;
                    told
                }
                told = or_never(&mut fetching) => {
                    fetching = None;
                    told
                }
                notice = self.notices.next() => Input::Noticed(notice),
                () = until(timer) => {
                    timer = None;
                    Input::TimerFired
                }
            };
        }
    }

    /// A full disk must not end work that goes well: the next change is written again.
    fn save(&mut self, memory: Memory) {
        let joined = Joined { pool: self.pool.clone(), boot_id: self.boot_id.clone(), memory };
        self.state.joined = Some(joined);
        if let Err(error) = self.store.save(&self.state) {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "what the agent knows could not be saved"
            );
        }
    }
}

async fn or_never<T>(under_way: &mut Option<UnderWay<T>>) -> T {
    match under_way {
        Some(under_way) => under_way.await,
        None => pending().await,
    }
}

async fn until(timer: Option<BootInstant>) {
    match timer {
        Some(at) => BootClock.sleep_until(at).await,
        None => pending().await,
    }
}

/// A request out, an input in.
pub(super) struct Caller {
    pub(super) runner: RunnerId,
    pub(super) session: String,
    pub(super) control_plane: ControlPlane,
}

impl Caller {
    async fn sync(self: Rc<Self>, authorization: Authorization, request: SyncRequest) -> Input {
        let sent_at = BootClock.now();
        let error = match self.control_plane.sync(&authorization, &request).await {
            Ok(answer) => return Input::SyncAnswered { sent_at, answer },
            Err(error) => error,
        };
        tracing::warn!(error = &error as &dyn std::error::Error, "a sync failed");
        Input::SyncFailed(match error {
            CallError::Refused { status: StatusCode::GONE, message, retry_after: _ } => {
                SyncFailure::Gone { message }
            }
            CallError::Refused { status: StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, .. } => {
                SyncFailure::Unauthorized
            }
            CallError::Refused { .. } | CallError::Unreachable(_) | CallError::NotUnderstood(_) => {
                SyncFailure::Unreachable
            }
        })
    }

    async fn fetch(self: Rc<Self>, authorization: Authorization, fetch: Fetch) -> Input {
        let Fetch { label, epoch, count } = fetch.clone();
        let session = Some(self.session.clone());
        let request = RegistrationRequest { runner: self.runner.clone(), epoch, label, count, session };
        let error = match self.control_plane.registration(&authorization, &request).await {
            Ok(answer) => return Input::Registered { fetch, answer },
            Err(error) => error,
        };
        tracing::warn!(error = &error as &dyn std::error::Error, count, "a registration could not be had");
        Input::RegistrationFailed { fetch, failure: registration_failure(error) }
    }
}

/// What a sync will hear too is left to the sync.
fn registration_failure(error: CallError) -> RegistrationFailure {
    match error {
        CallError::Refused { status: StatusCode::CONFLICT, .. } => RegistrationFailure::Outdated,
        CallError::Refused { status, message, retry_after: wait } => match status {
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::REQUEST_TIMEOUT
            | StatusCode::UNAUTHORIZED
            | StatusCode::GONE => RegistrationFailure::Later { wait },
            refused if refused.is_client_error() => RegistrationFailure::Refused { why: message },
            _failed => RegistrationFailure::Later { wait },
        },
        CallError::Unreachable(_) | CallError::NotUnderstood(_) => RegistrationFailure::Later { wait: None },
    }
}
