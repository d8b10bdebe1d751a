//! A machine of the operator's own joins a pool: its record, its slot, and what its runner proves itself by, which is handed out once. The operator
//! may renew that.

use super::view::waits_for_hands;
use super::{is_fit_id, must_be_commands};
use crate::caller::Caller;
use crate::control::Control;
use crate::error::{Refused, chain};
use crate::launch::{Launch, Launched};
use crate::ports::entropy::fresh_launch;
use crate::secrets::{fresh_runner_token, token_sha256};
use crate::store::{RunnerWrite, Written};
use crate::tries::Tries;
use motorpool_domain::ladder::{CapacityOption, LaunchCall};
use motorpool_domain::pool::{Dispatch, Pool, PoolRecord};
use motorpool_domain::runner::{
    Credential, NewRunner, OwnCommands, Renewal, Runner, StateName, must_be_named, renew_secret, renew_token,
};
use motorpool_domain::spec::{INSTANCE_TYPE_RULE, Offer, Spec, Want, is_instance_type};
use motorpool_domain::time::millis;
use motorpool_domain::{AuditEntry, Epoch, RunnerId, Threshold, Timestamp};
use motorpool_wire::agent::LONGEST_ID;
use motorpool_wire::api::{RegisterRunnerRequest, RegisteredRunner};
use motorpool_wire::registry::CredentialKind;

impl Control {
    /// A machine of the operator's own joins a pool. Its slot is taken like any other.
    pub async fn register_runner(
        &self,
        caller: &Caller,
        request: RegisterRunnerRequest,
    ) -> Result<RegisteredRunner, Refused> {
        caller.must_be_operator("register a runner")?;
        let RegisterRunnerRequest {
            runner_id,
            pool,
            instance_type,
            cpu,
            memory_mb,
            cleanup_cmd: cleanup,
            reset_cmd: reset,
            readiness_cmd: readiness,
            ci_runner,
            credential,
        } = request;
        must_be_in_ci(ci_runner.as_deref())?;
        must_be_commands([
            ("cleanup_cmd", cleanup.as_deref()),
            ("reset_cmd", reset.as_deref()),
            ("readiness_cmd", readiness.as_deref()),
        ])?;
        let commands = OwnCommands { cleanup, reset, readiness };
        let token = match credential {
            CredentialKind::Bootstrap => None,
            CredentialKind::Token => Some(fresh_runner_token(self.entropy.as_ref())),
        };
        let now = self.now();
        let mut record = self.pool_record(&pool).await?;
        let mut tries = Tries::new();
        loop {
            tries.again(|| format!("pool {pool}"))?;
            let offer = offered(&record.pool, instance_type.as_deref(), cpu, memory_mb)?;
            if token.is_some() {
                must_be_of_hooks(&record.pool)?;
                must_be_known_in_ci(&record.pool, ci_runner.as_deref())?;
            }
            let runner = self.joining(&record.pool, &runner_id, offer, now).await?;
            let (commands, ci_runner) = (commands.clone(), ci_runner.clone());
            let credential = token.as_deref().map(|token| Credential::fixed(&runner_id, token_sha256(token)));
            let runner = Runner { commands, ci_runner, credential, ..runner };
            let why = "an operator's own machine joins the pool";
            let launch = Launch {
                record: &record,
                runners: vec![runner.clone()],
                claim: None,
                only_if_used: None,
                entry: &AuditEntry::of_new(now, caller.actor(), "registered", "created", why),
                want: &Want::default(),
            };
            match self.launch(launch).await? {
                Launched::UnderWay | Launched::Short(_) => {
                    let runner = self.arrived(&record.pool, caller, runner, now).await;
                    return Ok(self.registered(&record.pool, &runner, token, now));
                }
                // It was defined anew: whether it takes such a machine is to be looked at again.
                Launched::PoolRefused { found } if found.rev != record.rev => record = *found,
                Launched::PoolRefused { found } => return Err(full(&found)),
                Launched::Exists | Launched::ClaimLost => {
                    return Err(Refused::conflict(
                        format!("there is a runner {runner_id} already"),
                        "choose another id, remove that runner, or renew its secret: `motorpool runners token`",
                    ));
                }
                Launched::PoolGone => record = self.pool_record(&pool).await?,
            }
        }
    }

