//! The operator's verbs on runners: register, list, remove, release from quarantine, renew the secret.

use crate::apply::Applied;
use crate::caller::Caller;
use crate::control::Control;
use crate::ports::entropy::fresh_launch;
use crate::refused::Refused;
use crate::store::{IntentsWrite, IntentsWritten, Page, RunnerWrite, Written};
use crate::views::millis;
use motorpool_domain::ladder::{CapacityOption, LaunchCall};
use motorpool_domain::pool::Pool;
use motorpool_domain::runner::{
    NewRunner, Refusal, Removal, Renewal, Runner, RunnerEvent, StateName, next_look, renew_secret,
};
use motorpool_domain::spec::{INSTANCE_TYPE_RULE, Offer, Spec, Want, is_instance_type};
use motorpool_domain::{AuditEntry, Epoch, PoolName, RunnerId, Threshold};
use motorpool_wire::api::{RegisterRunnerRequest, RegisteredRunner, RunnerView, RunnersPage};

const ATTEMPTS: usize = 8;

impl Control {
    /// A machine of the operator's own joins a pool. Its slot is taken like any other.
    pub async fn register_runner(
        &self,
        caller: &Caller,
        request: RegisterRunnerRequest,
    ) -> Result<RegisteredRunner, Refused> {
        caller.must_be_operator("register a runner")?;
        let RegisterRunnerRequest { runner_id, pool, instance_type, cpu, memory_mb } = request;
        let record = self.pool_record(&pool).await?;
        let pool = &record.pool;
        if pool.rules.backend.launches() {
            return Err(Refused::invalid(
                format!("pool {} launches its machines itself ({})", pool.name, pool.rules.backend.name()),
                "register machines in a pool with backend = \"bare_metal\"",
            ));
        }
        if let Some(bad) = instance_type.as_ref().filter(|text| !is_instance_type(text)) {
            return Err(Refused::invalid(
                format!("instance_type {bad:?} {INSTANCE_TYPE_RULE}"),
                "for example \"mac.m4\"",
            ));
        }
        let offer = Offer {
            instance_type: instance_type.unwrap_or_else(|| pool.rules.offer.instance_type.clone()),
            usage: pool.rules.offer.usage,
            spec: Spec {
                cpu: cpu.unwrap_or(pool.rules.offer.spec.cpu),
                memory_mb: memory_mb.unwrap_or(pool.rules.offer.spec.memory_mb),
            },
        };
        if offer.spec.cpu == 0 || offer.spec.memory_mb == 0 {
            return Err(Refused::invalid(
                "cpu and memory_mb must be above 0",
                "leave them out for what the pool says of its machines",
            ));
        }
        let now = self.now();
        let earlier = self.store.runner(&runner_id).await?;
        let new = NewRunner {
            id: runner_id.clone(),
            pool: pool.name.clone(),
            launch: fresh_launch(self.entropy.as_ref())?,
            index: 0,
            attempt: Some(LaunchCall::first(1, CapacityOption::only(offer.clone()), None)),
            offer,
            kept: true,
            hold: None,
            // A machine that comes back under its old id begins a new life.
            epoch: earlier.map_or(Epoch::FIRST, |earlier| earlier.epoch.next()),
            threshold: Threshold::in_(pool.rules.limits.created, now),
        };
        let runner = Runner::intent(new, now);
        let entry = AuditEntry {
            at: now,
            who: caller.actor(),
            what: "registered".to_owned(),
            from: None,
            to: Some("created".to_owned()),
            why: "an operator's own machine joins the pool".to_owned(),
        };
        let write = IntentsWrite {
            pool: &pool.name,
            max: pool.rules.max,
            only_if_used: None,
            runners: std::slice::from_ref(&runner),
            look_at: next_look(&runner, &pool.rules.limits, now),
            claim: None,
            entry: &entry,
        };
        match self.store.write_launch_intents(write).await? {
            IntentsWritten::Done => {}
            IntentsWritten::NoSlots { used } => {
                return Err(Refused::conflict(
                    format!("pool {} is full: {used} of {} slots are taken", pool.name, pool.rules.max),
                    "raise the pool's max, or remove a runner",
                ));
            }
            IntentsWritten::Exists | IntentsWritten::ClaimLost => {
                return Err(Refused::conflict(
                    format!("there is a runner {runner_id} already"),
                    "choose another id, remove that runner, or renew its secret: `motorpool runners token`",
                ));
            }
            IntentsWritten::NoPool => {
                return Err(self
                    .pool_record(&pool.name)
                    .await
                    .err()
                    .unwrap_or_else(|| Refused::contended("the pool")));
            }
        }
        if let Some(why) = self.gave_up_for_a_move(pool, std::slice::from_ref(&runner)).await? {
            return Err(Refused::conflict(why, "register the machine in a pool of machines of your own"));
        }
        self.climb(pool, vec![runner.clone()], &Want::default()).await?;
        Ok(self.registered(pool, &runner))
    }

