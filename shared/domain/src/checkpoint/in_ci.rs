//! A checkpoint's job as its CI system has it: whether the system can be asked about it at all, and whether it has left its machine.

use super::{Checkpoint, Job};
use crate::ci::{CiBinding, CiSystem, JobStatus};
use crate::pool::{Dispatch, Rules};
use std::fmt;

/// What is wrong with the job's `project`, by which its CI system would be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CannotAsk {
    ProjectMissing(CiSystem),
    ProjectMalformed(CiSystem),
}

impl CannotAsk {
    /// What the job's hook can do.
    pub fn hint(self) -> &'static str {
        let (Self::ProjectMissing(system) | Self::ProjectMalformed(system)) = self;
        match system {
            CiSystem::GitHub => "send owner/repository as project: $GITHUB_REPOSITORY",
            CiSystem::GitLab => {
                "send the project's number or its path as project: $CI_PROJECT_ID, or $CI_PROJECT_PATH"
            }
            CiSystem::Jenkins => "send the job's full name as project, such as folder/job: $JOB_NAME",
        }
    }
}

impl fmt::Display for CannotAsk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (problem, system) = match self {
            Self::ProjectMissing(system) => ("project is missing", system),
            Self::ProjectMalformed(system) => ("project is malformed", system),
        };
        let why = match system {
            CiSystem::GitHub => "GitHub is asked about a job in its repository",
            CiSystem::GitLab => "GitLab is asked about a job in its project",
            CiSystem::Jenkins => "Jenkins is asked about a build in its job",
        };
        write!(f, "{problem}: {why}")
    }
}

/// Whether a CI system can be asked what became of a job, by what the job's hook says of it. Where it can't, nobody would ever see that the job is over, and
/// its machine would be held until the checkpoint's time ends: such a job is refused while its hook can still say more. Nothing where the system can be
/// asked, or is not waited for.
pub fn cannot_be_asked_for(job: &Job, rules: &Rules) -> Option<CannotAsk> {
    match (rules.dispatch, &rules.ci) {
        (Dispatch::Hook, Some(binding)) => match &job.project {
            Some(project) => (!is_of_its_form(project, binding.system))
                .then_some(CannotAsk::ProjectMalformed(binding.system)),
            None => needs_project(binding).then_some(CannotAsk::ProjectMissing(binding.system)),
        },
        (Dispatch::Hook, None) | (Dispatch::Claim | Dispatch::Lease, _) => None,
    }
}

/// Whether the job has left its machine, once `system` has acknowledged the pause and says that the runner is idle. `status` is what it says of the job
/// after that; nothing where it does not say. A job that outlives its runner goes on elsewhere, perhaps for hours, perhaps waiting for this very machine:
/// who said that it is over meant its part here.
pub fn has_left_its_machine(checkpoint: &Checkpoint, system: CiSystem, status: Option<JobStatus>) -> bool {
    match status {
        Some(JobStatus::Success | JobStatus::Failure | JobStatus::Canceled | JobStatus::Unknown) => true,
        Some(JobStatus::Running) | None => system.job_outlives_its_runner() && checkpoint.finalized.is_some(),
    }
}

fn needs_project(binding: &CiBinding) -> bool {
    match binding.system {
        CiSystem::GitHub => binding.repository().is_none(),
        // Without it, the jobs of its runner are gone through.
        CiSystem::GitLab => false,
        CiSystem::Jenkins => true,
    }
}

fn is_of_its_form(project: &str, system: CiSystem) -> bool {
    let parts: Vec<&str> = project.split('/').collect();
    let is_path = !parts.iter().any(|part| matches!(*part, "" | "." | ".."));
    let is_number = project.bytes().all(|byte| byte.is_ascii_digit());
    is_path
        && match system {
            CiSystem::GitHub => parts.len() == 2,
            CiSystem::GitLab => is_number || parts.len() > 1,
            CiSystem::Jenkins => true,
        }
}

