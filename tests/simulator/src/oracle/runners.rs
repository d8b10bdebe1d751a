//! What must hold of every change of a runner.

use super::{Oracle, Scene};
use crate::calls::Kind;
use crate::clocks::MOST_OFF_MS;
use crate::faults::Fault;
use motorpool_domain::Epoch;
use motorpool_domain::claim::Claim;
use motorpool_domain::runner::{Holder, Runner, RunnerState, StateName};
use std::time::Duration;

impl Oracle {
    pub(super) fn runner_changes(&mut self, scene: &Scene<'_>, before: &Runner, after: &Runner) {
        if scene.mistakes(before.threshold) {
            self.fired.note(Fault::PlaneClockSkew);
        }
        if before.credential.is_some() && after.credential.is_none() && before.launch != after.launch {
            self.fired.note(Fault::TokenRenewed);
        }
        self.decided_from_what_is(scene, before);
        self.only_rises(scene, before, after);
        self.threshold_stays(scene, before, after);
        if after.state == RunnerState::Idle && before.state != RunnerState::Idle {
            self.proven_clean(scene, before, after);
            self.has_another_token(scene, before, after);
        }
        self.token_changes(before, after);
        self.misused_by_a_stranger(scene, before, after);
        self.reaped_rightly(scene, before, after);
        if before.state == RunnerState::Idle {
            self.not_for_silence_in_an_outage(scene, before, after);
        }
        self.let_go_by_its_holder(scene, before, after);
        self.held_as_listed(scene, after);
        self.held_by_its_checkpoint(scene, after);
        self.checkpoint_is_followed(scene, before, after);
        self.machines_follow(scene, before, after);
    }

    /// Invariant 2.
    fn decided_from_what_is(&mut self, scene: &Scene<'_>, before: &Runner) {
        let same = |known: &Runner| {
            (known.epoch, known.rev, known.threshold) == (before.epoch, before.rev, before.threshold)
                && known.state == before.state
        };
        let known = self.runner(&before.id);
        if !known.is_some_and(same) {
            let words =
                |runner: &Runner| format!("{}@{} rev {}", runner.state.name(), runner.epoch, runner.rev);
            let (from, there) = (words(before), known.map_or("nothing".to_owned(), words));
            let what = format!("a write of {} was decided from {from}, and {there} was there", before.id);
            self.fails(scene, 2, &[&before.id], what);
        }
    }

    /// Invariant 1.
    fn only_rises(&mut self, scene: &Scene<'_>, before: &Runner, after: &Runner) {
        let place = |runner: &Runner| (runner.epoch, runner.state.name().rank());
        let same_state = before.state.name() == after.state.name();
        let rises = place(after) > place(before) || (same_state && before.epoch == after.epoch);
        let reset = after.state.name() == StateName::Resetting;
        let absorbed = before.state.name() == StateName::Terminated;
        let by_reset_only = after.epoch == before.epoch || (after.epoch == before.epoch.next() && reset);
        if !rises || absorbed || !by_reset_only || after.rev != before.rev + 1 || after.id != before.id {
            let what = format!(
                "{} goes from {}@{} rev {} to {}@{} rev {}",
                before.id,
                before.state.name(),
                before.epoch,
                before.rev,
                after.state.name(),
                after.epoch,
                after.rev
            );
            self.fails(scene, 1, &[&before.id], what);
        }
    }

    /// Invariant 18.
    fn threshold_stays(&mut self, scene: &Scene<'_>, before: &Runner, after: &Runner) {
        let same = before.epoch == after.epoch && before.state.name() == after.state.name();
        if let (true, Some(was), Some(is)) = (same, before.threshold, after.threshold)
            && is < was
        {
            let what = format!("the threshold of {} moves back, from {was:?} to {is:?}", before.id);
            self.fails(scene, 18, &[&before.id], what);
        }
    }

    /// Invariant 13, by the record and by the machine itself.
    fn proven_clean(&mut self, scene: &Scene<'_>, before: &Runner, after: &Runner) {
        // Two planes may have written the one and the other.
        let clocks_differ = Duration::from_millis(2 * MOST_OFF_MS);
        let proven = after.proof.as_ref().is_some_and(|proof| {
            before.proof.as_ref() != Some(proof) && proof.at.after(clocks_differ) >= before.entered_at
        });
        let named = |id: &str| after.provider_id.as_deref().is_none_or(|named| named == id);
        let used_by =
            scene.yard.of(&after.id).find_map(|(id, site)| site.used_by.as_ref().filter(|_| named(id)));
        if !proven || used_by.is_some() {
            let what = format!(
                "{} becomes idle with the proof {:?}, and its machine was last used by {used_by:?}",
                after.id, after.proof
            );
            self.fails(scene, 13, &[&after.id], what);
        }
    }

