//! The workflows: each asks for runners, waits, uses them, gives them back; asks again when it gets no answer; and sometimes
//! repeats itself, gives up early, or never comes back. What it is answered is held against what it was answered before.

use super::calls::{Call, Reply};
use super::chance::Chance;
use super::ground::Ground;
use super::scale::Appetite;
use super::schedule::Event;
use motorpool_control::{Caller as Identity, RefusedKind};
use motorpool_domain::{ClaimId, Owner, PoolName, Workflow};
use motorpool_wire::api::{ClaimRequest, ClaimView, ProvisionRequest, ReleaseRequest};

#[derive(Debug)]
pub(crate) struct Work {
    index: usize,
    identity: Identity,
    workflow: Workflow,
    pool: PoolName,
    count: u32,
    manner: Manner,
    step: Step,
    claim: Option<ClaimId>,
    /// As the claim was when a repeated call began, if it had come to rest.
    settled_rev: Option<u64>,
    again: u32,
    /// Asks after faults have stopped, and so must get what it asks for.
    in_the_calm: bool,
    /// Its claim was ready at least once.
    served: bool,
    /// Why its last call was refused, if it was.
    refused: Option<String>,
}

/// How a workflow behaves, drawn once.
#[derive(Debug)]
struct Manner {
    idle_only: bool,
    uses_ms: u64,
    never_releases: bool,
    gives_up_while_pending: bool,
    /// Of 10,000 looks at its claim, so many are a repeated request instead.
    repeats: u32,
    attempts: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Asks,
    Waits,
    Uses {
        until_ms: u64,
    },
    Releases,
    /// Has released, and does so again.
    ReleasesAgain,
    Done,
}

/// Whose workflow it is, by who asks for how much.
fn identity(chance: &mut Chance, appetites: &[Appetite]) -> Option<Identity> {
    let all: usize = appetites.iter().map(|(_, parts)| *parts).sum();
    let mut drawn = chance.index(all);
    for (owner, parts) in appetites {
        match drawn.checked_sub(*parts) {
            Some(rest) => drawn = rest,
            None => {
                let owner = Owner::parse(*owner).ok()?;
                return Some(match owner == Owner::operator() {
                    true => Identity::Operator,
                    false => Identity::Team(owner),
                });
            }
        }
    }
    None
}

/// After this nobody begins anything new: what was begun has the time to end.
pub(crate) const LAST_ASK_MS: u64 = 80 * 60_000;

impl Work {
    pub(crate) fn draw(
        chance: &mut Chance,
        index: usize,
        pools: &[(PoolName, u32)],
        appetites: &[Appetite],
    ) -> Option<Self> {
        let (pool, most) = chance.one_of(pools)?.clone();
        let identity = identity(chance, appetites)?;
        let idle_only = chance.hits(2_500);
        let manner = Manner {
            idle_only,
            uses_ms: chance.skewed(10_000, 15 * 60_000),
            never_releases: chance.hits(1_000),
            gives_up_while_pending: chance.hits(1_200),
            repeats: if chance.hits(5_000) { 5_000 } else { 500 },
            attempts: u32::from(chance.hits(2_500)),
        };
        let count = if idle_only { 1 } else { u32::try_from(chance.between(1, u64::from(most) + 1)).ok()? };
        Self::of(index, identity, pool, count, manner)
    }

    fn of(index: usize, identity: Identity, pool: PoolName, count: u32, manner: Manner) -> Option<Self> {
        Some(Self {
            index,
            identity,
            workflow: Workflow::parse(format!("wf-{index}")).ok()?,
            pool,
            count,
            manner,
            step: Step::Asks,
            claim: None,
            settled_rev: None,
            again: 0,
            in_the_calm: false,
            served: false,
            refused: None,
        })
    }

    /// One that asks when all is well.
    pub(crate) fn in_the_calm(index: usize, pool: &PoolName, count: u32) -> Option<Self> {
        let manner = Manner {
            idle_only: false,
            uses_ms: 30_000,
            never_releases: false,
            gives_up_while_pending: false,
            repeats: 2_000,
            attempts: 0,
        };
        let calm = Self::of(index, Identity::Operator, pool.clone(), count, manner)?;
        Some(Self { in_the_calm: true, ..calm })
    }

