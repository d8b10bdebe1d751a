//! The main loop: takes the next event, lets it happen, and looks whether an invariant broke.

mod docks;
mod hosts;
mod judge;
mod shop;

use super::calls::{Call, Caller, Reply};
use super::chance::Chance;
use super::ci::{SimCi, SimForge};
use super::clocks::Clocks;
use super::faults::Fault;
use super::gate::{Side, Toward};
use super::ground::Ground;
use super::host::{Host, HostEvent};
use super::ledger::{Books, Engine, SimLedger};
use super::operator::Operator;
use super::oracle::Oracle;
use super::people;
use super::planes::{Common, Ended, Planes, Standing};
use super::plot::{self, CrashAt, Plot};
use super::provider::{Cloud, Plain};
use super::queue::SimQueue;
use super::scale::{self, ALL_WELL_MS, CALM_FROM_MS, DOCK, END_MS, METAL, SHOP, Scale};
use super::schedule::Event;
use super::story::Story;
use super::weather::{Weather, Wind};
use super::workload::{LAST_ASK_MS, Work};
use motorpool_control::SweepWish;
use motorpool_control::ports::backend::Backend;
use motorpool_control::ports::ci::Ci;
use motorpool_control::ports::ledger::Ledger;
use motorpool_control::ports::queue::Queue;
use motorpool_domain::pool::Dispatch;
use motorpool_domain::{PoolName, RunnerId};
use shop::Shop;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

pub(crate) struct World {
    pub(crate) ground: Arc<Ground>,
    scale: Scale,
    planes: Planes,
    ledger: Arc<SimLedger>,
    queue: Arc<SimQueue>,
    hosts: Vec<Host>,
    by_machine: BTreeMap<String, usize>,
    works: Vec<Work>,
    first_in_the_calm: usize,
    /// Crashes that are to happen, one after the other.
    crashes: VecDeque<CrashAt>,
    end_ms: u64,
    operator: Operator,
    shop: Shop,
    pub(crate) events: u64,
}

/// How long a caller waits for an answer that does not come.
const TIMEOUT_MS: u64 = 10_000;
const PAUSE_MS: u64 = 10 * 60_000;

impl World {
    pub(crate) fn new(seed: u64, engine: Engine, scale: Scale, story: Story, plot: Plot) -> Self {
        let mut chance = Chance::new(seed);
        let (weather, clocks, end_ms) = match &plot {
            Plot::Drawn => (
                Weather::draw(&mut chance, CALM_FROM_MS),
                Clocks::draw(&mut chance, scale.planes, CALM_FROM_MS),
                END_MS,
            ),
            Plot::Crashes(_) => (Weather::fair(plot::SHORT.to_vec()), Clocks::default(), plot::END_MS),
        };
        let ground = Arc::new(Ground::new(weather, clocks, chance.fork(), story, Oracle::default()));
        let ledger =
            Arc::new(SimLedger { ground: Arc::clone(&ground), books: Arc::new(Books::open(engine)) });
        let pools = scale.settings();
        let offers: Vec<(PoolName, u32)> = pools
            .iter()
            .filter(|(_, settings)| settings.dispatch != Dispatch::Hook)
            .map(|(name, settings)| (name.clone(), settings.max.min(4)))
            .collect();
        pools.iter().for_each(|(name, settings)| ledger.define(scale::pool(name, settings)));
        let queue = Arc::new(SimQueue::new(Arc::clone(&ground)));
        let common = Common {
            ground: Arc::clone(&ground),
            ledger: Arc::clone(&ledger) as Arc<dyn Ledger>,
            queue: Arc::clone(&queue) as Arc<dyn Queue>,
            plain: Arc::new(Plain::new(&ground)) as Arc<dyn Backend>,
            cloud: Arc::new(Cloud::new(&ground)) as Arc<dyn Backend>,
            ci: Arc::new(SimCi::new(&ground)) as Arc<dyn Ci>,
            forge: Arc::new(SimForge::new(&ground)) as Arc<dyn Ci>,
            refresh: scale.refresh,
            sweep: scale.sweep,
        };
        let (works, first_in_the_calm) = match &plot {
            Plot::Drawn => {
                let count = usize::try_from(chance.between(scale.works.0, scale.works.1)).unwrap_or(0);
                let mut works: Vec<Work> = (0..count)
                    .filter_map(|index| Work::draw(&mut chance, index, &offers, scale.appetites))
                    .collect();
                let first_in_the_calm = works.len();
                for (pool, most) in &offers {
                    works.extend(Work::in_the_calm(works.len(), pool, 1));
                    works.extend(Work::in_the_calm(works.len(), pool, (*most).min(2)));
                }
                (works, first_in_the_calm)
            }
            Plot::Crashes(_) => (plot::works(), 0),
        };
        let kept = [(METAL, scale.metals), (SHOP, scale.shops), (DOCK, scale.docks)];
        let machines: Vec<(RunnerId, PoolName)> =
            kept.into_iter().flat_map(|(pool, count)| owned(pool, count)).collect();
        for (machine, _) in machines.iter().filter(|(_, pool)| pool.as_str() == SHOP) {
            ground.forge().knows(machine);
        }
        let shop = if scale.shops > 0 { Shop::draw(&mut chance, scale.jobs) } else { Shop::default() };
        let mut world = Self {
            planes: Planes::new(common, scale.planes),
            ground,
            scale,
            ledger,
            queue,
            hosts: Vec::new(),
            by_machine: BTreeMap::new(),
            works,
            first_in_the_calm,
            crashes: plot.crashes(),
            end_ms,
            operator: Operator::new(machines, pools),
            shop,
            events: 0,
        };
        world.set_out(&mut chance);
        world
    }

