//! How much of everything a caller may have: bytes, time, and requests at once. What is beyond is refused, never queued.

use crate::envelope::Refusal;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpLimits {
    pub body_bytes: usize,
    /// A sync may bring the output of tasks.
    pub sync_body_bytes: usize,
    /// GitHub's own may be 25 MB; those about a job are about 30 kB.
    pub webhook_body_bytes: usize,
    /// How long a body may take to come, from the end of its head on.
    pub body: Duration,
    /// How long a request may take beyond the wait that it asked for, once its body is there.
    pub request: Duration,
    /// How long a long poll may ask to wait.
    pub longest_wait: Duration,
    /// How long `GET /claims/{claim}` is held at most, whatever it asked for; then it tells what is.
    pub claim_hold: Duration,
    /// How long a sync is held at most; zero where it is answered at once.
    pub sync_hold: Duration,
    /// How often a held claim is looked at although nobody was woken: a wake-up may be lost, or be due in another process. Each look
    /// asks the ledger some things, and many may wait.
    pub recheck: Duration,
    /// Requests of the operator at once; and of all who ask a route that needs no token.
    pub api_at_once: usize,
    /// Requests of one team at once, if nothing else is said of it. Few can keep two processors busy; more only make others wait.
    pub team_at_once: usize,
    /// Requests of one caller that may wait, `GET /claims/{claim}`: counted apart, so that those who wait keep nobody from working.
    pub waits_at_once: usize,
    /// Requests of all agents at once.
    pub agents_at_once: usize,
    /// Requests of one agent at once: a sync, a registration, and as many whose connection broke unnoticed.
    pub agent_at_once: usize,
    /// Requests at once with tokens that no agent has been seen with yet, good or bad; and those of machines that join.
    pub newcomers_at_once: usize,
    /// Agents that are connected by a WebSocket; and, of other places, connections that are being closed because their token is not good.
    pub channels_at_once: usize,
    /// The longest message of such a connection: that of an agent which tells what a command wrote.
    pub channel_message_bytes: usize,
    /// How often such a connection is asked whether it is there, and looked at whether its token is still good. One that said nothing in the
    /// meantime is let go of.
    pub channel_ping: Duration,
    /// Commands that the operator has run on machines at once.
    pub execs_at_once: usize,
    /// Webhooks at once. Whoever sends them is known by their bodies alone.
    pub webhooks_at_once: usize,
    /// Bodies of one caller that are being read at once.
    pub bodies_at_once: usize,
    /// Answers a second to callers that are not known, and to those that ask too much, which go out at once. Each further one is kept
    /// back for `pause`, or if it is a refusal for `refusal_pause`, so that a flood slows itself down.
    pub strangers_a_second: u32,
    /// Probes of `/health` often give up after a second.
    pub pause: Duration,
    /// About what a refused caller is told to wait anyway.
    pub refusal_pause: Duration,
    /// Answers that are kept back at once. Beyond them they go out at once again: they cost memory.
    pub pauses_at_once: usize,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            body_bytes: 64 * 1024,
            sync_body_bytes: 256 * 1024,
            webhook_body_bytes: 256 * 1024,
            body: Duration::from_secs(10),
            request: Duration::from_secs(30),
            longest_wait: Duration::from_secs(60),
            claim_hold: Duration::from_secs(60),
            sync_hold: Duration::from_secs(60),
            recheck: Duration::from_secs(5),
            api_at_once: 512,
            team_at_once: 16,
            waits_at_once: 512,
            agents_at_once: 20_000,
            agent_at_once: 8,
            newcomers_at_once: 1_024,
            channels_at_once: 8_192,
            channel_message_bytes: 1024 * 1024,
            channel_ping: Duration::from_secs(20),
            execs_at_once: 64,
            webhooks_at_once: 64,
            bodies_at_once: 256,
            strangers_a_second: 100,
            pause: Duration::from_millis(500),
            refusal_pause: Duration::from_millis(1_500),
            pauses_at_once: 4_096,
        }
    }
}

pub(crate) fn took_too_long() -> Refusal {
    Refusal::internal(
        "the request took too long, and was given up",
        "it may have been done all the same: look before you ask again; repeating it is harmless",
    )
}
