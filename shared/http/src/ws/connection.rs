//! One agent's connection, from its upgrade to its end. Whatever it asks is worked on beside it, in places of that agent's own; it ends with its token,
//! with its peer, or with the server.

use super::channels::{Channels, Line, Order};
use super::ending::Ending;
use super::hands;
use super::messages::{Ask, Heard, answer, read};
use crate::App;
use crate::clock;
use crate::envelope::Refusal;
use crate::lane::{Agents, Place, too_many};
use axum::extract::ws::{Message, WebSocket};
use axum::http::StatusCode;
use motorpool_control::ports::channels::ExecError;
use motorpool_control::ports::entropy::{Entropy, SystemEntropy};
use motorpool_control::{ConnectedAgent, Control};
use motorpool_wire::channel::{ExecAnswer, ExecMessage, Response};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, interval_at, timeout};

/// A peer that does not take what it is sent for so long is gone.
const SENT_WITHIN: Duration = Duration::from_secs(10);
/// How long a peer has to take its leave.
const LEAVE: Duration = Duration::from_secs(2);
/// Answers that wait to be sent; whoever has one more waits with it.
const REPLIES: usize = 16;

/// All that a connection needs to begin.
#[derive(Debug)]
pub(crate) struct Connecting {
    pub(crate) agent: ConnectedAgent,
    pub(crate) token: SecretString,
    pub(crate) agents: Arc<Agents>,
    /// Of all connections.
    pub(crate) place: Place,
}

/// What a connection and all that is done for it have in common.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) control: Arc<Control>,
    pub(super) agent: ConnectedAgent,
    pub(super) line: Arc<Line>,
    token: SecretString,
    agents: Arc<Agents>,
    replies: mpsc::Sender<Response>,
}

/// Who waits for how a command ended, by the id of the message that asked for it.
type Waiting = HashMap<String, oneshot::Sender<Result<ExecAnswer, ExecError>>>;

impl Session {
    pub(super) fn token(&self) -> &str {
        self.token.expose_secret()
    }
}

/// Closes a connection whose token is not good.
pub(crate) async fn turn_away(socket: WebSocket, place: Place) {
    shut(socket, Ending::Unauthorized).await;
    drop(place);
}

pub(crate) async fn serve(socket: WebSocket, app: App, connecting: Connecting) {
    let Connecting { agent, token, agents, place } = connecting;
    let (line, orders) = Line::new();
    let (replies, to_send) = mpsc::channel(REPLIES);
    let runner = agent.runner.clone();
    let session = Session { control: Arc::clone(&app.control), agent, line, token, agents, replies };
    tracing::info!(%runner, "an agent connected");
    let ending = Connection::new(socket, Arc::new(session), &app).run(&app, orders, to_send).await;
    tracing::info!(%runner, why = ending.told(), "an agent's connection ended");
    drop(place);
}

struct Connection {
    socket: WebSocket,
    session: Arc<Session>,
    waiting: Waiting,
    /// What is being worked on for it. Aborted with it; what writes goes on to its end all the same.
    work: JoinSet<Option<Ending>>,
    /// It said something since it was last asked whether it is there.
    heard: bool,
}

impl Connection {
    fn new(socket: WebSocket, session: Arc<Session>, app: &App) -> Self {
        let mut work = JoinSet::new();
        if session.agent.is_silent {
            let (session, notifier) = (Arc::clone(&session), Arc::clone(&app.notifier));
            work.spawn(async move { Some(hands::play(&session, &notifier).await) });
        }
        Self { socket, session, waiting: Waiting::new(), work, heard: true }
    }

    async fn run(
        mut self,
        app: &App,
        mut orders: mpsc::Receiver<Order>,
        mut to_send: mpsc::Receiver<Response>,
    ) -> Ending {
        let channels: &Arc<Channels> = &app.channels;
        let listed = channels.list(&self.session.agent.runner, &self.session.line);
        let line = Arc::clone(&self.session.line);
        let mut stopping = pin!(app.notifier.closing());
        let every = app.limits.channel_ping;
        let mut ping = interval_at(clock::now() + every, every);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let ending = loop {
            let ended = tokio::select! {
                () = &mut stopping => Some(Ending::Stopping),
                () = line.replaced.notified() => Some(Ending::Replaced),
                Some(done) = self.work.join_next(), if !self.work.is_empty() => after(done),
                Some(reply) = to_send.recv() => self.send(&reply).await,
                Some(order) = orders.recv() => self.ask_to_run(order).await,
                _ = ping.tick() => self.ask_whether_it_is_there().await,
                message = self.socket.recv() => match message {
                    Some(Ok(message)) => self.hear(message).await,
                    Some(Err(_)) => Some(Ending::Unreadable),
                    None => Some(Ending::Gone),
                },
            };
            if let Some(ending) = ended {
                break ending;
            }
        };
        // Nobody finds it from here on. What is done for it ends before whoever waits for a command hears that it is over: a script that was cut off
        // with the connection is not told of as one that failed.
        drop((listed, self.work, orders, self.waiting));
        shut(self.socket, ending).await;
        ending
    }

