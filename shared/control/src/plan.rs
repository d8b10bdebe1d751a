//! `plan`: what a pool with these settings would launch, where and at about what price. Changes nothing.

use crate::caller::Caller;
use crate::control::Control;
use crate::ports::backend::BackendError;
use crate::refused::{Refused, chain};
use motorpool_domain::PoolName;
use motorpool_domain::ladder::{Price, Rung};
use motorpool_domain::pool::{Pool, Source};
use motorpool_wire::api::{PlanView, RungView};
use motorpool_wire::pool_settings::PoolSettings;

impl Control {
    pub async fn plan_pool(
        &self,
        caller: &Caller,
        name: PoolName,
        settings: PoolSettings,
    ) -> Result<PlanView, Refused> {
        caller.must_be_operator("plan a pool")?;
        let rules = self.supported_rules(settings)?;
        let pool = Pool { name, source: Source::Api, retired: false, rules };
        let ladder = match pool.rules.backend.launches() {
            true => {
                self.backend(pool.rules.backend)?.ladder(&pool).await.map_err(|error| cannot_say(&error))?
            }
            false => Vec::new(),
        };
        let shortages = self.ledger.shortages(&pool.name, self.now()).await?;
        let rungs = ladder.into_iter().map(|rung| {
            let empty = shortages.iter().find(|shortage| shortage.of.covers(&rung));
            let empty = empty.map(|shortage| shortage.why.clone());
            let Rung { offer, zone, hourly } = rung;
            RungView {
                instance_type: offer.instance_type,
                usage: offer.usage.name().to_owned(),
                zone,
                cpu: offer.spec.cpu,
                memory_mb: offer.spec.memory_mb,
                hourly_usd: hourly.map(Price::dollars),
                empty,
            }
        });
        Ok(PlanView {
            rungs: rungs.collect(),
            max: pool.rules.max,
            min_idle: pool.rules.min_idle,
            pool: pool.name,
        })
    }
}

/// An operator who plans is told the cause: it is most likely his credentials or an id that he wrote.
fn cannot_say(error: &BackendError) -> Refused {
    Refused::invalid(
        format!("the provider can't say what it has: {}", chain(error)),
        "check the region, the credentials and the ids in the pool's settings",
    )
}