    pub async fn list_runners(
        &self,
        caller: &Caller,
        pool: &PoolName,
        state: Option<StateName>,
        page: Page,
    ) -> Result<RunnersPage, Refused> {
        caller.must_be_operator("list runners")?;
        let rules = self.pool_record(pool).await?.pool.rules;
        let listed = self.store.list_runners(pool, state, page).await?;
        let runners = listed.items.iter().map(|runner| self.runner_view(runner, &rules)).collect();
        Ok(RunnersPage { runners, next: listed.next })
    }

    pub async fn view_runner(&self, caller: &Caller, runner: &RunnerId) -> Result<RunnerView, Refused> {
        caller.must_be_operator("look at a runner")?;
        let runner = self.runner_record(runner).await?;
        let rules = self.pool_record(&runner.pool).await?.pool.rules;
        Ok(self.runner_view(&runner, &rules))
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
        for _ in 0..ATTEMPTS {
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
            let now = self.now();
            let entry = AuditEntry {
                at: now,
                who: caller.actor(),
                what: "secret renewed".to_owned(),
                from: None,
                to: None,
                why: "an operator asked for a new bootstrap secret".to_owned(),
            };
            let look_at = next_look(&after, &pool.rules.limits, now);
            let write = RunnerWrite { before: &runner, after: &after, look_at, entry: &entry };
            match self.store.write_runner(write).await? {
                Written::Done => return Ok(self.registered(&pool, &after)),
                Written::Lost { .. } | Written::Missing => {}
            }
        }
        Err(Refused::contended(&format!("runner {id}")))
    }

    async fn command(
        &self,
        caller: &Caller,
        id: &RunnerId,
        event: &RunnerEvent,
    ) -> Result<RunnerView, Refused> {
        for _ in 0..ATTEMPTS {
            let runner = self.runner_record(id).await?;
            let pool = self.pool_record(&runner.pool).await?.pool;
            let applied = self.apply(&pool, &runner, event, &caller.actor()).await?;
            match &applied {
                Applied::Changed { .. } | Applied::Stayed => {
                    self.follow(&applied).await?;
                    return Ok(self.runner_view(&self.runner_record(id).await?, &pool.rules));
                }
                Applied::Refused(refusal) => return Err(not_now(&runner, *refusal)),
                Applied::Overtaken => {}
            }
        }
        Err(Refused::contended(&format!("runner {id}")))
    }

    fn registered(&self, pool: &Pool, runner: &Runner) -> RegisteredRunner {
        // A machine that is only joining has so long; one that is part of the pool already has no such limit.
        let joins = runner.state.name() == StateName::Created;
        RegisteredRunner {
            runner: runner.id.clone(),
            pool: pool.name.clone(),
            bootstrap_secret: self.secret.runner_secret(&runner.launch, &runner.id),
            valid_for_ms: runner
                .threshold
                .filter(|_| joins)
                .map(|Threshold(at)| millis(self.now().until(at))),
        }
    }
}

fn not_now(runner: &Runner, refusal: Refusal) -> Refused {
    match refusal {
        Refusal::Held => Refused::conflict(
            format!("runner {} is {} for a claim", runner.id, runner.state.name()),
            "drain it (`--drain`, `?drain=true`) to let its holder finish, or take it away (`--force`, `?force=true`)",
        ),
        Refusal::NotNow => Refused::conflict(
            format!("runner {} is {}, not quarantined", runner.id, runner.state.name()),
            "only a quarantined runner needs to be released",
        ),
        Refusal::Expired => Refused::conflict(
            format!("the time of runner {} is over", runner.id),
            "refresh decides about it in a moment",
        ),
    }
}
