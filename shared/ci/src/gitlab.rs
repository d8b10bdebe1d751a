//! GitLab: runners made and deleted through its API, each with a token of its own, and the list of them. The name that we give is a
//! runner's description there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use motorpool_control::ports::ci::{
    Ci, CiError, CiTrouble, ListedRunner, Rate, Registered, RegistrationOrder,
};
use motorpool_control::ports::clock::{Clock, SystemClock};
use reqwest::StatusCode;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::error::{CallError, SetupError};
use crate::health::Verb;
use crate::limits::{Account, LimitHeaders};
use crate::transport::{Call, Pass, Response, Transport, Vendor, checked_token};

static GITLAB: Vendor = Vendor {
    name: "GitLab",
    limit: LimitHeaders { remaining: "ratelimit-remaining", reset: "ratelimit-reset" },
    token_header: "private-token",
    token_prefix: "",
    headers: &[("accept", "application/json")],
};

/// GitLab's largest.
const PAGE: usize = 100;
const MOST_PAGES: usize = 500;
const MOST_TAGS: usize = 50;
const LONGEST_TAG: usize = 255;
/// How many doubtful names are kept. Those beyond it the sweep of ghosts has to find.
const MOST_DOUBTFUL: usize = 1_000;

#[derive(Debug)]
pub struct GitLabConfig {
    /// `https://gitlab.com`, or where your own is, without `/api/v4`.
    pub url: String,
    pub token: SecretString,
    /// Send the token over plain HTTP too. Loopback needs no leave.
    pub plain_http: bool,
}

#[derive(Debug)]
pub struct GitLab {
    transport: Transport,
    pass: Pass,
    /// Names of runners that GitLab may or may not have made: the answer was lost. GitLab takes a name twice, and nobody knows the token
    /// of the first runner, which would be listed for ever. To look before every call would double the calls for what happens hardly
    /// ever; so only these names are looked for, and what a restart forgets, the sweep of ghosts removes when its runner is gone.
    doubtful: Mutex<BTreeSet<String>>,
}

impl GitLab {
    pub fn new(config: GitLabConfig) -> Result<Self, SetupError> {
        let GitLabConfig { url, token, plain_http } = config;
        let token = checked_token(&GITLAB, &token)?;
        let transport = Transport::new(&GITLAB, &url, plain_http, Arc::new(SystemClock))?;
        Ok(Self { transport, pass: Pass { account: Account::Token, token }, doubtful: Mutex::default() })
    }

    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.transport.set_clock(clock);
        self
    }

    async fn call(&self, call: &Call) -> Result<Response, CallError> {
        self.transport.ask(&self.pass, call).await
    }

    async fn made(&self, order: &RegistrationOrder<'_>) -> Result<Registered, CallError> {
        let RegistrationOrder { binding, name, label, workflow: _ } = order;
        let scope = Scope::parse(&binding.scope)?;
        let attempted = format!("register the runner {name} with {}", scope.words());
        let call = Call::post("api/v4/user/runners".to_owned(), Some(body(order, scope)?), attempted);
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
            Err(CallError::Failed { .. } | CallError::RateLimited(_) | CallError::Refused(_)) => {}
        }
        created
    }

    async fn create(&self, call: &Call, scope: Scope) -> Result<Registered, CallError> {
        let answer = self.call(call).await?;
        if answer.status != StatusCode::CREATED {
            return Err(refusal(scope, &answer, &call.attempted));
        }
        let Created { id, token } = answer.read(GITLAB.name, &call.attempted)?;
        Ok(Registered { id: id.to_string(), secret: token, url: Some(self.transport.base().to_owned()) })
    }

    async fn delete(&self, scope: Scope, id: &str) -> Result<(), CallError> {
        if id.is_empty() || !id.bytes().all(|b| b.is_ascii_digit()) {
            return Err(CallError::Refused(format!("{id:?} is no runner of GitLab's: its ids are numbers")));
        }
        let call =
            Call::delete(format!("api/v4/runners/{id}"), format!("remove the runner {id} from GitLab"));
        let answer = self.call(&call).await?;
        match answer.status {
            StatusCode::NO_CONTENT | StatusCode::OK | StatusCode::NOT_FOUND => Ok(()),
            _ => Err(refusal(scope, &answer, &call.attempted)),
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
            let answer = self.call(&Call::get(scope.list(), query, &attempted)).await?;
            if answer.status != StatusCode::OK {
                return Err(refusal(scope, &answer, &attempted));
            }
            let runners: Vec<Runner> = answer.read(GITLAB.name, &attempted)?;
            // Without the header, which a proxy may take away, a page that is not full is the last.
            let last = match answer.header("x-next-page") {
                Some(next) => next.trim().is_empty(),
                None => runners.len() < PAGE,
            };
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Instance,
    Group(u64),
    Project(u64),
}

impl Scope {
    fn parse(text: &str) -> Result<Self, CallError> {
        let number = |text: &str| text.parse::<u64>().ok();
        let scope = match text.split_once('/') {
            None => (text == "instance").then_some(Self::Instance),
            Some(("groups", id)) => number(id).map(Self::Group),
            Some(("projects", id)) => number(id).map(Self::Project),
            Some(_) => None,
        };
        scope.ok_or_else(|| {
            let rule = "write \"groups/ID\", \"projects/ID\" or \"instance\", with the number as ID";
            CallError::Refused(format!("{text:?} is no scope of GitLab's: {rule}"))
        })
    }

    fn runner_type(self) -> &'static str {
        match self {
            Self::Instance => "instance_type",
            Self::Group(_) => "group_type",
            Self::Project(_) => "project_type",
        }
    }

    fn list(self) -> String {
        match self {
            Self::Instance => "api/v4/runners/all".to_owned(),
            Self::Group(id) => format!("api/v4/groups/{id}/runners"),
            Self::Project(id) => format!("api/v4/projects/{id}/runners"),
        }
    }

    fn words(self) -> String {
        match self {
            Self::Instance => "the GitLab instance".to_owned(),
            Self::Group(id) => format!("GitLab's group {id}"),
            Self::Project(id) => format!("GitLab's project {id}"),
        }
    }

    fn role(self) -> &'static str {
        match self {
            Self::Instance => "an administrator",
            Self::Group(_) => "an Owner of the group",
            Self::Project(_) => "a Maintainer of the project",
        }
    }
}

