//! The part of GitHub's API that runners need, over real HTTP on loopback: it checks the App's signature, gives out tokens, hands out
//! configurations, lists and forgets runners, and tells of jobs. Tests can have it answer otherwise for once. What a request must look like is not judged
//! here: GitHub's own description does that.

mod jobs;

pub use jobs::{RunJob, Workflows};

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::{Value, json};

use crate::server::{Reply, Seen, Server, TestClock};

pub const APP_ID: u64 = 7_001;
pub const INSTALLATION: u64 = 42;
pub const TOKEN: &str = "ghp_canary-token-Qk3";
/// In every configuration that it hands out, and nowhere else.
pub const CANARY: &str = "canary-7d1f0c55-of-a-jit-configuration";
pub const PKCS1: &str = include_str!("../../../shared/ci/tests/keys/for-tests-only.pkcs1.pem");
pub const PKCS8: &str = include_str!("../../../shared/ci/tests/keys/for-tests-only.pkcs8.pem");
pub const PUBLIC: &str = include_str!("../../../shared/ci/tests/keys/for-tests-only.public.pem");

#[derive(Debug)]
pub struct FakeGitHub {
    pub server: Server,
    pub clock: Arc<TestClock>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
pub struct State {
    /// What it lists, by id.
    pub runners: BTreeMap<u64, Listed>,
    /// The names of those that it was told to forget, in their order.
    pub removed: Vec<String>,
    /// Those that are good.
    pub tokens: Vec<String>,
    tokens_made: usize,
    /// How many runners it has ever listed.
    pub made: u64,
    pub tricks: VecDeque<(String, Trick)>,
    pub workflows: Workflows,
    /// Remaining calls, and when they are full again.
    pub limit: Option<(u64, u64)>,
}

#[derive(Debug)]
pub struct Listed {
    /// As the paths begin: `/orgs/my-org`.
    scope: String,
    name: String,
    labels: Vec<String>,
    busy: bool,
}

/// What happens instead, once, to the next request whose line ends so.
#[derive(Debug)]
pub enum Trick {
    Answer(Reply),
    /// It is done, and nobody hears of it.
    LoseTheAnswer,
    /// An error that quotes the token.
    SendBackTheToken(u16),
}

impl FakeGitHub {
    pub async fn start() -> Self {
        let (clock, state) = (TestClock::start(), Arc::new(Mutex::new(State::default())));
        let (server_clock, server_state) = (Arc::clone(&clock), Arc::clone(&state));
        let server = Server::start(Arc::clone(&clock), move |seen| {
            server_state.lock().unwrap().answer(seen, &server_clock)
        })
        .await;
        Self { server, clock, state }
    }

    pub fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn trick(&self, line_ends: &str, trick: Trick) {
        self.state().tricks.push_back((line_ends.to_owned(), trick));
    }

    /// One that an organisation has, whoever registered it; its id.
    pub fn has(&self, org: &str, name: &str, busy: bool) -> u64 {
        self.state().add(format!("/orgs/{org}"), name, Vec::new(), busy)
    }

    /// What it lists now in any organisation, by name.
    pub fn names(&self) -> Vec<String> {
        self.state().runners.values().map(|runner| runner.name.clone()).collect()
    }

    /// What it lists now in one.
    pub fn names_in(&self, org: &str) -> Vec<String> {
        let (state, scope) = (self.state(), format!("/orgs/{org}"));
        state.runners.values().filter(|it| it.scope == scope).map(|it| it.name.clone()).collect()
    }

    pub fn labels_of(&self, name: &str) -> Vec<String> {
        let state = self.state();
        state.runners.values().find(|it| it.name == name).map(|it| it.labels.clone()).unwrap_or_default()
    }

    /// A job is done: GitHub forgets a runner that was good for one.
    pub fn job_done(&self, name: &str) {
        self.state().runners.retain(|_, runner| runner.name != name);
    }
}

impl State {
    fn answer(&mut self, seen: &Seen, clock: &TestClock) -> Reply {
        let line = seen.line();
        let trick = self.tricks.iter().position(|(end, _)| line.ends_with(end.as_str()));
        let mut reply = match trick.and_then(|at| self.tricks.remove(at)) {
            Some((_, Trick::Answer(reply))) => reply,
            Some((_, Trick::LoseTheAnswer)) => Reply { lost: true, ..self.route(seen, clock) },
            Some((_, Trick::SendBackTheToken(status))) => said(status, seen.header("authorization")),
            None => self.route(seen, clock),
        };
        if let Some((remaining, reset)) = self.limit {
            reply = reply.with("x-ratelimit-remaining", remaining).with("x-ratelimit-reset", reset);
        }
        reply
    }

    fn route(&mut self, seen: &Seen, clock: &TestClock) -> Reply {
        let path = seen.path.strip_prefix("/api/v3").unwrap_or(&seen.path);
        let Some(bearer) = seen.header("authorization").strip_prefix("Bearer ") else {
            return said(401, "Requires authentication");
        };
        if path.ends_with("/installation") {
            return if is_app(bearer, clock) { Reply::new(200, json!({"id": INSTALLATION})) } else { bad() };
        }
        if path == format!("/app/installations/{INSTALLATION}/access_tokens") {
            return if is_app(bearer, clock) { self.new_token(clock) } else { bad() };
        }
        if bearer != TOKEN && !self.tokens.iter().any(|token| token == bearer) {
            return bad();
        }
        if let Some(reply) = self.workflows.answer(path, seen) {
            return reply;
        }
        let Some((scope, rest)) = path.split_once("/actions/runners").filter(|(scope, _)| is_scope(scope))
        else {
            return said(404, "Not Found");
        };
        match (seen.method.as_str(), rest) {
            ("POST", "/generate-jitconfig") => self.configure(scope, &seen.body),
            ("GET", "") => self.list(scope, seen),
            ("DELETE", id) => self.delete(scope, id),
            _ => said(404, "Not Found"),
        }
    }

