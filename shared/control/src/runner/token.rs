//! Whose a token is, and what is done about who comes with one that its agent has replaced.

use super::Applied;
use crate::control::Control;
use crate::error::{Refused, RefusedKind};
use crate::secrets::{same, token_sha256};
use crate::tries::Tries;
use motorpool_domain::alert::Incident;
use motorpool_domain::runner::{Runner, RunnerEvent, RunnerToken, Sender, TokenUse};
use motorpool_domain::{Actor, RunnerId, Timestamp};
use motorpool_wire::agent::AgentSelf;

impl Control {
    /// Whose token this is, told from the token alone.
    pub async fn runner_of_token(&self, token: &str) -> Result<AgentSelf, Refused> {
        let Runner { id, pool, epoch, state, .. } = self.runner_with_token(token, self.now()).await?;
        Ok(AgentSelf { runner: id, pool, epoch, state: state.name() })
    }

    /// The runner itself.
    pub(crate) async fn runner_with_token(&self, token: &str, now: Timestamp) -> Result<Runner, Refused> {
        let hash = token_sha256(token);
        match self.store.runner_by_token(&hash).await? {
            Some(runner) => Ok(runner),
            None => Err(self.refuse_token(&hash, Sender::default(), now).await?),
        }
    }

    /// An unknown runner, a wrong token and an old token look the same.
    pub(super) async fn known_runner(
        &self,
        token: &str,
        id: &RunnerId,
        sender: Sender<'_>,
        now: Timestamp,
    ) -> Result<Runner, Refused> {
        let hash = token_sha256(token);
        let is_its = |runner: &Runner| {
            runner.credential.as_ref().is_some_and(|known| same(&known.token_sha256, &hash))
        };
        match self.store.runner(id).await?.filter(is_its) {
            Some(runner) => Ok(runner),
            None => Err(self.refuse_token(&hash, sender, now).await?),
        }
    }

    /// The refusal of a token that is not the runner's. If somebody has it who should not, more is done than he is told.
    async fn refuse_token(&self, hash: &str, sender: Sender<'_>, now: Timestamp) -> Result<Refused, Refused> {
        if let Some(token) = self.store.token(hash).await? {
            match token.used_by(sender, now, same) {
                TokenUse::Void => {}
                TokenUse::Late => {
                    tracing::info!(runner = %token.runner, "a request that was overtaken by a change of its agent's token is refused");
                }
                TokenUse::Misused => Box::pin(self.token_misused(token, now)).await?,
            }
        }
        Ok(not_its_token())
    }

    /// Its runner is not to be trusted any more. That is noted on the token too: a copy of it takes a runner out of its pool once, and not again after a
    /// person has looked.
    async fn token_misused(&self, token: RunnerToken, now: Timestamp) -> Result<(), Refused> {
        tracing::warn!(target: "alert", runner = %token.runner, "somebody came with a token that this runner's agent has replaced: it was copied, or its agent was shut out");
        let details = "it was one that the runner's agent has replaced";
        self.raise(Incident::TokenMisused { runner: token.runner.clone() }, details, now).await;
        let mut tries = Tries::new();
        loop {
            tries.again(|| format!("runner {}", token.runner))?;
            let Some(runner) = self.store.runner(&token.runner).await? else { break };
            let pool = self.pool_record(&runner.pool).await?.pool;
            let applied =
                self.transition(&pool, &runner, &RunnerEvent::TokenMisused, &Actor::Control, now).await?;
            self.notify_dependents(&applied, now).await?;
            match applied {
                Applied::Changed { .. } | Applied::Stayed | Applied::Refused(_) => break,
                Applied::Overtaken => {}
            }
        }
        Ok(self.store.note_misused(token, now).await?)
    }
}

pub(crate) fn not_its_token() -> Refused {
    Refused::new(
        RefusedKind::Unauthorized,
        "this token is not that of this runner",
        "a rotated or removed runner must bootstrap anew: `motorpool runners token`",
    )
}
