//! What must hold of every change of a claim.

use super::{Oracle, Scene};
use crate::clocks::MOST_OFF_MS;
use crate::faults::Fault;
use motorpool_domain::ClaimId;
use motorpool_domain::claim::{Claim, ClaimState};
use motorpool_domain::runner::{Runner, RunnerState};
use std::time::Duration;

/// Of what a claim says while it waits: for the provider, or beside that for its turn or for somebody else's runner.
const WHY: [&str; 6] = ["no idle runner", "provider", "capacity", "was lost", "come first", "at its maximum"];

impl Oracle {
    pub(super) fn lists(&self, claim: &ClaimId, runner: &Runner) -> bool {
        self.claim(claim).is_some_and(|claim| {
            claim.members.iter().any(|member| member.runner == runner.id && member.epoch == runner.epoch)
        })
    }

    /// A new claim: its key was free, or the last that had it has ended (invariant 7: no second claim for a repeated call).
    pub(super) fn opens(&mut self, scene: &Scene<'_>, claim: &Claim) {
        if self.latest.get(&claim.key) == Some(&claim.id) {
            return;
        }
        let earlier = self.latest.get(&claim.key).and_then(|id| self.claim(id));
        if let Some(earlier) = earlier.filter(|earlier| earlier.state.open()) {
            let what =
                format!("{} is opened for {}, which has {} open", claim.id, claim.key.workflow, earlier.id);
            let about = earlier.id.clone();
            self.fails(scene, 7, &[&claim.id, &about], what);
        }
        if claim.state != ClaimState::Pending {
            let what = format!("{} is opened as {}", claim.id, claim.state.as_str());
            self.fails(scene, 1, &[&claim.id], what);
        }
        self.latest.insert(claim.key.clone(), claim.id.clone());
        self.put_claim(scene, claim);
    }

    pub(super) fn claim_gains(&mut self, scene: &Scene<'_>, before: &Claim, after: &Claim) {
        self.claim_is_as_decided(scene, before);
        if !before.state.open() || after.state != before.state || after.members.len() <= before.members.len()
        {
            let what = format!(
                "{} gains runners while it is {}, and has {} before and {} after",
                before.id,
                before.state.as_str(),
                before.members.len(),
                after.members.len()
            );
            self.fails(scene, 3, &[&before.id], what);
        }
        self.put_claim(scene, after);
    }

    pub(super) fn claim_changes(&mut self, scene: &Scene<'_>, before: &Claim, after: &Claim) {
        if scene.mistakes(before.threshold) {
            self.fired.note(Fault::PlaneClockSkew);
        }
        self.claim_is_as_decided(scene, before);
        let allowed = match (&before.state, &after.state) {
            (ClaimState::Pending, _) => true,
            (ClaimState::Ready { .. }, ClaimState::Pending | ClaimState::Failed { .. }) => {
                // Only one that asks for what is idle now fails after it was ready: when it lost its runner.
                before.ask.idle_only && matches!(after.state, ClaimState::Failed { .. })
            }
            (ClaimState::Ready { .. }, ClaimState::Ready { .. } | ClaimState::Released { .. }) => true,
            (ClaimState::Released { .. } | ClaimState::Failed { .. }, _) => before.state == after.state,
        };
        if !allowed || after.rev != before.rev + 1 || after.ask != before.ask || after.key != before.key {
            let words = |claim: &Claim| format!("{:?} rev {}", claim.state, claim.rev);
            let what = format!("{} goes from {} to {}", before.id, words(before), words(after));
            self.fails(scene, 1, &[&before.id], what);
        }
        if let Some(new) = after.members.iter().find(|member| !before.members.contains(member)) {
            let what = format!("{} gains {} without taking it", before.id, new.runner);
            self.fails(scene, 3, &[&before.id, &new.runner], what);
        }
        self.drops_only_lost(scene, before, after);
        self.put_claim(scene, after);
    }

