//! Where a record stands: when it is due, in which list, and until when it is kept. Pure, and the same for every adapter.

use std::time::Duration;

use motorpool_domain::claim::{Claim, ClaimState};
use motorpool_domain::runner::{Runner, RunnerState, is_on_its_way_for_nobody};
use motorpool_domain::{AuditEntry, PoolName, Timestamp};

use crate::keys::padded;

const DAY: Duration = Duration::from_secs(24 * 3600);
const RUNNER_KEPT: Duration = DAY.saturating_mul(7);
const CLAIM_KEPT: Duration = DAY.saturating_mul(30);
const LOG_KEPT: Duration = DAY.saturating_mul(30);
/// A claim waits at most 30 days, runs at most 30 days, and is kept for 30: its key is never gone before it.
const KEY_KEPT: Duration = DAY.saturating_mul(90);

/// A list, and the place in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) list: String,
    pub(crate) sk: String,
}

/// When somebody must look at `runner`: at its threshold, or before if so wished.
pub(crate) fn runner_due(runner: &Runner, look_at: Option<Timestamp>) -> Option<Timestamp> {
    match &runner.state {
        RunnerState::Quarantined { .. } | RunnerState::Terminated { .. } => None,
        RunnerState::Created { .. }
        | RunnerState::Resetting { .. }
        | RunnerState::Idle
        | RunnerState::Claimed { .. }
        | RunnerState::Running { .. }
        | RunnerState::Releasing { .. }
        | RunnerState::Terminating { .. } => {
            let threshold = runner.threshold.map(|threshold| threshold.0);
            threshold.into_iter().chain(look_at).min()
        }
    }
}

/// An ended claim that has runners to let go of is due from the moment it is written.
pub(crate) fn claim_due(claim: &Claim, written_at: Timestamp) -> Option<Timestamp> {
    match &claim.state {
        ClaimState::Pending | ClaimState::Ready { .. } => claim.threshold.map(|threshold| threshold.0),
        ClaimState::Released { .. } | ClaimState::Failed { .. } => claim.settling.then_some(written_at),
    }
}

/// Before the id of a runner that is on its way for nobody: so it comes before those that somebody holds.
pub(crate) const FOR_NOBODY: &str = "+";

pub(crate) fn runner_place(runner: &Runner) -> Place {
    let Runner { pool, id, .. } = runner;
    let first = if is_on_its_way_for_nobody(runner) { FOR_NOBODY } else { "" };
    match runner.state.name().live() {
        true => Place { list: live_runners(pool), sk: format!("{}#{first}{id}", runner.state.name()) },
        false => Place { list: ended_runners(pool), sk: format!("{}#{id}", padded(runner.entered_at)) },
    }
}

pub(crate) fn claim_place(claim: &Claim) -> Place {
    let pool = &claim.key.pool;
    let age = format!("{}#{}", padded(claim.opened_at), claim.id);
    if !claim.state.open() {
        return Place { list: ended_claims(pool), sk: age };
    }
    let prefix = match (claim.short() > 0, claim.waiting()) {
        (true, _) => SHORT,
        (false, true) => STARTING,
        (false, false) => OPEN,
    };
    Place { list: open_claims(pool), sk: format!("{prefix}{age}") }
}

/// The list of all pools.
pub(crate) const POOLS: &str = "pools";
/// Lacks a runner.
pub(crate) const SHORT: &str = "short#";
/// Has all its runners, and waits for them to be ready.
pub(crate) const STARTING: &str = "starting#";
pub(crate) const OPEN: &str = "open#";

pub(crate) fn live_runners(pool: &PoolName) -> String {
    format!("runners#{pool}")
}

pub(crate) fn ended_runners(pool: &PoolName) -> String {
    format!("ended-runners#{pool}")
}

pub(crate) fn open_claims(pool: &PoolName) -> String {
    format!("claims#{pool}")
}

pub(crate) fn ended_claims(pool: &PoolName) -> String {
    format!("ended-claims#{pool}")
}

/// From when on a record may be deleted.
pub(crate) fn runner_kept_until(runner: &Runner) -> Option<Timestamp> {
    (!runner.state.name().live()).then(|| runner.entered_at.after(RUNNER_KEPT))
}

pub(crate) fn claim_kept_until(claim: &Claim) -> Option<Timestamp> {
    match &claim.state {
        ClaimState::Pending | ClaimState::Ready { .. } => None,
        ClaimState::Released { at, .. } | ClaimState::Failed { at, .. } => Some(at.after(CLAIM_KEPT)),
    }
}

pub(crate) fn key_kept_until(claim: &Claim) -> Timestamp {
    claim.opened_at.after(KEY_KEPT)
}

pub(crate) fn entry_kept_until(entry: &AuditEntry) -> Timestamp {
    entry.at.after(LOG_KEPT)
}
