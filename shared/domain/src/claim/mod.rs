//! A claim: a workflow's hold on N runners. What may become of it is decided here and in `progress`.

mod ask;
mod limits;
mod progress;
mod record;
mod repeated;
mod shown;
mod turn;
mod why;

pub use ask::{NotToBeHad, ask};
pub use limits::{NamedLimits, OverLimit, TeamLimitError, TeamLimits};
pub use progress::{Assessment, MemberSeen, Progress, assess, left_over, progress};
pub use record::{
    CLAIM, ClaimName, ENDED, HOLDING, LACKING, OPEN, SHORT, STARTING, WAITING, ended_claims, open_claims,
    team_claims, waiting_claims,
};
pub use repeated::taken_before;
pub use turn::{Room, TeamWaiting, Turn, in_turn, lacked_before, turn};
pub use why::why;

use crate::ids::{ClaimId, Epoch, Owner, PoolName, RunnerId, Workflow};
use crate::spec::Want;
use crate::time::{Threshold, Timestamp};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const LOSS_BACKOFF: Duration = Duration::from_secs(5);
/// At most some five minutes.
const LOSS_DOUBLINGS: u32 = 7;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub id: ClaimId,
    pub key: ClaimKey,
    pub ask: Ask,
    pub state: ClaimState,
    pub members: Vec<Member>,
    pub rev: u64,
    pub opened_at: Timestamp,
    /// None once it is ended.
    pub threshold: Option<Threshold>,
    /// Why it waits, as far as it is known; a ready claim may wait for a refill.
    pub waits_for: Option<String>,
    /// A limit of its team that it would exceed: until that has room, it stands in nobody's way. An older control plane that writes the claim
    /// without it does no harm: whoever looks at the claim next finds the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_limit: Option<OverLimit>,
    /// After a refused launch the provider is left alone until then.
    pub launch_not_before: Option<Timestamp>,
    /// How many runners it has lost: beyond its own count something is wrong with more than a machine.
    #[serde(default)]
    pub losses: u32,
    /// An ended claim that still has to let go of its runners.
    pub settling: bool,
}

/// What a claim is known by: the same key again is the same claim while it is open.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClaimKey {
    pub owner: Owner,
    pub workflow: Workflow,
    pub pool: PoolName,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    pub count: u32,
    pub want: Want,
    pub max_runtime: Duration,
    /// Only what is idle now: nothing is launched for it, and it never waits.
    pub idle_only: bool,
}

/// What a request names, before anybody looks at what its pool allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    pub count: u32,
    pub want: Want,
    /// None: as long as the pool allows.
    pub max_runtime: Option<Duration>,
    pub idle_only: bool,
}

impl Wish {
    /// Whether this may be the request that `ask` came of. What its pool allowed then may be another by now.
    fn became(&self, ask: &Ask) -> bool {
        let Self { count, want, max_runtime, idle_only } = self;
        (*count, want, *idle_only) == (ask.count, &ask.want, ask.idle_only)
            && max_runtime.is_none_or(|named| named == ask.max_runtime)
    }
}

/// A runner that this claim took or launched. It counts only while the runner's own record says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub runner: RunnerId,
    pub epoch: Epoch,
    pub warm: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum ClaimState {
    Pending,
    Ready { since: Timestamp },
    Released { at: Timestamp, why: String },
    Failed { at: Timestamp, why: String },
}

impl ClaimState {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Ready { .. } => "ready",
            Self::Released { .. } => "released",
            Self::Failed { .. } => "failed",
        }
    }

    /// Why it ended; nothing of one that is open.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Released { why, .. } | Self::Failed { why, .. } => Some(why),
            Self::Pending | Self::Ready { .. } => None,
        }
    }

    pub fn open(&self) -> bool {
        match self {
            Self::Pending | Self::Ready { .. } => true,
            Self::Released { .. } | Self::Failed { .. } => false,
        }
    }
}

impl Claim {
    pub fn open(id: ClaimId, key: ClaimKey, ask: Ask, wait: Duration, now: Timestamp) -> Self {
        Self {
            id,
            key,
            ask,
            state: ClaimState::Pending,
            members: Vec::new(),
            rev: 1,
            opened_at: now,
            threshold: Some(Threshold::in_(wait, now)),
            waits_for: None,
            over_limit: None,
            launch_not_before: None,
            losses: 0,
            settling: false,
        }
    }

    /// Whether it gets all that it lacks by one look at the pool, with so many idle ones in hand: one runner comes whole or not at all;
    /// of several, the rest may have to be waited for.
    pub fn comes_at_once(&self, in_hand: usize) -> bool {
        self.ask.count == 1 || u32::try_from(in_hand).is_ok_and(|in_hand| in_hand >= self.short())
    }

    /// How many runners it lacks.
    pub fn short(&self) -> u32 {
        if !self.state.open() {
            return 0;
        }
        self.ask.count.saturating_sub(u32::try_from(self.members.len()).unwrap_or(u32::MAX))
    }

    /// It waits for something: a runner, or a runner's readiness.
    pub fn waiting(&self) -> bool {
        match self.state {
            ClaimState::Pending => true,
            ClaimState::Ready { .. } => self.short() > 0,
            ClaimState::Released { .. } | ClaimState::Failed { .. } => false,
        }
    }

    /// It has nothing that could have changed, and says what it waits for: only a runner that nobody holds or a slot brings it further. One that waits for a
    /// limit of its team does not: that team may hold less by now, on any pool.
    pub fn waits_for_room_only(&self) -> bool {
        self.waiting()
            && self.members.is_empty()
            && self.over_limit.is_none()
            && self.waits_for.is_some()
            && self.launch_not_before.is_none()
    }

