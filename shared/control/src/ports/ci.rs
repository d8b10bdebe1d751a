//! The port to CI systems: where a runner is known to those who have jobs. Small, and for later layers to extend (job status, pause).

use crate::error::whole_seconds;
use async_trait::async_trait;
use motorpool_domain::Label;
use motorpool_domain::ci::{CiBinding, CiSystem};
use secrecy::SecretString;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

#[async_trait]
pub trait Ci: Send + Sync + std::fmt::Debug {
    /// The CI system knows a runner of this name, and only `order.label` and the pool's own labels bring it jobs. Another of the same
    /// name is replaced.
    async fn register(&self, order: &RegistrationOrder<'_>) -> Result<Registered, CiError>;

    /// The CI system no longer knows the runner in this scope. One that it does not know is no error.
    async fn remove(&self, scope: &str, id: &str) -> Result<(), CiError>;

    /// Every runner that the CI system lists there whose name begins with `prefix`.
    async fn list(&self, scope: &str, prefix: &str) -> Result<Vec<ListedRunner>, CiError>;

    /// How many calls are left, as the CI system said last.
    fn rate(&self) -> Option<Rate>;

    /// What went wrong last there, if it did not go well since. Limits are not among it.
    fn trouble(&self, scope: &str) -> Option<CiTrouble>;
}

#[derive(Debug)]
pub struct RegistrationOrder<'a> {
    pub binding: &'a CiBinding,
    pub name: &'a str,
    /// The claim's own.
    pub label: &'a Label,
    /// What the workflow calls itself: a second label on GitHub, the description on GitLab.
    pub workflow: &'a str,
}

#[derive(Debug)]
pub struct Registered {
    /// The CI system's own.
    pub id: String,
    /// What the runner program needs: GitHub's encoded configuration, GitLab's authentication token.
    pub secret: SecretString,
    /// The CI system's address, where the program asks for it.
    pub url: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedRunner {
    pub id: String,
    pub name: String,
    /// As the CI system says, and so perhaps late: nobody is reaped by it.
    pub busy: bool,
}

/// How many calls the CI system still takes, and for how long that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub remaining: u64,
    pub resets_in: Duration,
}

/// What a person who looks at a pool should know of its CI system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CiTrouble {
    /// What was attempted, and the CI system's own words.
    pub what: String,
    /// It will say so again until somebody has mended something.
    pub refused: bool,
    pub ago: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum CiError {
    /// Asked too often, by ours or by others with the same credentials.
    #[error("the CI system takes no more calls for {} s", whole_seconds(*retry_after))]
    RateLimited { retry_after: Duration },
    /// It will say so again until a person has mended something.
    #[error("{0}")]
    Refused(String),
    #[error("the CI system could not be asked to {attempted}")]
    Failed {
        attempted: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The CI systems of this control plane.
#[derive(Debug, Clone, Default)]
pub struct CiSystems(BTreeMap<CiSystem, Arc<dyn Ci>>);

impl CiSystems {
    #[must_use]
    pub fn with(mut self, system: CiSystem, ci: Arc<dyn Ci>) -> Self {
        self.0.insert(system, ci);
        self
    }

    pub fn get(&self, system: CiSystem) -> Option<&Arc<dyn Ci>> {
        self.0.get(&system)
    }
}
