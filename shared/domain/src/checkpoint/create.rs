//! Whether a job may have a checkpoint on a runner now.

use super::{Checkpoint, CheckpointState, Job};
use crate::ci::CiSystem;
use crate::ids::CheckpointName;
use crate::pool::{Dispatch, Rules};
use crate::runner::{Runner, RunnerState, StateName};
use crate::time::Timestamp;
use std::fmt;
use std::time::Duration;

/// As long as an agent tries for a hook, and the same once more.
const ASKED_AGAIN: Duration = Duration::from_secs(60);

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

/// GitHub's hooks know their run, and not their job: another job of it has the same id. It is told by its key, and where none was sent by its time: one
/// whose answer was lost is asked for again within seconds.
fn can_be_the_same(active: &Checkpoint, job: &Job, rules: &Rules, now: Timestamp) -> bool {
    let share_an_id = rules.ci.as_ref().is_some_and(|ci| ci.system == CiSystem::GitHub);
    let is_told_by_key = active.key.is_some() && job.key.is_some();
    !share_an_id || is_told_by_key || now.since(active.created_at) < ASKED_AGAIN
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
                let is_open = active.state == CheckpointState::Created && active.finalized.is_none();
                is_open && active.is_of(job) && can_be_the_same(active, job, rules, now)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::JobId;
    use crate::pool::Clean;
    use crate::runner::{Hold, Holder};
    use crate::samples;

    const BEGAN: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    fn job(id: &str, key: Option<&str>) -> Job {
        let key = key.map(str::to_owned);
        Job { id: JobId::parse(id).unwrap(), project: None, attempt: Some(1), caller: None, key }
    }

    fn rules(system: CiSystem) -> Rules {
        let ci = crate::ci::CiBinding {
            system,
            scope: "octo/app".to_owned(),
            group_id: 1,
            labels: Vec::new(),
            minimum_version: None,
        };
        Rules { dispatch: Dispatch::Hook, clean: Clean::Reset, ci: Some(ci), ..samples::rules() }
    }

    /// What the job is told that comes so long after the first, which has the machine.
    fn told(system: CiSystem, first: &Job, next: &Job, later: Duration) -> Creating {
        let mut runner = Runner::intent(samples::new_runner("mac-01", BEGAN), BEGAN);
        let rules = rules(system);
        let name = CheckpointName::of(&first.id, BEGAN, 7);
        let active = Checkpoint::open(name.clone(), &runner, first.clone(), &rules.checkpoints, BEGAN);
        let hold = Hold {
            holder: Holder::Checkpoint(name.clone()),
            warm: true,
            max_runtime: rules.checkpoints.lasts,
        };
        runner.state = RunnerState::Running { hold, leaving: false };
        runner.checkpoint = Some(name);
        creating(&runner, Some(&active), next, &rules, BEGAN.after(later))
    }

    #[test]
    fn inv_26_the_same_job_again_has_the_same_checkpoint_and_another_of_its_run_has_none() {
        use CiSystem::{GitHub, GitLab};
        let (soon, late) = (Duration::from_secs(20), Duration::from_secs(300));
        for (system, first, next, later, same) in [
            (GitLab, None, None, late, true),
            (GitHub, None, None, soon, true),
            (GitHub, None, None, late, false),
            (GitHub, Some("a"), Some("a"), late, true),
            (GitHub, Some("a"), Some("b"), soon, false),
            (GitLab, Some("a"), Some("b"), soon, false),
            (GitHub, Some("a"), None, late, false),
        ] {
            let told = told(system, &job("42", first), &job("42", next), later);
            assert_eq!(told == Creating::Same, same, "{system:?} {first:?} {next:?} {later:?}: {told:?}");
        }
        let other = told(GitLab, &job("42", None), &job("43", None), soon);
        assert!(matches!(other, Creating::Refused(NotCreated::Active(_))), "{other:?}");
    }
}
