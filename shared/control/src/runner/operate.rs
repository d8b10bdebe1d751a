//! The operator's verbs on runners: register, list, remove, release from quarantine, renew the secret.

use super::{Applied, is_fit_id};
use crate::caller::Caller;
use crate::control::Control;
use crate::error::Refused;
use crate::launch::{Launch, Launched};
use crate::ports::entropy::fresh_launch;
use crate::store::{Page, RunnerWrite, Written};
use crate::tries::Tries;
use motorpool_domain::ladder::{CapacityOption, LaunchCall};
use motorpool_domain::pool::{Pool, PoolRecord};
use motorpool_domain::runner::{
    NewRunner, OwnCommands, Refusal, Removal, Renewal, Runner, RunnerEvent, StateName, renew_secret,
};
use motorpool_domain::spec::{INSTANCE_TYPE_RULE, Offer, Spec, Want, is_instance_type};
use motorpool_domain::time::millis;
use motorpool_domain::{AuditEntry, Epoch, PoolName, RunnerId, Threshold, Timestamp};
use motorpool_wire::agent::LONGEST_ID;
use motorpool_wire::api::{RegisterRunnerRequest, RegisteredRunner, RunnerView, RunnersPage};

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
        } = request;
        if !ci_runner.as_deref().is_none_or(is_fit_id) {
            return Err(Refused::invalid(
                format!("ci_runner must be at most {LONGEST_ID} characters, and none of them a control"),
                "send what the CI system calls the runner",
            ));
        }
        let commands = OwnCommands { cleanup, reset, readiness };
        let now = self.now();
        let mut record = self.pool_record(&pool).await?;
        let mut tries = Tries::new();
        loop {
            tries.again(|| format!("pool {pool}"))?;
            let offer = offered(&record.pool, instance_type.as_deref(), cpu, memory_mb)?;
            let runner = self.joining(&record.pool, &runner_id, offer, now).await?;
            let runner = Runner { commands: commands.clone(), ci_runner: ci_runner.clone(), ..runner };
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
                    return Ok(self.registered(&record.pool, &runner, now));
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

    pub async fn list_runners(
        &self,
        caller: &Caller,
        pool: &PoolName,
        state: Option<StateName>,
        page: Page,
    ) -> Result<RunnersPage, Refused> {
        caller.must_be_operator("list runners")?;
        let now = self.now();
        let rules = self.pool_record(pool).await?.pool.rules;
        let listed = self.store.list_runners(pool, state, page).await?;
        let runners = listed.items.iter().map(|runner| self.runner_view(runner, &rules, now)).collect();
        Ok(RunnersPage { runners, next: listed.next })
    }

    pub async fn view_runner(&self, caller: &Caller, runner: &RunnerId) -> Result<RunnerView, Refused> {
        caller.must_be_operator("look at a runner")?;
        let runner = self.runner_record(runner).await?;
        let rules = self.pool_record(&runner.pool).await?.pool.rules;
        Ok(self.runner_view(&runner, &rules, self.now()))
    }

    pub async fn remove_runner(
        &self,
        caller: &Caller,
        runner: &RunnerId,
        removal: Removal,
    ) -> Result<RunnerView, Refused> {
        caller.must_be_operator("remove a runner")?;
        self.command(caller, runner, &RunnerEvent::OperatorRemove { removal }).await
    }

    /// Out of quarantine: it is cleaned, and then back in the pool.
    pub async fn release_runner(&self, caller: &Caller, runner: &RunnerId) -> Result<RunnerView, Refused> {
        caller.must_be_operator("release a runner from quarantine")?;
        self.command(caller, runner, &RunnerEvent::OperatorRelease).await
    }

    /// A new bootstrap secret. The agent's token is worthless from now on.
    pub async fn rotate_token(&self, caller: &Caller, id: &RunnerId) -> Result<RegisteredRunner, Refused> {
        caller.must_be_operator("renew a runner's secret")?;
        let now = self.now();
        let mut tries = Tries::new();
        loop {
            tries.again(|| format!("runner {id}"))?;
            let runner = self.runner_record(id).await?;
            let after = match renew_secret(&runner, fresh_launch(self.entropy.as_ref())?) {
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
            let why = "an operator asked for a new bootstrap secret";
            let entry = AuditEntry::of(now, caller.actor(), "secret renewed", why);
            let write = RunnerWrite::of(&runner, &after, &pool.rules, &entry);
            match self.store.write_runner(write).await? {
                Written::Done => return Ok(self.registered(&pool, &after, now)),
                Written::Lost { .. } | Written::Missing => {}
            }
        }
    }

    async fn command(
        &self,
        caller: &Caller,
        id: &RunnerId,
        event: &RunnerEvent,
    ) -> Result<RunnerView, Refused> {
        let now = self.now();
        let mut tries = Tries::new();
        loop {
            tries.again(|| format!("runner {id}"))?;
            let runner = self.runner_record(id).await?;
            let pool = self.pool_record(&runner.pool).await?.pool;
            let applied = self.transition(&pool, &runner, event, &caller.actor(), now).await?;
            match &applied {
                Applied::Changed { .. } | Applied::Stayed => {
                    self.notify_dependents(&applied, now).await?;
                    return Ok(self.runner_view(&self.runner_record(id).await?, &pool.rules, now));
                }
                Applied::Refused(refusal) => return Err(not_now(&runner, *refusal)),
                Applied::Overtaken => {}
            }
        }
    }

    fn registered(&self, pool: &Pool, runner: &Runner, now: Timestamp) -> RegisteredRunner {
        // A machine that is only joining has so long; one that is part of the pool already has no such limit.
        let joins = runner.state.name() == StateName::Created;
        RegisteredRunner {
            runner: runner.id.clone(),
            pool: pool.name.clone(),
            bootstrap_secret: self.secret.runner_secret(&runner.launch, &runner.id),
            valid_for_ms: runner.threshold.filter(|_| joins).map(|Threshold(at)| millis(now.until(at))),
        }
    }
}

/// What a machine of this pool offers that says so of itself, or why it can't join.
fn offered(
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

fn full(record: &PoolRecord) -> Refused {
    let PoolRecord { pool, used, rev: _ } = record;
    Refused::conflict(
        format!("pool {} is full: {used} of {} slots are taken", pool.name, pool.rules.max),
        "raise the pool's max, or remove a runner",
    )
}

fn not_now(runner: &Runner, refusal: Refusal) -> Refused {
    match refusal {
        Refusal::Held => Refused::conflict(
            format!("runner {} is {} for a claim", runner.id, runner.state.name()),
            "drain it (`--drain`, `?drain=true`) to let its holder finish, or take it away (`--force`, `?force=true`)",
        ),
        Refusal::NotNow | Refusal::HandedOut => Refused::conflict(
            format!("runner {} is {}, not quarantined", runner.id, runner.state.name()),
            "only a quarantined runner needs to be released",
        ),
        Refusal::Expired => Refused::conflict(
            format!("the time of runner {} is over", runner.id),
            "refresh decides about it in a moment",
        ),
    }
}