    async fn hear(&mut self, message: Message) -> Option<Ending> {
        self.heard = true;
        match message {
            Message::Text(text) => match read(text.as_str()) {
                Heard::Asks { id, ask } => self.work_on(id, ask).await,
                Heard::Ran { id, outcome } => {
                    // Who waited may have given up.
                    self.waiting.remove(&id).map(|answer| answer.send(outcome));
                    None
                }
            },
            Message::Ping(_) | Message::Pong(_) => None,
            Message::Binary(_) => Some(Ending::Unsupported),
            Message::Close(_) => Some(Ending::Gone),
        }
    }

    async fn work_on(&mut self, id: String, ask: Result<Ask, Refusal>) -> Option<Ending> {
        let Some(places) = self.session.agents.enter(self.session.token()) else {
            return self.send(&told(id, Err(too_many()))).await;
        };
        let session = Arc::clone(&self.session);
        self.work.spawn(async move {
            let ending = respond(&session, id, ask).await;
            drop(places);
            ending
        });
        None
    }

    async fn ask_to_run(&mut self, Order { exec, answer }: Order) -> Option<Ending> {
        self.waiting.retain(|_, answer| !answer.is_closed());
        let id = format!("{:032x}", SystemEntropy.bits());
        self.waiting.insert(id.clone(), answer);
        self.send(&ExecMessage::new(id, exec)).await
    }

    async fn ask_whether_it_is_there(&mut self) -> Option<Ending> {
        if !std::mem::take(&mut self.heard) {
            return Some(Ending::Gone);
        }
        let session = Arc::clone(&self.session);
        self.work.spawn(async move { is_over(&session).await.unwrap_or(None) });
        self.push(Message::Ping(Vec::new().into())).await
    }

    async fn send(&mut self, message: &impl Serialize) -> Option<Ending> {
        match serde_json::to_string(message) {
            Ok(text) => self.push(Message::text(text)).await,
            Err(_) => Some(Ending::Failed),
        }
    }

    async fn push(&mut self, message: Message) -> Option<Ending> {
        match timeout(SENT_WITHIN, self.socket.send(message)).await {
            Ok(Ok(())) => None,
            Ok(Err(_)) | Err(_) => Some(Ending::Gone),
        }
    }
}

/// A token that was void in the meantime changes nothing and reveals nothing: its connection ends instead of an answer.
async fn respond(session: &Session, id: String, ask: Result<Ask, Refusal>) -> Option<Ending> {
    let outcome = match is_over(session).await {
        Ok(Some(ending)) => return Some(ending),
        Ok(None) => match ask {
            Ok(ask) => answer(session, ask).await,
            Err(refusal) => Err(refusal),
        },
        Err(refusal) => Err(refusal),
    };
    if outcome.as_ref().is_err_and(|refusal| refusal.status() == StatusCode::UNAUTHORIZED) {
        return Some(Ending::Unauthorized);
    }
    // Whoever would have sent it is gone with the connection.
    let _ = session.replies.send(told(id, outcome)).await;
    None
}

async fn is_over(session: &Session) -> Result<Option<Ending>, Refusal> {
    let is_good = session.control.is_token_of(session.token(), &session.agent.runner).await?;
    if !is_good {
        session.agents.forget_token(session.token());
    }
    Ok((!is_good).then_some(Ending::Unauthorized))
}

fn told(id: String, outcome: Result<serde_json::Value, Refusal>) -> Response {
    match outcome {
        Ok(data) => Response::ok(id, data),
        Err(refusal) => Response::error(id, refusal.status().as_u16(), refusal.message().to_owned()),
    }
}

fn after(done: Result<Option<Ending>, JoinError>) -> Option<Ending> {
    done.unwrap_or_else(|error| {
        tracing::error!(%error, "what was done for an agent's connection came to no end");
        Some(Ending::Failed)
    })
}

/// Says why, or answers the peer's leave, and waits a moment for its end.
async fn shut(mut socket: WebSocket, ending: Ending) {
    let leaving = async {
        let told = match ending.frame() {
            Some(frame) => socket.send(Message::Close(Some(frame))).await,
            None => Ok(()),
        };
        if told.is_ok() {
            while let Some(Ok(_)) = socket.recv().await {}
        }
    };
    let _ = timeout(LEAVE, leaving).await;
}
