//! Names as types, parsed once at the edge. Making a fresh id needs randomness, and is not done here.

use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a text is no id. `what` names the kind of id, `rule` says what it must look like.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} must be {rule}")]
pub struct IdError {
    pub what: &'static str,
    pub rule: &'static str,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $rule:literal, $pattern:literal, $valid:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The rule as a regular expression, for the API's document.
            pub const PATTERN: &'static str = $pattern;

            pub fn parse(text: impl Into<String>) -> Result<Self, IdError> {
                let text = text.into();
                let valid: fn(&str) -> bool = $valid;
                if valid(&text) { Ok(Self(text)) } else { Err(IdError { what: $what, rule: $rule }) }
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::parse(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::parse(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(
    /// A pool's name, as in `[pools.small]`.
    PoolName,
    "a pool's name",
    "1 to 48 of a-z, 0-9 and '-', starting with a letter or digit",
    "^[a-z0-9][a-z0-9-]{0,47}$",
    |text| is_slug(text, 48, b"-")
);
id!(
    /// A runner's id: ours (`r-…`), or chosen by the operator who registers a machine that is his.
    RunnerId,
    "a runner's id",
    "1 to 63 of a-z, 0-9, '-', '_' and '.', starting with a letter or digit",
    "^[a-z0-9][a-z0-9._-]{0,62}$",
    |text| is_slug(text, 63, b"-_.")
);
id!(ClaimId, "a claim's id", "'c-' followed by 1 to 40 of a-z and 0-9", "^c-[a-z0-9]{1,40}$", |text| {
    has_prefix(text, "c-")
});
id!(
    /// One call to the provider; its machines share a launch secret.
    LaunchId,
    "a launch's id",
    "'l-' followed by 1 to 40 of a-z and 0-9",
    "^l-[a-z0-9]{1,40}$",
    |text| has_prefix(text, "l-")
);
id!(
    /// What a workflow calls itself, with its attempt: `gh-123`, `gh-123.2`.
    Workflow,
    "a workflow",
    "1 to 128 letters, digits and '.', '_', ':', '/', '@', '-', starting with a letter or digit",
    "^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}$",
    |text| {
        (1..=128).contains(&text.len())
            && text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:/@-".contains(&b))
    }
);
id!(
    /// Whose a claim is: a team's name, or `operator`.
    Owner,
    "an owner's name",
    "1 to 48 of a-z, 0-9 and '-', starting with a letter or digit",
    "^[a-z0-9][a-z0-9-]{0,47}$",
    |text| is_slug(text, 48, b"-")
);
id!(
    /// The label under which a claim's runners register with the CI system.
    Label,
    "a label",
    "1 to 100 of a-z, 0-9 and '-', starting with a letter or digit",
    "^[a-z0-9][a-z0-9-]{0,99}$",
    |text| is_slug(text, 100, b"-")
);
id!(
    /// A task for an agent. It follows from the record (epoch, kind, attempt), so the same task has the same id.
    TaskId,
    "a task's id",
    "1 to 100 of a-z, 0-9 and '-', starting with a letter or digit",
    "^[a-z0-9][a-z0-9-]{0,99}$",
    |text| is_slug(text, 100, b"-")
);

id!(
    /// A job, as the CI system calls it: `CI_JOB_ID`, `GITHUB_RUN_ID`, `BUILD_NUMBER`.
    JobId,
    "a job's id",
    "1 to 128 letters, digits, '_', '.' and '-'",
    "^[A-Za-z0-9_.-]{1,128}$",
    is_job
);
id!(
    /// A checkpoint's name: of which job it is, since when (in seconds), and something random, since a job may be tried again.
    CheckpointName,
    "a checkpoint's name",
    "job-<job>-<seconds>-<8 hex digits>",
    "^job-[A-Za-z0-9_.-]{1,128}-[0-9]{1,20}-[0-9a-f]{8}$",
    is_checkpoint
);
id!(
    /// A webhook's delivery, as its sender calls it: the same one that is sent again has the same id.
    DeliveryId,
    "a delivery's id",
    "1 to 128 letters, digits, '_', '.' and '-'",
    "^[A-Za-z0-9_.-]{1,128}$",
    is_job
);

impl CheckpointName {
    /// `word` makes it another name than any other of the job in that second.
    pub fn of(job: &JobId, at: Timestamp, word: u32) -> Self {
        Self(format!("job-{job}-{}-{word:08x}", at.as_millis() / 1_000))
    }
}

impl Owner {
    /// The owner of what is claimed with the admin token.
    pub fn operator() -> Self {
        Self("operator".to_owned())
    }
}

impl ClaimId {
    /// A claim's own label, so that no other job can take its runners.
    pub fn label(&self) -> Label {
        Label(format!("motorpool-{}", self.0))
    }
}

impl PoolName {
    /// The label of a pool whose runners the CI system finds work for by itself.
    pub fn label(&self) -> Label {
        Label(format!("motorpool-{}", self.0))
    }
}

impl RunnerId {
    /// The id of the `index`-th runner of a launch. Following from both, it need not be told to the machine, nor asked of it.
    pub fn of_launch(launch: &LaunchId, index: u32) -> Self {
        let word = launch.0.strip_prefix("l-").unwrap_or(&launch.0);
        Self(format!("r-{word}-{index}"))
    }
}

impl TaskId {
    pub(crate) fn of(epoch: Epoch, kind: &str, attempt: u32) -> Self {
        Self(format!("{epoch}-{kind}-{attempt}"))
    }
}

/// Counts a runner's lives. It rises in one place only: on entering `resetting`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch(pub u64);

impl Epoch {
    pub const FIRST: Self = Self(1);

    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn is_slug(text: &str, longest: usize, marks: &[u8]) -> bool {
    (1..=longest).contains(&text.len())
        && text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || marks.contains(&b))
}

fn has_prefix(text: &str, prefix: &str) -> bool {
    text.strip_prefix(prefix).is_some_and(|rest| is_slug(rest, 40, b""))
}

fn is_job(text: &str) -> bool {
    (1..=128).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
}

fn is_checkpoint(text: &str) -> bool {
    let parts = || {
        let (rest, word) = text.strip_prefix("job-")?.rsplit_once('-')?;
        let (job, at) = rest.rsplit_once('-')?;
        Some((job, at, word))
    };
    let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    parts().is_some_and(|(job, at, word)| {
        is_job(job)
            && (1..=20).contains(&at.len())
            && at.bytes().all(|b| b.is_ascii_digit())
            && word.len() == 8
            && word.bytes().all(is_hex)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuse_13_ids_hold_no_shell_metacharacter_newline_nul_or_path() {
        for bad in ["", "a b", "a;b", "$(x)", "a\nb", "a\0b", "../etc", "a/b", "-rf", "A", "ä", "`x`", "a'b"]
        {
            assert!(PoolName::parse(bad).is_err(), "{bad:?}");
            assert!(RunnerId::parse(bad).is_err(), "{bad:?}");
            assert!(ClaimId::parse(format!("c-{bad}")).is_err(), "{bad:?}");
        }
        for bad in ["", "a b", "a;b", "$(x)", "a\nb", "a\0b", "-rf", "../x", "ä", "a'b", "a#b"] {
            assert!(Workflow::parse(bad).is_err(), "{bad:?}");
        }
        assert!(Workflow::parse("a".repeat(129)).is_err());
    }

    #[test]
    fn every_runner_of_a_launch_has_an_id() {
        let launch = LaunchId::parse(format!("l-{}", "z".repeat(40))).unwrap();
        let runner = RunnerId::of_launch(&launch, u32::MAX);
        assert_eq!(RunnerId::parse(runner.as_str()), Ok(runner));
    }

    #[test]
    fn every_checkpoint_of_a_job_has_a_name() {
        for job in ["1", "gh-1.2_x", "-", &"z".repeat(128)] {
            let job = JobId::parse(job).unwrap();
            let name = CheckpointName::of(&job, Timestamp::from_millis(u64::MAX), 0xa1b2);
            assert_eq!(CheckpointName::parse(name.as_str()), Ok(name));
        }
        assert!(CheckpointName::parse("job-12345-1739451000-a1b2c3d4").is_ok());
        for bad in [
            "job-1-2",
            "job--2-a1b2c3d4",
            "job-1-x-a1b2c3d4",
            "job-1-2-A1B2C3D4",
            "job-1-2-a1b2c3d4\n",
            "job-$(x)-2-a1b2c3d4",
            "job-../x-2-a1b2c3d4",
            "x-1-2-a1b2c3d4",
            "",
        ] {
            assert!(CheckpointName::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn every_pools_label_is_a_label() {
        let pool = PoolName::parse("z".repeat(48)).unwrap();
        assert_eq!(Label::parse(pool.label().as_str()), Ok(pool.label()));
    }

    #[test]
    fn every_claims_label_is_a_label() {
        let claim = ClaimId::parse(format!("c-{}", "z".repeat(40))).unwrap();
        assert_eq!(Label::parse(claim.label().as_str()), Ok(claim.label()));
    }
}
