//! A small GitLab: it keeps runners, takes a description twice, and pages by headers. Tests can have it answer otherwise for once.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use motorpool_ci::{GitLab, GitLabConfig};
use motorpool_ci_tests::fake_github::said;
use motorpool_ci_tests::server::{Reply, Seen, Server, TestClock};
use motorpool_domain::ci::{CiBinding, CiSystem};
use serde_json::{Value, json};

pub(crate) const TOKEN: &str = "glpat-canary-token-Vw5";
pub(crate) const RUNNER_TOKEN: &str = "glrt-canary-Hy2";

pub(crate) struct FakeGitLab {
    pub(crate) server: Server,
    pub(crate) clock: Arc<TestClock>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) runners: BTreeMap<u64, Value>,
    made: u64,
    tricks: VecDeque<(String, Reply)>,
    /// The next runner is made, and nobody hears of it.
    pub(crate) lose_the_answer: bool,
    pub(crate) limit: Option<(u64, u64)>,
    pub(crate) without_page_headers: bool,
}

impl FakeGitLab {
    pub(crate) async fn start() -> Self {
        let (clock, state) = (TestClock::start(), Arc::new(Mutex::new(State::default())));
        let shared = Arc::clone(&state);
        let server = Server::start(Arc::clone(&clock), move |seen| shared.lock().unwrap().answer(seen)).await;
        Self { server, clock, state }
    }

    pub(crate) fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn trick(&self, line_ends: &str, reply: Reply) {
        self.state().tricks.push_back((line_ends.to_owned(), reply));
    }

    pub(crate) fn client(&self) -> GitLab {
        self.client_at(&self.server.url)
    }

    pub(crate) fn client_at(&self, url: &str) -> GitLab {
        let config = GitLabConfig { url: url.to_owned(), token: TOKEN.into(), plain_http: false };
        let clock: Arc<TestClock> = Arc::clone(&self.clock);
        GitLab::new(config).unwrap().with_clock(clock)
    }
}

pub(crate) fn binding(scope: &str) -> CiBinding {
    motorpool_ci_tests::binding(CiSystem::GitLab, scope)
}

impl State {
    fn answer(&mut self, seen: &Seen) -> Reply {
        let line = seen.line();
        let trick = self.tricks.iter().position(|(end, _)| line.ends_with(end.as_str()));
        let reply = match trick.and_then(|at| self.tricks.remove(at)) {
            Some((_, reply)) => reply,
            None => self.route(seen),
        };
        match self.limit {
            Some((remaining, reset)) => {
                reply.with("ratelimit-remaining", remaining).with("ratelimit-reset", reset)
            }
            None => reply,
        }
    }

    fn route(&mut self, seen: &Seen) -> Reply {
        if seen.header("private-token") != TOKEN {
            return said(401, "401 Unauthorized");
        }
        let Some((_, path)) = seen.path.split_once("/api/v4/") else { return said(404, "404 Not Found") };
        match (seen.method.as_str(), path) {
            ("POST", "user/runners") => self.create(&seen.body),
            ("GET", "runners/all" | "groups/7/runners" | "projects/8/runners") => self.list(seen),
            ("DELETE", path) => match path.strip_prefix("runners/").and_then(|id| id.parse().ok()) {
                Some(id) if self.runners.remove(&id).is_some() => Reply::new(204, Value::Null),
                Some(_) | None => said(404, "404 Runner Not Found"),
            },
            _ => said(404, "404 Not Found"),
        }
    }

    fn create(&mut self, body: &Value) -> Reply {
        self.made += 1;
        let mut runner = body.clone();
        runner["id"] = json!(self.made);
        self.runners.insert(self.made, runner);
        let created = json!({"id": self.made, "token": format!("{RUNNER_TOKEN}-{}", self.made)});
        let lost = std::mem::take(&mut self.lose_the_answer);
        Reply { lost, ..Reply::new(201, created) }
    }

    fn list(&self, seen: &Seen) -> Reply {
        let (page, per_page) = (seen.number("page").unwrap(), seen.number("per_page").unwrap());
        let fits = |runner: &&Value| {
            let tags = runner["tag_list"].as_array();
            let tagged = |tag: &String| tags.is_some_and(|tags| tags.iter().any(|found| found == tag));
            runner["runner_type"] == seen.query["type"] && seen.query.get("tag_list").is_none_or(tagged)
        };
        let all: Vec<&Value> = self.runners.values().filter(fits).collect();
        let some: Vec<&&Value> = all.iter().skip((page - 1) * per_page).take(per_page).collect();
        let reply = Reply::new(200, json!(some));
        if self.without_page_headers {
            return reply;
        }
        let next = if page * per_page < all.len() { (page + 1).to_string() } else { String::new() };
        reply.with("x-next-page", next)
    }
}
