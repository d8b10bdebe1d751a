//! A runner as a record of the ledger: when it is due, in which list it stands, and how long it is kept.

use super::{Holder, ProofKind, Runner, RunnerState, StateName, is_on_its_way_for_nobody};
use crate::ids::{PoolName, RunnerId};
use crate::record::{Beside, Key, Kind, Path, Place, Record, Version, padded};
use crate::time::Timestamp;
use std::time::Duration;

pub const RUNNER: Kind = Kind::new("runner");

/// Marks beside the document: the last heartbeat, and when a queue was last told that the runner is idle.
pub const SEEN: &str = "seen";
pub const ANNOUNCED: &str = "announced";

const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// Before the id of a runner that is on its way for nobody: so it comes before those that somebody holds.
pub const FOR_NOBODY: &str = "+";

impl From<&RunnerId> for Key {
    fn from(id: &RunnerId) -> Self {
        Self::new(RUNNER, id.as_str())
    }
}

/// The list of the pool's runners that live, by state.
pub fn live_runners(pool: &PoolName) -> String {
    format!("runners#{pool}")
}

/// The list of the pool's runners that are terminated, by when that was.
pub fn ended_runners(pool: &PoolName) -> String {
    format!("ended-runners#{pool}")
}

/// What every place of this state in [`live_runners`] begins with.
pub fn state_prefix(state: StateName) -> String {
    format!("{state}#")
}

impl Record for Runner {
    /// The second has checkpoints, and what goes with them: fixed tokens too, which the first would take for those of silent agents.
    const SCHEMA: u32 = 2;

    fn schema(&self) -> u32 {
        let Self { checkpoint, paused_at, cools_until, wear, commands, ci_runner, state, proof, .. } = self;
        let marks = [paused_at, cools_until].into_iter().any(Option::is_some);
        let is_first = checkpoint.is_none()
            && !marks
            && wear.is_none()
            && commands.are_none()
            && ci_runner.is_none()
            && !self.has_fixed_token()
            && !matches!(state, RunnerState::Resetting { step: Some(_), .. })
            && !matches!(self.holder(), Some(Holder::Checkpoint(_)))
            && proof.as_ref().is_none_or(|proof| proof.how != ProofKind::Reset);
        if is_first { 1 } else { Self::SCHEMA }
    }

    fn path(&self) -> Path {
        Key::from(&self.id).into()
    }

    fn version(&self) -> Version {
        let state = self.state.name().as_str().to_owned();
        Version { state, epoch: self.epoch.0, rev: self.rev }
    }

    /// At its threshold, where there is one.
    fn due(&self) -> Option<Timestamp> {
        match &self.state {
            RunnerState::Quarantined { .. } | RunnerState::Terminated { .. } => None,
            RunnerState::Created { .. }
            | RunnerState::Resetting { .. }
            | RunnerState::Idle
            | RunnerState::Claimed { .. }
            | RunnerState::Running { .. }
            | RunnerState::Releasing { .. }
            | RunnerState::Terminating { .. } => self.threshold.map(|threshold| threshold.0),
        }
    }

    fn places(&self) -> Vec<Place> {
        let Self { pool, id, .. } = self;
        let first = if is_on_its_way_for_nobody(self) { FOR_NOBODY } else { "" };
        let state = self.state.name();
        vec![match state.live() {
            true => Place { list: live_runners(pool), sort: format!("{}{first}{id}", state_prefix(state)) },
            false => Place { list: ended_runners(pool), sort: format!("{}#{id}", padded(self.entered_at)) },
        }]
    }

    fn kept_until(&self) -> Option<Timestamp> {
        (!self.state.name().live()).then(|| self.entered_at.after(KEPT))
    }

    fn beside(self, beside: &Beside) -> Self {
        Self { seen_at: beside.instant(SEEN), announced_at: beside.instant(ANNOUNCED), ..self }
    }
}
