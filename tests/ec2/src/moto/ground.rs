//! moto as the ground of stages. It makes as few instances as it may, one a call; it knows no ClientToken; what it makes runs at once, and what
//! it ends is terminated at once.

use super::{Place, asked, endpoint, place, texts, user_data};
use crate::fake::State;
use crate::ground::{EndedBy, Ground, Seen};
use crate::stage::Stage;
use anyhow::{Context, Result, ensure};
use motorpool_backend_ec2::{Ec2Backend, Ec2Config};
use motorpool_control::ServerSecret;
use motorpool_control::ports::clock::Clock;
use motorpool_control::ports::entropy::SystemEntropy;
use motorpool_domain::PoolName;
use motorpool_domain::pool::Pool;
use motorpool_tests::fakes::turned_clock::TurnedClock;
use motorpool_tests::harness::emulated_aws::fresh_name;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// An installation of its own on the moto that all tests share. Its stages have one clock, and backends that have read moto's lists once: that
/// takes it seconds. Each has a pool of its own, and sees no other's instances.
#[derive(Debug)]
pub struct Moto {
    endpoint: String,
    place: Place,
    clock: Arc<TurnedClock>,
    /// No other's, on this moto.
    name: String,
    settled: AtomicU32,
    /// By installation.
    backends: Mutex<BTreeMap<String, Arc<Ec2Backend>>>,
    /// What each instance was told, which never changes.
    told: Mutex<BTreeMap<String, String>>,
}

impl Moto {
    pub async fn new() -> Result<Arc<Self>> {
        let endpoint = endpoint()?;
        Ok(Arc::new(Self {
            place: place(&endpoint).await?,
            endpoint,
            clock: Arc::default(),
            name: fresh_name("a server secret"),
            settled: AtomicU32::new(0),
            backends: Mutex::default(),
            told: Mutex::default(),
        }))
    }

    pub async fn stage(self: &Arc<Self>, pool: Pool) -> Result<Stage<Arc<Self>>> {
        Stage::on(Arc::clone(self), Arc::clone(&self.clock), Arc::new(SystemEntropy), pool).await
    }

    async fn told(&self, id: &str) -> Result<String> {
        let known = lock(&self.told).get(id).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let told = user_data(&self.endpoint, id).await?;
        lock(&self.told).insert(id.to_owned(), told.clone());
        Ok(told)
    }

    /// One call of moto's, that made one instance.
    async fn seen(&self, reservation: &str) -> Result<Seen> {
        let first = |name: &str| {
            let found = texts(reservation, name).into_iter().next();
            found.with_context(|| format!("moto tells no {name}: {reservation}"))
        };
        let id = first("instanceId")?;
        ensure!(texts(reservation, "instanceId").len() == 1, "moto made several at once: {reservation}");
        let tags = first("tagSet")?;
        Ok(Seen {
            state: state(reservation)?,
            launch_index: first("amiLaunchIndex")?.parse()?,
            tags: texts(&tags, "key").into_iter().zip(texts(&tags, "value")).collect(),
            user_data: self.told(&id).await?,
            id,
        })
    }
}

impl Ground for Arc<Moto> {
    const KNOWS_TOKENS: bool = false;

    fn secret(&self) -> ServerSecret {
        ServerSecret::new(self.name.as_bytes())
    }

    fn settle(&self, mut pool: Pool) -> Pool {
        let Place { image, subnets, security_groups } = &self.place;
        if let Some(rules) = &mut pool.rules.ec2 {
            rules.image.clone_from(image);
            rules.subnets.clone_from(subnets);
            rules.security_groups.clone_from(security_groups);
        }
        let number = self.settled.fetch_add(1, Ordering::Relaxed);
        pool.name = PoolName::parse(format!("{}-{number}", pool.name)).expect("a pool's name");
        pool
    }

    async fn backend_for(&self, installation: &str) -> Arc<Ec2Backend> {
        let config = motorpool_aws::emulated(&self.endpoint).await;
        let made = || {
            let settings = Ec2Config {
                installation: installation.to_owned(),
                server_url: "https://pool.example:8443".to_owned(),
                ca_pem: None,
                clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            };
            Arc::new(Ec2Backend::new(&config, settings))
        };
        Arc::clone(lock(&self.backends).entry(installation.to_owned()).or_insert_with(made))
    }

    async fn made_for(&self, installation: &str, pool: &PoolName) -> Result<Vec<Seen>> {
        let ours = format!(
            "DescribeInstances&Filter.1.Name=tag:motorpool:installation&Filter.1.Value.1={installation}\
             &Filter.2.Name=tag:motorpool:pool&Filter.2.Value.1={pool}"
        );
        let mut all = Vec::new();
        for reservation in asked(&self.endpoint, &ours).await?.split("<reservationId>").skip(1) {
            all.push(self.seen(reservation).await?);
        }
        Ok(all)
    }

    async fn state_of(&self, id: &str) -> Result<State> {
        state(&asked(&self.endpoint, &format!("DescribeInstances&InstanceId.1={id}")).await?)
    }

    /// Whoever ends it, moto has one way.
    async fn end(&self, id: &str, _: EndedBy) -> Result<()> {
        asked(&self.endpoint, &format!("TerminateInstances&InstanceId.1={id}")).await.map(drop)
    }

    fn behind(&self) -> Duration {
        Duration::ZERO
    }

    fn most_alive(&self) -> Option<usize> {
        None
    }
}

fn state(described: &str) -> Result<State> {
    let state = texts(described, "instanceState").into_iter().next().context("moto tells no state")?;
    let name = texts(&state, "name").into_iter().next().context("moto's state has no name")?;
    let known = [State::Pending, State::Running, State::ShuttingDown, State::Terminated];
    known.into_iter().find(|state| state.name() == name).with_context(|| format!("an instance is {name}"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
