//! A job that a CI system says has ended: how it ended, in the system's own words, and which checkpoint is its own.

use super::{Checkpoint, JobOutcome};
use crate::ci::CiSystem;
use crate::ids::JobId;
use crate::runner::Runner;
use crate::time::Timestamp;
use std::time::Duration;

/// A CI system tells its times in whole seconds, cut off.
const CUT_OFF: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletedJob {
    pub id: JobId,
    /// What the CI system calls its project or repository, each as good as the other; none where its word does not say.
    pub projects: Vec<String>,
    pub attempt: Option<u32>,
    /// What the CI system lists the runner as, that had it, each as good as the other; none where its word does not say.
    pub runners: Vec<String>,
    /// On the CI system's clock.
    pub ended_at: Option<Timestamp>,
    pub status: JobOutcome,
}

impl CompletedJob {
    /// Whether `system` may tell of this checkpoint's job: it is its pool's own. Where the pool has none, only what the job's hook said of its project
    /// tells whose it is.
    pub fn is_said_by(&self, system: CiSystem, of_pool: Option<CiSystem>, checkpoint: &Checkpoint) -> bool {
        match of_pool {
            Some(own) => own == system,
            None => checkpoint.project.as_ref().is_some_and(|project| self.projects.contains(project)),
        }
    }

    /// Whether what is said of the job agrees with what its checkpoint says. A run's jobs share its id, and are told apart by their runners, and on
    /// one runner by their times: a job that had ended before the checkpoint was made is an earlier one, whose word is late.
    pub fn is_of(&self, checkpoint: &Checkpoint) -> bool {
        let Self { id, projects, attempt, runners: _, ended_at, status: _ } = self;
        let is_there = checkpoint.project.as_ref().is_none_or(|project| is_one_of(project, projects));
        let is_that_try = checkpoint.attempt.zip(*attempt).is_none_or(|(one, other)| one == other);
        let is_later = ended_at.is_none_or(|ended| ended.after(CUT_OFF) > checkpoint.created_at);
        *id == checkpoint.job && is_there && is_that_try && is_later
    }

    /// Whether it ran on the checkpoint's `runner`, by whatever name that had then, or has.
    pub fn ran_on(&self, runner: &Runner, checkpoint: &Checkpoint) -> bool {
        let made = checkpoint.registration.as_ref().map(|made| &made.name);
        let is_its = |name: &String| made == Some(name) || runner.is_listed_as(name);
        self.runners.is_empty() || self.runners.iter().any(is_its)
    }
}

fn is_one_of(name: &String, names: &[String]) -> bool {
    names.is_empty() || names.contains(name)
}

/// What GitHub's `conclusion` of a job means for its machine. Only what is said to have gone well is cleaned as such: so `neutral` counts as a
/// failure, and so does what GitHub may say one day.
pub fn github_outcome(conclusion: Option<&str>) -> JobOutcome {
    match conclusion {
        Some("success") => JobOutcome::Success,
        Some("cancelled" | "skipped" | "stale") => JobOutcome::Canceled,
        Some(_) | None => JobOutcome::Failure,
    }
}

/// What GitLab's `status` of a job means; nothing while the job goes on, or never ran.
pub fn gitlab_outcome(status: &str) -> Option<JobOutcome> {
    match status {
        "success" => Some(JobOutcome::Success),
        "failed" => Some(JobOutcome::Failure),
        "canceled" => Some(JobOutcome::Canceled),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::CheckpointState;
    use crate::ids::{CheckpointName, Epoch, PoolName, RunnerId};

    const BEGAN: Timestamp = Timestamp::from_millis(1_700_000_000_400);

    fn checkpoint(project: Option<&str>, attempt: Option<u32>) -> Checkpoint {
        let job = JobId::parse("42").unwrap();
        Checkpoint {
            name: CheckpointName::of(&job, BEGAN, 1),
            runner: RunnerId::parse("mac-01").unwrap(),
            pool: PoolName::parse("macs").unwrap(),
            epoch: Epoch::FIRST,
            job,
            project: project.map(str::to_owned),
            attempt,
            caller: None,
            key: None,
            registration: None,
            rev: 1,
            state: CheckpointState::Created,
            created_at: BEGAN,
            look_at: BEGAN,
            finalized: None,
        }
    }

    fn job(projects: &[&str], attempt: Option<u32>, ended_at_ms: Option<u64>) -> CompletedJob {
        CompletedJob {
            id: JobId::parse("42").unwrap(),
            projects: projects.iter().map(|name| (*name).to_owned()).collect(),
            attempt,
            runners: Vec::new(),
            ended_at: ended_at_ms.map(Timestamp::from_millis),
            status: JobOutcome::Success,
        }
    }

    #[test]
    fn a_conclusion_of_github_is_a_success_only_if_it_says_so() {
        use JobOutcome::{Canceled, Failure, Success};
        for (conclusion, outcome) in [
            (Some("success"), Success),
            (Some("failure"), Failure),
            (Some("timed_out"), Failure),
            (Some("action_required"), Failure),
            (Some("startup_failure"), Failure),
            (Some("neutral"), Failure),
            (Some("cancelled"), Canceled),
            (Some("skipped"), Canceled),
            (Some("stale"), Canceled),
            (Some("Success"), Failure),
            (Some(""), Failure),
            (None, Failure),
        ] {
            assert_eq!(github_outcome(conclusion), outcome, "{conclusion:?}");
        }
    }

    #[test]
    fn a_status_of_gitlab_is_an_end_or_none() {
        use JobOutcome::{Canceled, Failure, Success};
        for (status, outcome) in [
            ("success", Some(Success)),
            ("failed", Some(Failure)),
            ("canceled", Some(Canceled)),
            ("canceling", None),
            ("created", None),
            ("manual", None),
            ("pending", None),
            ("preparing", None),
            ("running", None),
            ("scheduled", None),
            ("skipped", None),
            ("waiting_for_resource", None),
            ("", None),
        ] {
            assert_eq!(gitlab_outcome(status), outcome, "{status:?}");
        }
    }

    #[test]
    fn any_of_its_projects_names_will_do_and_another_will_not() {
        let names = ["380", "group/app"];
        for (said, is_it) in
            [(Some("380"), true), (Some("group/app"), true), (Some("381"), false), (None, true)]
        {
            assert_eq!(job(&names, None, None).is_of(&checkpoint(said, None)), is_it, "{said:?}");
        }
        assert!(job(&[], None, None).is_of(&checkpoint(Some("380"), None)));
    }

    #[test]
    fn another_try_is_another_job() {
        for (said, told, is_it) in [
            (Some(1), Some(1), true),
            (Some(1), Some(2), false),
            (None, Some(2), true),
            (Some(1), None, true),
        ] {
            assert_eq!(job(&[], told, None).is_of(&checkpoint(None, said)), is_it, "{said:?} {told:?}");
        }
    }

    #[test]
    fn fault_28_a_late_word_of_an_earlier_job_of_the_run_is_not_the_present_ones() {
        for (ended_at_ms, is_it) in [
            (Some(1_699_999_999_000), false),
            // The same second, in which GitHub counts no further.
            (Some(1_700_000_000_000), true),
            (Some(1_700_000_060_000), true),
            (None, true),
        ] {
            assert_eq!(job(&[], None, ended_at_ms).is_of(&checkpoint(None, None)), is_it, "{ended_at_ms:?}");
        }
    }
}
