//! The backend whose machines are EC2 instances: which could be had, at what price; one RunInstances call for one order; what is there,
//! and its end. It does not walk the ladder, and keeps nothing but what it has read from EC2 and may read again.

mod cache;
mod catalogue;
mod client;
mod errors;
mod ladder;
mod launch;
mod machines;
mod order;
mod prices;
mod tags;
mod user_data;

use std::sync::Arc;

use async_trait::async_trait;
use aws_sdk_ec2::Client;
use aws_types::SdkConfig;
use motorpool_control::ports::backend::{Backend, BackendError, LaunchError, LaunchOrder, Machine};
use motorpool_control::ports::clock::Clock;
use motorpool_domain::PoolName;
use motorpool_domain::ladder::Rung;
use motorpool_domain::pool::{Ec2Rules, Pool};
use motorpool_domain::runner::{Presence, Runner};

use catalogue::Catalogue;

#[derive(Debug, Clone)]
pub struct Ec2Config {
    /// Tells our instances from those of another installation in the same account.
    pub installation: String,
    /// Where the agents reach the control plane.
    pub server_url: String,
    /// What they trust there, if not what the image trusts.
    pub ca_pem: Option<String>,
    pub clock: Arc<dyn Clock>,
}

#[derive(Debug)]
pub struct Ec2Backend {
    client: Client,
    settings: Ec2Config,
    catalogue: Catalogue,
}

impl Ec2Backend {
    /// Region, credentials and HTTP client are the configuration's; retries and time-outs are this crate's own.
    pub fn new(config: &SdkConfig, settings: Ec2Config) -> Self {
        let catalogue = Catalogue::new(client::patient(config), Arc::clone(&settings.clock));
        Self { client: client::client(config), settings, catalogue }
    }
}

#[async_trait]
impl Backend for Ec2Backend {
    async fn ladder(&self, pool: &Pool) -> Result<Vec<Rung>, BackendError> {
        let attempted = || format!("list the instance types for pool {}", pool.name);
        let rules = rules_of(pool)
            .map_err(|error| BackendError { attempted: attempted(), source: Box::new(error) })?;
        self.ladder_of(pool, rules).await.map_err(|error| error.while_trying(attempted()))
    }

    async fn launch(&self, order: &LaunchOrder<'_>) -> Result<Vec<Machine>, LaunchError> {
        let rules = rules_of(order.pool).map_err(|error| LaunchError::Refused(error.to_string()))?;
        self.run(order, rules).await
    }

    async fn describe(&self, runner: &Runner) -> Result<Presence, BackendError> {
        let attempted = || format!("look for the instance of {}", runner.id);
        self.look(runner).await.map_err(|error| error.while_trying(attempted()))
    }

    async fn ensure_gone(&self, runner: &Runner) -> Result<Presence, BackendError> {
        let attempted = || format!("terminate the instance of {}", runner.id);
        self.end(runner).await.map_err(|error| error.while_trying(attempted()))
    }

    async fn inventory(&self, pool: &PoolName) -> Result<Vec<Machine>, BackendError> {
        let attempted = || format!("list the instances of pool {pool}");
        self.list(pool).await.map_err(|error| error.while_trying(attempted()))
    }

    async fn discard(&self, machine: &Machine) -> Result<(), BackendError> {
        let attempted = || format!("terminate {}", machine.provider_id);
        self.end_stray(machine).await.map_err(|error| error.while_trying(attempted()))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("pool {0} has no settings for EC2")]
struct NotForEc2(PoolName);

fn rules_of(pool: &Pool) -> Result<&Ec2Rules, NotForEc2> {
    pool.rules.ec2.as_ref().ok_or_else(|| NotForEc2(pool.name.clone()))
}
