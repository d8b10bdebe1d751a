//! The way into a route: who calls is known first, then the body is read, then a place is taken, and only then something is done. Who is
//! not known is told so before anything is kept for it. Places are a caller's own, so that its flood is its own 429. Nothing is queued.

mod agents;
mod body;
mod long_answer;
mod passage;
mod places;

pub(crate) use agents::{AgentPlaces, Agents, Newcomer};
pub(crate) use body::{too_long, unreadable};
pub(crate) use passage::Passing;

use crate::auth::{Authenticated, TokenOf, Tokens, authenticate, bearer};
use crate::envelope::Refusal;
use crate::limits::HttpLimits;
use crate::log::{CallerKind, Mark};
use crate::ws::ChannelCredentials;
use axum::extract::Request;
use motorpool_wire::channel::LONGEST_EXEC;
pub(crate) use places::{Place, Places};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tower::Layer;

/// A layer over routes that share places.
#[derive(Debug, Clone)]
pub struct Lane {
    guests: Arc<Guests>,
    body_bytes: usize,
    body_within: Duration,
    time: Duration,
}

#[derive(Debug)]
enum Guests {
    /// Nobody needs a token.
    Anybody(Share),
    Callers {
        tokens: Arc<Tokens>,
        operator: Share,
        /// As many as `tokens.teams`; those of one team are the same.
        teams: Vec<Share>,
    },
    Agents(Arc<Agents>),
    /// As agents, but for how they show their token: one that shows none, or a wrong one, is told so over its WebSocket.
    Channels(Arc<Agents>),
    /// Whose token is a caller's comes in as one, and everybody else as an agent.
    CallersAndAgents {
        tokens: Arc<Tokens>,
        callers: Lane,
        agents: Lane,
    },
}

/// What one caller may have at once.
#[derive(Debug, Clone)]
struct Share {
    reading: Arc<Places>,
    working: Arc<Places>,
}

/// What a request was let in with.
#[derive(Debug)]
struct Ticket {
    /// To be taken while the body is read, where somebody else could be in want of it.
    reading: Option<Arc<Places>>,
    /// To be taken once the body is there.
    working: Arc<Places>,
    agent: Option<AgentTicket>,
}

#[derive(Debug)]
enum AgentTicket {
    /// With one of its own places, from the first to the last.
    Known {
        agents: Arc<Agents>,
        key: u64,
        _own: Place,
    },
    Newcomer(Arc<Newcomer>),
}

/// The lanes of the API.
#[derive(Debug)]
pub(crate) struct Lanes {
    /// What operators and teams do.
    pub(crate) work: Lane,
    /// What may wait, so that those who wait keep nobody from working.
    pub(crate) waits: Lane,
    /// What tells of the service, so that it answers while the API is full: with a token, and without.
    pub(crate) figures: Lane,
    pub(crate) service: Lane,
    pub(crate) agents: Lane,
    pub(crate) syncs: Lane,
    /// What is a runner's own, and may be looked at by callers too.
    pub(crate) looks: Lane,
    /// Where an agent opens its WebSocket. What it asks over it takes places of its own, one by one.
    pub(crate) channels: Lane,
    /// Commands that the operator has run: they take their time, and keep nobody from working.
    pub(crate) execs: Lane,
    /// A machine that joins has no token yet.
    pub(crate) joining: Lane,
    /// A CI system has none either: its body tells whether it is one.
    pub(crate) webhooks: Lane,
}

impl Lanes {
    pub(crate) fn new(limits: &HttpLimits, tokens: &Arc<Tokens>) -> Self {
        let HttpLimits { request, claim_hold, sync_hold, sync_body_bytes, .. } = *limits;
        let HttpLimits { api_at_once, team_at_once, waits_at_once, .. } = *limits;
        let HttpLimits { webhook_body_bytes, webhooks_at_once, .. } = *limits;
        let HttpLimits { agent_at_once, agents_at_once, newcomers_at_once, .. } = *limits;
        let agents = AgentPlaces { each: agent_at_once, all: agents_at_once, newcomers: newcomers_at_once };
        let agents = Arc::new(Agents::new(agents));
        let channels = Lane::of(Guests::Channels(Arc::clone(&agents)), limits);
        let agents = Lane::for_agents(agents, limits);
        let team = |said: Option<usize>| said.unwrap_or(team_at_once);
        let work = Lane::for_callers(tokens, api_at_once, team, limits);
        Self {
            looks: Lane::for_callers_and_agents(tokens, &work, &agents, limits),
            work,
            waits: Lane::for_callers(tokens, waits_at_once, |_| waits_at_once, limits)
                .lasting(request.saturating_add(claim_hold)),
            figures: Lane::for_callers(tokens, api_at_once, team, limits),
            service: Lane::open(api_at_once, limits),
            syncs: agents.clone().lasting(request.saturating_add(sync_hold)).taking(sync_body_bytes),
            agents,
            channels,
            execs: Lane::for_callers(tokens, limits.execs_at_once, |_| limits.execs_at_once, limits)
                .lasting(request.saturating_add(LONGEST_EXEC)),
            joining: Lane::open(newcomers_at_once.min(agents_at_once), limits),
            webhooks: Lane::open(webhooks_at_once, limits).taking(webhook_body_bytes),
        }
    }
}

