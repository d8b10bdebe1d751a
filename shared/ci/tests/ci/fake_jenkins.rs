//! A small Jenkins: nodes that are toggled and told why, builds, and users with permissions. It answers what its sources say, `Computer.java`
//! above all. Tests can have somebody else act at the same moment, or have it answer otherwise for once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use motorpool_ci::{Jenkins, JenkinsConfig, JenkinsLogin};
use motorpool_ci_tests::server::{Reply, Seen, Server, TestClock};
use serde_json::{Value, json};

/// May disconnect agents, and with that connect them too.
pub(crate) const USER: &str = "motorpool";
pub(crate) const TOKEN: &str = "11canary-token-of-jenkins-Ty4";
/// May connect them, and no more.
pub(crate) const UNPAUSER: &str = "motorpool-online";
pub(crate) const UNPAUSE_TOKEN: &str = "11canary-second-of-jenkins-Om6";

pub(crate) struct FakeJenkins {
    pub(crate) server: Server,
    pub(crate) clock: Arc<TestClock>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) nodes: BTreeMap<String, Node>,
    /// Those that it shows, by their paths: `job/folder/job/app`.
    pub(crate) jobs: BTreeSet<String>,
    pub(crate) builds: BTreeMap<String, Value>,
    /// What others do right before a toggle: the node's reason to be offline, or none.
    pub(crate) before_toggles: VecDeque<Option<String>>,
    pub(crate) tricks: VecDeque<(String, Reply)>,
    /// Every change of a node, as its reason to be offline.
    pub(crate) changes: Vec<Option<String>>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Node {
    /// Why it is temporarily offline.
    pub(crate) offline: Option<String>,
    pub(crate) busy: bool,
}

impl FakeJenkins {
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

    pub(crate) fn has_node(&self, name: &str) {
        self.state().nodes.insert(name.to_owned(), Node::default());
    }

    pub(crate) fn offline(&self, name: &str) -> Option<String> {
        self.state().nodes[name].offline.clone()
    }

    pub(crate) fn client(&self) -> Jenkins {
        self.client_at(&self.server.url, None)
    }

    /// With the user who can only bring nodes online.
    pub(crate) fn client_of_two(&self) -> Jenkins {
        let unpause = JenkinsLogin { user: UNPAUSER.to_owned(), token: UNPAUSE_TOKEN.into() };
        self.client_at(&self.server.url, Some(unpause))
    }

    pub(crate) fn client_at(&self, url: &str, unpause_login: Option<JenkinsLogin>) -> Jenkins {
        let login = JenkinsLogin { user: USER.to_owned(), token: TOKEN.into() };
        let config = JenkinsConfig { url: url.to_owned(), login, unpause_login, plain_http: false };
        let clock: Arc<TestClock> = Arc::clone(&self.clock);
        Jenkins::new(config).unwrap().with_clock(clock)
    }
}

impl State {
    fn answer(&mut self, seen: &Seen) -> Reply {
        let line = seen.line();
        let trick = self.tricks.iter().position(|(end, _)| line.ends_with(end.as_str()));
        match trick.and_then(|at| self.tricks.remove(at)) {
            Some((_, reply @ Reply { lost: false, .. })) => reply,
            Some((_, Reply { lost: true, .. })) => Reply { lost: true, ..self.route(seen) },
            None => self.route(seen),
        }
    }

    fn route(&mut self, seen: &Seen) -> Reply {
        let basic = |user: &str, token: &str| format!("Basic {}", STANDARD.encode(format!("{user}:{token}")));
        let may_disconnect = match seen.header("authorization") {
            its if its == basic(USER, TOKEN) => true,
            its if its == basic(UNPAUSER, UNPAUSE_TOKEN) => false,
            _ => return Reply::new(401, Value::Null),
        };
        let path = seen.path.trim_start_matches('/').to_owned();
        if path == "computer/api/json" {
            let nodes = self.nodes.iter();
            let nodes: Vec<Value> =
                nodes.map(|(name, node)| json!({"displayName": name, "idle": !node.busy})).collect();
            return Reply::new(200, json!({"computer": nodes}));
        }
        if let Some(rest) = path.strip_prefix("computer/") {
            let Some((name, action)) = rest.split_once('/') else { return nothing() };
            return self.node(&name.replace("%20", " "), action, may_disconnect, seen);
        }
        let found = path.strip_suffix("/api/json");
        match found.and_then(|path| Some((path, self.builds.get(path), path.rsplit_once('/')?.0))) {
            Some((_, Some(build), job)) if self.jobs.contains(job) => Reply::new(200, build.clone()),
            Some((job, None, _)) if self.jobs.contains(job) => Reply::new(200, json!({"name": job})),
            Some(_) | None => nothing(),
        }
    }

    fn node(&mut self, name: &str, action: &str, may_disconnect: bool, seen: &Seen) -> Reply {
        if action == "toggleOffline"
            && let Some(now) = self.before_toggles.pop_front()
            && let Some(node) = self.nodes.get_mut(name)
        {
            node.offline = now;
        }
        let Some(node) = self.nodes.get_mut(name) else { return nothing() };
        let message = seen.query.get("offlineMessage").map(|text| text.trim().to_owned()).unwrap_or_default();
        let now = match (seen.method.as_str(), action, &node.offline) {
            ("GET", "api/json", offline) => {
                return Reply::new(
                    200,
                    json!({"temporarilyOffline": offline.is_some(), "idle": !node.busy,
                        "offlineCauseReason": offline.clone().unwrap_or_default()}),
                );
            }
            ("POST", "toggleOffline", Some(_)) => None,
            ("POST", "toggleOffline" | "changeOfflineCause", _) if may_disconnect => Some(message),
            ("POST", "toggleOffline" | "changeOfflineCause", _) => {
                return Reply::new(403, Value::Null)
                    .with("x-required-permission", "hudson.model.Computer.Disconnect")
                    .with("x-permission-implied-by", "hudson.model.Hudson.Administer");
            }
            _ => return nothing(),
        };
        node.offline.clone_from(&now);
        self.changes.push(now);
        Reply::new(302, Value::Null).with("location", ".")
    }
}

/// Jenkins' errors are pages for people.
fn nothing() -> Reply {
    Reply::new(404, json!("<html>"))
}