    /// Runs to the end of time, or to the first broken invariant.
    pub(crate) fn run(&mut self) {
        while let Some((at_ms, event)) = self.ground.next_event() {
            if at_ms > self.end_ms {
                break;
            }
            self.ground.clock.turn_to(at_ms);
            self.events += 1;
            self.happens(event);
            if self.ground.oracle().violation().is_some() {
                return;
            }
        }
        self.ground.clock.turn_to(self.end_ms);
        self.judge_the_end();
    }

    fn set_out(&mut self, chance: &mut Chance) {
        let period_ms = u64::try_from(self.scale.refresh.as_millis()).unwrap_or(60_000);
        for plane in 0..self.planes.count() {
            self.ground.plan_in(chance.between(1_000, period_ms), Event::Refresh { plane });
        }
        // Half of them come by themselves, and half in rushes.
        let rushes: Vec<u64> = (0..6).map(|_| chance.between(60_000, LAST_ASK_MS - 10_000)).collect();
        for index in self.first_in_the_calm..self.works.len() {
            let from_ms = if self.end_ms == END_MS { ALL_WELL_MS } else { plot::ASKS_MS };
            self.ground.plan_in(chance.between(from_ms, from_ms + 60_000), Event::Work(index));
        }
        for index in 0..self.first_in_the_calm {
            let at_ms = match (chance.hits(5_000), chance.one_of(&rushes).copied()) {
                (true, Some(rush_ms)) => rush_ms + chance.between(0, 4_000),
                (_, _) => chance.between(5_000, LAST_ASK_MS),
            };
            self.ground.plan_in(at_ms, Event::Work(index));
        }
        self.ground.plan_in(100, Event::Operator);
        self.ground.plan_in(chance.between(60_000, 600_000), Event::Mishap);
        self.ground.plan_in(chance.between(60_000, 300_000), Event::Notice);
        self.ground.plan_in(chance.between(60_000, 300_000), Event::Intruder);
        self.ground.plan_in(60_000, Event::Check);
        if self.scale.shops > 0 {
            self.open_shop(chance);
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Gate(gate) => self.gate_opens(gate),
            Event::Refresh { plane } => self.refresh(plane),
            Event::Restart { plane } => {
                self.ground.tell_of(|| format!("plane-{plane}"), || "starts again".to_owned());
                self.planes.start(plane);
            }
            Event::Arrive { plane, caller, call } => {
                let ended = self.planes.call(plane, caller, call);
                self.deliver(ended);
            }
            Event::Reply { to, reply } => self.told(to, reply),
            Event::Work(index) => self.work(index),
            Event::Host { host, life, event } => self.host(host, life, event),
            Event::LateWrite(write) => self.ledger.arrive_late(&write),
            Event::LateOrder(order) => order.arrive(&self.ground),
            Event::PowerOn(machine) => self.power_on(&machine),
            Event::PowerOff(machine) => self.power_off(&machine),
            Event::Notice => self.notice(),
            Event::Interrupt(machine) => self.interrupt(&machine),
            Event::Mishap => self.mishap(),
            Event::Operator => self.operator(),
            Event::Intruder => self.intruder(),
            Event::Dispatch => self.dispatch(),
            Event::Job { number, life, event } => self.job(number, life, event),
            Event::JobInThePause(name) => self.job_in_the_pause(&name),
            Event::Webhook(number) => self.webhook(number),
            Event::Emptied { host } => self.machine_is_emptied(host),
            Event::Attend { plane } => self.attend(plane),
            Event::Litter => self.litter(),
            Event::Check => self.check(),
        }
    }

