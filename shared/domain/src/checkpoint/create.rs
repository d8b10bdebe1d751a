//! Whether a job may have a checkpoint on a runner now.

use super::{Checkpoint, CheckpointState, Job};
use crate::ids::CheckpointName;
use crate::pool::{Dispatch, Rules};
use crate::runner::{Runner, RunnerState, StateName};
use crate::time::Timestamp;
use std::fmt;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Creating {
    /// The checkpoint itself holds the runner.
    Holding,
    /// A claim or lease holds the runner, and the checkpoint is attached to it.
    Attached,
    /// The job has it already, since the answer may have been lost; or its runner's hold has.
    Same,
    Refused(NotCreated),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotCreated {
    /// The runner has another one that is not at its end.
    Active(CheckpointName),
    /// The last one ended a moment ago.
    Cooling { wait: Duration },
    /// It is not idle, or nobody holds it.
    Runner(StateName),
}

impl fmt::Display for NotCreated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Active(name) => write!(f, "active checkpoint already exists for this runner: {name}"),
            Self::Cooling { .. } => {
                f.write_str("cooldown period active: the last checkpoint ended a moment ago")
            }
            Self::Runner(state) => write!(f, "the runner is {state}, and can take no job"),
        }
    }
}

/// `active`: the checkpoint that the runner's record names, if it is there.
pub fn creating(
    runner: &Runner,
    active: Option<&Checkpoint>,
    job: &Job,
    rules: &Rules,
    now: Timestamp,
) -> Creating {
    if let Some(active) = active {
        let runs = matches!(runner.state, RunnerState::Running { .. });
        let is_its = match rules.dispatch {
            Dispatch::Hook => {
                active.state == CheckpointState::Created && active.finalized.is_none() && active.is_of(job)
            }
            // A hold has one, whatever its jobs: the machine is cleaned when the hold is over.
            Dispatch::Claim | Dispatch::Lease => active.state.is_active(),
        };
        return match runs && is_its {
            true => Creating::Same,
            false => Creating::Refused(NotCreated::Active(active.name.clone())),
        };
    }
    match (rules.dispatch, &runner.state) {
        (Dispatch::Hook, RunnerState::Idle) => match runner.cools_until.filter(|until| *until > now) {
            Some(until) => Creating::Refused(NotCreated::Cooling { wait: now.until(until) }),
            None => Creating::Holding,
        },
        (Dispatch::Claim | Dispatch::Lease, RunnerState::Running { .. }) => Creating::Attached,
        (Dispatch::Hook | Dispatch::Claim | Dispatch::Lease, state) => {
            Creating::Refused(NotCreated::Runner(state.name()))
        }
    }
}
