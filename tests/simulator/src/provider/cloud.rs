//! A provider like EC2: one call makes up to as many machines as it asks for, all told the same; a call is known by its token, and made
//! again answers the same. What it made, it shows some seconds later. Runners are found by tags: launch, and place in the call.

use super::orders::Placed;
use super::{Counter, Short, ladder};
use crate::faults::Fault;
use crate::gate::Side;
use crate::ground::Ground;
use crate::schedule::SimClock;
use crate::weather::Wind;
use crate::yard::Power;
use async_trait::async_trait;
use motorpool_control::ports::backend::{Backend, BackendError, LaunchError, LaunchOrder, Machine};
use motorpool_domain::ladder::{CapacityOption, Lacking};
use motorpool_domain::pool::Pool;
use motorpool_domain::runner::{Attested, Presence, Runner, RunnerState};
use motorpool_domain::spec::Want;
use motorpool_domain::{PoolName, Timestamp};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Cloud {
    counter: Counter,
}

/// As in the backend for EC2: so long after the last call that may have made it, what is not shown is not there.
const SEEN_WITHIN: Duration = Duration::from_secs(120);

impl Cloud {
    pub(crate) fn new(ground: &Arc<Ground>) -> Self {
        Self { counter: Counter { ground: Arc::clone(ground) } }
    }

    /// Of all that were made for the runner, or of the one that its record names: what is shown now.
    fn shown(&self, runner: &Runner) -> Vec<(String, Power)> {
        let yard = self.counter.ground.yard();
        let now_ms = self.counter.ground.now_ms();
        let asked = |id: &str| runner.provider_id.as_deref().is_none_or(|named| named == id);
        yard.of(&runner.id)
            .filter(|(id, site)| asked(id) && site.listed(now_ms))
            .map(|(id, site)| (id.clone(), site.power))
            .collect()
    }

    fn presence(&self, runner: &Runner, shown: &[(String, Power)]) -> Presence {
        if shown.iter().any(|(_, power)| *power != Power::Off) {
            return Presence::There;
        }
        // The backend is a part of the control plane that asks, and has its clock.
        let ahead_ms = self.counter.ground.acting().map_or(0, |acting| acting.ahead_ms);
        let now = SimClock::timestamp_ahead(self.counter.ground.now_ms(), ahead_ms);
        if !shown.is_empty() || would_be_seen(runner, now) { Presence::Gone } else { Presence::Unknown }
    }
}

#[async_trait]
impl Backend for Cloud {
    async fn ladder(&self, pool: &Pool, _: &Want) -> Result<Vec<CapacityOption>, BackendError> {
        self.counter.may_be_throttled("say what there is")?;
        Ok(ladder(pool))
    }

    async fn launch(&self, order: &LaunchOrder<'_>) -> Result<Vec<Machine>, LaunchError> {
        let (placed, came) = self.counter.launch(order, fulfil).await?;
        let ground = &self.counter.ground;
        came.map_err(|of| {
            ground.oracle().told_empty(ground.now_ms(), &placed.pool, &of);
            let why = format!("{}: insufficient capacity ({})", placed.attempt.rung.in_words(), of.key());
            LaunchError::NoCapacity { of, why }
        })
    }

    async fn describe(&self, runner: &Runner) -> Result<Presence, BackendError> {
        self.counter.travels(Side::Before).await;
        self.counter.may_be_throttled("describe a machine")?;
        Ok(self.presence(runner, &self.shown(runner)))
    }

    async fn attest(&self, runner: &Runner, provider_id: &str) -> Result<Attested, BackendError> {
        self.counter.travels(Side::Before).await;
        self.counter.may_be_throttled("say whose a machine is")?;
        let now_ms = self.counter.ground.now_ms();
        let yard = self.counter.ground.yard();
        Ok(match yard.site(provider_id).filter(|site| site.listed(now_ms)) {
            None => Attested::NotShown,
            Some(site) if site.runner == runner.id => Attested::Its,
            Some(_) => Attested::Another,
        })
    }

