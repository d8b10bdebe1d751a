//! `plan`: what a pool with these settings would launch, where and at about what price. Changes nothing.

use crate::caller::Caller;
use crate::control::Control;
use crate::error::{Refused, chain};
use crate::ports::backend::BackendError;
use motorpool_domain::PoolName;
use motorpool_domain::ladder::{CapacityOption, Price};
use motorpool_domain::pool::{Pool, Source, launches_as_before};
use motorpool_domain::spec::Want;
use motorpool_wire::api::{CapacityOptionView, PlanView};
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
        let backend = self.backend(pool.rules.backend)?;
        let problems = backend.check(&pool).await.map_err(|error| cannot_say(&error))?;
        let ladder = match pool.rules.backend.launches() && problems.is_empty() {
            true => backend.ladder(&pool, &Want::default()).await.map_err(|error| cannot_say(&error))?,
            false => Vec::new(),
        };
        let refused = self.refused_change(&pool).await?.map(|refused| refused.message);
        let shortages = self.store.shortages(&pool.name, self.now()).await?;
        let rungs = ladder.into_iter().map(|rung| {
            let empty = shortages.iter().find(|shortage| shortage.of.covers(&rung));
            let empty = empty.map(|shortage| shortage.why.clone());
            let CapacityOption { offer, zone, hourly } = rung;
            CapacityOptionView {
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
            refused,
            warnings: self.warnings(&pool.rules),
            problems: problems.iter().map(ToString::to_string).collect(),
            pool: pool.name,
        })
    }

    /// Refuses settings with which machines would not come; the answer is what else to say of them. Where the provider can't be asked, they
    /// are taken: nobody should have to wait for it to change a pool. And what was taken before stands in no other change's way.
    pub(super) async fn must_be_launchable(&self, pool: &Pool) -> Result<Vec<String>, Refused> {
        let problems = match self.backend(pool.rules.backend)?.check(pool).await {
            Ok(problems) => problems,
            Err(error) => return Ok(vec![format!("its settings could not be checked: {}", cause(&error))]),
        };
        let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let known = self.store.pool(&pool.name).await?;
        if told.is_empty() || known.is_some_and(|known| launches_as_before(&known.pool.rules, &pool.rules)) {
            return Ok(told);
        }
        Err(Refused::invalid(
            format!("its machines can't be launched with these settings: {}", told.join("; ")),
            "correct the pool's settings; nothing was changed",
        ))
    }
}

/// An operator who plans is told the cause: it is most likely his credentials or an id that he wrote.
fn cannot_say(error: &BackendError) -> Refused {
    Refused::invalid(
        format!("the provider can't say what it has: {}", cause(error)),
        "check the region, the credentials and the ids in the pool's settings",
    )
}

/// What was attempted is what the operator asks for, and is not told again.
fn cause(error: &BackendError) -> String {
    chain(error.source.as_ref())
}
