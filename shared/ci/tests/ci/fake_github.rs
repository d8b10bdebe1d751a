//! A small GitHub: it checks the App's signature, gives out tokens, and keeps runners. Tests can have it answer otherwise for once.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use motorpool_ci::{Credentials, GitHub, GitHubConfig};
use motorpool_control::ports::ci::RegistrationOrder;
use motorpool_domain::Label;
use motorpool_domain::ci::{CiBinding, CiSystem};
use serde_json::{Value, json};

use crate::server::{Reply, Seen, Server, TestClock};

pub(crate) const APP_ID: u64 = 7_001;
pub(crate) const INSTALLATION: u64 = 42;
pub(crate) const TOKEN: &str = "ghp_canary-token-Qk3";
pub(crate) const JIT: &str = "jit-canary-Zt8";
pub(crate) const PKCS1: &str = include_str!("../keys/for-tests-only.pkcs1.pem");
pub(crate) const PKCS8: &str = include_str!("../keys/for-tests-only.pkcs8.pem");
const PUBLIC: &str = include_str!("../keys/for-tests-only.public.pem");

pub(crate) struct FakeGitHub {
    pub(crate) server: Server,
    pub(crate) clock: Arc<TestClock>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) runners: BTreeMap<u64, (String, bool)>,
    /// Those that are good.
    pub(crate) tokens: Vec<String>,
    tokens_made: usize,
    made: u64,
    pub(crate) tricks: VecDeque<(String, Trick)>,
    /// Remaining calls, and when they are full again.
    pub(crate) limit: Option<(u64, u64)>,
}

/// What happens instead, once, to the next request whose line ends so.
pub(crate) enum Trick {
    Answer(Reply),
    /// It is done, and nobody hears of it.
    LoseTheAnswer,
    /// An error that quotes the token.
    SendBackTheToken(u16),
}

impl FakeGitHub {
    pub(crate) async fn start() -> Self {
        let (clock, state) = (TestClock::start(), Arc::new(Mutex::new(State::default())));
        let (server_clock, server_state) = (Arc::clone(&clock), Arc::clone(&state));
        let server = Server::start(Arc::clone(&clock), move |seen| {
            server_state.lock().unwrap().answer(seen, &server_clock)
        })
        .await;
        Self { server, clock, state }
    }

    pub(crate) fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn trick(&self, line_ends: &str, trick: Trick) {
        self.state().tricks.push_back((line_ends.to_owned(), trick));
    }

    pub(crate) fn client(&self, credentials: Credentials) -> GitHub {
        self.client_at(&self.server.url, credentials)
    }

    pub(crate) fn client_at(&self, url: &str, credentials: Credentials) -> GitHub {
        let config = GitHubConfig { api_url: url.to_owned(), ..GitHubConfig::new(credentials) };
        let clock: Arc<TestClock> = Arc::clone(&self.clock);
        GitHub::new(config).unwrap().with_clock(clock)
    }

    pub(crate) fn app(&self) -> GitHub {
        self.client(app_with(PKCS1))
    }

    pub(crate) fn token(&self) -> GitHub {
        self.client(Credentials::Token(TOKEN.into()))
    }
}

pub(crate) fn app_with(key: &str) -> Credentials {
    Credentials::App { app_id: APP_ID, private_key: key.into(), installation_id: None }
}

pub(crate) fn binding(scope: &str) -> CiBinding {
    CiBinding {
        system: CiSystem::GitHub,
        scope: scope.to_owned(),
        group_id: 3,
        labels: vec!["gpu".to_owned()],
        minimum_version: None,
    }
}

pub(crate) fn label() -> Label {
    Label::parse("motorpool-c-1").unwrap()
}

pub(crate) fn order<'a>(binding: &'a CiBinding, name: &'a str, label: &'a Label) -> RegistrationOrder<'a> {
    RegistrationOrder { binding, name, label, workflow: "gh-123.2" }
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
        let mut parts = path.split("/actions/runners");
        let (Some("/orgs/my-org" | "/repos/me/repo" | "/enterprises/big"), Some(rest)) =
            (parts.next(), parts.next())
        else {
            return said(404, "Not Found");
        };
        match (seen.method.as_str(), rest) {
            ("POST", "/generate-jitconfig") => self.configure(&seen.body),
            ("GET", "") => self.list(seen),
            ("DELETE", id) => self.delete(id),
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

    fn configure(&mut self, body: &Value) -> Reply {
        let name = body["name"].as_str().unwrap().to_owned();
        if self.runners.values().any(|(taken, _)| *taken == name) {
            return said(409, &format!("Already exists - A runner with the name {name} already exists."));
        }
        self.made += 1;
        let runner = json!({"id": self.made, "name": name, "os": "unknown", "status": "offline", "busy": false,
            "labels": []});
        self.runners.insert(self.made, (name, false));
        Reply::new(201, json!({"runner": runner, "encoded_jit_config": format!("{JIT}-{}", self.made)}))
    }

    fn list(&self, seen: &Seen) -> Reply {
        let per_page = seen.number("per_page").unwrap_or(30).min(100);
        let page = seen.number("page").unwrap_or(1);
        let named = seen.query.get("name");
        let all = self.runners.iter().filter(|(_, (name, _))| named.is_none_or(|wanted| wanted == name));
        let all: Vec<Value> =
            all.map(|(id, (name, busy))| json!({"id": id, "name": name, "busy": busy})).collect();
        let some: Vec<&Value> = all.iter().skip((page - 1) * per_page).take(per_page).collect();
        Reply::new(200, json!({"total_count": all.len(), "runners": some}))
    }

    fn delete(&mut self, id: &str) -> Reply {
        let id = id.trim_start_matches('/').parse().unwrap();
        match self.runners.get(&id) {
            None => said(404, "Not Found"),
            Some((name, true)) => said(422, &format!("Runner \"{name}\" is still running a job")),
            Some((_, false)) => {
                self.runners.remove(&id);
                Reply::new(204, Value::Null)
            }
        }
    }
}

pub(crate) fn said(status: u16, message: &str) -> Reply {
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
