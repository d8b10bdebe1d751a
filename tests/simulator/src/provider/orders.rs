//! Orders for machines: each is one call with one token. An order whose sender crashes on its way may arrive all the same, much later.

use crate::faults::Fault;
use crate::ground::Ground;
use crate::oracle::Token;
use crate::schedule::Event;
use crate::yard::{Power, Site, Sort};
use motorpool_control::ports::backend::{LaunchOrder, Ordered};
use motorpool_domain::ladder::LaunchCall;
use motorpool_domain::pool::BackendKind;
use motorpool_domain::{LaunchId, PoolName, RunnerId};

/// All that a provider makes machines from.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(super) pool: PoolName,
    pub(super) backend: BackendKind,
    pub(super) launch: LaunchId,
    pub(super) attempt: LaunchCall,
    /// Each with its own secret, where it can be told one.
    pub(super) machines: Vec<(RunnerId, String)>,
    pub(super) launch_secret: String,
}

/// How long a machine may be made and not be shown.
const MOST_UNLISTED_MS: u64 = 60_000;
/// Of 10,000 orders that were under way when their sender crashed.
const LATE_AFTER_CRASH: u32 = 5_000;
const LATEST_MS: u64 = 15 * 60_000;

impl Placed {
    pub(super) fn of(order: &LaunchOrder<'_>) -> Self {
        let machine = |ordered: &Ordered| (ordered.runner.clone(), ordered.secret.clone());
        Self {
            pool: order.pool.name.clone(),
            backend: order.pool.rules.backend,
            launch: order.launch.clone(),
            attempt: order.attempt.clone(),
            machines: order.machines.iter().map(machine).collect(),
            launch_secret: order.launch_secret.clone(),
        }
    }

    pub(super) fn token(&self) -> Token {
        Token { launch: self.launch.clone(), number: self.attempt.number, from: self.attempt.from }
    }

    pub(super) fn in_words(&self) -> String {
        let LaunchCall { number, from, count, rung, .. } = &self.attempt;
        format!("{} call {number} for {count} from {from}, {}", self.launch, rung.in_words())
    }

    /// Makes the machine of one of its runners.
    pub(super) fn make(&self, ground: &Ground, machine: &str, runner: &RunnerId, late: bool) {
        let alike = self.backend.launches_alike();
        let own = self.machines.iter().find(|(id, _)| id == runner).map(|(_, secret)| secret);
        let secret = own.filter(|_| !alike).unwrap_or(&self.launch_secret).clone();
        let sort = match alike {
            false => Sort::Plain,
            true => {
                let unlisted_ms = ground.chance().skewed(200, MOST_UNLISTED_MS);
                let listed_at_ms = ground.now_ms() + unlisted_ms;
                Sort::Cloud { rung: self.attempt.rung.clone(), listed_at_ms, notice: None }
            }
        };
        let site = Site {
            runner: runner.clone(),
            pool: self.pool.clone(),
            secret,
            sort,
            power: Power::Booting,
            since_ms: ground.now_ms(),
            used_by: None,
        };
        let doubled = ground.oracle().machine_made(ground.now_ms(), machine, runner, &self.token());
        {
            let mut yard = ground.yard();
            yard.add(machine, site);
            ground.oracle().within_max(ground.now_ms(), &yard, &self.pool);
        }
        if doubled {
            ground.fired(Fault::DoubledMachine);
        }
        let boots_in_ms = ground.chance().skewed(3_000, 120_000);
        ground.plan_in(boots_in_ms, Event::PowerOn(machine.to_owned()));
        ground.tell(|| {
            let how = if late { ", late" } else { "" };
            let whose = if doubled { ", which nobody waits for" } else { "" };
            format!("provider: makes {machine} for {runner}{how}{whose} ({})", self.in_words())
        });
    }
}

/// An order that arrives when its sender is gone.
#[derive(Debug)]
pub(crate) struct LateOrder(Placed);

impl LateOrder {
    pub(crate) fn arrive(&self, ground: &Ground) {
        let Self(order) = self;
        ground.fired(Fault::LateOrder);
        match order.backend.launches_alike() {
            true => drop(super::cloud::fulfil(ground, order, true)),
            false => drop(super::plain::fulfil(ground, order, true)),
        }
    }
}

/// An order between its sender and the provider.
pub(super) struct OnTheWay<'a> {
    ground: &'a Ground,
    order: Option<&'a Placed>,
}

impl<'a> OnTheWay<'a> {
    pub(super) fn new(ground: &'a Ground, order: &'a Placed) -> Self {
        Self { ground, order: Some(order) }
    }

    pub(super) fn arrived(mut self) {
        self.order = None;
    }
}

impl Drop for OnTheWay<'_> {
    fn drop(&mut self) {
        if let Some(order) = self.order.take()
            && self.ground.chance().hits(LATE_AFTER_CRASH)
        {
            let wait_ms = self.ground.chance().skewed(100, LATEST_MS);
            self.ground.plan_in(wait_ms, Event::LateOrder(Box::new(LateOrder(order.clone()))));
        }
    }
}