    fn new_token(&mut self, clock: &TestClock) -> Reply {
        self.tokens_made += 1;
        let token = format!("ghs_canary-{}", self.tokens_made);
        self.tokens.push(token.clone());
        let expires_at = clock.text_in(Duration::from_secs(3_600));
        Reply::new(201, json!({"token": token, "expires_at": expires_at}))
    }

    fn add(&mut self, scope: String, name: &str, labels: Vec<String>, busy: bool) -> u64 {
        self.made += 1;
        self.runners.insert(self.made, Listed { scope, name: name.to_owned(), labels, busy });
        self.made
    }

    fn configure(&mut self, scope: &str, body: &Value) -> Reply {
        let name = body["name"].as_str().unwrap();
        if self.runners.values().any(|it| it.scope == scope && it.name == name) {
            return said(409, &format!("Already exists - A runner with the name {name} already exists."));
        }
        let labels = serde_json::from_value(body["labels"].clone()).unwrap();
        let id = self.add(scope.to_owned(), name, labels, false);
        let runner = self.runners[&id].shown(id);
        Reply::new(201, json!({"runner": runner, "encoded_jit_config": configuration(id, name)}))
    }

    fn list(&self, scope: &str, seen: &Seen) -> Reply {
        let per_page = seen.number("per_page").unwrap_or(30).min(100);
        let page = seen.number("page").unwrap_or(1);
        let named = seen.query.get("name");
        let is_asked = |it: &Listed| it.scope == scope && named.is_none_or(|wanted| *wanted == it.name);
        let all = self.runners.iter().filter(|(_, runner)| is_asked(runner));
        let all: Vec<Value> = all.map(|(id, runner)| runner.shown(*id)).collect();
        let some: Vec<&Value> = all.iter().skip((page - 1) * per_page).take(per_page).collect();
        Reply::new(200, json!({"total_count": all.len(), "runners": some}))
    }

    fn delete(&mut self, scope: &str, id: &str) -> Reply {
        let id = id.trim_start_matches('/').parse().unwrap();
        match self.runners.get(&id).filter(|runner| runner.scope == scope) {
            None => said(404, "Not Found"),
            Some(Listed { name, busy: true, .. }) => {
                said(422, &format!("Runner \"{name}\" is still running a job"))
            }
            Some(Listed { name, busy: false, .. }) => {
                self.removed.push(name.clone());
                self.runners.remove(&id);
                Reply::new(204, Value::Null)
            }
        }
    }
}

impl Listed {
    fn shown(&self, id: u64) -> Value {
        let label = |name| json!({"id": 1, "name": name, "type": "custom"});
        let labels: Vec<Value> = self.labels.iter().map(label).collect();
        let (name, busy) = (&self.name, self.busy);
        json!({"id": id, "name": name, "os": "unknown", "status": "offline", "busy": busy, "labels": labels})
    }
}

/// `/orgs/O`, `/repos/O/R` or `/enterprises/E`.
fn is_scope(path: &str) -> bool {
    matches!(path.split('/').collect::<Vec<_>>()[..], ["", "orgs" | "enterprises", _] | ["", "repos", _, _])
}

/// As GitHub's is: files by name, each in base64, all of it in base64.
pub fn configuration(id: u64, name: &str) -> String {
    let file = |content: Value| STANDARD.encode(content.to_string());
    let files = json!({
        ".runner": file(json!({"agentId": id, "agentName": name, "ephemeral": true})),
        ".credentials": file(json!({"scheme": "OAuth", "data": {"clientId": CANARY}})),
        ".credentials_rsaparams": file(json!({"d": CANARY})),
    });
    STANDARD.encode(files.to_string())
}

/// The canary, and what it looks like inside of a configuration, once and twice in base64, whatever stands before it.
pub fn traces_of_canary() -> Vec<String> {
    let middles = |text: &String| -> Vec<String> {
        let parts = (0..3).filter_map(|skip| text.as_bytes().get(skip..));
        parts.map(|part| STANDARD.encode(&part[..part.len() - part.len() % 3])).collect()
    };
    let plain = vec![CANARY.to_owned()];
    let once: Vec<String> = plain.iter().flat_map(middles).collect();
    let twice: Vec<String> = once.iter().flat_map(middles).collect();
    [plain, once, twice].concat()
}

pub fn said(status: u16, message: &str) -> Reply {
    Reply::new(status, json!({"message": message}))
}

fn bad() -> Reply {
    said(401, "Bad credentials")
}

/// As GitHub does: RS256 by the App's key, not from the future, for ten minutes at most.
fn is_app(jwt: &str, clock: &TestClock) -> bool {
    let mut rules = Validation::new(Algorithm::RS256);
    rules.validate_exp = false;
    rules.set_issuer(&[APP_ID.to_string()]);
    let key = DecodingKey::from_rsa_pem(PUBLIC.as_bytes()).unwrap();
    let Ok(token) = jsonwebtoken::decode::<Value>(jwt, &key, &rules) else { return false };
    let (iat, exp) = (token.claims["iat"].as_u64().unwrap(), token.claims["exp"].as_u64().unwrap());
    let now = clock.seconds();
    iat + 60 <= now && now < exp && exp - iat <= 600
}
