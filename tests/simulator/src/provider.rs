//! The provider: makes and ends machines, slowly, and not always with an answer. It honours repetition: one launch intent, one
//! machine, however often it is asked for. What it is told is held against the records (invariants 14 and 15).

use super::faults::Fault;
use super::gate::{Gate, Side};
use super::ground::Ground;
use super::schedule::Event;
use super::weather::Wind;
use super::yard::{Power, Site};
use async_trait::async_trait;
use motorpool_control::ports::backend::{Backend, BackendError, LaunchError, LaunchOrder, Launched, Machine};
use motorpool_domain::runner::{Presence, Runner, StateName};
use motorpool_domain::{PoolName, RunnerId};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) ground: Arc<Ground>,
}

#[async_trait]
impl Backend for Provider {
    async fn ensure_launched(&self, order: &LaunchOrder<'_>) -> Result<Launched, LaunchError> {
        let on_the_way = OnTheWay { ground: &self.ground, order: Some(order) };
        self.travels(Side::Before).await;
        on_the_way.arrived();
        let id = &order.runner.id;
        self.intent_is_committed(order.runner);
        let launched = Launched { provider_id: provider_id(id) };
        if self.ground.strikes(Wind::ProviderThrottled) {
            self.ground.fired(Fault::ProviderThrottled);
            self.ground.tell(|| format!("provider: too many requests, launch of {id}"));
            return Err(LaunchError::Unconfirmed("too many requests".into()));
        }
        if !self.ground.yard().sites.contains_key(id) {
            let full = self.ground.strikes(Wind::ProviderFull);
            if self.ground.yard().partial(&order.runner.launch, !full) {
                self.ground.fired(Fault::PartialFleet);
            }
            if full {
                self.ground.fired(Fault::NoCapacity);
                self.ground.tell(|| format!("provider: no capacity for {id}"));
                return Err(LaunchError::Refused("no capacity".to_owned()));
            }
            make(&self.ground, &LateLaunch::of(order));
        }
        if self.ground.strikes(Wind::ProviderMute) {
            self.travels(Side::After).await;
            return Err(LaunchError::Unconfirmed("the answer was lost".into()));
        }
        self.travels(Side::After).await;
        Ok(launched)
    }

    async fn describe(&self, runner: &Runner) -> Result<Presence, BackendError> {
        self.travels(Side::Before).await;
        self.may_be_throttled("describe a machine")?;
        Ok(if self.ground.yard().gone(&runner.id) { Presence::Gone } else { Presence::There })
    }

    async fn ensure_gone(&self, runner: &Runner) -> Result<Presence, BackendError> {
        self.travels(Side::Before).await;
        self.end_is_committed(&runner.id, None);
        self.may_be_throttled("end a machine")?;
        let presence = self.end(&runner.id);
        self.ground.tell(|| format!("provider: told to end {}, which is {presence:?}", runner.id));
        self.travels(Side::After).await;
        Ok(presence)
    }

    async fn inventory(&self, pool: &PoolName) -> Result<Vec<Machine>, BackendError> {
        self.travels(Side::Before).await;
        self.may_be_throttled("list the machines")?;
        let yard = self.ground.yard();
        let there = yard
            .sites
            .iter()
            .filter(|(_, site)| !site.kept && site.pool == *pool && site.power != Power::Off);
        Ok(there.map(|(id, _)| Machine { runner: id.clone(), provider_id: provider_id(id) }).collect())
    }

    async fn discard(&self, machine: &Machine) -> Result<(), BackendError> {
        self.travels(Side::Before).await;
        self.end_is_committed(&machine.runner, Some(&machine.provider_id));
        self.may_be_throttled("end a machine")?;
        let presence = self.end(&machine.runner);
        self.ground.tell(|| format!("provider: discards {}, which was {presence:?}", machine.runner));
        Ok(())
    }
}

impl Provider {
    async fn travels(&self, side: Side) {
        let wait_ms = self.ground.chance().skewed(50, 4_000);
        Gate::new(&self.ground, wait_ms, side).await;
    }

