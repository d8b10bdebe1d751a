//! The backend whose machines are EC2 instances: which could be had, at what price; one RunInstances call for one order; what is there,
//! and its end. It does not walk the ladder, and keeps nothing but what it has read from EC2 and may read again.

mod cache;
mod calls;
mod catalogue;
mod check;
mod client;
mod errors;
mod explain_no_match;
mod ladder;
mod launch;
mod machines;
mod order;
mod prices;
mod tags;
mod user_data;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_ec2::Client;
use aws_sdk_ec2::config::SharedAsyncSleep;
use aws_types::SdkConfig;
use motorpool_control::ports::backend::{Backend, BackendError, LaunchError, LaunchOrder, Machine, Unfit};
use motorpool_control::ports::clock::Clock;
use motorpool_domain::PoolName;
use motorpool_domain::ladder::CapacityOption;
use motorpool_domain::pool::{Ec2Rules, Pool, RuleError, Rules};
use motorpool_domain::runner::{Attested, Presence, Runner};
use motorpool_domain::spec::Want;

use catalogue::Catalogue;
use machines::SEEN_WITHIN;

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
    timer: Option<SharedAsyncSleep>,
    unfit: Option<Unfit>,
}

impl Ec2Backend {
    /// Region, credentials and HTTP client are the configuration's; retries and time-outs are this crate's own.
    pub fn new(config: &SdkConfig, settings: Ec2Config) -> Self {
        if config.region().is_none() {
            tracing::warn!(target: "alert", why = errors::NO_REGION, "EC2 can't be asked for anything");
        }
        let catalogue = Catalogue::new(client::patient(config), Arc::clone(&settings.clock));
        let timer = config.sleep_impl();
        Self { client: client::client(config), settings, catalogue, timer, unfit: None }
    }

    /// No machine that it launched could call home, as its caller knows: it takes no pool and launches nothing, but sees and ends what
    /// there is.
    #[must_use]
    pub fn without_launches(self, why: Unfit) -> Self {
        Self { unfit: Some(why), ..self }
    }
}

#[async_trait]
impl Backend for Ec2Backend {
    fn accepts(&self, rules: &Rules) -> Result<(), Unfit> {
        match (&self.unfit, &rules.ec2) {
            (Some(unfit), _) => Err(unfit.clone()),
            (None, Some(ec2)) => user_data::fits(ec2, &self.settings),
            // Such rules can't hold, and are refused as such.
            (None, None) => Ok(()),
        }
    }

    async fn ladder(&self, pool: &Pool, want: &Want) -> Result<Vec<CapacityOption>, BackendError> {
        let attempted = || format!("say which machines pool {} can have", pool.name);
        let rules = rules_of(pool)
            .map_err(|error| BackendError { attempted: attempted(), source: Box::new(error) })?;
        self.ladder_of(pool, rules, want).await.map_err(|error| error.while_trying(attempted()))
    }

    async fn check(&self, pool: &Pool) -> Result<Vec<RuleError>, BackendError> {
        let attempted = || format!("check the settings of pool {}", pool.name);
        let rules = rules_of(pool)
            .map_err(|error| BackendError { attempted: attempted(), source: Box::new(error) })?;
        self.problems_of(pool, rules).await.map_err(|error| error.while_trying(attempted()))
    }

    async fn launch(&self, order: &LaunchOrder<'_>) -> Result<Vec<Machine>, LaunchError> {
        if let Some(Unfit { why, .. }) = &self.unfit {
            return Err(LaunchError::Refused(why.clone()));
        }
        let rules = rules_of(order.pool).map_err(|error| LaunchError::Refused(error.to_string()))?;
        self.run(order, rules).await
    }

    async fn describe(&self, runner: &Runner) -> Result<Presence, BackendError> {
        let attempted = || format!("look for the instance of {}", runner.id);
        self.look(runner).await.map_err(|error| error.while_trying(attempted()))
    }

    async fn attest(&self, runner: &Runner, provider_id: &str) -> Result<Attested, BackendError> {
        let attempted = || format!("ask whether {provider_id} is the instance of {}", runner.id);
        self.whose(runner, provider_id).await.map_err(|error| error.while_trying(attempted()))
    }

    async fn ensure_gone(&self, runner: &Runner) -> Result<Presence, BackendError> {
        let attempted = || format!("terminate the instance of {}", runner.id);
        self.end(runner).await.map_err(|error| error.while_trying(attempted()))
    }

    async fn inventory(&self, pool: &PoolName) -> Result<Vec<Machine>, BackendError> {
        let attempted = || format!("list the instances of pool {pool}");
        self.list(pool).await.map_err(|error| error.while_trying(attempted()))
    }

    fn shown_within(&self) -> Duration {
        SEEN_WITHIN
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