    /// A machine that comes back under its old id begins a new life.
    async fn joining(
        &self,
        pool: &Pool,
        id: &RunnerId,
        offer: Offer,
        now: Timestamp,
    ) -> Result<Runner, Refused> {
        let earlier = self.store.runner(id).await?;
        let new = NewRunner {
            id: id.clone(),
            pool: pool.name.clone(),
            launch: fresh_launch(self.entropy.as_ref())?,
            index: 0,
            attempt: Some(LaunchCall::first(1, CapacityOption::only(offer.clone()), None)),
            offer,
            kept: true,
            hold: None,
            epoch: earlier.map_or(Epoch::FIRST, |earlier| earlier.epoch.next()),
            threshold: Threshold::in_(pool.rules.limits.created, now),
        };
        Ok(Runner::intent(new, now))
    }

    /// Who has a token need not come for one: its registration is its machine's arrival. It is registered whatever comes of that, and its token, which
    /// nobody can ask for again, must be handed out.
    async fn arrived(&self, pool: &Pool, caller: &Caller, runner: Runner, now: Timestamp) -> Runner {
        if !runner.has_fixed_token() {
            return runner;
        }
        let going_on = async {
            let found = self.runner_record(&runner.id).await?;
            Box::pin(self.advance_unattended(pool, found, &caller.actor(), now)).await
        };
        going_on.await.unwrap_or_else(|error| {
            tracing::warn!(runner = %runner.id, error = chain(&error), "a machine that was registered did not go on; refresh takes it on");
            runner
        })
    }

    /// What its runner proves itself by from now on: a bootstrap secret for its agent, or another token where the runner was registered with one. What it
    /// had is worthless.
    pub async fn rotate_token(&self, caller: &Caller, id: &RunnerId) -> Result<RegisteredRunner, Refused> {
        caller.must_be_operator("renew a runner's secret")?;
        let now = self.now();
        let mut tries = Tries::new();
        loop {
            tries.again(|| format!("runner {id}"))?;
            let runner = self.runner_record(id).await?;
            let token = runner.has_fixed_token().then(|| fresh_runner_token(self.entropy.as_ref()));
            let (renewal, why) = match &token {
                Some(token) => {
                    (renew_token(&runner, token_sha256(token)), "an operator asked for a new token")
                }
                None => (
                    renew_secret(&runner, fresh_launch(self.entropy.as_ref())?),
                    "an operator asked for a new bootstrap secret",
                ),
            };
            let after = match renewal {
                Renewal::Renewed(after) => after,
                Renewal::BeingLaunched => {
                    return Err(Refused::conflict(
                        format!("runner {id} is being launched"),
                        "wait until its machine is there: its launch is known by the secret that it has",
                    ));
                }
                Renewal::Over => {
                    return Err(Refused::conflict(
                        format!("runner {id} is terminated"),
                        "register it again: `motorpool runners add`",
                    ));
                }
            };
            let pool = self.pool_record(&runner.pool).await?.pool;
            let entry = AuditEntry::of(now, caller.actor(), "secret renewed", why);
            let write = RunnerWrite::of(&runner, &after, &pool.rules, &entry);
            match self.store.write_runner(write).await? {
                Written::Done => return Ok(self.registered(&pool, &after, token, now)),
                Written::Lost { .. } | Written::Missing => {}
            }
        }
    }

