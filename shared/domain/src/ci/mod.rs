//! How a pool's runners are known to a CI system: where they register, under which name, and which of those that the system lists
//! are ghosts. What a CI system's words say of a job is in `job`.

mod job;

pub use job::{GitHubJob, JenkinsBuild, JobStatus};

use crate::ids::{Epoch, RunnerId};
use crate::pool::{Dispatch, RuleError};
use crate::runner::{Runner, StateName};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CiSystem {
    GitHub,
    GitLab,
    Jenkins,
}

impl CiSystem {
    pub const ALL: [Self; 3] = [Self::GitHub, Self::GitLab, Self::Jenkins];

    pub fn name(self) -> &'static str {
        match self {
            Self::GitHub => "github",
            Self::GitLab => "gitlab",
            Self::Jenkins => "jenkins",
        }
    }

    /// Whether we make the registrations of its runners. A node of Jenkins is configured there, once, and the pool's own commands start
    /// its agent.
    pub fn registers(self) -> bool {
        match self {
            Self::GitHub | Self::GitLab => true,
            Self::Jenkins => false,
        }
    }

    /// Whether what it calls a job may go on after it has left its runner: a build of Jenkins' uses one node after the other, and none while it waits for
    /// a person. A runner of its that is paused and idle has no part of the build any more.
    pub fn job_outlives_its_runner(self) -> bool {
        match self {
            Self::Jenkins => true,
            Self::GitHub | Self::GitLab => false,
        }
    }
}

/// Where a pool's runners register, and as what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CiBinding {
    pub system: CiSystem,
    /// GitHub: `org`, `owner/repository` or `enterprises/name`. GitLab: `groups/ID`, `projects/ID` or `instance`.
    /// Jenkins: `instance`.
    pub scope: String,
    /// GitHub's runner group.
    pub group_id: u64,
    /// Beside the claim's own, which alone decides who gets the runner.
    pub labels: Vec<String>,
    /// An older runner program raises an alert.
    pub minimum_version: Option<String>,
}

/// The rules of `check` as regular expressions, for the API's document.
impl CiBinding {
    /// Of any system.
    pub const SCOPE_PATTERN: &'static str = "^[A-Za-z0-9._-]{1,100}(/[A-Za-z0-9._-]{1,100})?$";
    pub const LABEL_PATTERN: &'static str = "^[A-Za-z0-9._-]{1,100}$";
    pub const MOST_LABELS: usize = 20;
    pub const VERSION_PATTERN: &'static str = r"^v?[0-9]{1,19}(\.[0-9]{1,19}){0,9}([-+ ].*)?$";
}

impl CiBinding {
    /// The repository that alone is its scope.
    pub fn repository(&self) -> Option<&str> {
        let is_one = self.system == CiSystem::GitHub
            && self.scope.split_once('/').is_some_and(|(owner, _)| owner != "enterprises");
        is_one.then_some(self.scope.as_str())
    }

    pub(crate) fn check(&self) -> Result<(), RuleError> {
        let wrong = |field, problem: &str| Err(RuleError { field, problem: problem.to_owned() });
        let parts: Vec<&str> = self.scope.split('/').collect();
        let good_name = |name: &str| {
            (1..=100).contains(&name.len())
                && name != "."
                && name != ".."
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        };
        let number = |text: &str| text.parse::<u64>().is_ok();
        let known = match (self.system, parts.as_slice()) {
            (CiSystem::GitHub, [name]) => good_name(name),
            (CiSystem::GitHub, [owner, name]) => good_name(owner) && good_name(name),
            (CiSystem::GitLab | CiSystem::Jenkins, ["instance"]) => true,
            (CiSystem::GitLab, ["groups" | "projects", id]) => number(id),
            (CiSystem::GitHub | CiSystem::GitLab | CiSystem::Jenkins, _) => false,
        };
        if !known {
            return wrong(
                "scope",
                match self.system {
                    CiSystem::GitHub => "must be \"org\", \"owner/repository\" or \"enterprises/name\"",
                    CiSystem::GitLab => {
                        "must be \"groups/ID\", \"projects/ID\" or \"instance\", with the number as ID"
                    }
                    CiSystem::Jenkins => "must be \"instance\": the nodes of a Jenkins are its own",
                },
            );
        }
        let good_label = |label: &String| {
            (1..=100).contains(&label.len())
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        };
        if self.labels.len() > Self::MOST_LABELS || !self.labels.iter().all(good_label) {
            return wrong("labels", "must be at most 20, of up to 100 letters, digits, '-', '_' and '.'");
        }
        if self.minimum_version.as_deref().is_some_and(|version| numbers(version).is_none()) {
            return wrong("minimum_version", "must be a version such as 2.329.0");
        }
        Ok(())
    }
}

