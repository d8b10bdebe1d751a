//! Which of its members' records a claim may show.

use crate::claim::{Claim, Member};
use crate::runner::Runner;

impl Claim {
    /// Whether the record of `member` is this claim's to show. In a later epoch the record tells of the next holder's work; and a runner that this
    /// claim let go of while it was being made goes to another claim in the same epoch.
    pub fn shows(&self, member: &Member, runner: &Runner) -> bool {
        runner.epoch == member.epoch && (runner.holder().is_none() || runner.held_by(&self.id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{Ask, ClaimKey};
    use crate::ids::{ClaimId, Epoch, Owner, PoolName, RunnerId, Workflow};
    use crate::runner::{Hold, Holder, RunnerState};
    use crate::samples::new_runner;
    use crate::spec::Want;
    use crate::time::Timestamp;
    use std::time::Duration;

    const NOW: Timestamp = Timestamp::from_millis(0);
    const HOUR: Duration = Duration::from_secs(3_600);

    fn claim(id: &str) -> Claim {
        let key = ClaimKey {
            owner: Owner::operator(),
            workflow: Workflow::parse("gh-1").unwrap(),
            pool: PoolName::parse("small").unwrap(),
        };
        let ask = Ask { count: 1, want: Want::default(), max_runtime: HOUR, idle_only: false };
        Claim::open(ClaimId::parse(id).unwrap(), key, ask, HOUR, NOW)
    }

    fn running_for(id: &str) -> RunnerState {
        let holder = Holder::Claim(ClaimId::parse(id).unwrap());
        RunnerState::Running { hold: Hold { holder, warm: false, max_runtime: HOUR }, leaving: false }
    }

    #[test]
    fn refuse_09_a_claim_shows_no_runner_that_works_for_another() {
        let member = Member { runner: RunnerId::parse("r-1").unwrap(), epoch: Epoch(1), warm: false };
        let over = RunnerState::Terminated { why: "its machine is gone".to_owned() };
        for (epoch, state, shown) in [
            (1, running_for("c-1"), true),
            (1, over.clone(), true),
            (1, RunnerState::Idle, true),
            (1, running_for("c-2"), false),
            (2, running_for("c-2"), false),
            (2, running_for("c-1"), false),
            (2, RunnerState::Idle, false),
            (2, over, false),
        ] {
            let runner = Runner { epoch: Epoch(epoch), state, ..Runner::intent(new_runner("r-1", NOW), NOW) };
            assert_eq!(claim("c-1").shows(&member, &runner), shown, "{epoch} {:?}", runner.state);
        }
    }
}
