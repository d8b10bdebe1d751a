//! GitLab: runners made and deleted through its API, each with a token of its own, and the list of them. The name that we give is a
//! runner's description there. Jobs, and pausing a runner, are in `jobs` and `pause`.

mod jobs;
mod pause;
mod refusal;
mod request;
mod scope;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
use crate::limits::{Account, LimitHeaders};
use crate::transport::{Pass, Transport, Vendor, checked_token};
use refusal::refusal;
use scope::Scope;

static GITLAB: Vendor = Vendor {
    name: "GitLab",
    limit: Some(LimitHeaders { remaining: "ratelimit-remaining", reset: "ratelimit-reset" }),
    token_header: "private-token",
    token_prefix: "",
    headers: &[("accept", "application/json")],
};

/// GitLab's largest.
const PAGE: usize = 100;
const MOST_PAGES: usize = 500;
/// How many doubtful names are kept. Those beyond it the sweep of ghosts has to find.
const MOST_DOUBTFUL: usize = 1_000;

#[derive(Debug)]
pub struct GitLabConfig {
    /// `https://gitlab.com`, or where your own is, without `/api/v4`.
    pub url: String,
    pub token: SecretString,
    /// One that may only read, for the lists of runners and jobs; without it, `token` is used for these too.
    pub read_token: Option<SecretString>,
    /// Send the token over plain HTTP too. Loopback needs no leave.
    pub plain_http: bool,
}

#[derive(Debug)]
pub struct GitLab {
    transport: Transport,
    pass: Pass,
    /// Of the token that may only read.
    reader: Option<Pass>,
    /// Names of runners that GitLab may or may not have made: the answer was lost. GitLab takes a name twice, and nobody knows the token
    /// of the first runner, which would be listed for ever. To look before every call would double the calls for what happens hardly
    /// ever; so only these names are looked for, and what a restart forgets, the sweep of ghosts removes when its runner is gone.
    doubtful: Mutex<BTreeSet<String>>,
}