/// What the CI system knows a runner by, for one job or for as long as it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// Where it was made: its pool may have moved on.
    pub system: CiSystem,
    pub scope: String,
    pub name: String,
    /// The CI system's own.
    pub id: String,
}

/// The name of the `count`-th registration of a runner in its epoch. `installation` keeps apart who shares a CI system.
pub fn registration_name(installation: &str, runner: &RunnerId, epoch: Epoch, count: u32) -> String {
    format!("mp-{installation}-{runner}.{epoch}.{count}")
}

/// The runner and epoch of a name that `installation` gave; nothing of anybody else's.
pub fn named(installation: &str, name: &str) -> Option<(RunnerId, Epoch)> {
    let own = name.strip_prefix("mp-")?.strip_prefix(installation)?.strip_prefix('-')?;
    let (rest, count) = own.rsplit_once('.')?;
    let (runner, epoch) = rest.rsplit_once('.')?;
    count.parse::<u32>().ok()?;
    Some((RunnerId::parse(runner).ok()?, Epoch(epoch.parse().ok()?)))
}

/// Whether a registration of `epoch` is of nobody any more. One whose runner may just be registering is not, nor an idle one's to which the CI
/// system hands out work by itself.
pub fn is_ghost(record: Option<&Runner>, epoch: Epoch, dispatch: Dispatch) -> bool {
    let Some(runner) = record else { return true };
    if runner.epoch != epoch {
        return true;
    }
    match runner.state.name() {
        StateName::Created | StateName::Claimed | StateName::Running | StateName::Releasing => false,
        StateName::Idle if dispatch == Dispatch::Hook => false,
        StateName::Resetting
        | StateName::Idle
        | StateName::Quarantined
        | StateName::Terminating
        | StateName::Terminated => true,
    }
}

/// Whether a program's version is older than the least that will do. Numbers are compared as numbers; what is no version is not judged.
pub fn is_older(version: &str, least: &str) -> bool {
    match (numbers(version), numbers(least)) {
        (Some(version), Some(least)) => version < least,
        (Some(_) | None, _) => false,
    }
}

fn numbers(version: &str) -> Option<Vec<u64>> {
    let plain = version.trim().trim_start_matches('v');
    let core = plain.split(['-', '+', ' ']).next()?;
    core.split('.').map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_whose_it_is() {
        let runner = RunnerId::parse("mac-01.lab").unwrap();
        let name = registration_name("ab12cd", &runner, Epoch(3), 7);
        assert_eq!(named("ab12cd", &name), Some((runner, Epoch(3))));
        assert_eq!(named("other0", &name), None);
        for foreign in ["mp-ab12cd", "mp-ab12cd-r-1", "mp-ab12cd-r-1.x.1", "laptop", ""] {
            assert_eq!(named("ab12cd", foreign), None, "{foreign}");
        }
    }

    #[test]
    fn only_jenkins_has_its_runners_configured_there() {
        for system in CiSystem::ALL {
            assert_eq!(system.registers(), system != CiSystem::Jenkins);
        }
    }

    #[test]
    fn only_a_build_of_jenkins_goes_on_elsewhere() {
        for system in CiSystem::ALL {
            assert_eq!(system.job_outlives_its_runner(), system == CiSystem::Jenkins);
        }
    }

    #[test]
    fn refuse_13_each_system_has_its_scopes() {
        for (system, scope, good) in [
            (CiSystem::GitHub, "my-org", true),
            (CiSystem::GitHub, "me/repo", true),
            (CiSystem::GitHub, "me/..", false),
            (CiSystem::GitLab, "groups/7", true),
            (CiSystem::GitLab, "groups/seven", false),
            (CiSystem::GitLab, "instance", true),
            (CiSystem::Jenkins, "instance", true),
            (CiSystem::Jenkins, "folder", false),
            (CiSystem::Jenkins, "projects/8", false),
        ] {
            let scope = scope.to_owned();
            let binding = CiBinding { system, scope, group_id: 1, labels: Vec::new(), minimum_version: None };
            assert_eq!(binding.check().is_ok(), good, "{binding:?}");
        }
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(is_older("2.9.0", "2.10.0"));
        assert!(!is_older("2.330.0", "2.329.0"));
        assert!(!is_older("v17.5.1", "17.5.1"));
        assert!(is_older("17.4.0-rc1", "17.5"));
        assert!(!is_older("custom", "2.0"), "what is no version is not judged");
    }
}
