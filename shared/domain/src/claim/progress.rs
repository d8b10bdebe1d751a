//! How far a claim has come: which of its runners still count, and whether it becomes ready, fails or ends.

use crate::claim::{Claim, ClaimState, Member};
use crate::runner::{Hold, Holder, Runner, RunnerEvent, RunnerState};
use crate::time::{Threshold, Timestamp};

/// A member, with its runner's record as it is now.
#[derive(Debug, Clone)]
pub struct MemberSeen<'a> {
    pub member: &'a Member,
    pub runner: Option<&'a Runner>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Assessment {
    /// Members whose runner is no longer held by this claim, each with the reason.
    pub lost: Vec<(Member, String)>,
    pub running: u32,
    /// Held, and on their way.
    pub starting: u32,
    /// What the provider is asked for now, for one of those, after it had nothing of something else.
    pub looking: Option<String>,
}

/// Which members count. A runner that left the claim's hold, or is about to be taken away, does not.
pub fn assess(claim: &Claim, members: &[MemberSeen<'_>]) -> Assessment {
    let mut seen = Assessment::default();
    for MemberSeen { member, runner } in members {
        match standing(claim, member, *runner) {
            Standing::Running => seen.running += 1,
            Standing::Starting => {
                seen.starting += 1;
                if seen.looking.is_none() {
                    seen.looking = runner.and_then(looking);
                }
            }
            Standing::Lost(why) => seen.lost.push(((*member).clone(), why)),
        }
    }
    seen
}

fn looking(runner: &Runner) -> Option<String> {
    match &runner.state {
        RunnerState::Created { launched_at: None, attempt: Some(attempt), .. } if attempt.number > 1 => {
            Some(attempt.rung.in_words())
        }
        RunnerState::Created { .. }
        | RunnerState::Resetting { .. }
        | RunnerState::Idle
        | RunnerState::Claimed { .. }
        | RunnerState::Running { .. }
        | RunnerState::Releasing { .. }
        | RunnerState::Quarantined { .. }
        | RunnerState::Terminating { .. }
        | RunnerState::Terminated { .. } => None,
    }
}

enum Standing {
    Running,
    Starting,
    Lost(String),
}

fn standing(claim: &Claim, member: &Member, runner: Option<&Runner>) -> Standing {
    let Some(runner) = runner else { return Standing::Lost("its record is gone".to_owned()) };
    if runner.epoch != member.epoch {
        return Standing::Lost("it was reset".to_owned());
    }
    let own = Holder::from(&claim.id);
    match &runner.state {
        RunnerState::Created { hold: Some(hold), .. } | RunnerState::Claimed { hold }
            if hold.holder == own =>
        {
            Standing::Starting
        }
        RunnerState::Running { hold, leaving: false } if hold.holder == own => Standing::Running,
        RunnerState::Running { leaving: true, .. } => {
            Standing::Lost("the provider is taking its machine away".to_owned())
        }
        RunnerState::Quarantined { why }
        | RunnerState::Terminating { why, .. }
        | RunnerState::Terminated { why } => Standing::Lost(why.clone()),
        state @ (RunnerState::Created { .. }
        | RunnerState::Resetting { .. }
        | RunnerState::Idle
        | RunnerState::Claimed { .. }
        | RunnerState::Running { .. }
        | RunnerState::Releasing { .. }) => Standing::Lost(format!("it is {}", state.name())),
    }
}

/// What becomes of a runner that leaves, with its claim as it is now. It is no longer on the claim's list, which has another in its place:
/// when the claim ends, and the machine is there all the same, nobody else lets go of it.
pub fn left_over(leaving: &Hold, claim: Option<&Claim>) -> Option<RunnerEvent> {
    let open = claim.is_some_and(|claim| claim.state.open());
    (!open).then(|| RunnerEvent::Release { why: format!("{} has ended", leaving.holder) })
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// All its runners run: the claim as it is when ready.
    Ready(Box<Claim>),
    /// Its time to wait, or to run, is over: the claim as it ends.
    Over(Box<Claim>),
    Waits,
}

/// What `claim` becomes at `now`, with members as assessed.
pub fn progress(claim: &Claim, seen: &Assessment, now: Timestamp) -> Progress {
    let over = claim.threshold.is_some_and(|threshold| threshold.passed(now));
    match &claim.state {
        ClaimState::Pending if seen.running >= claim.ask.count && seen.lost.is_empty() && !over => {
            Progress::Ready(Box::new(Claim {
                state: ClaimState::Ready { since: now },
                threshold: Some(Threshold::in_(claim.ask.max_runtime, now)),
                waits_for: None,
                rev: claim.rev + 1,
                ..claim.clone()
            }))
        }
        ClaimState::Pending if over => {
            let reason = claim.waits_for.as_deref().unwrap_or("its runners did not become ready");
            let why = format!("it waited too long: {reason}");
            Progress::Over(Box::new(claim.failed(&why, now)))
        }
        ClaimState::Ready { .. } if over => {
            Progress::Over(Box::new(claim.released("its time was over", now)))
        }
        ClaimState::Pending
        | ClaimState::Ready { .. }
        | ClaimState::Released { .. }
        | ClaimState::Failed { .. } => Progress::Waits,
    }
}