impl GitLab {
    pub fn new(config: GitLabConfig) -> Result<Self, SetupError> {
        let GitLabConfig { url, token, read_token, plain_http } = config;
        let pass = |account, token| Pass { account, token, made_from: None };
        let token = checked_token(&token).ok_or(SetupError::Token { vendor: GITLAB.name })?;
        let reader = match read_token {
            Some(token) => {
                let token = checked_token(&token).ok_or(SetupError::SecondLogin { vendor: GITLAB.name })?;
                Some(pass(Account::SecondToken, token))
            }
            None => None,
        };
        let transport = Transport::new(&GITLAB, &url, plain_http, Arc::new(SystemClock))?;
        Ok(Self { transport, pass: pass(Account::Token, token), reader, doubtful: Mutex::default() })
    }

    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.transport.set_clock(clock);
        self
    }

    async fn call(&self, call: &Call) -> Result<Response, CallError> {
        self.transport.ask(&self.pass, call).await
    }

    /// For calls that change nothing. A refusal has to name the token that was used.
    async fn read(&self, call: &Call) -> Result<(Response, TokenUse), CallError> {
        let (pass, used) = match &self.reader {
            Some(reader) => (reader, TokenUse::Reading),
            None => (&self.pass, TokenUse::All),
        };
        Ok((self.transport.ask(pass, call).await?, used))
    }

    async fn made(&self, order: &RegistrationOrder<'_>) -> Result<Registered, CallError> {
        let RegistrationOrder { binding, name, label, workflow: _ } = order;
        let scope = Scope::parse(&binding.scope)?;
        let attempted = format!("register the runner {name} with {}", scope.words());
        let call =
            Call::post("api/v4/user/runners".to_owned(), Some(request::body(order, scope)?), attempted);
        if self.doubtful().contains(*name) {
            // Few runners have the claim's own tag: this is one page.
            for runner in self.find(scope, Some(label.as_str()), |runner| runner.name == *name).await? {
                tracing::info!(name, id = runner.id, "replacing a registration whose answer was lost");
                self.delete(scope, &runner.id).await?;
            }
        }
        let created = self.create(&call, scope).await;
        let mut doubtful = self.doubtful();
        match &created {
            Ok(_) => {
                doubtful.remove(*name);
            }
            Err(CallError::Failed { .. }) if doubtful.len() < MOST_DOUBTFUL => {
                doubtful.insert((*name).to_owned());
            }
            Err(
                CallError::Failed { .. }
                | CallError::RateLimited(_)
                | CallError::Silent(_)
                | CallError::Refused(_),
            ) => {}
        }
        created
    }

    async fn create(&self, call: &Call, scope: Scope) -> Result<Registered, CallError> {
        let answer = self.call(call).await?;
        if answer.status != StatusCode::CREATED {
            return Err(refusal(scope, TokenUse::All, &answer, &call.attempted));
        }
        let Created { id, token } = answer.read(GITLAB.name, &call.attempted)?;
        Ok(Registered { id: id.to_string(), secret: token, url: Some(self.transport.base().to_owned()) })
    }

    async fn delete(&self, scope: Scope, id: &str) -> Result<(), CallError> {
        let id = number(id, "runner")?;
        let call =
            Call::delete(format!("api/v4/runners/{id}"), format!("remove the runner {id} from GitLab"));
        let answer = self.call(&call).await?;
        match answer.status {
            StatusCode::NO_CONTENT | StatusCode::OK | StatusCode::NOT_FOUND => Ok(()),
            _ => Err(refusal(scope, TokenUse::All, &answer, &call.attempted)),
        }
    }

    async fn find(
        &self,
        scope: Scope,
        tag: Option<&str>,
        wanted: impl Fn(&ListedRunner) -> bool,
    ) -> Result<Vec<ListedRunner>, CallError> {
        let attempted = format!("list the runners of {}", scope.words());
        // By id: what is removed meanwhile moves the rest, and a runner may be seen twice.
        let mut found = BTreeMap::new();
        for page in 1..=MOST_PAGES {
            let mut query = vec![
                ("type", scope.runner_type().to_owned()),
                ("per_page", PAGE.to_string()),
                ("page", page.to_string()),
            ];
            query.extend(tag.map(|tag| ("tag_list", tag.to_owned())));
            let (answer, used) = self.read(&Call::get(scope.list(), query, &attempted)).await?;
            if answer.status != StatusCode::OK {
                return Err(refusal(scope, used, &answer, &attempted));
            }
            let runners: Vec<Runner> = answer.read(GITLAB.name, &attempted)?;
            let last = is_last(&answer, runners.len());
            let listed = runners.into_iter().map(|Runner { id, description, job_execution_status }| {
                let busy = job_execution_status.as_deref() == Some("active");
                (id, ListedRunner { id: id.to_string(), name: description.unwrap_or_default(), busy })
            });
            found.extend(listed.filter(|(_, runner)| wanted(runner)));
            if last {
                return Ok(found.into_values().collect());
            }
        }
        Err(CallError::failed(attempted, format!("there are more than {}", MOST_PAGES * PAGE)))
    }

    fn doubtful(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.doubtful.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Ci for GitLab {
    async fn register(&self, order: &RegistrationOrder<'_>) -> Result<Registered, CiError> {
        self.transport.noted(&order.binding.scope, Verb::Register, self.made(order).await)
    }

    async fn remove(&self, scope: &str, id: &str) -> Result<(), CiError> {
        let removing = async { self.delete(Scope::parse(scope)?, id).await };
        self.transport.noted(scope, Verb::Remove, removing.await)
    }

    async fn list(&self, scope: &str, prefix: &str) -> Result<Vec<ListedRunner>, CiError> {
        let listing = async {
            let scope = Scope::parse(scope)?;
            self.find(scope, None, |runner| runner.name.starts_with(prefix)).await
        };
        self.transport.noted(scope, Verb::List, listing.await)
    }

    async fn job_status(&self, job: &CiJob) -> Result<JobStatus, CiError> {
        self.transport.noted(&job.scope, Verb::JobStatus, self.status_of(job).await)
    }

    async fn pause(&self, scope: &str, runner_id: &str) -> Result<Paused, CiError> {
        let pausing = async { self.pause_runner(Scope::parse(scope)?, runner_id).await };
        self.transport.noted(scope, Verb::Pause, pausing.await)
    }

    async fn unpause(&self, scope: &str, runner_id: &str) -> Result<(), CiError> {
        let unpausing = async { self.unpause_runner(Scope::parse(scope)?, runner_id).await };
        self.transport.noted(scope, Verb::Unpause, unpausing.await)
    }

    fn rate(&self) -> Option<Rate> {
        self.transport.rate()
    }

    fn trouble(&self, scope: &str) -> Option<CiTrouble> {
        self.transport.trouble(scope)
    }
}

#[derive(Deserialize)]
struct Created {
    id: u64,
    token: SecretString,
}

#[derive(Deserialize)]
struct Runner {
    id: u64,
    description: Option<String>,
    /// Older versions do not say.
    job_execution_status: Option<String>,
}

/// Which of the tokens a call was made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenUse {
    All,
    Reading,
}

/// Without the header, which a proxy may take away, a page that is not full is the last.
fn is_last(answer: &Response, found: usize) -> bool {
    match answer.header("x-next-page") {
        Some(next) => next.trim().is_empty(),
        None => found < PAGE,
    }
}

fn number(id: &str, what: &str) -> Result<u64, CallError> {
    let digits = !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit());
    let number = id.parse().ok().filter(|_| digits);
    number.ok_or_else(|| CallError::Refused(format!("{id:?} is no {what} of GitLab's: its ids are numbers")))
}