    /// Invariant 2.
    fn claim_is_as_decided(&mut self, scene: &Scene<'_>, before: &Claim) {
        let known = self.claim(&before.id);
        if known != Some(before) {
            let words = |claim: &Claim| format!("{} rev {}", claim.state.as_str(), claim.rev);
            let (from, there) = (words(before), known.map_or("nothing".to_owned(), words));
            let what = format!("a write of {} was decided from {from}, and {there} was there", before.id);
            self.fails(scene, 2, &[&before.id], what);
        }
    }

    /// A runner that it holds and can use would be nobody's.
    fn drops_only_lost(&mut self, scene: &Scene<'_>, before: &Claim, after: &Claim) {
        let dropped = before.members.iter().filter(|member| !after.members.contains(member));
        let held: Vec<String> = dropped
            .filter(|member| {
                self.runner(&member.runner).is_some_and(|runner| {
                    runner.epoch == member.epoch && runner.held_by(&before.id) && usable(&runner.state)
                })
            })
            .map(|member| member.runner.to_string())
            .collect();
        if !held.is_empty() {
            let what = format!("{} drops {}, which it holds", before.id, held.join(", "));
            self.fails(scene, 3, &[&before.id], what);
        }
    }

    /// Invariant 23: what says that it is settled has nothing left, but for what refresh is about to take away; with what the same write made
    /// of its runners.
    pub(super) fn settles(&mut self, scene: &Scene<'_>, before: &Claim, claim: &Claim) {
        if claim.settling || claim.state.open() || !(before.settling || before.state.open()) {
            return;
        }
        // A use case has one `now`, and the clock that it read may have been set right since.
        let now = scene.now().after(Duration::from_millis(MOST_OFF_MS));
        let expired = |runner: &Runner| runner.threshold.is_some_and(|threshold| threshold.passed(now));
        let held: Vec<String> = self
            .live()
            .filter(|runner| runner.held_by(&claim.id) && usable(&runner.state) && !expired(runner))
            .map(|runner| format!("{} ({})", runner.id, runner.state.name()))
            .collect();
        if !held.is_empty() {
            let what = format!("{} is settled, and still holds {}", claim.id, held.join(", "));
            self.fails(scene, 23, &[&claim.id], what);
        }
    }

    /// Fault 22: a claim that leaves the provider alone for a while says why.
    fn says_why(&mut self, scene: &Scene<'_>, claim: &Claim) {
        let told = |why: &String| WHY.iter().any(|words| why.contains(words));
        let waits = claim.state.open() && claim.short() > 0 && claim.launch_not_before.is_some();
        if waits && !claim.waits_for.as_ref().is_some_and(told) {
            let what = format!("{} waits for the provider, and says {:?}", claim.id, claim.waits_for);
            self.fails(scene, 23, &[&claim.id], what);
        }
    }

    fn put_claim(&mut self, scene: &Scene<'_>, claim: &Claim) {
        if claim.members.len() > usize::try_from(claim.ask.count).unwrap_or(usize::MAX) {
            let what = format!(
                "{} has {} runners, and asked for {}",
                claim.id,
                claim.members.len(),
                claim.ask.count
            );
            self.fails(scene, 3, &[&claim.id], what);
        }
        self.says_why(scene, claim);
        self.claim_writers.insert(claim.id.clone(), scene.acting.map(|acting| acting.kind));
        self.note_share(scene.now_ms, claim);
        self.claims.insert(claim.id.clone(), claim.clone());
    }
}

fn usable(state: &RunnerState) -> bool {
    match state {
        RunnerState::Created { .. } | RunnerState::Claimed { .. } => true,
        RunnerState::Running { leaving, .. } => !leaving,
        RunnerState::Resetting { .. }
        | RunnerState::Idle
        | RunnerState::Releasing { .. }
        | RunnerState::Quarantined { .. }
        | RunnerState::Terminating { .. }
        | RunnerState::Terminated { .. } => false,
    }
}
