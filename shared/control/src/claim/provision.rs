//! `provision` and `claim`: a workflow asks for runners. Checks what it asks for, has the claim opened, and answers at once.

use super::open::pool_empty;
use crate::caller::Caller;
use crate::control::Control;
use crate::error::Refused;
use motorpool_domain::claim::{Ask, ClaimKey, NotToBeHad, Wish, ask};
use motorpool_domain::ladder::{Choice, choose};
use motorpool_domain::pool::Pool;
use motorpool_domain::spec::{TypeGlobs, Usage, Want};
use motorpool_domain::{Actor, Timestamp};
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
        let now = self.now();
        let want = self.want(usage, allowed_instance_types, resource_class)?;
        let wish = Wish { count, want, max_runtime: max_runtime_minutes.map(minutes), idle_only: false };
        let key = ClaimKey { owner: caller.owner(), workflow, pool };
        let opened = Box::pin(self.open(caller, &key, &wish, now)).await?;
        Ok(self.claim_view(&opened, now))
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
        let now = self.now();
        let want = self.want(usage, allowed_instance_types, resource_class)?;
        let wish = Wish { count: 1, want, max_runtime: max_runtime_minutes.map(minutes), idle_only: true };
        let key = ClaimKey { owner: caller.owner(), workflow, pool };
        let mut opened = Box::pin(self.open(caller, &key, &wish, now)).await?;
        // One that was there before, and has lost its runner.
        while opened.claim.state.open() && opened.claim.short() > 0 {
            let (id, reason) = (opened.claim.id.clone(), opened.claim.waits_for.clone());
            let failed = opened.claim.failed("pool empty", now);
            if self.end(opened, failed, Actor::Control, "ended", now).await?.is_some() {
                let reason = reason.unwrap_or_else(|| format!("no idle runner in pool {}", key.pool));
                return Err(pool_empty(&reason));
            }
            opened = self.claim_with_members(&id).await?;
        }
        Ok(self.claim_view(&opened, now))
    }

    /// What a wish comes to in this pool as it is now.
    pub(super) fn ask(&self, pool: &Pool, wish: &Wish) -> Result<Ask, Refused> {
        ask(pool, wish).map_err(|why| not_to_be_had(pool, wish, why))
    }

    /// Nobody waits for what no machine of the pool can ever be. If the provider can't say what it has, waiting tells.
    pub(super) async fn must_fit(&self, pool: &Pool, want: &Want, now: Timestamp) -> Result<(), Refused> {
        if !pool.rules.backend.launches() || *want == Want::default() {
            return Ok(());
        }
        let Ok(ladder) = self.ladder_of(pool, want).await? else { return Ok(()) };
        match choose(&ladder, want, &[], now) {
            Choice::Try(_) | Choice::Wait { .. } => Ok(()),
            Choice::NoneFits { why } => Err(Refused::invalid(
                format!("no machine of pool {} can ever fit: {why}", pool.name),
                "choose another pool, or ask for what this one offers",
            )),
        }
    }

    fn want(
        &self,
        usage: Option<Usage>,
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

fn not_to_be_had(pool: &Pool, wish: &Wish, why: NotToBeHad) -> Refused {
    let name = &pool.name;
    match why {
        NotToBeHad::Dispatched(dispatch) => Refused::invalid(
            format!("pool {name} hands out its runners by {}", dispatch.name()),
            "only pools with dispatch = \"claim\" can be provisioned from",
        ),
        NotToBeHad::Retired => Refused::conflict(
            format!("pool {name} is retired"),
            "it was taken out of the pools file; `motorpool pools` lists the others",
        ),
        NotToBeHad::Count { most } => Refused::invalid(
            format!("count is {}; pool {name} can give from 1 to {most}", wish.count),
            "ask for fewer, or have the operator raise the pool's max",
        ),
        NotToBeHad::Runtime { most } => Refused::invalid(
            format!(
                "max_runtime_minutes must be from 1 to pool {name}'s own maximum, {}",
                most.as_secs_f64() / 60.0
            ),
            "ask for less, or have the operator raise the pool's max_runtime_minutes",
        ),
    }
}