impl Lane {
    /// For routes that need no token.
    pub fn open(at_once: usize, limits: &HttpLimits) -> Self {
        Self::of(Guests::Anybody(Share::of(at_once, limits)), limits)
    }

    /// For operators and teams: `operator` places for the one, `team` for each of the others that `tokens` says nothing else of.
    pub(crate) fn for_callers(
        tokens: &Arc<Tokens>,
        operator: usize,
        team: impl Fn(Option<usize>) -> usize,
        limits: &HttpLimits,
    ) -> Self {
        let mut by_owner = BTreeMap::new();
        let teams = tokens.teams.iter().map(|(owner, _)| {
            let at_once = team(tokens.at_once.get(owner).copied());
            by_owner.entry(owner).or_insert_with(|| Share::of(at_once, limits)).clone()
        });
        let teams = teams.collect();
        let operator = Share::of(operator, limits);
        Self::of(Guests::Callers { tokens: Arc::clone(tokens), operator, teams }, limits)
    }

    pub(crate) fn for_agents(agents: Arc<Agents>, limits: &HttpLimits) -> Self {
        Self::of(Guests::Agents(agents), limits)
    }

    /// Each with the places that it has in its own lane.
    fn for_callers_and_agents(
        tokens: &Arc<Tokens>,
        callers: &Self,
        agents: &Self,
        limits: &HttpLimits,
    ) -> Self {
        let (tokens, callers, agents) = (Arc::clone(tokens), callers.clone(), agents.clone());
        Self::of(Guests::CallersAndAgents { tokens, callers, agents }, limits)
    }

    fn of(guests: Guests, limits: &HttpLimits) -> Self {
        let HttpLimits { body_bytes, body, request, .. } = *limits;
        Self { guests: Arc::new(guests), body_bytes, body_within: body, time: request }
    }

    /// The same places, for routes that may take another time.
    #[must_use]
    pub fn lasting(self, time: Duration) -> Self {
        Self { time, ..self }
    }

    /// The same places, for routes that take longer bodies.
    #[must_use]
    pub(crate) fn taking(self, body_bytes: usize) -> Self {
        Self { body_bytes, ..self }
    }

    /// Who calls, and what it may have. Its handler finds the caller in the request, and need not ask again.
    fn admit(&self, request: &mut Request) -> Result<Ticket, Refusal> {
        match self.guests.as_ref() {
            Guests::Anybody(share) => Ok(share.ticket()),
            Guests::Callers { tokens, operator, teams } => {
                let (caller, whose) = authenticate(request.headers(), request.extensions(), tokens)?;
                request.extensions_mut().insert(Authenticated(caller));
                match whose {
                    TokenOf::Operator => Ok(operator.ticket()),
                    TokenOf::Team(number) => teams.get(number).map(Share::ticket).ok_or_else(too_many),
                }
            }
            Guests::Agents(agents) => {
                let known = agents.find(bearer(request.headers())?);
                Mark::note(request.extensions(), CallerKind::Agent);
                of_an_agent(agents, known, request)
            }
            Guests::Channels(agents) => {
                let shown = ChannelCredentials::taken_from(request);
                let known = agents.find(shown.token());
                request.extensions_mut().insert(shown);
                of_an_agent(agents, known, request)
            }
            Guests::CallersAndAgents { tokens, callers, agents } => {
                match tokens.caller(bearer(request.headers())?) {
                    Some(_) => callers.admit(request),
                    None => agents.admit(request),
                }
            }
        }
    }
}

/// `known`: the token's key, and its own places if it was found good before.
fn of_an_agent(
    agents: &Arc<Agents>,
    known: (u64, Option<Arc<Places>>),
    request: &mut Request,
) -> Result<Ticket, Refusal> {
    let (key, own) = known;
    request.extensions_mut().insert(Arc::clone(agents));
    if let Some(own) = own {
        let place = own.take().ok_or_else(too_many)?;
        let agent = AgentTicket::Known { agents: Arc::clone(agents), key, _own: place };
        return Ok(Ticket { reading: None, working: agents.working.clone(), agent: Some(agent) });
    }
    let newcomer = Newcomer::new(Arc::clone(agents), key);
    request.extensions_mut().insert(Arc::clone(&newcomer));
    Ok(Ticket {
        reading: Some(Arc::clone(&agents.newcomers_reading)),
        working: Arc::clone(&agents.newcomers_working),
        agent: Some(AgentTicket::Newcomer(newcomer)),
    })
}

impl<S> Layer<S> for Lane {
    type Service = Passing<S>;

    fn layer(&self, inner: S) -> Passing<S> {
        Passing::new(self.clone(), inner)
    }
}

impl Share {
    fn of(at_once: usize, limits: &HttpLimits) -> Self {
        Self { reading: Places::new(limits.bodies_at_once), working: Places::new(at_once) }
    }

    fn ticket(&self) -> Ticket {
        let (reading, working) = (Some(Arc::clone(&self.reading)), Arc::clone(&self.working));
        Ticket { reading, working, agent: None }
    }
}

pub(crate) fn too_many() -> Refusal {
    Refusal::too_many(
        "too many requests of this caller are being served at this moment",
        "try again after the seconds in the answer's header Retry-After",
    )
}
