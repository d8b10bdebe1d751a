//! A small GitLab: it keeps runners and their jobs, takes a description twice, and pages by headers. Tests can have it answer otherwise for
//! once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use motorpool_ci::{GitLab, GitLabConfig};
use motorpool_ci_tests::fake_github::said;
use motorpool_ci_tests::server::{Reply, Seen, Server, TestClock};
use motorpool_domain::ci::{CiBinding, CiSystem};
use serde_json::{Value, json};

pub(crate) const TOKEN: &str = "glpat-canary-token-Vw5";
/// May read, and nothing else.
pub(crate) const READ_TOKEN: &str = "glpat-canary-reader-Ke8";
pub(crate) const RUNNER_TOKEN: &str = "glrt-canary-Hy2";

pub(crate) struct FakeGitLab {
    pub(crate) server: Server,
    pub(crate) clock: Arc<TestClock>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) runners: BTreeMap<u64, Value>,
    /// By id: of which project, on which runner, and what became of each.
    pub(crate) jobs: BTreeMap<u64, (u64, u64, String)>,
    /// Those that it shows.
    pub(crate) projects: BTreeSet<u64>,
    /// The paths of projects, as one segment.
    pub(crate) paths: BTreeMap<String, u64>,
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
        self.client_with(GitLabConfig {
            url: url.to_owned(),
            token: TOKEN.into(),
            read_token: None,
            plain_http: false,
        })
    }

    pub(crate) fn client_with(&self, config: GitLabConfig) -> GitLab {
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
        match (seen.header("private-token"), seen.method.as_str()) {
            (TOKEN, _) | (READ_TOKEN, "GET") => {}
            (READ_TOKEN, _) => return said(403, "insufficient_scope"),
            (_, _) => return said(401, "401 Unauthorized"),
        }
        let Some((_, path)) = seen.path.split_once("/api/v4/") else { return said(404, "404 Not Found") };
        match (seen.method.as_str(), path) {
            ("POST", "user/runners") => self.create(&seen.body),
            ("GET", "runners/all" | "groups/7/runners" | "projects/8/runners") => self.list(seen),
            ("PUT", path) => match path.strip_prefix("runners/").and_then(|id| id.parse().ok()) {
                Some(id) => self.update(id, &seen.body),
                None => said(404, "404 Not Found"),
            },
            ("GET", path) => self.jobs(path, seen),
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

    fn update(&mut self, id: u64, body: &Value) -> Reply {
        let works = self.has_jobs(id, "running") || self.has_jobs(id, "canceling");
        let Some(runner) = self.runners.get_mut(&id) else { return said(404, "404 Not found") };
        runner.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        runner["job_execution_status"] = json!(if works { "active" } else { "idle" });
        Reply::new(200, runner.clone())
    }

    fn has_jobs(&self, of: u64, wanted: &str) -> bool {
        self.jobs.values().any(|(_, runner, status)| *runner == of && status == wanted)
    }

    fn jobs(&self, path: &str, seen: &Seen) -> Reply {
        let parts: Vec<&str> = path.split('/').collect();
        let shown = |id: u64| {
            let (project, runner, status) = &self.jobs[&id];
            json!({"id": id, "status": status, "project": {"id": project}, "runner": {"id": runner}})
        };
        match parts[..] {
            ["projects", project, "jobs", id] => {
                let project = self.paths.get(project).copied().or_else(|| project.parse().ok());
                let (project, id): (u64, u64) = (project.unwrap_or_default(), id.parse().unwrap());
                match self.jobs.get(&id) {
                    _ if !self.projects.contains(&project) => said(404, "404 Project Not Found"),
                    Some((of, _, _)) if *of == project => Reply::new(200, shown(id)),
                    Some(_) | None => said(404, "404 Not found"),
                }
            }
            ["runners", runner, "jobs"] => {
                let runner: u64 = runner.parse().unwrap();
                if !self.runners.contains_key(&runner) {
                    return said(404, "404 Not found");
                }
                let wanted = seen.query.get("status");
                let its = self.jobs.iter().filter(|(_, (_, of, status))| {
                    *of == runner && wanted.is_none_or(|wanted| wanted == status)
                });
                let its: Vec<Value> = its.rev().map(|(id, _)| shown(*id)).collect();
                self.page(&its.iter().collect::<Vec<_>>(), seen)
            }
            _ => said(404, "404 Not Found"),
        }
    }

    fn list(&self, seen: &Seen) -> Reply {
        let fits = |runner: &&Value| {
            let tags = runner["tag_list"].as_array();
            let tagged = |tag: &String| tags.is_some_and(|tags| tags.iter().any(|found| found == tag));
            runner["runner_type"] == seen.query["type"] && seen.query.get("tag_list").is_none_or(tagged)
        };
        self.page(&self.runners.values().filter(fits).collect::<Vec<_>>(), seen)
    }

    fn page(&self, all: &[&Value], seen: &Seen) -> Reply {
        let (page, per_page) = (seen.number("page").unwrap_or(1), seen.number("per_page").unwrap());
        let some: Vec<&&Value> = all.iter().skip((page - 1) * per_page).take(per_page).collect();
        let reply = Reply::new(200, json!(some));
        if self.without_page_headers {
            return reply;
        }
        let next = if page * per_page < all.len() { (page + 1).to_string() } else { String::new() };
        reply.with("x-next-page", next)
    }
}
