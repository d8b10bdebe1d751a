//! What became of a job, from the words of each CI system. A word that is new to us is never taken for an end.

use crate::checkpoint::{JobOutcome, github_outcome};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// By so much the clocks of a CI system and of the control plane may differ.
const CLOCKS_DIFFER: Duration = Duration::from_secs(60);

/// What became of a job that a CI system gave to a runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobStatus {
    /// It is not over. Nor is a job that is being cancelled: it may clean up after itself.
    Running,
    Success,
    Failure,
    Canceled,
    /// The CI system knows no such job.
    Unknown,
}

/// One job of a workflow run's attempt, as GitHub lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitHubJob {
    /// None until a runner has taken it.
    pub runner: Option<String>,
    pub status: String,
    pub conclusion: Option<String>,
    /// Both on GitHub's clock, in whole seconds.
    pub started_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
}

impl GitHubJob {
    /// Whether it was over when a checkpoint was made at `since`, and so is an earlier job than the checkpoint's. The checkpoint's own job may be listed
    /// with an end before `since` if it was short and the clocks differ; then it began not long before either. That a job began earlier says nothing by
    /// itself: GitHub's runner fetches what the job needs before it calls the hook that makes the checkpoint.
    fn was_over(&self, since: Timestamp) -> bool {
        let is_before = |at: Option<Timestamp>| at.is_some_and(|at| at < since);
        let is_long_before = |at: Option<Timestamp>| at.is_some_and(|at| at.after(CLOCKS_DIFFER) < since);
        let Self { started_at, completed_at, .. } = *self;
        is_long_before(completed_at) || (is_before(completed_at) && is_long_before(started_at))
    }
}

/// A build, as Jenkins tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JenkinsBuild {
    pub building: bool,
    /// True a little longer than `building`, while the build's end is written down. An older Jenkins does not say.
    pub in_progress: bool,
    pub result: Option<String>,
}

/// How a job of GitHub's can have ended, by its words.
const GITHUB_CONCLUSIONS: [&str; 9] = [
    "success",
    "neutral",
    "failure",
    "timed_out",
    "action_required",
    "startup_failure",
    "cancelled",
    "skipped",
    "stale",
];

impl From<JobOutcome> for JobStatus {
    fn from(outcome: JobOutcome) -> Self {
        match outcome {
            JobOutcome::Success => Self::Success,
            JobOutcome::Failure => Self::Failure,
            JobOutcome::Canceled => Self::Canceled,
        }
    }
}

/// Each says nothing where a word is not known.
impl JobStatus {
    pub fn of_gitlab(status: &str) -> Option<Self> {
        match status {
            "created"
            | "waiting_for_resource"
            | "preparing"
            | "waiting_for_callback"
            | "pending"
            | "running"
            | "canceling"
            | "manual"
            | "scheduled" => Some(Self::Running),
            "success" => Some(Self::Success),
            "failed" => Some(Self::Failure),
            "canceled" | "skipped" => Some(Self::Canceled),
            _ => None,
        }
    }

    pub fn of_github(status: &str, conclusion: Option<&str>) -> Option<Self> {
        match (status, conclusion) {
            ("queued" | "waiting" | "requested" | "pending" | "in_progress", _) => Some(Self::Running),
            ("completed", Some(said)) if GITHUB_CONCLUSIONS.contains(&said) => {
                Some(github_outcome(Some(said)).into())
            }
            _ => None,
        }
    }

    /// Of the job that ran on this runner when its checkpoint was made at `since`, from all jobs of the attempt: a hook on the host knows no more of
    /// its job.
    ///
    /// A runner that is good for many jobs may have had several of one attempt: those that were over by then are not meant. It is running while one of
    /// the others is, and what counts after that is the last. A job that no runner is listed for yet may be the one, since GitHub's lists are late.
    pub fn on_github_runner(jobs: &[GitHubJob], runner: &str, since: Timestamp) -> Option<Self> {
        let status = |job: &GitHubJob| Self::of_github(&job.status, job.conclusion.as_deref());
        let nobodys = |job: &&GitHubJob| job.runner.as_deref().is_none_or(str::is_empty);
        let is_its = |job: &&GitHubJob| job.runner.as_deref() == Some(runner) && !job.was_over(since);
        let its = || jobs.iter().filter(is_its);
        if its().any(|job| status(job) == Some(Self::Running)) {
            return Some(Self::Running);
        }
        match its().max_by_key(|job| job.started_at) {
            Some(last) => status(last),
            None if jobs.iter().filter(nobodys).any(|job| status(job) == Some(Self::Running)) => {
                Some(Self::Running)
            }
            None => Some(Self::Unknown),
        }
    }

