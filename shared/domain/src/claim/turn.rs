//! Whose turn it is when claims want more runners than there are. Turns go round over teams, and within a team the oldest claim comes first.
//! Without an order, claims that each have some of their runners would wait for each other until all of them fail.
//!
//! A share of a pool is a claim that holds at least one of its runners. A claim's round is how many shares its team would have before it: those
//! that the team has, and those of its older claims that still wait. The lower round goes first; so nobody is given a second share while another
//! team waits for its first. It is a reading of the present, and nothing is counted up anywhere.

use crate::claim::{Claim, ClaimState};
use crate::ids::Owner;
use crate::time::Timestamp;

/// One team at a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TeamWaiting {
    pub owner: Owner,
    /// How many of its claims hold a runner of the pool, those in `waiting` included.
    pub shares: u32,
    /// Those that lack a runner, the oldest first; perhaps only the first of them.
    pub waiting: Vec<Claim>,
}

/// Where a claim stands among all that wait.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Position<'a> {
    stage: Stage,
    round: u32,
    opened_at: Timestamp,
    id: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// It has a part of its runners and can't begin: its turn is not over, and what it has is of use to nobody.
    Gathering,
    Waiting,
}

impl Claim {
    /// Whether it has some of its runners, and needs the rest before it can begin.
    pub fn is_gathering(&self) -> bool {
        self.state == ClaimState::Pending && !self.members.is_empty() && self.short() > 0
    }

    fn age(&self) -> (Timestamp, &str) {
        (self.opened_at, self.id.as_str())
    }
}

/// All claims of `teams` that wait, whose turn comes first before the others.
pub fn in_turn(teams: &[TeamWaiting]) -> Vec<&Claim> {
    let mut placed: Vec<(Position<'_>, &Claim)> = teams
        .iter()
        .flat_map(|team| team.waiting.iter().map(move |claim| (position(claim, Some(team)), claim)))
        .collect();
    placed.sort_by(|(one, _), (other, _)| one.cmp(other));
    placed.into_iter().map(|(_, claim)| claim).collect()
}

/// How many runners the claims whose turn comes before that of `claim` still lack. `claim` may itself be among them or not. `alike`: every
/// runner of the pool suits every claim; if not, only those that ask for the same come before.
pub fn lacked_before(claim: &Claim, teams: &[TeamWaiting], alike: bool) -> u32 {
    let own = position(claim, teams.iter().find(|team| team.owner == claim.key.owner));
    teams
        .iter()
        .flat_map(|team| team.waiting.iter().map(move |other| (team, other)))
        .filter(|(_, other)| other.id != claim.id)
        .filter(|(_, other)| alike || other.ask.want == claim.ask.want)
        .filter(|(team, other)| position(other, Some(team)) < own)
        .map(|(_, other)| other.short())
        .fold(0, u32::saturating_add)
}

fn position<'a>(claim: &'a Claim, team: Option<&TeamWaiting>) -> Position<'a> {
    let stage = if claim.is_gathering() { Stage::Gathering } else { Stage::Waiting };
    let shares = team.map_or(0, |team| team.shares);
    let others = shares.saturating_sub(u32::from(!claim.members.is_empty()));
    let older = team.map_or(0, |team| {
        // Who holds a runner is among the shares already.
        team.waiting.iter().filter(|other| other.members.is_empty() && other.age() < claim.age()).count()
    });
    let round = others.saturating_add(u32::try_from(older).unwrap_or(u32::MAX));
    Position { stage, round, opened_at: claim.opened_at, id: claim.id.as_str() }
}

/// What a pool can give now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    pub idle: u32,
    /// Machines that may still be launched.
    pub slots: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It takes what there is.
    Takes,
    /// What is idle is for those before it; what is launched for it is taken from nobody.
    Launches,
    Waits,
}

/// Whether `claim` may get further now. Whose turn it is takes what there is. Anybody else takes all that he lacks out of what those before him
/// leave, or nothing: so at most one claim holds runners and waits for more. Free slots are not counted with idle runners: a provider may have
/// nothing to give, and then those before him need what is idle.
pub fn turn(claim: &Claim, lacked_before: u32, room: Room) -> Turn {
    let Room { idle, slots } = room;
    let short = claim.short();
    if lacked_before == 0 || lacked_before.saturating_add(short) <= idle {
        return Turn::Takes;
    }
    let theirs = lacked_before.saturating_sub(idle);
    match !claim.ask.idle_only && theirs.saturating_add(short) <= slots {
        true => Turn::Launches,
        false => Turn::Waits,
    }
}
