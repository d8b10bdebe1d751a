//! Registrations with CI systems: an agent gets what its runner program needs; what is void is taken back, and the sweep takes back
//! what a crash left.

use super::{Applied, is_fit_id};
use crate::control::Control;
use crate::error::{Refused, RefusedKind, chain};
use crate::ports::ci::{Ci, CiError, CiTrouble, ListedRunner, RegistrationOrder};
use crate::store::Found;
use motorpool_domain::alert::Incident;
use motorpool_domain::ci::{CiBinding, CiSystem, Registration, is_ghost, named, registration_name};
use motorpool_domain::pool::Pool;
use motorpool_domain::runner::{
    HandedOut, Holder, Refusal, Runner, RunnerEvent, Sender, may_be_handed_out, wanted_label,
};
use motorpool_domain::time::millis;
use motorpool_domain::{Actor, RunnerId};
use motorpool_wire::agent::{LONGEST_ID, RegistrationAnswer, RegistrationRequest};
use motorpool_wire::api::{CiTroubleView, CiView};
use secrecy::ExposeSecret;
use std::sync::Arc;

impl Control {
    /// The same request of the same agent again is answered anew: nobody keeps a secret that could be asked for twice.
    pub async fn register_with_ci(
        &self,
        token: &str,
        request: &RegistrationRequest,
    ) -> Result<RegistrationAnswer, Refused> {
        let RegistrationRequest { runner: id, epoch, label, count, session } = request;
        let now = self.now();
        if !session.as_deref().is_none_or(is_fit_id) {
            return Err(Refused::invalid(
                format!("session must be at most {LONGEST_ID} characters, and none of them a control"),
                "make up something random",
            ));
        }
        let sender = Sender { session: session.as_deref(), next: None };
        let runner = self.known_runner(token, id, sender, now).await?;
        let pool = self.pool_record(&runner.pool).await?.pool;
        let (true, true) =
            (wanted_label(&runner, &pool.rules).as_ref() == Some(label), runner.epoch == *epoch)
        else {
            return Err(Refused::conflict(
                format!(
                    "runner {id} is {} in epoch {}, and not to be registered as {label}",
                    runner.state.name(),
                    runner.epoch
                ),
                "sync first; it says what should be",
            ));
        };
        let handed_out = HandedOut { count: *count, session: session.clone() };
        if !may_be_handed_out(&runner, &handed_out) {
            return Err(self.handed_out_already(id, *count).await);
        }
        let Some(binding) = &pool.rules.ci else {
            return Err(Refused::invalid(
                format!("pool {} has no CI system", pool.name),
                "sync first; it says what should be",
            ));
        };
        let ci = self.ci_system(binding.system)?;
        // What it is there for, in words that people know.
        let workflow = match runner.holder() {
            Some(Holder::Claim(claim)) => self.claim_record(claim).await?.key.workflow.to_string(),
            Some(Holder::Checkpoint(_)) | None => pool.name.to_string(),
        };
        let name = registration_name(&self.secret.installation(), id, *epoch, *count);
        let order = RegistrationOrder { binding, name: &name, label, workflow: &workflow };
        let registered = ci.register(&order).await?;
        let registration = Registration {
            system: binding.system,
            scope: binding.scope.clone(),
            name: name.clone(),
            id: registered.id,
        };
        let event = RunnerEvent::RegistrationIssued { registration: registration.clone(), handed_out };
        // The CI system may have taken its time.
        match self.transition(&pool, &runner, &event, &Actor::Runner(id.clone()), self.now()).await? {
            Applied::Changed { .. } | Applied::Stayed => {}
            Applied::Refused(Refusal::HandedOut) => {
                self.take_back(&registration).await;
                return Err(self.handed_out_already(id, *count).await);
            }
            Applied::Refused(_) | Applied::Overtaken => {
                // Its hold ended meanwhile: nobody may use what was just made.
                self.take_back(&registration).await;
                return Err(Refused::conflict(
                    format!("runner {id} is no longer held for {label}"),
                    "sync first; it says what should be",
                ));
            }
        }
        tracing::info!(runner = %id, pool = %pool.name, %label, name, "a runner registers with its CI system");
        let secret = registered.secret.expose_secret().to_owned();
        Ok(RegistrationAnswer { system: binding.system, name, url: registered.url, secret })
    }