    /// An unstable build is one whose tests failed. A build that is over without a result was lost with its Jenkins.
    pub fn of_jenkins(build: &JenkinsBuild) -> Option<Self> {
        let JenkinsBuild { building, in_progress, result } = build;
        if *building || *in_progress {
            return Some(Self::Running);
        }
        match result.as_deref() {
            Some("SUCCESS") => Some(Self::Success),
            Some("FAILURE" | "UNSTABLE") | None => Some(Self::Failure),
            Some("ABORTED" | "NOT_BUILT") => Some(Self::Canceled),
            Some(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::JobStatus::{Canceled, Failure, Running, Success, Unknown};
    use super::*;

    #[test]
    fn gitlabs_words() {
        for (word, expected) in [
            ("created", Some(Running)),
            ("waiting_for_resource", Some(Running)),
            ("preparing", Some(Running)),
            ("waiting_for_callback", Some(Running)),
            ("pending", Some(Running)),
            ("running", Some(Running)),
            ("canceling", Some(Running)),
            ("manual", Some(Running)),
            ("scheduled", Some(Running)),
            ("success", Some(Success)),
            ("failed", Some(Failure)),
            ("canceled", Some(Canceled)),
            ("skipped", Some(Canceled)),
            ("Success", None),
            ("evaporated", None),
            ("", None),
        ] {
            assert_eq!(JobStatus::of_gitlab(word), expected, "{word}");
        }
    }

    #[test]
    fn githubs_words() {
        for (status, conclusion, expected) in [
            ("queued", None, Some(Running)),
            ("waiting", None, Some(Running)),
            ("requested", None, Some(Running)),
            ("pending", None, Some(Running)),
            ("in_progress", None, Some(Running)),
            ("completed", Some("success"), Some(Success)),
            ("completed", Some("neutral"), Some(Failure)),
            ("completed", Some("failure"), Some(Failure)),
            ("completed", Some("timed_out"), Some(Failure)),
            ("completed", Some("action_required"), Some(Failure)),
            ("completed", Some("startup_failure"), Some(Failure)),
            ("completed", Some("stale"), Some(Canceled)),
            ("completed", Some("cancelled"), Some(Canceled)),
            ("completed", Some("skipped"), Some(Canceled)),
            ("completed", None, None),
            ("completed", Some("evaporated"), None),
            ("evaporated", Some("success"), None),
        ] {
            assert_eq!(JobStatus::of_github(status, conclusion), expected, "{status} {conclusion:?}");
        }
    }

    #[test]
    fn jenkins_words() {
        for (building, in_progress, result, expected) in [
            (true, true, None, Some(Running)),
            (true, true, Some("FAILURE"), Some(Running)),
            (false, true, Some("SUCCESS"), Some(Running)),
            (true, false, Some("SUCCESS"), Some(Running)),
            (false, false, Some("SUCCESS"), Some(Success)),
            (false, false, Some("UNSTABLE"), Some(Failure)),
            (false, false, Some("FAILURE"), Some(Failure)),
            (false, false, None, Some(Failure)),
            (false, false, Some("ABORTED"), Some(Canceled)),
            (false, false, Some("NOT_BUILT"), Some(Canceled)),
            (false, false, Some("EVAPORATED"), None),
        ] {
            let build = JenkinsBuild { building, in_progress, result: result.map(str::to_owned) };
            assert_eq!(JobStatus::of_jenkins(&build), expected, "{build:?}");
        }
    }

    /// When the checkpoint was made, by the clock of the jobs below.
    const SINCE_S: u64 = 1_000;

    fn job(runner: &str, status: &str, conclusion: &str, started_at_s: Option<u64>) -> GitHubJob {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let (runner, conclusion, started_at) = (some(runner), some(conclusion), started_at_s.map(at));
        GitHubJob { runner, status: status.to_owned(), conclusion, started_at, completed_at: None }
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    #[test]
    fn a_job_on_github_is_found_by_its_runner() {
        let (early, late) = (Some(SINCE_S), Some(SINCE_S + 3_600));
        let others = job("other", "completed", "failure", late);
        for (what, jobs, expected) in [
            ("its own", vec![others.clone(), job("mine", "completed", "success", early)], Some(Success)),
            (
                "the last of two",
                vec![job("mine", "completed", "failure", late), job("mine", "completed", "success", early)],
                Some(Failure),
            ),
            (
                "one that runs",
                vec![job("mine", "in_progress", "", early), job("mine", "completed", "success", late)],
                Some(Running),
            ),
            ("one that is listed late", vec![others.clone(), job("", "queued", "", None)], Some(Running)),
            (
                "another's that waits",
                vec![job("mine", "completed", "cancelled", early), job("", "queued", "", None)],
                Some(Canceled),
            ),
            ("one that was never run", vec![job("", "completed", "skipped", None)], Some(Unknown)),
            ("others alone", vec![others], Some(Unknown)),
            ("none", vec![], Some(Unknown)),
            ("a new word", vec![job("mine", "evaporated", "", early)], None),
        ] {
            assert_eq!(JobStatus::on_github_runner(&jobs, "mine", at(SINCE_S)), expected, "{what}");
        }
    }

    #[test]
    fn a_job_that_was_over_before_its_runners_checkpoint_is_not_the_checkpoints() {
        for (what, started_s, ended_s, expected) in [
            ("long over", Some(100), Some(900), Unknown),
            ("over for more than clocks differ by", Some(930), Some(939), Unknown),
            ("over just before, and begun long before", Some(100), Some(999), Unknown),
            (
                "over just before, and begun not long before: a short one, on a late clock",
                Some(941),
                Some(999),
                Failure,
            ),
            ("over just before, nobody knows since when", None, Some(999), Failure),
            ("begun long before, and over afterwards: its hook came late", Some(100), Some(1_000), Failure),
            ("begun and over afterwards", Some(1_001), Some(1_300), Failure),
            ("over, nobody knows when", Some(100), None, Failure),
        ] {
            let ended =
                GitHubJob { completed_at: ended_s.map(at), ..job("mine", "completed", "failure", started_s) };
            assert_eq!(
                JobStatus::on_github_runner(std::slice::from_ref(&ended), "mine", at(SINCE_S)),
                Some(expected),
                "{what}"
            );
            // The next job of this runner is not listed for it yet.
            let jobs = [ended, job("", "queued", "", None)];
            let expected = if expected == Unknown { Running } else { expected };
            assert_eq!(JobStatus::on_github_runner(&jobs, "mine", at(SINCE_S)), Some(expected), "{what}");
        }
    }
}