    pub(crate) fn workflow(&self) -> &Workflow {
        &self.workflow
    }

    /// What a workflow has to complain of when the world ends. It is not at its end, or it never got what it must get.
    pub(crate) fn complaint(&self) -> Option<String> {
        let refused = self.refused.as_deref().unwrap_or("nothing");
        if self.step != Step::Done {
            return Some(format!(
                "{} still {:?}; what it was refused last: {refused}",
                self.workflow, self.step
            ));
        }
        (self.in_the_calm && !self.served).then(|| {
            format!(
                "{} asked when all was well, and was never served; what it was refused last: {refused}",
                self.workflow
            )
        })
    }

    /// Its next call, when its time has come.
    pub(crate) fn next(&mut self, ground: &Ground) -> Option<Call> {
        let now_ms = ground.now_ms();
        match self.step {
            Step::Asks if now_ms > LAST_ASK_MS && !self.in_the_calm => {
                self.step = Step::Done;
                None
            }
            Step::Asks => Some(self.ask()),
            Step::Uses { until_ms } if now_ms >= until_ms => {
                self.step = if self.manner.never_releases { Step::Done } else { Step::Releases };
                self.next(ground)
            }
            Step::Waits | Step::Uses { .. } => {
                let repeat = ground.chance().hits(self.manner.repeats) && now_ms <= LAST_ASK_MS;
                match (&self.claim, repeat) {
                    (Some(claim), false) => Some(Call::View(self.identity.clone(), claim.clone())),
                    (Some(_), true) | (None, _) => Some(self.ask()),
                }
            }
            Step::Releases | Step::ReleasesAgain => {
                let known = self.claim.as_ref().and_then(|id| ground.oracle().claim(id).cloned());
                let rests = known.filter(|claim| !claim.state.open() && !claim.settling);
                self.settled_rev = rests.map(|claim| claim.rev);
                Some(Call::Release(
                    self.identity.clone(),
                    ReleaseRequest {
                        workflow: self.workflow.clone(),
                        pool: Some(self.pool.clone()),
                        owner: None,
                    },
                ))
            }
            Step::Done => None,
        }
    }

    /// Takes note of a reply, and plans what comes next.
    pub(crate) fn told(&mut self, ground: &Ground, reply: &Reply) {
        let Reply::Claim(outcome) = reply else {
            return self.later(ground, 2_000, 15_000);
        };
        self.refused = outcome.as_ref().err().map(|refused| refused.message.clone());
        match outcome {
            Ok(view) => self.answered(ground, view),
            Err(refused) => match refused.kind {
                RefusedKind::Internal | RefusedKind::TooManyRequests | RefusedKind::Unavailable => {
                    self.later(ground, 1_000, 15_000);
                }
                // No idle runner for one that asks for nothing else; or nothing to release, since nothing was ever accepted.
                RefusedKind::NotFound if self.manner.idle_only || self.claim.is_none() => {
                    self.step = Step::Done;
                }
                RefusedKind::NotFound
                | RefusedKind::InvalidRequest
                | RefusedKind::Unauthorized
                | RefusedKind::Forbidden
                | RefusedKind::Conflict
                | RefusedKind::Gone => {
                    let what =
                        format!("{} is refused what it may ask for: {}", self.workflow, refused.message);
                    ground.broken(7, &[&self.workflow], what);
                }
            },
        }
    }

    fn ask(&self) -> Call {
        match self.manner.idle_only {
            true => Call::ClaimNow(
                self.identity.clone(),
                ClaimRequest {
                    workflow: self.workflow.clone(),
                    pool: self.pool.clone(),
                    max_runtime_minutes: None,
                    usage: None,
                    allowed_instance_types: None,
                    resource_class: None,
                },
            ),
            false => Call::Provision(
                self.identity.clone(),
                ProvisionRequest {
                    workflow: self.workflow.clone(),
                    pool: self.pool.clone(),
                    count: self.count,
                    max_runtime_minutes: None,
                    usage: None,
                    allowed_instance_types: None,
                    resource_class: None,
                },
            ),
        }
    }

