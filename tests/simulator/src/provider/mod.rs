//! The providers: they make and end machines, slowly, and not always with an answer. One is plain, and has one kind of machine for
//! each runner; the other is a cloud like EC2. What both are told is held against the records (invariants 14 and 15).

mod cloud;
mod market;
mod orders;
mod plain;

pub(crate) use cloud::Cloud;
pub(crate) use market::{Short, ladder};
pub(crate) use orders::LateOrder;
pub(crate) use plain::Plain;

use super::faults::Fault;
use super::gate::{Gate, Side, Toward};
use super::ground::Ground;
use super::schedule::Event;
use super::weather::Wind;
use super::yard::Power;
use motorpool_control::ports::backend::{BackendError, LaunchError, LaunchOrder};
use motorpool_domain::RunnerId;
use motorpool_domain::runner::{Presence, StateName};
use orders::{OnTheWay, Placed};
use std::sync::Arc;

/// What both providers do alike.
#[derive(Debug, Clone)]
struct Counter {
    ground: Arc<Ground>,
}

impl Counter {
    async fn travels(&self, side: Side) {
        let wait_ms = self.ground.chance().skewed(50, 4_000);
        Gate::new(&self.ground, wait_ms, side, Toward::Provider).await;
    }

    /// An order for machines, or its answer.
    async fn launch_travels(&self, side: Side) {
        let wait_ms = self.ground.chance().skewed(50, 4_000);
        Gate::new(&self.ground, wait_ms, side, Toward::Launch).await;
    }

    /// Carries an order there, where it is fulfilled, and its answer back, which may be lost.
    async fn launch<T: Send>(
        &self,
        order: &LaunchOrder<'_>,
        fulfil: fn(&Ground, &Placed, bool) -> T,
    ) -> Result<(Placed, T), LaunchError> {
        let ground = &self.ground;
        let placed = Placed::of(order);
        ground.oracle().ordered(ground.now_ms(), order);
        let on_the_way = OnTheWay::new(ground, &placed);
        self.launch_travels(Side::Before).await;
        on_the_way.arrived();
        if ground.strikes(Wind::ProviderThrottled) {
            ground.fired(Fault::ProviderThrottled);
            ground.tell(|| format!("provider: too many requests, {}", placed.in_words()));
            return Err(LaunchError::Throttled("too many requests".to_owned()));
        }
        let fulfilled = fulfil(ground, &placed, false);
        let mute = ground.strikes(Wind::ProviderMute);
        self.launch_travels(Side::After).await;
        if mute {
            ground.fired(Fault::LaunchAnswerLost);
            return Err(LaunchError::Unconfirmed("the answer was lost".into()));
        }
        Ok((placed, fulfilled))
    }

    /// Tells one machine to go.
    fn end(&self, machine: &str) -> Presence {
        let now_ms = self.ground.now_ms();
        match self.ground.yard().power(machine) {
            None | Some(Power::Off) => return Presence::Gone,
            Some(Power::Stopping) => return Presence::There,
            Some(Power::Booting | Power::On) => {}
        }
        self.ground.yard().turn(machine, Power::Stopping, now_ms);
        let goes_in_ms = self.ground.chance().skewed(200, 90_000);
        self.ground.plan_in(goes_in_ms, Event::PowerOff(machine.to_owned()));
        Presence::There
    }

    fn may_be_throttled(&self, attempted: &str) -> Result<(), BackendError> {
        if !self.ground.strikes(Wind::ProviderThrottled) {
            return Ok(());
        }
        self.ground.fired(Fault::ProviderThrottled);
        Err(BackendError { attempted: attempted.to_owned(), source: "too many requests".into() })
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