    fn registered(
        &self,
        pool: &Pool,
        runner: &Runner,
        token: Option<String>,
        now: Timestamp,
    ) -> RegisteredRunner {
        let secret = token.is_none().then(|| self.secret.runner_secret(&runner.launch, &runner.id));
        // A machine whose agent is to join has so long; one that is part of the pool already has no such limit.
        let joins = secret.is_some() && runner.state.name() == StateName::Created;
        RegisteredRunner {
            runner: runner.id.clone(),
            pool: pool.name.clone(),
            bootstrap_secret: secret,
            token,
            valid_for_ms: runner.threshold.filter(|_| joins).map(|Threshold(at)| millis(now.until(at))),
            why: waits_for_hands(runner, &pool.rules).map(str::to_owned),
        }
    }
}

/// What a machine of this pool offers that says so of itself, or why it can't join.
pub(super) fn offered(
    pool: &Pool,
    instance_type: Option<&str>,
    cpu: Option<u32>,
    memory_mb: Option<u64>,
) -> Result<Offer, Refused> {
    if pool.rules.backend.launches() {
        return Err(Refused::invalid(
            format!("pool {} launches its machines itself ({})", pool.name, pool.rules.backend.name()),
            "register machines in a pool with backend = \"bare_metal\"",
        ));
    }
    if let Some(bad) = instance_type.filter(|text| !is_instance_type(text)) {
        return Err(Refused::invalid(
            format!("instance_type {bad:?} {INSTANCE_TYPE_RULE}"),
            "for example \"mac.m4\"",
        ));
    }
    let Offer { instance_type: usual, usage, spec } = &pool.rules.offer;
    let spec = Spec { cpu: cpu.unwrap_or(spec.cpu), memory_mb: memory_mb.unwrap_or(spec.memory_mb) };
    if spec.cpu == 0 || spec.memory_mb == 0 {
        return Err(Refused::invalid(
            "cpu and memory_mb must be above 0",
            "leave them out for what the pool says of its machines",
        ));
    }
    Ok(Offer { instance_type: instance_type.unwrap_or(usual).to_owned(), usage: *usage, spec })
}

pub(super) fn must_be_in_ci(name: Option<&str>) -> Result<(), Refused> {
    match name.is_none_or(is_fit_id) {
        true => Ok(()),
        false => Err(Refused::invalid(
            format!("ci_runner must be at most {LONGEST_ID} characters, and none of them a control"),
            "send what the CI system calls the runner",
        )),
    }
}

/// A claim's runner must be registered for its holder, which takes an agent. Where a CI system hands out the jobs, hooks with a token are enough.
fn must_be_of_hooks(pool: &Pool) -> Result<(), Refused> {
    match pool.rules.dispatch {
        Dispatch::Hook => Ok(()),
        Dispatch::Claim | Dispatch::Lease => Err(Refused::invalid(
            format!(
                "credential \"token\" is for pools whose CI system hands out jobs; pool {} has dispatch = \"{}\"",
                pool.name,
                pool.rules.dispatch.name()
            ),
            "leave credential out and let an agent join, or register the machine in a pool with dispatch = \"hook\"",
        )),
    }
}

/// Nobody registers it for us in its CI system, and so nobody could be paused there before its machine is cleaned.
pub(super) fn must_be_known_in_ci(pool: &Pool, ci_runner: Option<&str>) -> Result<(), Refused> {
    match ci_runner {
        None if must_be_named(&pool.rules) => Err(Refused::invalid(
            format!(
                "ci_runner is missing: a runner with credential \"token\" in pool {} is paused at its CI system under the number that it has there",
                pool.name
            ),
            "send what the CI system calls the runner: GitLab's list of runners shows its number (`--ci-runner`)",
        )),
        None | Some(_) => Ok(()),
    }
}

fn full(record: &PoolRecord) -> Refused {
    let PoolRecord { pool, used, rev: _ } = record;
    Refused::conflict(
        format!("pool {} is full: {used} of {} slots are taken", pool.name, pool.rules.max),
        "raise the pool's max, or remove a runner",
    )
}