    async fn ensure_gone(&self, runner: &Runner) -> Result<Presence, BackendError> {
        self.counter.travels(Side::Before).await;
        self.counter.end_is_committed(&runner.id, None);
        self.counter.may_be_throttled("end a machine")?;
        let shown = self.shown(runner);
        let presence = self.presence(runner, &shown);
        for (machine, _) in &shown {
            self.counter.end(machine);
        }
        self.counter.ground.tell(|| {
            let ids: Vec<&str> = shown.iter().map(|(id, _)| id.as_str()).collect();
            format!("provider: told to end {} [{}], which is {presence:?}", runner.id, ids.join(", "))
        });
        self.counter.travels(Side::After).await;
        Ok(presence)
    }

    async fn inventory(&self, pool: &PoolName) -> Result<Vec<Machine>, BackendError> {
        self.counter.travels(Side::Before).await;
        self.counter.may_be_throttled("list the machines")?;
        let now_ms = self.counter.ground.now_ms();
        let yard = self.counter.ground.yard();
        let there = yard.all().filter(|(_, site)| {
            site.is_cloud() && site.pool == *pool && site.power != Power::Off && site.listed(now_ms)
        });
        Ok(there.map(|(id, site)| Machine { runner: site.runner.clone(), provider_id: id.clone() }).collect())
    }

    async fn discard(&self, machine: &Machine) -> Result<(), BackendError> {
        self.counter.travels(Side::Before).await;
        self.counter.end_is_committed(&machine.runner, Some(&machine.provider_id));
        self.counter.may_be_throttled("end a machine")?;
        let presence = self.counter.end(&machine.provider_id);
        let Machine { runner, provider_id } = machine;
        self.counter
            .ground
            .tell(|| format!("provider: discards {provider_id} of {runner}, which was {presence:?}"));
        Ok(())
    }
}

/// All, the first ones, or what there is none of. A token that made machines before answers with them, whatever became of them.
pub(super) fn fulfil(ground: &Ground, order: &Placed, late: bool) -> Result<Vec<Machine>, Lacking> {
    let known = ground.oracle().made_by(&order.token());
    if !known.is_empty() {
        let machine = |(runner, provider_id)| Machine { runner, provider_id };
        return Ok(known.into_iter().map(machine).collect());
    }
    let rung = &order.attempt.rung;
    let short = ground.weather.shorts(ground.now_ms()).find_map(|short| Some((short, short.of(rung)?)));
    if let Some((short, of)) = short {
        ground.fired(match short {
            Short::Type(_) => Fault::NoCapacityOfType,
            Short::Zone(_) => Fault::NoCapacityInZone,
            Short::Usage(_) | Short::Everything | Short::AllButOne(_) => Fault::NoCapacityAtAll,
        });
        return Err(lacks(ground, order, of));
    }
    let most =
        ground.weather.shorts(ground.now_ms()).map(|short| short.at_most(rung)).min().unwrap_or(usize::MAX);
    let mut came = Vec::new();
    for (runner, _) in order.machines.iter().take(most) {
        if ground.strikes(Wind::ProviderFull) {
            break;
        }
        let machine = format!("i-{:08x}", ground.chance().draw() >> 32);
        order.make(ground, &machine, runner, late);
        came.push(Machine { runner: runner.clone(), provider_id: machine });
    }
    if came.is_empty() {
        ground.fired(Fault::NoCapacity);
        return Err(lacks(ground, order, Lacking::rung(rung)));
    }
    if came.len() < order.machines.len() {
        ground.fired(Fault::PartialFleet);
    }
    ground.oracle().answered(&order.token(), came.len());
    Ok(came)
}

fn lacks(ground: &Ground, order: &Placed, of: Lacking) -> Lacking {
    ground.tell(|| format!("provider: none left of {}, {}", of.key(), order.in_words()));
    ground.oracle().answered(&order.token(), 0);
    of
}

fn would_be_seen(runner: &Runner, now: Timestamp) -> bool {
    let last_call = match &runner.state {
        RunnerState::Created { launched_at: None, .. } => return false,
        RunnerState::Created { launched_at: Some(at), .. } => *at,
        RunnerState::Resetting { .. }
        | RunnerState::Idle
        | RunnerState::Claimed { .. }
        | RunnerState::Running { .. }
        | RunnerState::Releasing { .. }
        | RunnerState::Quarantined { .. }
        | RunnerState::Terminating { .. }
        | RunnerState::Terminated { .. } => runner.entered_at,
    };
    now.since(last_call) >= SEEN_WITHIN
}