    /// When its members' time is over, once that is known.
    pub fn until(&self) -> Option<Threshold> {
        match self.state {
            ClaimState::Ready { .. } => self.threshold,
            ClaimState::Pending | ClaimState::Released { .. } | ClaimState::Failed { .. } => None,
        }
    }

    /// A later end for a running member's time, if it should have one. A ready claim's members have the claim's own. A pending one's time
    /// has not begun: it is put off again and again where it would be over before the wait is, so that it is never later than the claim's
    /// own will be. `heard_within` is how long it may take until a member hears of it.
    pub fn put_off(&self, member: Threshold, heard_within: Duration, now: Timestamp) -> Option<Threshold> {
        match self.state {
            ClaimState::Ready { .. } => self.threshold.filter(|until| member < *until),
            ClaimState::Pending => {
                let Threshold(wait_over) = self.threshold.filter(|wait| !wait.passed(now))?;
                // Twice, since a pass may come just before it is due, or fail.
                let ahead = (self.ask.max_runtime / 2).max(heard_within * 2);
                let is_near = member < Threshold::in_(ahead, now);
                // Beyond the end of the wait, so that whoever ends the claim can still let go of it.
                let is_short = member < Threshold(wait_over.after(ahead));
                let later = Threshold::in_(self.ask.max_runtime, now);
                // Not for every moment that it would gain: each is a write.
                let gains = member < Threshold::in_(self.ask.max_runtime * 3 / 4, now);
                (is_near && is_short && gains).then_some(later)
            }
            ClaimState::Released { .. } | ClaimState::Failed { .. } => None,
        }
    }

    /// The claim with one more runner; conditional on the claim being open as it was read.
    #[must_use]
    pub fn gaining(&self, members: impl IntoIterator<Item = Member>) -> Self {
        let mut after = self.clone();
        after.members.extend(members);
        after.over_limit = None;
        after.rev += 1;
        after
    }

    /// The claim without the members that no longer count, and why it lost them. One that loses more than it asked for backs off,
    /// by twice as much each time: a script that always fails must not start machines without end.
    #[must_use]
    pub fn losing(&self, lost: &[(Member, String)], now: Timestamp) -> Self {
        let mut after = self.clone();
        after.members.retain(|member| !lost.iter().any(|(gone, _)| gone == member));
        after.rev += 1;
        after.losses = self.losses.saturating_add(u32::try_from(lost.len()).unwrap_or(u32::MAX));
        after.waits_for = lost.last().map(|(member, why)| format!("{} was lost: {why}", member.runner));
        let beyond = after.losses.saturating_sub(self.ask.count);
        if beyond > 0 {
            let backoff = LOSS_BACKOFF * 2u32.saturating_pow(beyond.min(LOSS_DOUBLINGS) - 1);
            // What the provider asked for may be longer.
            after.launch_not_before = self.launch_not_before.max(Some(now.after(backoff)));
        }
        after
    }

    #[must_use]
    pub fn waiting_for(&self, what: Option<String>, launch_not_before: Option<Timestamp>) -> Self {
        Self { waits_for: what, over_limit: None, launch_not_before, rev: self.rev + 1, ..self.clone() }
    }

    /// The claim as it waits for a limit of its team.
    #[must_use]
    pub fn held_back(&self, over: OverLimit) -> Self {
        let waits = self.waiting_for(Some(over.to_string()), self.launch_not_before);
        Self { over_limit: Some(over), ..waits }
    }

    #[must_use]
    pub fn released(&self, why: &str, now: Timestamp) -> Self {
        self.ended(ClaimState::Released { at: now, why: why.to_owned() })
    }

    #[must_use]
    pub fn failed(&self, why: &str, now: Timestamp) -> Self {
        self.ended(ClaimState::Failed { at: now, why: why.to_owned() })
    }

    /// The end of an open claim whose pool was deleted while it was being opened: nothing can ever come of it.
    #[must_use]
    pub fn without_pool(&self, now: Timestamp) -> Self {
        let why = format!("pool {} was deleted", self.key.pool);
        match &self.state {
            ClaimState::Pending => self.failed(&why, now),
            ClaimState::Ready { .. } => self.released(&why, now),
            ClaimState::Released { .. } | ClaimState::Failed { .. } => self.clone(),
        }
    }

    fn ended(&self, state: ClaimState) -> Self {
        Self {
            state,
            rev: self.rev + 1,
            threshold: None,
            waits_for: None,
            over_limit: None,
            settling: !self.members.is_empty(),
            ..self.clone()
        }
    }

    /// An ended claim that lets go of its runners by the very write that ends it.
    #[must_use]
    pub fn settled_at_once(&self) -> Self {
        Self { settling: false, ..self.clone() }
    }

    #[must_use]
    pub fn settled(&self) -> Self {
        Self { settling: false, rev: self.rev + 1, ..self.clone() }
    }
}

/// What a request to open a claim comes to, beside the latest claim with the same key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opening {
    /// There is none, or it has ended: a new one, in the place of `replaces`.
    New { replaces: Option<ClaimId> },
    /// The same request again.
    Same,
    /// The same key, asked for otherwise.
    Conflict,
}

pub fn decide_opening(latest: Option<&Claim>, wish: &Wish) -> Opening {
    match latest {
        None => Opening::New { replaces: None },
        Some(claim) if !claim.state.open() => Opening::New { replaces: Some(claim.id.clone()) },
        Some(claim) if wish.became(&claim.ask) => Opening::Same,
        Some(_) => Opening::Conflict,
    }
}
