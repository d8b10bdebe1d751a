//! Bootstrap: an agent redeems its launch secret, once, for the right to use a token of its own making.

use super::{is_fit_id, is_token_sha256};
use crate::control::Control;
use crate::error::{Refused, RefusedKind, chain};
use crate::secrets::same;
use crate::store::{RunnerWrite, Written};
use crate::tries::Tries;
use motorpool_domain::alert::Incident;
use motorpool_domain::pool::Pool;
use motorpool_domain::runner::{
    Attested, Credential, Identity, Joining, Runner, RunnerEvent, StateName, identify, join,
};
use motorpool_domain::{Actor, AuditEntry, Timestamp};
use motorpool_wire::agent::{BootstrapAnswer, BootstrapRequest, LONGEST_ID};
use std::time::Duration;

/// A provider's lists lag by seconds.
const SHOWN_SOON: Duration = Duration::from_secs(3);

impl Control {
    pub async fn bootstrap(&self, request: BootstrapRequest) -> Result<BootstrapAnswer, Refused> {
        let BootstrapRequest { runner: id, secret, token_sha256, machine_id, boot_id } = request;
        if !is_token_sha256(&token_sha256) {
            return Err(Refused::invalid(
                "token_sha256 must be 64 lower-case hex digits",
                "hash the token with SHA-256",
            ));
        }
        if !is_fit_id(&machine_id) || !is_fit_id(&boot_id) {
            return Err(Refused::invalid(
                format!(
                    "machine_id and boot_id must be at most {LONGEST_ID} characters, and none of them a control"
                ),
                "send what the machine and its kernel say, or a UUID",
            ));
        }
        let credential = Credential { token_sha256, machine_id, named: None, fixed: false };
        let now = self.now();
        let mut tries = Tries::new();
        loop {
            tries.again(|| format!("runner {id}"))?;
            let runner = self.store.runner(&id).await?.ok_or_else(wrong_secret)?;
            let pool = self.pool_record(&runner.pool).await?.pool;
            if !self.is_its_secret(&pool, &runner, &secret) {
                return Err(wrong_secret());
            }
            let who = Actor::Runner(id.clone());
            match identify(&runner, pool.rules.backend, &credential.machine_id) {
                Identity::Own => {}
                Identity::Other => {
                    return Err(self.other_machine(&runner, &credential.machine_id, now).await);
                }
                Identity::NotNoted => {
                    self.must_be_its(&pool, &runner, &credential.machine_id).await?;
                    let launched = RunnerEvent::Launched { provider_id: credential.machine_id.clone() };
                    self.transition(&pool, &runner, &launched, &who, now).await?;
                    if runner.state.name() == StateName::Created {
                        continue;
                    }
                }
            }
            let answer = BootstrapAnswer { pool: runner.pool.clone(), epoch: runner.epoch };
            let after = match join(&runner, &credential, &boot_id, same, now) {
                Joining::Joins(after) => after,
                Joining::Joined => return Ok(answer),
                Joining::UsedUp => return Err(self.redeemed_twice(&runner, now).await),
                Joining::Over => return Err(gone(&runner)),
            };
            let entry = AuditEntry::of(now, who, "bootstrap", "its agent redeemed the launch secret");
            let write = RunnerWrite::of(&runner, &after, &pool.rules, &entry);
            match self.store.write_runner(write).await? {
                Written::Done => {
                    tracing::info!(runner = %id, pool = %answer.pool, "an agent joined");
                    return Ok(answer);
                }
                Written::Lost { .. } | Written::Missing => {}
            }
        }
    }

    /// The provider's word, where the agent's alone would do for any machine of its launch.
    async fn must_be_its(&self, pool: &Pool, runner: &Runner, machine: &str) -> Result<(), Refused> {
        let attested = match self.backend(pool.rules.backend)?.attest(runner, machine).await {
            Ok(attested) => attested,
            Err(error) => {
                tracing::warn!(runner = %runner.id, machine, error = chain(&error), "the provider could not be asked for a machine that wants to join");
                Attested::NotShown
            }
        };
        match attested {
            Attested::Its | Attested::NobodyKnows => Ok(()),
            Attested::Another => Err(self.other_machine(runner, machine, self.now()).await),
            Attested::NotShown => Err(Refused::not_yet(
                format!("the provider does not show the machine of runner {} yet", runner.id),
                SHOWN_SOON,
            )),
        }
    }

    /// Where all machines of a launch are told the same, its secret is good for each of them.
    fn is_its_secret(&self, pool: &Pool, runner: &Runner, secret: &str) -> bool {
        let own = same(&self.secret.runner_secret(&runner.launch, &runner.id), secret);
        let of_launch = same(&self.secret.launch_secret(&runner.launch), secret);
        own || (of_launch && pool.rules.backend.launches_alike())
    }

    async fn other_machine(&self, runner: &Runner, machine: &str, now: Timestamp) -> Refused {
        tracing::warn!(target: "alert", runner = %runner.id, pool = %runner.pool, machine, "a machine came with the secret of another's launch");
        self.raise_secret_misused(runner, "a machine came with it that is not of its launch", now).await;
        Refused::new(
            RefusedKind::Forbidden,
            format!("runner {} is another machine", runner.id),
            "end this host; the sweep ends it otherwise",
        )
    }

    async fn redeemed_twice(&self, runner: &Runner, now: Timestamp) -> Refused {
        tracing::warn!(target: "alert", runner = %runner.id, pool = %runner.pool, "a launch secret was redeemed again with another token");
        self.raise_secret_misused(runner, "it was redeemed again, with another token", now).await;
        Refused::new(
            RefusedKind::Forbidden,
            format!("the launch secret of runner {} is used up", runner.id),
            "an operator can make a new one: `motorpool runners token`",
        )
    }

    async fn raise_secret_misused(&self, runner: &Runner, details: &str, now: Timestamp) {
        self.raise(Incident::LaunchSecretMisused { runner: runner.id.clone() }, details, now).await;
    }
}

/// The same answer for an unknown runner and for a wrong secret: it reveals neither.
fn wrong_secret() -> Refused {
    Refused::new(
        RefusedKind::Unauthorized,
        "this launch secret does not belong to this runner",
        "check the runner's id and the secret file; an operator can make a new one: `motorpool runners token`",
    )
}

pub(super) fn gone(runner: &Runner) -> Refused {
    Refused::new(
        RefusedKind::Gone,
        format!("runner {} is {}", runner.id, runner.state.name()),
        "end this host; its place in the pool is given up",
    )
}