#[cfg(test)]
mod tests {
    use super::CannotAsk::{ProjectMalformed, ProjectMissing};
    use super::*;
    use crate::checkpoint::{FinalizeSource, Finalized, JobOutcome};
    use crate::ci::Registration;
    use crate::ids::{CheckpointName, JobId};
    use crate::pool::{BackendKind, CheckpointRules};
    use crate::runner::Runner;
    use crate::samples;
    use crate::time::Timestamp;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000_000);

    fn asked(dispatch: Dispatch, ci: Option<(CiSystem, &str)>, project: Option<&str>) -> Option<CannotAsk> {
        let binding = |(system, scope): (CiSystem, &str)| CiBinding {
            system,
            scope: scope.to_owned(),
            group_id: 1,
            labels: Vec::new(),
            minimum_version: None,
        };
        let rules =
            Rules { backend: BackendKind::BareMetal, dispatch, ci: ci.map(binding), ..samples::rules() };
        let job = Job {
            id: JobId::parse("42").unwrap(),
            project: project.map(str::to_owned),
            attempt: None,
            caller: None,
            key: None,
        };
        cannot_be_asked_for(&job, &rules)
    }

    #[test]
    fn each_system_needs_of_a_job_what_it_is_asked_by() {
        use CiSystem::{GitHub, GitLab, Jenkins};
        for (system, scope, project, expected) in [
            (GitHub, "me/app", None, None),
            (GitHub, "me/app", Some("me/app"), None),
            (GitHub, "my-org", Some("my-org/app"), None),
            (GitHub, "my-org", None, Some(ProjectMissing(GitHub))),
            (GitHub, "enterprises/big", None, Some(ProjectMissing(GitHub))),
            (GitHub, "my-org", Some("app"), Some(ProjectMalformed(GitHub))),
            (GitHub, "me/app", Some("my-org/app/more"), Some(ProjectMalformed(GitHub))),
            (GitLab, "instance", None, None),
            (GitLab, "instance", Some("380"), None),
            (GitLab, "groups/7", Some("group/app"), None),
            (GitLab, "groups/7", Some("group/sub/app"), None),
            (GitLab, "groups/7", Some("app"), Some(ProjectMalformed(GitLab))),
            (GitLab, "groups/7", Some("group/../app"), Some(ProjectMalformed(GitLab))),
            (Jenkins, "instance", Some("app"), None),
            (Jenkins, "instance", Some("folder/app/feature%2Fx"), None),
            (Jenkins, "instance", None, Some(ProjectMissing(Jenkins))),
            (Jenkins, "instance", Some(""), Some(ProjectMalformed(Jenkins))),
            (Jenkins, "instance", Some("folder//app"), Some(ProjectMalformed(Jenkins))),
        ] {
            let found = asked(Dispatch::Hook, Some((system, scope)), project);
            assert_eq!(found, expected, "{system:?} {scope} {project:?}");
        }
    }

    #[test]
    fn only_a_job_that_outlives_its_runner_may_run_on_and_only_if_its_part_is_said_to_be_over() {
        use CiSystem::{GitHub, GitLab, Jenkins};
        let runner = Runner::intent(samples::new_runner("mac-01", NOW), NOW);
        let job =
            Job { id: JobId::parse("42").unwrap(), project: None, attempt: None, caller: None, key: None };
        let name = CheckpointName::of(&job.id, NOW, 1);
        let open = Checkpoint::open(name, &runner, job, &CheckpointRules::default(), NOW);
        let finalized = Finalized { status: JobOutcome::Success, source: FinalizeSource::Hook, at: NOW };
        let said = Checkpoint { finalized: Some(finalized), ..open.clone() };
        for (system, status, while_open, once_said) in [
            (GitHub, Some(JobStatus::Running), false, false),
            (GitLab, Some(JobStatus::Running), false, false),
            (Jenkins, Some(JobStatus::Running), false, true),
            (GitHub, None, false, false),
            (GitLab, None, false, false),
            (Jenkins, None, false, true),
            (GitLab, Some(JobStatus::Unknown), true, true),
            (GitLab, Some(JobStatus::Canceled), true, true),
            (Jenkins, Some(JobStatus::Success), true, true),
            (Jenkins, Some(JobStatus::Failure), true, true),
        ] {
            let left = [&open, &said].map(|checkpoint| has_left_its_machine(checkpoint, system, status));
            assert_eq!(left, [while_open, once_said], "{system:?} {status:?}");
        }
    }

    #[test]
    fn inv_30_a_job_is_asked_about_by_the_registration_that_brought_it_though_that_is_void_by_now() {
        use CiSystem::{GitHub, GitLab, Jenkins};
        for (system, listed, by_hand) in [
            (GitHub, Some("mp-ab12cd-mac-01.2.1"), Some("mac-01")),
            (GitLab, Some("77"), None),
            (Jenkins, Some("mac-01"), Some("mac-01")),
        ] {
            let mut runner = Runner::intent(samples::new_runner("mac-01", NOW), NOW);
            runner.registration = Some(Registration {
                system,
                scope: "me/app".to_owned(),
                name: "mp-ab12cd-mac-01.2.1".to_owned(),
                id: "77".to_owned(),
            });
            let id = JobId::parse("42").unwrap();
            let name = CheckpointName::of(&id, NOW, 1);
            let job = Job { id, project: None, attempt: None, caller: None, key: None };
            let made = Checkpoint::open(name, &runner, job, &CheckpointRules::default(), NOW);
            // It was quarantined, or its machine started anew.
            runner.registration = None;
            assert_eq!(made.listed_in_ci(&runner, system).as_deref(), listed, "{system:?}");
            let by_an_older_version = Checkpoint { registration: None, ..made };
            assert_eq!(by_an_older_version.listed_in_ci(&runner, system).as_deref(), by_hand, "{system:?}");
        }
    }

    #[test]
    fn where_no_ci_system_is_waited_for_nothing_is_needed() {
        for project in [None, Some("app"), Some("")] {
            assert_eq!(asked(Dispatch::Hook, None, project), None, "{project:?}");
            let jenkins = Some((CiSystem::Jenkins, "instance"));
            assert_eq!(asked(Dispatch::Claim, jenkins, project), None, "{project:?}");
        }
    }

    #[test]
    fn a_refusal_names_the_field_and_what_the_hook_has() {
        for (refusal, variable) in [
            (ProjectMissing(CiSystem::GitHub), "$GITHUB_REPOSITORY"),
            (ProjectMalformed(CiSystem::GitLab), "$CI_PROJECT_ID"),
            (ProjectMissing(CiSystem::Jenkins), "$JOB_NAME"),
        ] {
            assert!(refusal.to_string().starts_with("project is "), "{refusal}");
            assert!(refusal.hint().contains(variable), "{refusal}");
        }
    }
}