    fn gate_opens(&mut self, gate: u64) {
        if let Some(standing) = self.planes.at_gate(gate)
            && (self.crashes_here(standing) || self.is_to_crash(standing))
        {
            return self.crash(standing);
        }
        let ended = self.planes.open(gate);
        self.deliver(ended);
    }

    fn crashes_here(&self, at: Standing) -> bool {
        self.ground.strikes(Wind::Crashes)
            || (at.toward == Toward::Launch && self.ground.strikes(Wind::CrashesAtLaunch))
    }

    /// Whether the next of the planned crashes is due: so many gates of its kind were passed since the last.
    fn is_to_crash(&mut self, at: Standing) -> bool {
        let Some(next) = self.crashes.front_mut() else { return false };
        if !next.counts(at) {
            return false;
        }
        next.nth -= 1;
        if next.nth == 0 {
            self.crashes.pop_front();
            return true;
        }
        false
    }

    /// Whether every planned crash has happened.
    pub(crate) fn has_crashed(&self) -> bool {
        self.crashes.is_empty()
    }

    fn crash(&mut self, at: Standing) {
        let Standing { plane, side, toward, .. } = at;
        self.ground.fired(match (side, toward) {
            (Side::Before, Toward::Launch) => Fault::CrashBeforeLaunch,
            (Side::After, Toward::Launch) => Fault::CrashAfterLaunch,
            (Side::Before, Toward::Ledger | Toward::Queue | Toward::Provider | Toward::Ci) => {
                Fault::CrashBeforeCall
            }
            (Side::After, Toward::Ledger | Toward::Queue | Toward::Provider | Toward::Ci) => {
                Fault::CrashAfterCall
            }
        });
        self.ground
            .tell_of(|| format!("plane-{plane}"), || format!("crashes, {side:?} a call to {toward:?}"));
        for Ended { caller, reply } in self.planes.crash(plane) {
            let wait_ms = self.ground.chance().between(20, 2_000);
            self.ground.plan_in(wait_ms, Event::Reply { to: caller, reply });
        }
        let down_ms = self.ground.chance().skewed(1_000, 240_000);
        self.ground.plan_in(down_ms, Event::Restart { plane });
    }

    fn refresh(&mut self, plane: usize) {
        let period_ms = u64::try_from(self.scale.refresh.as_millis()).unwrap_or(60_000);
        self.ground.plan_in(period_ms, Event::Refresh { plane });
        if self.planes.is_up(plane) {
            let call = Call::Refresh(SweepWish::IfDue);
            let ended = self.planes.call(plane, Caller::Refresher(plane), call);
            self.deliver(ended);
        }
    }

    /// A request goes out: to any plane, up or not, over a network that loses some.
    fn send(&mut self, caller: Caller, call: Call) {
        let cut_off = caller.is_host() && self.ground.weather.outage(self.ground.now_ms());
        if cut_off {
            self.ground.fired(Fault::HeartbeatsVanish);
        }
        if cut_off || self.ground.strikes(Wind::NetworkLossy) {
            return self.ground.plan_in(TIMEOUT_MS, Event::Reply { to: caller, reply: Reply::Nothing });
        }
        let plane = self.ground.chance().index(self.planes.count());
        let wait_ms = self.ground.chance().skewed(2, 1_000);
        self.ground.plan_in(wait_ms, Event::Arrive { plane, caller, call });
    }

    /// A use case has ended: its reply travels back.
    fn deliver(&mut self, ended: Option<Ended>) {
        let Some(Ended { caller, reply }) = ended else { return };
        self.said_of_a_job(&reply, &caller);
        match caller {
            Caller::Refresher(_)
            | Caller::Attender(_)
            | Caller::Operator(_)
            | Caller::Renewer(_)
            | Caller::PoolKeeper(_)
            | Caller::Intruder { .. } => self.told(caller, reply),
            Caller::Work(_)
            | Caller::Host { .. }
            | Caller::Fetcher { .. }
            | Caller::Hook { .. }
            | Caller::Webhook(_) => {
                let cut_off = caller.is_host() && self.ground.weather.outage(self.ground.now_ms());
                let (wait_ms, reply) = match cut_off || self.ground.strikes(Wind::NetworkLossy) {
                    true => (TIMEOUT_MS, Reply::Nothing),
                    false => (self.ground.chance().skewed(2, 1_000), reply),
                };
                self.ground.plan_in(wait_ms, Event::Reply { to: caller, reply });
            }
        }
    }

