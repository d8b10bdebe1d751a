//! A caller that hangs up in the midst of a release, a removal or a refresh: what it asked for goes on to its end all the same.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends here"
)]

mod seen;
mod site;

use async_trait::async_trait;
use motorpool_control::ports::backend::{
    Backend, BackendError, Backends, LaunchError, LaunchOrder, Machine, OwnedMachines,
};
use motorpool_control::ports::ledger::Ledger;
use motorpool_control::ports::queue::{Queue, QueueError, QueueName, Receipt, Received};
use motorpool_control::store::{Page, Store};
use motorpool_domain::pool::BackendKind;
use motorpool_domain::runner::{Presence, Runner, RunnerState, StateName};
use motorpool_domain::{PoolName, RunnerId};
use motorpool_http::HttpLimits;
use motorpool_ledger::MemoryLedger;
use motorpool_queues::InProcessQueue;
use seen::call;
use serde_json::{Value, json};
use site::{ADMIN, Site, site_on};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use tower::ServiceExt;

/// Once it is closed, every call waits before it until somebody lets one in.
#[derive(Debug)]
struct Door {
    closed: AtomicBool,
    knocked: Semaphore,
    let_in: Semaphore,
}

impl Door {
    async fn pass(&self) {
        if self.closed.load(Ordering::SeqCst) {
            self.knocked.add_permits(1);
            self.let_in.acquire().await.unwrap().forget();
        }
    }
}

/// A provider behind the door.
#[derive(Debug)]
struct Provider(Arc<Door>);

#[async_trait]
impl Backend for Provider {
    async fn launch(&self, order: &LaunchOrder<'_>) -> Result<Vec<Machine>, LaunchError> {
        self.0.pass().await;
        let machine =
            |runner: &RunnerId| Machine { runner: runner.clone(), provider_id: format!("of {runner}") };
        Ok(order.machines.iter().map(|ordered| machine(&ordered.runner)).collect())
    }

    async fn describe(&self, _: &Runner) -> Result<Presence, BackendError> {
        Ok(Presence::There)
    }

    async fn ensure_gone(&self, _: &Runner) -> Result<Presence, BackendError> {
        self.0.pass().await;
        Ok(Presence::Gone)
    }

    async fn inventory(&self, _: &PoolName) -> Result<Vec<Machine>, BackendError> {
        Ok(Vec::new())
    }

    async fn discard(&self, _: &Machine) -> Result<(), BackendError> {
        Ok(())
    }
}

/// Queues that are received from behind the door.
#[derive(Debug)]
struct Queues(Arc<Door>, InProcessQueue);

#[async_trait]
impl Queue for Queues {
    async fn send(&self, queue: &QueueName, body: String) -> Result<(), QueueError> {
        self.1.send(queue, body).await
    }

    async fn receive(
        &self,
        queue: &QueueName,
        most: usize,
        wait: Duration,
        visibility: Duration,
    ) -> Result<Vec<Received>, QueueError> {
        self.0.pass().await;
        self.1.receive(queue, most, wait, visibility).await
    }

    async fn delete(&self, queue: &QueueName, receipt: &Receipt) -> Result<(), QueueError> {
        self.1.delete(queue, receipt).await
    }

    async fn give_back(&self, queue: &QueueName, receipt: &Receipt) -> Result<(), QueueError> {
        self.1.give_back(queue, receipt).await
    }

    async fn dead_letters(&self, queue: &QueueName, most: usize) -> Result<Vec<String>, QueueError> {
        self.1.dead_letters(queue, most).await
    }
}

struct Scene {
    site: Site,
    store: Store,
    door: Arc<Door>,
}

impl Scene {
    fn new() -> Self {
        let ledger: Arc<dyn Ledger> = Arc::new(MemoryLedger::new());
        let closed = AtomicBool::new(false);
        let door = Arc::new(Door { closed, knocked: Semaphore::new(0), let_in: Semaphore::new(0) });
        let backends = Backends::default()
            .with(BackendKind::Local, Arc::new(Provider(Arc::clone(&door))))
            .with(BackendKind::BareMetal, Arc::new(OwnedMachines));
        let queue = Arc::new(Queues(Arc::clone(&door), InProcessQueue::default()));
        let site = site_on(Arc::clone(&ledger), queue, backends, HttpLimits::default());
        Self { site, store: Store::new(ledger), door }
    }

