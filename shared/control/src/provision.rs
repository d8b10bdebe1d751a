//! `provision` and `claim`: a workflow asks for runners. Checks what it asks for, has the claim opened, and answers at once.

use crate::caller::Caller;
use crate::control::Control;
use crate::open::OpenedClaim;
use crate::refused::Refused;
use motorpool_domain::claim::{Ask, ClaimKey, Wish};
use motorpool_domain::ladder::{Choice, choose};
use motorpool_domain::pool::{Dispatch, Pool};
use motorpool_domain::spec::{TypeGlobs, Want};
use motorpool_wire::api::{ClaimRequest, ClaimView, ProvisionRequest};
use std::time::Duration;

impl Control {
    pub async fn provision(&self, caller: &Caller, request: ProvisionRequest) -> Result<ClaimView, Refused> {
        let ProvisionRequest {
            workflow,
            pool,
            count,
            max_runtime_minutes,
            usage,
            allowed_instance_types,
            resource_class,
        } = request;
        let record = self.pool_record(&pool).await?;
        let want = self.want(usage, allowed_instance_types, resource_class)?;
        let wish = Wish { count, want, max_runtime: max_runtime_minutes.map(minutes), idle_only: false };
        let key = ClaimKey { owner: caller.owner(), workflow, pool };
        match self.open(caller, &key, &record, &wish).await? {
            OpenedClaim::Now(now) => Ok(self.claim_view(&now)),
            OpenedClaim::Empty { reason } => Err(pool_empty(&reason)),
        }
    }

    /// One idle runner now, or `pool empty`: nothing is launched, and nobody waits.
    pub async fn claim_now(&self, caller: &Caller, request: ClaimRequest) -> Result<ClaimView, Refused> {
        let ClaimRequest {
            workflow,
            pool,
            max_runtime_minutes,
            usage,
            allowed_instance_types,
            resource_class,
        } = request;
        let record = self.pool_record(&pool).await?;
        let want = self.want(usage, allowed_instance_types, resource_class)?;
        let wish = Wish { count: 1, want, max_runtime: max_runtime_minutes.map(minutes), idle_only: true };
        let key = ClaimKey { owner: caller.owner(), workflow, pool };
        let mut now = match self.open(caller, &key, &record, &wish).await? {
            OpenedClaim::Now(now) => *now,
            OpenedClaim::Empty { reason } => return Err(pool_empty(&reason)),
        };
        // One that was there before, and has lost its runner.
        while now.claim.state.open() && now.claim.short() > 0 {
            let failed = now.claim.failed("pool empty", self.now());
            if self.wrote_claim(&now.claim, &failed, "ended", "pool empty").await? {
                self.settle(&failed).await?;
                let reason = now.claim.waits_for;
                let reason = reason.unwrap_or_else(|| format!("no idle runner in pool {}", key.pool));
                return Err(pool_empty(&reason));
            }
            now = self.claim_now_record(&now.claim.id).await?;
        }
        Ok(self.claim_view(&now))
    }

    /// What a wish comes to in this pool as it is now.
    pub(crate) fn ask(&self, pool: &Pool, wish: &Wish) -> Result<Ask, Refused> {
        let Wish { count, want, max_runtime, idle_only } = wish;
        let rules = &pool.rules;
        match rules.dispatch {
            Dispatch::Claim => {}
            Dispatch::Hook | Dispatch::Lease => {
                return Err(Refused::invalid(
                    format!("pool {} hands out its runners by {}", pool.name, rules.dispatch.name()),
                    "only pools with dispatch = \"claim\" can be provisioned from",
                ));
            }
        }
        if pool.retired {
            return Err(Refused::conflict(
                format!("pool {} is retired", pool.name),
                "it was taken out of the pools file; `motorpool pools` lists the others",
            ));
        }
        if *count == 0 || *count > rules.max {
            return Err(Refused::invalid(
                format!("count is {count}; pool {} can give from 1 to {}", pool.name, rules.max),
                "ask for fewer, or have the operator raise the pool's max",
            ));
        }
        let max_runtime = max_runtime.unwrap_or(rules.limits.max_runtime);
        if max_runtime.is_zero() || max_runtime > rules.limits.max_runtime {
            let most = rules.limits.max_runtime.as_secs_f64() / 60.0;
            return Err(Refused::invalid(
                format!("max_runtime_minutes must be from 1 to pool {}'s own maximum, {most}", pool.name),
                "ask for less, or have the operator raise the pool's max_runtime_minutes",
            ));
        }
        Ok(Ask { count: *count, want: want.clone(), max_runtime, idle_only: *idle_only })
    }

    /// Nobody waits for what no machine of the pool can ever be. If the provider can't say what it has, waiting tells.
    pub(crate) async fn must_fit(&self, pool: &Pool, want: &Want) -> Result<(), Refused> {
        if !pool.rules.backend.launches() || *want == Want::default() {
            return Ok(());
        }
        let Ok(ladder) = self.ladder_of(pool, want).await? else { return Ok(()) };
        match choose(&ladder, want, &[], self.now()) {
            Choice::Try(_) | Choice::Wait { .. } => Ok(()),
            Choice::NoneFits { why } => Err(Refused::invalid(
                format!("no machine of pool {} can ever fit: {why}", pool.name),
                "choose another pool, or ask for what this one offers",
            )),
        }
    }

    fn want(
        &self,
        usage: Option<motorpool_domain::spec::Usage>,
        globs: Option<String>,
        class: Option<String>,
    ) -> Result<Want, Refused> {
        let instance_types = globs.map(TypeGlobs::parse).transpose().map_err(|error| {
            Refused::invalid(format!("allowed_instance_types: {error}"), "for example \"c* m6i.*\"")
        })?;
        let spec = match class {
            None => None,
            Some(name) => Some(*self.settings.resource_classes.get(&name).ok_or_else(|| {
                let known: Vec<&str> = self.settings.resource_classes.keys().map(String::as_str).collect();
                let known = if known.is_empty() { "none is defined".to_owned() } else { known.join(", ") };
                Refused::invalid(
                    format!("there is no such resource class; known: {known}"),
                    "resource classes are defined in the pools file, under [resource_classes]",
                )
            })?),
        };
        Ok(Want { usage, instance_types, spec })
    }
}

fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(minutes.saturating_mul(60))
}

fn pool_empty(reason: &str) -> Refused {
    Refused::not_found(
        format!("pool empty: {reason}"),
        "provision instead: it launches a runner, or waits for one",
    )
}