    fn told(&mut self, to: Caller, reply: Reply) {
        match to {
            Caller::Work(index) => {
                if let Some(work) = self.works.get_mut(index) {
                    work.told(&self.ground, &reply);
                }
            }
            Caller::Host { host, life, call } | Caller::Fetcher { host, life, call } => {
                let Some(of) = self.hosts.get_mut(host).filter(|of| of.life == life) else { return };
                if let Some(wait_ms) = paused(&self.ground, of) {
                    return self.ground.plan_in(wait_ms, Event::Reply { to, reply });
                }
                let next = match matches!(to, Caller::Fetcher { .. }) {
                    true => of.told_of_fetch(&self.ground, call, reply),
                    false => of.told(&self.ground, call, reply),
                };
                self.send_for(host, next);
            }
            Caller::Hook { job, life, host, host_life } => self.hook_told(job, life, host, host_life, &reply),
            // Nobody sends it again.
            Caller::Webhook(_) | Caller::Attender(_) => {}
            Caller::Operator(runner) => {
                if let Reply::Registered(Ok(registered)) = reply {
                    self.joins(runner, registered.bootstrap_secret.unwrap_or_default());
                }
            }
            Caller::Renewer(runner) => self.renewed(runner, reply),
            Caller::PoolKeeper(pool) => {
                if let Reply::Commanded(Ok(())) = reply {
                    self.operator.changed(&pool);
                }
            }
            Caller::Intruder { runner, by, epoch } => {
                people::judge_intrusion(&self.ground, &runner, by, epoch, &reply);
            }
            Caller::Refresher(_) => {
                if matches!(&reply, Reply::Refreshed(Ok(report)) if report.braked) {
                    self.ground.fired(Fault::BrakeHeld);
                }
            }
        }
    }

    fn send_for(&mut self, host: usize, call: Option<(u64, Call)>) {
        let Some(of) = self.hosts.get(host) else { return };
        if let Some((number, call)) = call {
            let life = of.life;
            let caller = match matches!(call, Call::Fetch { .. }) {
                true => Caller::Fetcher { host, life, call: number },
                false => Caller::Host { host, life, call: number },
            };
            self.send(caller, call);
        }
    }

    fn work(&mut self, index: usize) {
        let call = self.works.get_mut(index).and_then(|work| work.next(&self.ground));
        if let Some(call) = call {
            self.ground.tell_of(|| format!("workflow wf-{index}"), || format!("calls: {}", call.in_words()));
            self.send(Caller::Work(index), call);
        }
    }

    fn host(&mut self, host: usize, life: u32, event: HostEvent) {
        let Some(of) = self.hosts.get_mut(host).filter(|of| of.life == life && of.is_on()) else { return };
        if let Some(wait_ms) = paused(&self.ground, of) {
            self.ground.fired(Fault::AgentPaused);
            return self.ground.plan_in(wait_ms, Event::Host { host, life, event });
        }
        let next = of.handle(&self.ground, event);
        self.send_for(host, next);
    }

    fn operator(&mut self) {
        let wait_ms = self.ground.chance().between(40_000, 240_000);
        self.ground.plan_in(wait_ms, Event::Operator);
        for (caller, call) in self.operator.looks(&self.ground) {
            self.send(caller, call);
        }
    }

    fn intruder(&mut self) {
        let wait_ms = self.ground.chance().between(60_000, 300_000);
        self.ground.plan_in(wait_ms, Event::Intruder);
        let host = {
            let index = self.ground.chance().index(self.hosts.len());
            self.hosts.get(index)
        };
        if let Some((caller, call)) = host.and_then(|host| people::intrude(&self.ground, host)) {
            self.send(caller, call);
        }
    }
}

/// The operator's own machines of a pool.
fn owned(pool: &'static str, count: u32) -> impl Iterator<Item = (RunnerId, PoolName)> {
    let name = PoolName::parse(pool).expect("a pool's name");
    (1..=count).filter_map(move |nth| Some((RunnerId::parse(format!("{pool}-{nth}")).ok()?, name.clone())))
}

/// How long it still is.
fn paused(ground: &Ground, host: &Host) -> Option<u64> {
    host.paused_until_ms.checked_sub(ground.now_ms()).filter(|left| *left > 0)
}
