//! A control plane with its ledger and queues in memory, behind the whole router.
#![allow(dead_code, reason = "each test file uses the part that it needs")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on ends here")]

use crate::seen::{Seen, call, send};
use axum::Router;
use motorpool_control::ports::backend::{Backends, OwnedMachines};
use motorpool_control::ports::ci::CiSystems;
use motorpool_control::ports::clock::SystemClock;
use motorpool_control::ports::entropy::SystemEntropy;
use motorpool_control::ports::ledger::Ledger;
use motorpool_control::ports::queue::Queue;
use motorpool_control::{Control, Parts, ServerSecret, Settings, token_sha256};
use motorpool_domain::Owner;
use motorpool_domain::claim::TeamLimits;
use motorpool_domain::pool::BackendKind;
use motorpool_domain::spec::Spec;
use motorpool_http::auth::sha256;
use motorpool_http::{HttpLimits, HttpState, Notifier, Tokens, WebhookSecrets, router};
use motorpool_ledger::MemoryLedger;
use motorpool_queues::InProcessQueue;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const ADMIN: &str = "mp_admin_secret";
pub(crate) const TEAM: &str = "mp_team_secret";
pub(crate) const OTHER_TEAM: &str = "mp_team_of_others";
pub(crate) const RUNNER: &str = "mp_runner_secret";

pub(crate) struct Site {
    pub(crate) router: Router,
    pub(crate) notifier: Arc<Notifier>,
}

pub(crate) fn site(limits: HttpLimits) -> Site {
    site_where(limits, &[])
}

/// With the places of some teams said.
pub(crate) fn site_where(limits: HttpLimits, at_once: &[(&str, usize)]) -> Site {
    let backends = Backends::default().with(BackendKind::BareMetal, Arc::new(OwnedMachines));
    let at_once = at_once.iter().map(|(team, at_once)| (Owner::parse(*team).unwrap(), *at_once)).collect();
    let (ledger, queue) = (Arc::new(MemoryLedger::new()), Arc::new(InProcessQueue::default()));
    let teams = Teams { at_once, ..Teams::default() };
    made_of(ledger, queue, backends, limits, teams, WebhookSecrets::default())
}

/// One whose pools may be bound to these CI systems.
pub(crate) fn site_with_ci(ci: CiSystems) -> Site {
    let backends = Backends::default().with(BackendKind::BareMetal, Arc::new(OwnedMachines));
    let (ledger, queue) = (Arc::new(MemoryLedger::new()), Arc::new(InProcessQueue::default()));
    let (limits, teams) = (HttpLimits::default(), Teams::default());
    made_with(ci, ledger, queue, backends, limits, teams, WebhookSecrets::default())
}

/// One that takes webhooks.
pub(crate) fn site_with_webhooks(webhooks: WebhookSecrets, limits: HttpLimits) -> Site {
    let backends = Backends::default().with(BackendKind::BareMetal, Arc::new(OwnedMachines));
    let (ledger, queue) = (Arc::new(MemoryLedger::new()), Arc::new(InProcessQueue::default()));
    made_of(ledger, queue, backends, limits, Teams::default(), webhooks)
}

/// With these teams and their limits.
pub(crate) fn site_with_teams(teams: BTreeMap<Owner, TeamLimits>) -> Site {
    let backends = Backends::default().with(BackendKind::BareMetal, Arc::new(OwnedMachines));
    let (ledger, queue) = (Arc::new(MemoryLedger::new()), Arc::new(InProcessQueue::default()));
    let teams = Teams { limits: teams, ..Teams::default() };
    made_of(ledger, queue, backends, HttpLimits::default(), teams, WebhookSecrets::default())
}

pub(crate) fn site_on(
    ledger: Arc<dyn Ledger>,
    queue: Arc<dyn Queue>,
    backends: Backends,
    limits: HttpLimits,
) -> Site {
    made_of(ledger, queue, backends, limits, Teams::default(), WebhookSecrets::default())
}

#[derive(Default)]
struct Teams {
    limits: BTreeMap<Owner, TeamLimits>,
    at_once: BTreeMap<Owner, usize>,
}

