//! `provision` and `claim`: a workflow asks for runners. Opens the claim, brings it as far as it gets, and answers at once.

use crate::caller::Caller;
use crate::control::Control;
use crate::ports::entropy::fresh_claim;
use crate::ports::ledger::Opened;
use crate::refused::Refused;
use motorpool_domain::claim::{Ask, Claim, ClaimKey, Opening, decide_opening};
use motorpool_domain::pool::{Dispatch, Pool};
use motorpool_domain::runner::StateName;
use motorpool_domain::spec::{TypeGlobs, Want};
use motorpool_domain::{AuditEntry, PoolName, Workflow};
use motorpool_wire::api::{ClaimRequest, ClaimView, ProvisionRequest};
use std::time::Duration;

/// How often a key that others claim at the same moment is looked at anew.
const ATTEMPTS: usize = 8;

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
        let asked = Asked { count, max_runtime_minutes, usage, allowed_instance_types, resource_class };
        let ask = self.ask(&record.pool, asked, false)?;
        let claim = self.open(caller, workflow, &record.pool, ask).await?;
        let now = self.advance(&claim.id).await?;
        Ok(self.claim_view(&now))
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
        let asked = Asked { count: 1, max_runtime_minutes, usage, allowed_instance_types, resource_class };
        let ask = self.ask(&record.pool, asked, true)?;
        let key =
            ClaimKey { owner: caller.owner(), workflow: workflow.clone(), pool: record.pool.name.clone() };
        let open = self.ledger.claim_by_key(&key).await?.is_some_and(|claim| claim.state.open());
        if !open && self.ledger.count_runners(&pool, StateName::Idle, 1).await? == 0 {
            return Err(pool_empty(&pool, None));
        }
        let claim = self.open(caller, workflow, &record.pool, ask).await?;
        let mut now = self.advance(&claim.id).await?;
        while now.claim.state.open() && now.claim.short() > 0 {
            let failed = now.claim.failed("pool empty", self.now());
            if self.wrote_claim(&now.claim, &failed, "ended", "pool empty").await? {
                self.settle(&failed).await?;
                return Err(pool_empty(&pool, now.claim.waits_for));
            }
            now = self.claim_now_record(&claim.id).await?;
        }
        Ok(self.claim_view(&now))
    }

    fn ask(&self, pool: &Pool, asked: Asked, idle_only: bool) -> Result<Ask, Refused> {
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
        if asked.count == 0 || asked.count > rules.max {
            return Err(Refused::invalid(
                format!("count is {}; pool {} can give from 1 to {}", asked.count, pool.name, rules.max),
                "ask for fewer, or have the operator raise the pool's max",
            ));
        }
        let max_runtime = match asked.max_runtime_minutes {
            None => rules.limits.max_runtime,
            Some(minutes) => Duration::from_secs(minutes.saturating_mul(60)),
        };
        if max_runtime.is_zero() || max_runtime > rules.limits.max_runtime {
            let most = rules.limits.max_runtime.as_secs_f64() / 60.0;
            return Err(Refused::invalid(
                format!("max_runtime_minutes must be from 1 to pool {}'s own maximum, {most}", pool.name),
                "ask for less, or have the operator raise the pool's max_runtime_minutes",
            ));
        }
        let want = self.want(asked.usage, asked.allowed_instance_types, asked.resource_class)?;
        if rules.backend.launches()
            && let Some(why) = want.misfit(&rules.offer)
        {
            return Err(Refused::invalid(
                format!("no machine of pool {} can ever fit: {why}", pool.name),
                "choose another pool, or ask for what this one offers",
            ));
        }
        Ok(Ask { count: asked.count, want, max_runtime, idle_only })
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

    async fn open(
        &self,
        caller: &Caller,
        workflow: Workflow,
        pool: &Pool,
        ask: Ask,
    ) -> Result<Claim, Refused> {
        let key = ClaimKey { owner: caller.owner(), workflow, pool: pool.name.clone() };
        for _ in 0..ATTEMPTS {
            let latest = self.ledger.claim_by_key(&key).await?;
            let replaces = match (decide_opening(latest.as_ref(), &ask), latest) {
                (Opening::Same, Some(claim)) => return Ok(claim),
                (Opening::Conflict, Some(claim)) => {
                    return Err(Refused::conflict(
                        format!(
                            "workflow {} holds claim {} on pool {} already, asked for with other parameters",
                            key.workflow, claim.id, key.pool
                        ),
                        "release that claim first, or repeat its parameters",
                    ));
                }
                (Opening::Same | Opening::Conflict, None) => None,
                (Opening::New { replaces }, _) => replaces,
            };
            let now = self.now();
            let id = fresh_claim(self.entropy.as_ref())?;
            let claim = Claim::open(id, key.clone(), ask.clone(), pool.rules.limits.wait, now);
            let entry = AuditEntry {
                at: now,
                who: caller.actor(),
                what: "opened".to_owned(),
                from: None,
                to: Some("pending".to_owned()),
                why: format!("workflow {} asked for {} of pool {}", key.workflow, ask.count, key.pool),
            };
            match self.ledger.open_claim(&claim, replaces.as_ref(), &entry).await? {
                Opened::Done => {
                    tracing::info!(claim = %claim.id, pool = %key.pool, workflow = %key.workflow, owner = %key.owner, count = ask.count, "a claim was opened");
                    return Ok(claim);
                }
                Opened::Lost { .. } => {}
            }
        }
        Err(Refused::contended(&format!("the claim of workflow {} on pool {}", key.workflow, key.pool)))
    }
}

struct Asked {
    count: u32,
    max_runtime_minutes: Option<u64>,
    usage: Option<motorpool_domain::spec::Usage>,
    allowed_instance_types: Option<String>,
    resource_class: Option<String>,
}

fn pool_empty(pool: &PoolName, why: Option<String>) -> Refused {
    let why = why.unwrap_or_else(|| format!("no idle runner in pool {pool}"));
    Refused::not_found(
        format!("pool empty: {why}"),
        "provision instead: it launches a runner, or waits for one",
    )
}
