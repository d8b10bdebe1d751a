//! GitHub: just-in-time configurations for runners, their removal, and the list of them. A configuration is good for one job. Jobs are
//! in `jobs`. GitHub has no call that keeps jobs from a runner.

mod jobs;
mod login;
mod refusal;
mod request;
mod scope;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use motorpool_control::ports::ci::{
    Ci, CiError, CiJob, CiTrouble, ListedRunner, Paused, Rate, Registered, RegistrationOrder,
};
use motorpool_control::ports::clock::{Clock, SystemClock};
use motorpool_domain::ci::JobStatus;
use reqwest::StatusCode;
use secrecy::SecretString;
use serde::Deserialize;

use crate::call::{Call, Response};
use crate::error::{CallError, SetupError};
use crate::health::Verb;
use crate::limits::LimitHeaders;
use crate::transport::{Transport, Vendor};
use login::Login;
use refusal::refusal;
use scope::Scope;

pub(crate) static GITHUB: Vendor = Vendor {
    name: "GitHub",
    limit: Some(LimitHeaders { remaining: "x-ratelimit-remaining", reset: "x-ratelimit-reset" }),
    token_header: "authorization",
    token_prefix: "Bearer ",
    headers: &[
        // GitHub's own type; the plain one is what its description names.
        ("accept", "application/vnd.github+json, application/json"),
        ("x-github-api-version", "2022-11-28"),
    ],
};

/// GitHub's largest.
const PAGE: usize = 100;
/// A group holds at most 10,000 runners.
const MOST_PAGES: usize = 200;

#[derive(Debug)]
pub struct GitHubConfig {
    /// On a GitHub Enterprise Server `https://HOST/api/v3`.
    pub api_url: String,
    pub credentials: Credentials,
    /// Send the credentials over plain HTTP too. Loopback needs no leave.
    pub plain_http: bool,
}

impl GitHubConfig {
    pub fn new(credentials: Credentials) -> Self {
        Self { api_url: "https://api.github.com".to_owned(), credentials, plain_http: false }
    }
}

#[derive(Debug)]
pub enum Credentials {
    App {
        app_id: u64,
        /// As GitHub gave it: RSA in PEM.
        private_key: SecretString,
        /// Looked up where it is not given.
        installation_id: Option<u64>,
    },
    /// A personal access token.
    Token(SecretString),
}

#[derive(Debug)]
pub struct GitHub {
    transport: Transport,
    login: Login,
}