fn made_of(
    ledger: Arc<dyn Ledger>,
    queue: Arc<dyn Queue>,
    backends: Backends,
    limits: HttpLimits,
    teams: Teams,
    webhooks: WebhookSecrets,
) -> Site {
    made_with(CiSystems::default(), ledger, queue, backends, limits, teams, webhooks)
}

fn made_with(
    ci: CiSystems,
    ledger: Arc<dyn Ledger>,
    queue: Arc<dyn Queue>,
    backends: Backends,
    limits: HttpLimits,
    teams: Teams,
    webhooks: WebhookSecrets,
) -> Site {
    let notifier = Arc::new(Notifier::default());
    let control = Control::new(Parts {
        ledger,
        queue,
        backends,
        ci,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        doorbell: Arc::clone(&notifier) as _,
        alerts: None,
        secret: ServerSecret::new(b"server secret"),
        settings: Settings {
            refresh: Duration::from_secs(30),
            sweep: Duration::from_secs(300),
            resource_classes: BTreeMap::new(),
            host: Spec { cpu: 2, memory_mb: 4096 },
            teams: teams.limits,
        },
    });
    let team = |name: &str, token: &str| (Owner::parse(name).unwrap(), sha256(token));
    let tokens = Tokens {
        admin_sha256: sha256(ADMIN),
        teams: vec![team("red", TEAM), team("blue", OTHER_TEAM)],
        at_once: teams.at_once,
    };
    let state =
        HttpState { control: Arc::new(control), tokens, webhooks, notifier: Arc::clone(&notifier), limits };
    Site { router: router(state), notifier }
}

impl Site {
    pub(crate) async fn as_admin(&self, method: &str, path: &str, body: &Value) -> Seen {
        self.ask(method, path, ADMIN, body).await
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, token: &str, body: &Value) -> Seen {
        send(&self.router, call(method, path, Some(token), body.to_string())).await
    }

    /// A pool of one machine, whose agent has bootstrapped.
    pub(crate) async fn with_a_machine(self) -> Self {
        self.with_a_machine_of(&json!({"backend": "bare_metal", "clean": "keep"})).await
    }

    /// The same in a pool of these settings.
    pub(crate) async fn with_a_machine_of(self, pool: &Value) -> Self {
        self.as_admin("PUT", "/api/v1/pools/macs", pool).await.json(200);
        let machine = json!({"runner_id": "mac-01", "pool": "macs"});
        let secret =
            self.as_admin("POST", "/api/v1/runners", &machine).await.json(201)["bootstrap_secret"].clone();
        let redeem = json!({
            "runner": "mac-01", "secret": secret, "token_sha256": token_sha256(RUNNER),
            "machine_id": "m", "boot_id": "b",
        });
        let request = call("POST", "/api/v1/agent/bootstrap", None, redeem.to_string());
        send(&self.router, request).await.json(200);
        self
    }

    pub(crate) async fn sync(&self, report: &Value, wait_ms: u64) -> Value {
        let mut body = json!({
            "runner": "mac-01", "epoch": 1, "boot_id": "b", "protocol": 3, "agent_version": "1", "wait_ms": wait_ms,
        });
        body.as_object_mut().unwrap().extend(report.as_object().unwrap().clone());
        self.ask("POST", "/api/v1/agent/sync", RUNNER, &body).await.json(200)
    }

    /// Does what the agent is told, until nothing is left to do. The answer is the last one.
    pub(crate) async fn work(&self) -> Value {
        let mut report = json!({"epoch": 1});
        loop {
            let answer = self.sync(&report, 0).await;
            if answer["epoch"] != report["epoch"] {
                report = json!({"epoch": answer["epoch"]});
                continue;
            }
            let Some(task) = answer["task"].as_object() else { return answer };
            let done = json!([{"task": task["id"], "outcome": "done"}]);
            let label = task["kind"]["register"]["label"].clone();
            report = json!({"epoch": answer["epoch"], "results": done, "registered": label});
        }
    }
}
