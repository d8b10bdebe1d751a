//! Jenkins: what became of a build, and nodes that get no more builds for a while. A node is configured in Jenkins, so nothing is registered
//! or removed from here.

mod builds;
mod nodes;
mod offline;
mod path;
mod refusal;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use motorpool_control::ports::ci::{
    Ci, CiError, CiJob, CiTrouble, ListedRunner, Paused, Rate, Registered, RegistrationOrder,
};
use motorpool_control::ports::clock::{Clock, SystemClock};
use motorpool_domain::ci::JobStatus;
use secrecy::{ExposeSecret, SecretString};

use crate::error::{CallError, SetupError};
use crate::health::Verb;
use crate::limits::Account;
use crate::transport::{Pass, Transport, Vendor, checked_token};

/// Jenkins has no limits of its own. Where a proxy in front of it answers 429, that is heeded. With an API token it asks for no crumb.
static JENKINS: Vendor = Vendor {
    name: "Jenkins",
    limit: None,
    token_header: "authorization",
    token_prefix: "Basic ",
    headers: &[("accept", "application/json")],
};

#[derive(Debug)]
pub struct JenkinsConfig {
    /// Where a browser finds it, such as `https://ci.example.com/jenkins`.
    pub url: String,
    /// Reads and pauses. It needs Overall/Read, Job/Read and Agent/Disconnect, which includes Agent/Connect.
    pub login: JenkinsLogin,
    /// Brings nodes online again, where it is given: with Agent/Connect and without Agent/Disconnect (see `nodes`).
    pub unpause_login: Option<JenkinsLogin>,
    /// Send the token over plain HTTP too. Loopback needs no leave.
    pub plain_http: bool,
}

/// A user with an API token; a password would need a crumb with each call.
#[derive(Clone)]
pub struct JenkinsLogin {
    pub user: String,
    pub token: SecretString,
}

impl fmt::Debug for JenkinsLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JenkinsLogin({})", self.user)
    }
}

#[derive(Debug)]
pub struct Jenkins {
    transport: Transport,
    pass: Pass,
    unpauser: Option<Pass>,
}

impl Jenkins {
    pub fn new(config: JenkinsConfig) -> Result<Self, SetupError> {
        let JenkinsConfig { url, login, unpause_login, plain_http } = config;
        let vendor = JENKINS.name;
        let pass = login.pass(Account::Token)?;
        let unpauser = unpause_login.map(|login| login.pass(Account::SecondToken)).transpose();
        let unpauser = unpauser.map_err(|_| SetupError::SecondLogin { vendor })?;
        let transport = Transport::new(&JENKINS, &url, plain_http, Arc::new(SystemClock))?;
        Ok(Self { transport, pass, unpauser })
    }

    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.transport.set_clock(clock);
        self
    }
}

impl JenkinsLogin {
    fn pass(self, account: Account) -> Result<Pass, SetupError> {
        let (Self { user, token }, vendor) = (self, JENKINS.name);
        if user.is_empty() || user.contains(':') || user.chars().any(char::is_control) {
            return Err(SetupError::User { vendor });
        }
        let token = checked_token(&token).ok_or(SetupError::Token { vendor })?;
        let basic = STANDARD.encode(format!("{user}:{}", token.expose_secret()));
        Ok(Pass { account, token: SecretString::from(basic), made_from: Some(token) })
    }
}

#[async_trait]
impl Ci for Jenkins {
    async fn register(&self, order: &RegistrationOrder<'_>) -> Result<Registered, CiError> {
        let refused = CallError::Refused(format!(
            "cannot register the runner {}: a node of Jenkins is configured in Jenkins; have the pool's run_cmd start its agent",
            order.name
        ));
        self.transport.noted(&order.binding.scope, Verb::Register, Err(refused))
    }

    async fn remove(&self, scope: &str, id: &str) -> Result<(), CiError> {
        let refused = CallError::Refused(format!(
            "cannot remove the node {id}: it was configured in Jenkins; delete it there"
        ));
        self.transport.noted(scope, Verb::Remove, Err(refused))
    }

    async fn list(&self, scope: &str, prefix: &str) -> Result<Vec<ListedRunner>, CiError> {
        let listing = async {
            let mut nodes = self.nodes().await?;
            nodes.retain(|node| node.name.starts_with(prefix));
            Ok(nodes)
        };
        self.transport.noted(scope, Verb::List, listing.await)
    }

    async fn job_status(&self, job: &CiJob) -> Result<JobStatus, CiError> {
        self.transport.noted(&job.scope, Verb::JobStatus, self.status_of(job).await)
    }

    async fn pause(&self, scope: &str, runner_id: &str) -> Result<Paused, CiError> {
        self.transport.noted(scope, Verb::Pause, self.pause_node(runner_id).await)
    }

    async fn unpause(&self, scope: &str, runner_id: &str) -> Result<(), CiError> {
        self.transport.noted(scope, Verb::Unpause, self.unpause_node(runner_id).await)
    }

    fn rate(&self) -> Option<Rate> {
        self.transport.rate()
    }

    fn trouble(&self, scope: &str) -> Option<CiTrouble> {
        self.transport.trouble(scope)
    }
}