impl GitHub {
    pub fn new(config: GitHubConfig) -> Result<Self, SetupError> {
        let GitHubConfig { api_url, credentials, plain_http } = config;
        let login = Login::new(credentials)?;
        let transport = Transport::new(&GITHUB, &api_url, plain_http, Arc::new(SystemClock))?;
        Ok(Self { transport, login })
    }

    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.transport.set_clock(clock);
        self
    }

    async fn call(&self, scope: &Scope, call: &Call) -> Result<Response, CallError> {
        let pass = self.login.pass(&self.transport, scope).await?;
        let answer = self.transport.ask(&pass, call).await?;
        // A token may end early: the App's key was changed, its permissions were. A new one is worth one try.
        if answer.status == StatusCode::UNAUTHORIZED && self.login.forget(scope, &pass).await {
            let pass = self.login.pass(&self.transport, scope).await?;
            return self.transport.ask(&pass, call).await;
        }
        Ok(answer)
    }

    async fn made(&self, order: &RegistrationOrder<'_>) -> Result<Registered, CallError> {
        let scope = Scope::parse(&order.binding.scope)?;
        let attempted = format!("register the runner {} with {scope}", order.name);
        let body = request::body(order)?;
        let call = Call::post(format!("{}/generate-jitconfig", scope.runners()), Some(body), attempted);
        if let Configured::New(registered) = self.configure(&scope, &call).await? {
            return Ok(registered);
        }
        self.free(&scope, order.name).await?;
        match self.configure(&scope, &call).await? {
            Configured::New(registered) => Ok(registered),
            Configured::Taken(said) => {
                let why =
                    format!("GitHub says that the name is taken, and lists nobody of that name ({said})");
                Err(CallError::failed(call.attempted, why))
            }
        }
    }

    async fn configure(&self, scope: &Scope, call: &Call) -> Result<Configured, CallError> {
        let answer = self.call(scope, call).await?;
        match answer.status {
            StatusCode::CREATED => {
                let Configuration { runner, encoded_jit_config } =
                    answer.read(GITHUB.name, &call.attempted)?;
                let secret = encoded_jit_config;
                Ok(Configured::New(Registered { id: runner.id.to_string(), secret, url: None }))
            }
            StatusCode::CONFLICT => Ok(Configured::Taken(answer.message)),
            _ => Err(refusal(scope, &answer, &call.attempted)),
        }
    }

    /// Makes a name free that an earlier call took whose answer never came.
    async fn free(&self, scope: &Scope, name: &str) -> Result<(), CallError> {
        let found = self.find(scope, Some(name), |runner| runner.name == name).await?;
        for runner in found {
            tracing::info!(name, id = runner.id, "replacing a registration whose answer was lost");
            self.delete(scope, &runner.id).await?;
        }
        Ok(())
    }

    async fn delete(&self, scope: &Scope, id: &str) -> Result<(), CallError> {
        if id.is_empty() || !id.bytes().all(|b| b.is_ascii_digit()) {
            return Err(CallError::Refused(format!("{id:?} is no runner of GitHub's: its ids are numbers")));
        }
        let attempted = format!("remove the runner {id} from {scope}");
        let call = Call::delete(format!("{}/{id}", scope.runners()), attempted);
        let answer = self.call(scope, &call).await?;
        match answer.status {
            StatusCode::NO_CONTENT | StatusCode::NOT_FOUND => Ok(()),
            StatusCode::UNPROCESSABLE_ENTITY => {
                let why = "GitHub keeps it while it runs a job; it can be removed when that has ended";
                Err(CallError::failed(call.attempted, format!("{why} ({})", answer.message)))
            }
            _ => Err(refusal(scope, &answer, &call.attempted)),
        }
    }

    async fn find(
        &self,
        scope: &Scope,
        name: Option<&str>,
        wanted: impl Fn(&ListedRunner) -> bool,
    ) -> Result<Vec<ListedRunner>, CallError> {
        let attempted = format!("list the runners of {scope}");
        // By id: what is removed meanwhile moves the rest, and a runner may be seen twice.
        let mut found = BTreeMap::new();
        for page in 1..=MOST_PAGES {
            let mut query = vec![("per_page", PAGE.to_string()), ("page", page.to_string())];
            query.extend(name.map(|name| ("name", name.to_owned())));
            let call = Call::get(scope.runners(), query, &attempted);
            let answer = self.call(scope, &call).await?;
            if answer.status != StatusCode::OK {
                return Err(refusal(scope, &answer, &attempted));
            }
            let Page { runners } = answer.read(GITHUB.name, &attempted)?;
            let last = runners.len() < PAGE;
            let listed = runners
                .into_iter()
                .map(|Runner { id, name, busy }| (id, ListedRunner { id: id.to_string(), name, busy }));
            found.extend(listed.filter(|(_, runner)| wanted(runner)));
            if last {
                return Ok(found.into_values().collect());
            }
        }
        Err(CallError::failed(attempted, format!("there are more than {}", MOST_PAGES * PAGE)))
    }
}

enum Configured {
    New(Registered),
    /// The name is; with what GitHub says of it.
    Taken(String),
}

#[derive(Deserialize)]
struct Configuration {
    runner: Runner,
    encoded_jit_config: SecretString,
}

#[derive(Deserialize)]
struct Page {
    runners: Vec<Runner>,
}

#[derive(Deserialize)]
struct Runner {
    id: u64,
    name: String,
    busy: bool,
}

#[async_trait]
impl Ci for GitHub {
    async fn register(&self, order: &RegistrationOrder<'_>) -> Result<Registered, CiError> {
        self.transport.noted(&order.binding.scope, Verb::Register, self.made(order).await)
    }

    async fn remove(&self, scope: &str, id: &str) -> Result<(), CiError> {
        let removing = async { self.delete(&Scope::parse(scope)?, id).await };
        self.transport.noted(scope, Verb::Remove, removing.await)
    }

    async fn list(&self, scope: &str, prefix: &str) -> Result<Vec<ListedRunner>, CiError> {
        let listing = async {
            let scope = Scope::parse(scope)?;
            self.find(&scope, None, |runner| runner.name.starts_with(prefix)).await
        };
        self.transport.noted(scope, Verb::List, listing.await)
    }

    async fn job_status(&self, job: &CiJob) -> Result<JobStatus, CiError> {
        self.transport.noted(&job.scope, Verb::JobStatus, self.status_of(job).await)
    }

    /// The API of runners has calls to list, register and remove them, and none that keeps a runner from jobs.
    async fn pause(&self, _scope: &str, _runner_id: &str) -> Result<Paused, CiError> {
        Ok(Paused::ByAgent)
    }

    async fn unpause(&self, _scope: &str, _runner_id: &str) -> Result<(), CiError> {
        Ok(())
    }

    fn rate(&self) -> Option<Rate> {
        self.transport.rate()
    }

    fn trouble(&self, scope: &str) -> Option<CiTrouble> {
        self.transport.trouble(scope)
    }
}