    /// Invariant 14: whom somebody holds is taken away only at its threshold, or when its machine is gone; unless by an operator, or by what its
    /// own agent says: that it is unhealthy, started anew, or has a notice.
    fn reaped_rightly(&mut self, scene: &Scene<'_>, before: &Runner, after: &Runner) {
        let held = matches!(before.state, RunnerState::Claimed { .. } | RunnerState::Running { .. });
        if !held || !self.reaps(scene) || before.state.name() == after.state.name() {
            return;
        }
        let expired = before.threshold.is_some_and(|threshold| threshold.passed(scene.now()));
        let right = match after.state.name() {
            StateName::Releasing => match before.holder() {
                Some(Holder::Checkpoint(name)) => {
                    let said = self.checkpoint(name).is_some_and(|checkpoint| checkpoint.finalized.is_some());
                    said || expired
                }
                holder => {
                    let claim = holder.and_then(Holder::claim).and_then(|claim| self.claim(claim));
                    claim.is_none_or(|claim: &Claim| !claim.state.open())
                }
            },
            StateName::Terminated => scene.yard.gone(&before.id, before.provider_id.as_deref()),
            StateName::Terminating | StateName::Resetting | StateName::Quarantined => expired,
            StateName::Created | StateName::Idle | StateName::Claimed | StateName::Running => true,
        };
        if !right {
            let what = format!(
                "{:?} moves {} from {} to {}, and its holder's threshold {:?} lies ahead",
                scene.acting.map(|acting| acting.kind),
                before.id,
                before.state.name(),
                after.state.name(),
                before.threshold
            );
            self.fails(scene, 14, &[&before.id], what);
        }
    }

    fn reaps(&self, scene: &Scene<'_>) -> bool {
        scene.acting.is_some_and(|acting| match acting.kind {
            Kind::Provision
            | Kind::ClaimNow
            | Kind::View
            | Kind::Bootstrap
            | Kind::Refresh
            | Kind::Create
            | Kind::Told
            | Kind::Attend => true,
            Kind::Release
            | Kind::Sync
            | Kind::StaleToken
            | Kind::CopiedToken
            | Kind::OldEpoch
            | Kind::Operator
            | Kind::Fetch
            | Kind::Finalize => false,
        })
    }

    /// Fault 20: while no heartbeat arrives, and so most are overdue, nobody is taken for dead.
    fn not_for_silence_in_an_outage(&mut self, scene: &Scene<'_>, before: &Runner, after: &Runner) {
        let (RunnerState::Terminating { why, .. } | RunnerState::Quarantined { why }) = &after.state else {
            return;
        };
        if !why.contains("silent") || !scene.outage {
            return;
        }
        let (mut overdue, mut heard) = (0, 0);
        for runner in self.live() {
            let (Some(seen_at), Some(pool)) = (runner.seen_at, self.pools.get(&runner.pool)) else {
                continue;
            };
            match runner.state.name() {
                StateName::Quarantined | StateName::Terminating => continue,
                _ if scene.now().since(seen_at) >= pool.rules.limits.silence() => overdue += 1,
                _ => heard += 1,
            }
        }
        if overdue > 6 && overdue > 2 * heard {
            let what = format!(
                "{} is reaped for silence, though {overdue} are overdue and only {heard} were heard",
                before.id
            );
            self.fails(scene, 14, &[&before.id], what);
        }
    }

    /// Invariant 3, from the runner's side: its holder lists it.
    pub(super) fn held_as_listed(&mut self, scene: &Scene<'_>, after: &Runner) {
        let Some(Holder::Claim(holder)) = after.holder() else { return };
        // One whose machine is to go is not counted on any more: another has its place.
        let leaves = matches!(after.state, RunnerState::Running { leaving: true, .. }) || after.draining;
        if !leaves && !self.lists(holder, after) {
            let what = format!("{}@{} is held by {}, which does not list it", after.id, after.epoch, holder);
            self.fails(scene, 3, &[&after.id, holder], what);
        }
    }

    /// Invariant 2: what was decided for one holder is not done to another. A claim that is open and lists a runner has not let go of it.
    fn let_go_by_its_holder(&mut self, scene: &Scene<'_>, before: &Runner, after: &Runner) {
        let Some(Holder::Claim(holder)) = before.holder() else { return };
        let given_back =
            matches!(after.state, RunnerState::Created { hold: None, .. } | RunnerState::Releasing { .. });
        let is_open = self.claim(holder).is_some_and(|claim| claim.state.open());
        if before.state.name() != StateName::Releasing && given_back && is_open && self.lists(holder, before)
        {
            let what = format!("{}@{} is taken from {}, which is open", before.id, before.epoch, holder);
            self.fails(scene, 2, &[&before.id, holder], what);
        }
    }

    /// Invariant 3, from the claims' side: at most one open claim lists it in this epoch.
    pub(super) fn held_by_one(&mut self, scene: &Scene<'_>, runner: &Runner) {
        let holders: Vec<String> = self
            .claims
            .values()
            .filter(|claim| claim.state.open() && self.lists(&claim.id, runner))
            .map(|claim| claim.id.to_string())
            .collect();
        if holders.len() > 1 {
            let what = format!("{}@{} is listed by {}", runner.id, runner.epoch, holders.join(" and "));
            self.fails(scene, 3, &[&runner.id], what);
        }
    }

    /// A launch intent: of a runner that never was, or in the place of an earlier life that is over.
    pub(super) fn new_life(&mut self, scene: &Scene<'_>, runner: &Runner) {
        let right = match self.runner(&runner.id) {
            None => runner.epoch == Epoch::FIRST,
            Some(earlier) => {
                earlier.state.name() == StateName::Terminated && runner.epoch == earlier.epoch.next()
            }
        };
        if !right || runner.state.name() != StateName::Created {
            let what = format!(
                "{}@{} begins in the place of {:?}",
                runner.id,
                runner.epoch,
                self.runner(&runner.id)
            );
            self.fails(scene, 1, &[&runner.id], what);
        }
    }
}