    fn end(&self, id: &RunnerId) -> Presence {
        let now_ms = self.ground.now_ms();
        match self.ground.yard().power(id) {
            None | Some(Power::Off) => return Presence::Gone,
            Some(Power::Stopping) => return Presence::There,
            Some(Power::Booting | Power::On) => {}
        }
        self.ground.yard().turn(id, Power::Stopping, now_ms);
        let goes_in_ms = self.ground.chance().skewed(200, 90_000);
        self.ground.plan_in(goes_in_ms, Event::PowerOff(id.clone()));
        Presence::There
    }

    fn may_be_throttled(&self, attempted: &str) -> Result<(), BackendError> {
        if !self.ground.strikes(Wind::ProviderThrottled) {
            return Ok(());
        }
        self.ground.fired(Fault::ProviderThrottled);
        Err(BackendError { attempted: attempted.to_owned(), source: "too many requests".into() })
    }

    /// Invariant 15.
    fn intent_is_committed(&self, runner: &Runner) {
        let known = self.ground.oracle().runner(&runner.id).map(|known| known.launch == runner.launch);
        if known != Some(true) {
            let what =
                format!("the provider is asked to launch {}, which has no committed intent", runner.id);
            self.ground.broken(15, &[&runner.id], what);
        }
    }

    /// Invariant 14. A machine beside the one that the record names may go at any time.
    fn end_is_committed(&self, id: &RunnerId, machine: Option<&str>) {
        let known = self.ground.oracle().runner(id).cloned();
        let ended = known.as_ref().is_none_or(|known| {
            let other =
                machine.is_some_and(|own| known.provider_id.as_deref().is_some_and(|named| named != own));
            other || matches!(known.state.name(), StateName::Terminating | StateName::Terminated)
        });
        if !ended {
            let state = known.map(|known| known.state.name());
            let what = format!("the provider is told to end {id}, whose record is {state:?}");
            self.ground.broken(14, &[id], what);
        }
    }
}

/// What the provider makes a machine from; and all of it, if the order arrives after its sender is gone.
#[derive(Debug)]
pub(crate) struct LateLaunch {
    runner: RunnerId,
    pool: PoolName,
    secret: String,
}

impl LateLaunch {
    fn of(order: &LaunchOrder<'_>) -> Self {
        Self {
            runner: order.runner.id.clone(),
            pool: order.pool.name.clone(),
            secret: order.secret.to_owned(),
        }
    }

    pub(crate) fn arrive(&self, ground: &Ground) {
        if !ground.yard().sites.contains_key(&self.runner) {
            make(ground, self);
        }
    }
}

fn make(ground: &Ground, order: &LateLaunch) {
    let LateLaunch { runner, pool, secret } = order;
    let site = Site {
        pool: pool.clone(),
        secret: secret.clone(),
        kept: false,
        power: Power::Booting,
        since_ms: ground.now_ms(),
        used_by: None,
    };
    ground.yard().sites.insert(runner.clone(), site);
    let boots_in_ms = ground.chance().skewed(3_000, 120_000);
    ground.plan_in(boots_in_ms, Event::PowerOn(runner.clone()));
    ground.tell(|| format!("provider: makes the machine of {runner}"));
}

/// An order between its sender and the provider. If its sender crashes meanwhile, it may arrive all the same, much later.
struct OnTheWay<'a> {
    ground: &'a Ground,
    order: Option<&'a LaunchOrder<'a>>,
}

impl OnTheWay<'_> {
    fn arrived(mut self) {
        self.order = None;
    }
}

impl Drop for OnTheWay<'_> {
    fn drop(&mut self) {
        if let Some(order) = self.order.take()
            && self.ground.chance().hits(5_000)
        {
            let wait_ms = self.ground.chance().skewed(100, 15 * 60_000);
            self.ground.plan_in(wait_ms, Event::LateLaunch(Box::new(LateLaunch::of(order))));
        }
    }
}

fn provider_id(id: &RunnerId) -> String {
    format!("machine:{id}")
}