fn body(order: &RegistrationOrder<'_>, scope: Scope) -> Result<Value, CallError> {
    let RegistrationOrder { binding, name, label, workflow } = order;
    let mut tags = vec![label.as_str().to_owned()];
    tags.extend(binding.labels.iter().cloned());
    let mut seen = BTreeSet::new();
    tags.retain(|tag| seen.insert(tag.clone()));
    if tags.len() > MOST_TAGS
        || tags.iter().any(|tag| tag.is_empty() || tag.len() > LONGEST_TAG || tag.contains(','))
    {
        return Err(CallError::Refused(format!(
            "GitLab takes {MOST_TAGS} tags a runner, of 1 to {LONGEST_TAG} characters without comma: change the pool's `labels`"
        )));
    }
    let mut body = Map::new();
    let mut set = |key: &str, value: Value| body.insert(key.to_owned(), value);
    set("runner_type", json!(scope.runner_type()));
    set("description", json!(name));
    set("maintenance_note", json!(format!("Motorpool, for the workflow {workflow}")));
    set("tag_list", json!(tags));
    // A job that names no tag has not asked for this claim's runner.
    set("run_untagged", json!(false));
    match scope {
        Scope::Instance => {}
        Scope::Group(id) => {
            set("group_id", json!(id));
        }
        Scope::Project(id) => {
            set("project_id", json!(id));
            // Nobody takes the runner over to another project.
            set("locked", json!(true));
        }
    }
    Ok(Value::Object(body))
}

/// What GitLab's errors mean, and what the operator can do.
fn refusal(scope: Scope, answer: &Response, attempted: &str) -> CallError {
    let what_to_do = match answer.status {
        StatusCode::UNAUTHORIZED => {
            "the token is wrong, revoked or expired: look at [gitlab] token_file in the settings".to_owned()
        }
        StatusCode::FORBIDDEN => format!(
            "a permission is lacking: the token needs the scope api (or create_runner, manage_runner and read_api), \
             and must be of {}",
            scope.role()
        ),
        StatusCode::NOT_FOUND => {
            "GitLab knows no such thing, or does not show it to this token: are the pool's `scope` and [gitlab] url right?"
                .to_owned()
        }
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => {
            "GitLab does not take the request: look at the pool's `scope` and `labels`".to_owned()
        }
        status if status.is_redirection() => {
            "GitLab is elsewhere: set [gitlab] url to where it sends a browser".to_owned()
        }
        _ => return answer.unexpected(GITLAB.name, attempted),
    };
    answer.refused(GITLAB.name, attempted, &what_to_do)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuse_13_a_scope_reaches_no_other_path() {
        for (text, expected) in [
            ("instance", Some(Scope::Instance)),
            ("groups/7", Some(Scope::Group(7))),
            ("projects/8", Some(Scope::Project(8))),
            ("groups/my-group", None),
            ("groups/7/../8", None),
            ("users/7", None),
            ("", None),
        ] {
            assert_eq!(Scope::parse(text).ok(), expected, "{text:?}");
        }
    }
}
