//! What must hold of the tokens of agents: they change with each reset, and who comes with one that was replaced takes its runner out of its pool and does
//! nothing else.

use super::{Oracle, Scene};
use crate::calls::Kind;
use crate::faults::Fault;
use motorpool_domain::runner::{Runner, RunnerState, StateName};

/// Of what a runner says that was taken out of its pool so.
const MISUSED: &str = "a token that its agent has replaced";

impl Oracle {
    /// Whether an agent had this token, and has made itself another.
    pub(crate) fn is_replaced(&self, token_sha256: &str) -> bool {
        self.replaced.contains(token_sha256)
    }

    pub(super) fn token_changes(&mut self, before: &Runner, after: &Runner) {
        if let (Some(old), Some(new)) = (&before.credential, &after.credential)
            && old.token_sha256 != new.token_sha256
        {
            self.replaced.insert(old.token_sha256.clone());
        }
    }

    /// Refusal 22: nobody goes on with a token that its last holder's work could have read.
    pub(super) fn has_another_token(&mut self, scene: &Scene<'_>, before: &Runner, after: &Runner) {
        let named = after.credential.as_ref().and_then(|credential| credential.named.as_ref());
        let renewed = named.is_some_and(|named| named.epoch == after.epoch);
        if before.state.name() == StateName::Resetting && !renewed {
            let what =
                format!("{}@{} is idle after a reset with the token that it had", after.id, after.epoch);
            self.fails(scene, 21, &[&after.id], what);
        }
    }

    /// Invariant 21, from both sides: a stranger with a replaced token does this and nothing else, and no agent is taken for a stranger.
    pub(super) fn misused_by_a_stranger(&mut self, scene: &Scene<'_>, before: &Runner, after: &Runner) {
        let (RunnerState::Quarantined { why } | RunnerState::Terminating { why, .. }) = &after.state else {
            return;
        };
        if before.state.name() == after.state.name() || !why.contains(MISUSED) {
            return;
        }
        self.fired.note(Fault::ReplacedTokenMisused);
        let right = match after.kept {
            true => after.state.name() == StateName::Quarantined && after.credential.is_none(),
            false => after.state.name() == StateName::Terminating,
        };
        let by_an_agent = scene.acting.is_some_and(|acting| acting.kind != Kind::CopiedToken);
        if by_an_agent || !right {
            let what = format!(
                "{:?} takes {} from {} to {}: {why}",
                scene.acting.map(|acting| acting.kind),
                after.id,
                before.state.name(),
                after.state.name()
            );
            self.fails(scene, 21, &[&after.id], what);
        }
    }
}