    async fn put(&self, pool: &str, settings: Value) {
        self.site.as_admin("PUT", &format!("/api/v1/pools/{pool}"), &settings).await.json(200);
    }

    /// Sends it, hangs up once it stands before the door, and opens the door then.
    async fn hang_up(&self, method: &str, path: &str, body: &Value) {
        self.door.closed.store(true, Ordering::SeqCst);
        let asking = self.site.router.clone().oneshot(call(method, path, Some(ADMIN), body.to_string()));
        tokio::select! {
            biased;
            knocked = self.door.knocked.acquire() => knocked.unwrap().forget(),
            answer = asking => panic!("it was answered: {answer:?}"),
        }
        self.door.closed.store(false, Ordering::SeqCst);
        self.door.let_in.add_permits(1);
    }

    /// The only runner of the pool `small`, once it is as expected.
    async fn comes_to(&self, expected: impl Fn(&Runner) -> bool) -> Runner {
        let name = PoolName::parse("small").unwrap();
        eventually(async || {
            for state in [None, Some(StateName::Terminated)] {
                let listed = self.store.list_runners(&name, state, Page::first(10)).await.unwrap();
                if let Some(runner) = listed.items.into_iter().find(&expected) {
                    return Some(runner);
                }
            }
            None
        })
        .await
    }
}

/// A task of its own may not be done yet; only one that was cut off never is.
async fn eventually<T>(look: impl AsyncFn() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), looking).await.expect("it was cut off where it stood")
}

fn launched(runner: &Runner) -> bool {
    matches!(runner.state, RunnerState::Created { launched_at: Some(_), .. })
}

#[tokio::test]
async fn a_refresh_goes_on_to_its_end() {
    let scene = Scene::new();
    scene.put("small", json!({"backend": "local", "max": 1, "min_idle": 1})).await;
    scene.hang_up("POST", "/api/v1/refresh", &json!({})).await;
    scene.comes_to(launched).await;
}

#[tokio::test]
async fn a_removal_goes_on_to_its_end() {
    let scene = Scene::new();
    scene.put("small", json!({"backend": "local", "max": 1, "min_idle": 1})).await;
    scene.site.as_admin("POST", "/api/v1/refresh", &json!({})).await.json(200);
    let runner = scene.comes_to(launched).await.id;
    scene.hang_up("DELETE", &format!("/api/v1/runners/{runner}?force=true"), &json!({})).await;
    scene.comes_to(|runner| runner.state.name() == StateName::Terminated).await;
}

/// Between the claims that a workflow gives back, who waits for the first is served.
#[tokio::test]
async fn a_release_goes_on_to_its_end() {
    let scene = Scene::new();
    let mut claims = Vec::new();
    for (workflow, pool) in [("gh-1", "a"), ("gh-1", "b"), ("gh-2", "a"), ("gh-2", "b")] {
        scene.put(pool, json!({"backend": "bare_metal", "clean": "keep"})).await;
        let body = json!({"workflow": workflow, "pool": pool});
        let claim = scene.site.as_admin("POST", "/api/v1/provision", &body).await.json(202);
        assert_eq!((&claim["state"], &claim["short"]), (&json!("pending"), &json!(1)), "{claim}");
        claims.push(claim["claim"].as_str().unwrap().to_owned());
    }
    scene.hang_up("POST", "/api/v1/release", &json!({"workflow": "gh-1"})).await;
    for id in &claims[..2] {
        let id = motorpool_domain::ClaimId::parse(id.clone()).unwrap();
        eventually(async || {
            let claim = scene.store.claim(&id).await.unwrap().unwrap();
            (claim.state.as_str() == "released").then_some(())
        })
        .await;
    }
}