    fn answered(&mut self, ground: &Ground, view: &ClaimView) {
        self.is_the_same(ground, view);
        match self.step {
            Step::Asks | Step::Waits | Step::Uses { .. } => {
                self.claim = Some(view.claim.clone());
                match view.state.as_str() {
                    "pending" if self.manner.gives_up_while_pending => {
                        self.step = Step::Releases;
                        self.later(ground, 100, 60_000);
                    }
                    "pending" => {
                        self.step = Step::Waits;
                        self.later(ground, 5_000, 45_000);
                    }
                    "ready" => {
                        self.served = true;
                        if !matches!(self.step, Step::Uses { .. }) {
                            self.step = Step::Uses { until_ms: ground.now_ms() + self.manner.uses_ms };
                        }
                        self.later(ground, 10_000, 120_000);
                    }
                    _ended => {
                        self.got_what_it_asked_for(ground, view);
                        self.try_again(ground);
                    }
                }
            }
            Step::Releases => {
                self.is_released(ground, view);
                let once_more = ground.chance().hits(4_000);
                if !once_more {
                    return self.try_again(ground);
                }
                self.step = Step::ReleasesAgain;
                self.later(ground, 500, 60_000);
            }
            Step::ReleasesAgain => {
                self.is_released(ground, view);
                self.changed_nothing(ground);
                self.try_again(ground);
            }
            Step::Done => {}
        }
    }

    /// The same workflow, once more: a new claim.
    fn try_again(&mut self, ground: &Ground) {
        self.step = Step::Done;
        if self.again < self.manner.attempts {
            self.again += 1;
            self.step = Step::Asks;
            self.claim = None;
            self.later(ground, 1_000, 120_000);
        }
    }

    fn later(&self, ground: &Ground, low_ms: u64, high_ms: u64) {
        let wait_ms = ground.chance().between(low_ms, high_ms);
        ground.plan_in(wait_ms, Event::Work(self.index));
    }

    /// Invariants 7 and 23: what was accepted is there, and asking again gives the same while it is open.
    fn is_the_same(&self, ground: &Ground, view: &ClaimView) {
        let (there, earlier_open) = {
            let oracle = ground.oracle();
            let open = |id: &ClaimId| oracle.claim(id).is_some_and(|claim| claim.state.open());
            (oracle.claim(&view.claim).is_some(), self.claim.as_ref().is_some_and(open))
        };
        if !there {
            let what =
                format!("{} was told of {}, which the ledger does not have", self.workflow, view.claim);
            ground.broken(23, &[&view.claim, &self.workflow], what);
        }
        if let Some(earlier) = self.claim.as_ref().filter(|earlier| earlier_open && **earlier != view.claim) {
            let what = format!("{} has {earlier} open, and was answered with {}", self.workflow, view.claim);
            ground.broken(7, &[&view.claim, earlier], what);
        }
    }

    /// Invariant 23.
    fn got_what_it_asked_for(&self, ground: &Ground, view: &ClaimView) {
        if self.in_the_calm {
            let what = format!(
                "{} asked when all was well, and its claim is {}: {}",
                self.workflow, view.state, view.why
            );
            ground.broken(23, &[&view.claim], what);
        }
    }

    fn is_released(&self, ground: &Ground, view: &ClaimView) {
        let open = ground.oracle().claim(&view.claim).is_some_and(|claim| claim.state.open());
        if open {
            let what =
                format!("{} was told that {} is {}, and it is open", self.workflow, view.claim, view.state);
            ground.broken(23, &[&view.claim], what);
        }
    }

    /// Invariant 7.
    fn changed_nothing(&self, ground: &Ground) {
        let Some(id) = &self.claim else { return };
        let rev = ground.oracle().claim(id).map(|claim| claim.rev);
        if self.settled_rev.is_some() && rev != self.settled_rev {
            ground.broken(7, &[id], format!("a repeated release changed {id}, which had come to rest"));
        }
    }
}