    /// What the record no longer names, the CI system should not list. Losing this costs nothing but time: the sweep finds it.
    pub(super) async fn forget_registration(&self, before: &Runner, after: &Runner) {
        if let Some(old) = &before.registration
            && after.registration.as_ref() != Some(old)
        {
            self.take_back(old).await;
        }
    }

    /// Removes what the CI system still lists of runners that are over.
    pub(crate) async fn sweep_registrations(&self, pool: &Pool) -> Result<(), Refused> {
        let Some(binding) = &pool.rules.ci else { return Ok(()) };
        let (system, scope) = (binding.system, &binding.scope);
        if !system.registers() {
            return Ok(());
        }
        let ci = self.ci_system(system)?;
        let installation = self.secret.installation();
        let listed = ci.list(scope, &format!("mp-{installation}-")).await?;
        let ours = listed.into_iter().filter_map(|listed| {
            let (runner, epoch) = named(&installation, &listed.name)?;
            Some((listed, runner, epoch))
        });
        let ours: Vec<_> = ours.collect();
        let ids: Vec<_> = ours.iter().map(|(_, runner, _)| runner.clone()).collect();
        let records = self.store.find_runners(&ids).await?;
        for ((ListedRunner { id, name, busy }, runner, epoch), record) in ours.into_iter().zip(records) {
            // Whoever can read a record knows whether its runner is over.
            if record != Found::Unreadable && is_ghost(record.record(), epoch, pool.rules.dispatch) {
                tracing::info!(%runner, name, busy, "the CI system lists a runner that is over, and is told to forget it");
                self.take_back(&Registration { system, scope: scope.clone(), name, id }).await;
            }
        }
        Ok(())
    }

    pub(crate) fn ci_system(&self, system: CiSystem) -> Result<&Arc<dyn Ci>, Refused> {
        self.ci.get(system).ok_or_else(|| {
            let system = system.name();
            Refused::invalid(
                format!("this control plane has no credentials for {system}"),
                format!("give it a [{system}] table, or leave the pool's ci out"),
            )
        })
    }

    pub(crate) fn ci_view(&self, binding: &CiBinding) -> CiView {
        let ci = self.ci.get(binding.system);
        let rate = ci.and_then(|ci| ci.rate());
        let trouble = ci.and_then(|ci| ci.trouble(&binding.scope));
        CiView {
            system: binding.system,
            scope: binding.scope.clone(),
            rate_remaining: rate.map(|rate| rate.remaining),
            rate_resets_in_ms: rate.map(|rate| millis(rate.resets_in)),
            trouble: trouble.map(|CiTrouble { what, refused, ago }| CiTroubleView {
                what,
                refused,
                ms_ago: millis(ago),
            }),
        }
    }

    async fn take_back(&self, registration: &Registration) {
        let Registration { system, scope, name, id } = registration;
        let told = match self.ci_system(*system) {
            Ok(ci) => ci.remove(scope, id).await.map_err(|error| chain(&error)),
            Err(error) => Err(chain(&error)),
        };
        if let Err(error) = told {
            tracing::warn!(
                system = system.name(),
                scope,
                name,
                error,
                "the CI system could not be told to forget a runner; the sweep of a pool there tells it again"
            );
        }
    }

    /// Whoever has it or asks for it now is not the agent.
    async fn handed_out_already(&self, runner: &RunnerId, count: u32) -> Refused {
        tracing::warn!(target: "alert", %runner, count, "a registration was asked for a second time, by somebody else: one of the two is not the runner's agent");
        let details = "a registration was asked for a second time, by somebody else";
        self.raise(Incident::TokenMisused { runner: runner.clone() }, details, self.now()).await;
        Refused::conflict(
            format!("registration {count} of runner {runner} was handed out already"),
            "ask for the next; an operator was told",
        )
    }
}

impl From<CiError> for Refused {
    fn from(error: CiError) -> Self {
        match &error {
            CiError::RateLimited { retry_after } | CiError::Silent { retry_after } => {
                Refused::too_many(error.to_string(), *retry_after)
            }
            CiError::Refused(_) => {
                tracing::warn!(target: "alert", error = chain(&error), "the CI system refuses a registration");
                Refused::new(
                    RefusedKind::Forbidden,
                    chain(&error),
                    "mend the pool's ci settings or the credentials",
                )
            }
            CiError::Failed { .. } => Refused::new(
                RefusedKind::Internal,
                chain(&error),
                "the CI system may be down; try again in a while",
            ),
        }
    }
}
