//! A provider with one kind of machine: each runner has at most one, told its own secret, and what is there is seen at once.

use super::Counter;
use super::orders::Placed;
use crate::faults::Fault;
use crate::gate::Side;
use crate::ground::Ground;
use crate::weather::Wind;
use crate::yard::Power;
use async_trait::async_trait;
use motorpool_control::ports::backend::{Backend, BackendError, LaunchError, LaunchOrder, Machine};
use motorpool_domain::ladder::Lacking;
use motorpool_domain::runner::{Presence, Runner};
use motorpool_domain::{PoolName, RunnerId};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Plain {
    counter: Counter,
}

impl Plain {
    pub(crate) fn new(ground: &Arc<Ground>) -> Self {
        Self { counter: Counter { ground: Arc::clone(ground) } }
    }
}

#[async_trait]
impl Backend for Plain {
    async fn launch(&self, order: &LaunchOrder<'_>) -> Result<Vec<Machine>, LaunchError> {
        let (_, machines) = self.counter.launch(order, fulfil).await?;
        if machines.is_empty() {
            let of = Lacking::rung(&order.attempt.rung);
            return Err(LaunchError::NoCapacity { of, why: "the host has no capacity left".to_owned() });
        }
        Ok(machines)
    }

    async fn describe(&self, runner: &Runner) -> Result<Presence, BackendError> {
        self.counter.travels(Side::Before).await;
        self.counter.may_be_throttled("describe a machine")?;
        let off = self.counter.ground.yard().is_off(&machine_of(&runner.id));
        Ok(if off { Presence::Gone } else { Presence::There })
    }

    async fn ensure_gone(&self, runner: &Runner) -> Result<Presence, BackendError> {
        self.counter.travels(Side::Before).await;
        self.counter.end_is_committed(&runner.id, None);
        self.counter.may_be_throttled("end a machine")?;
        let presence = self.counter.end(&machine_of(&runner.id));
        self.counter.ground.tell(|| format!("provider: told to end {}, which is {presence:?}", runner.id));
        self.counter.travels(Side::After).await;
        Ok(presence)
    }

    async fn inventory(&self, pool: &PoolName) -> Result<Vec<Machine>, BackendError> {
        self.counter.travels(Side::Before).await;
        self.counter.may_be_throttled("list the machines")?;
        let yard = self.counter.ground.yard();
        let there =
            yard.all().filter(|(_, site)| !site.kept() && site.pool == *pool && site.power != Power::Off);
        Ok(there.map(|(id, site)| Machine { runner: site.runner.clone(), provider_id: id.clone() }).collect())
    }

    async fn discard(&self, machine: &Machine) -> Result<(), BackendError> {
        self.counter.travels(Side::Before).await;
        self.counter.end_is_committed(&machine.runner, Some(&machine.provider_id));
        self.counter.may_be_throttled("end a machine")?;
        let presence = self.counter.end(&machine.provider_id);
        self.counter.ground.tell(|| format!("provider: discards {}, which was {presence:?}", machine.runner));
        Ok(())
    }
}

/// Makes what is not there yet, as far as there is room; of some, they are the first ones.
pub(super) fn fulfil(ground: &Ground, order: &Placed, late: bool) -> Vec<Machine> {
    let mut came = Vec::new();
    for (runner, _) in &order.machines {
        let machine = machine_of(runner);
        if ground.yard().site(&machine).is_none() {
            if ground.strikes(Wind::ProviderFull) {
                ground.fired(if came.is_empty() { Fault::NoCapacity } else { Fault::PartialFleet });
                ground.tell(|| format!("provider: no capacity for {runner}"));
                break;
            }
            order.make(ground, &machine, runner, late);
        }
        came.push(Machine { runner: runner.clone(), provider_id: machine });
    }
    ground.oracle().answered(&order.token(), came.len());
    came
}

fn machine_of(runner: &RunnerId) -> String {
    format!("machine:{runner}")
}
