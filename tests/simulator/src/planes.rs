//! The control planes: real ones, all on one ledger and one queue. Their use cases are polled here, one step at a time; a crash
//! drops all that a plane was doing, at whichever gate each use case stood.

use super::calls::{Call, Caller, Kind, Reply, UseCase};
use super::clocks::PlaneClock;
use super::faults::Fault;
use super::gate::{Side, Toward};
use super::ground::{Acting, Ground};
use motorpool_control::ports::backend::{Backend, Backends, OwnedMachines};
use motorpool_control::ports::ci::{Ci, CiSystems};
use motorpool_control::ports::doorbell::NoDoorbell;
use motorpool_control::ports::entropy::SeededEntropy;
use motorpool_control::ports::ledger::Ledger;
use motorpool_control::ports::queue::Queue;
use motorpool_control::{Control, Parts, ServerSecret, Settings};
use motorpool_domain::ci::CiSystem;
use motorpool_domain::pool::BackendKind;
use motorpool_domain::spec::Spec;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// What all planes have in common.
#[derive(Debug, Clone)]
pub(crate) struct Common {
    pub(crate) ground: Arc<Ground>,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) queue: Arc<dyn Queue>,
    pub(crate) plain: Arc<dyn Backend>,
    pub(crate) cloud: Arc<dyn Backend>,
    pub(crate) ci: Arc<dyn Ci>,
    pub(crate) forge: Arc<dyn Ci>,
    pub(crate) refresh: Duration,
    pub(crate) sweep: Duration,
}

pub(crate) const HOST: Spec = Spec { cpu: 2, memory_mb: 2048 };

fn secret() -> ServerSecret {
    ServerSecret::new(b"for simulations")
}

/// What all names of these control planes have in common.
pub(crate) fn installation() -> String {
    secret().installation()
}

impl Common {
    fn control(&self, plane: usize, seed: u64) -> Control {
        Control::new(Parts {
            ledger: Arc::clone(&self.ledger),
            queue: Arc::clone(&self.queue),
            backends: Backends::default()
                .with(BackendKind::Local, Arc::clone(&self.plain))
                .with(BackendKind::Ec2, Arc::clone(&self.cloud))
                .with(BackendKind::BareMetal, Arc::new(OwnedMachines)),
            ci: CiSystems::default()
                .with(CiSystem::GitHub, Arc::clone(&self.ci))
                .with(CiSystem::GitLab, Arc::clone(&self.forge)),
            clock: Arc::new(PlaneClock { ground: Arc::clone(&self.ground), plane }),
            entropy: Arc::new(SeededEntropy::new(seed)),
            doorbell: Arc::new(NoDoorbell),
            alerts: None,
            secret: secret(),
            settings: Settings {
                refresh: self.refresh,
                sweep: self.sweep,
                resource_classes: BTreeMap::new(),
                host: HOST,
                teams: BTreeMap::new(),
            },
        })
    }
}

pub(crate) struct Planes {
    common: Common,
    /// None: it is down.
    up: Vec<Option<Arc<Control>>>,
    begun: u64,
    tasks: BTreeMap<u64, Task>,
}

struct Task {
    plane: usize,
    kind: Kind,
    caller: Caller,
    begun_at_ms: u64,
    use_case: UseCase,
}

/// Where a use case stands, at a gate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    pub(crate) plane: usize,
    pub(crate) kind: Kind,
    pub(crate) side: Side,
    pub(crate) toward: Toward,
}

/// A use case that has begun, and not ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnderWay<'a> {
    pub(crate) plane: usize,
    pub(crate) kind: Kind,
    pub(crate) caller: &'a Caller,
    pub(crate) begun_at_ms: u64,
}

/// A use case that came to its end, or was cut off.
pub(crate) struct Ended {
    pub(crate) caller: Caller,
    pub(crate) reply: Reply,
}

impl Planes {
    pub(crate) fn new(common: Common, count: usize) -> Self {
        let up = (0..count).map(|_| None).collect();
        let mut planes = Self { common, up, begun: 0, tasks: BTreeMap::new() };
        (0..count).for_each(|plane| planes.start(plane));
        planes
    }

    /// A new process: ids that no other has drawn.
    pub(crate) fn start(&mut self, plane: usize) {
        let seed = self.common.ground.chance().draw();
        if let Some(slot) = self.up.get_mut(plane) {
            *slot = Some(Arc::new(self.common.control(plane, seed)));
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.up.len()
    }

    pub(crate) fn is_up(&self, plane: usize) -> bool {
        self.up.get(plane).is_some_and(Option::is_some)
    }

    /// Begins a use case, and polls it as far as it gets.
    pub(crate) fn call(&mut self, plane: usize, caller: Caller, call: Call) -> Option<Ended> {
        let kind = call.kind();
        let Some(control) = self.up.get(plane).and_then(Clone::clone) else {
            return Some(Ended { caller, reply: Reply::Nothing });
        };
        if self.tasks.values().any(|task| task.kind == kind) {
            match kind {
                Kind::Refresh => self.common.ground.fired(Fault::TwoRefreshes),
                Kind::Attend => self.common.ground.fired(Fault::TwoWorkers),
                _ => {}
            }
        }
        self.begun += 1;
        let id = self.begun;
        let begun_at_ms = self.common.ground.now_ms();
        self.acts(id, plane, kind, begun_at_ms);
        self.common.ground.tell(|| format!("begins: {}", call.in_words()));
        let use_case = call.begin(control);
        self.tasks.insert(id, Task { plane, kind, caller, begun_at_ms, use_case });
        self.poll(id)
    }

    /// The schedule opens a gate. Its task goes on; or its plane crashes right here.
    pub(crate) fn open(&mut self, gate: u64) -> Option<Ended> {
        let opened = self.common.ground.gates().open(gate);
        let (task, waker) = opened?;
        if let Some(waker) = waker {
            waker.wake();
        }
        self.poll(task)
    }

    /// The plane whose call waits at this gate.
    pub(crate) fn at_gate(&self, gate: u64) -> Option<Standing> {
        let (task, side, toward) = self.common.ground.gates().waiting(gate)?;
        self.tasks.get(&task).map(|task| Standing { plane: task.plane, kind: task.kind, side, toward })
    }

    /// All that it was doing is gone, half done or not. Who waits for it will notice.
    pub(crate) fn crash(&mut self, plane: usize) -> Vec<Ended> {
        if let Some(slot) = self.up.get_mut(plane) {
            *slot = None;
        }
        let ids: Vec<u64> =
            self.tasks.iter().filter(|(_, task)| task.plane == plane).map(|(id, _)| *id).collect();
        ids.iter()
            .filter_map(|id| self.tasks.remove(id))
            .map(|Task { caller, .. }| Ended { caller, reply: Reply::Nothing })
            .collect()
    }

    /// The use case that has been under way for longest.
    pub(crate) fn oldest(&self) -> Option<UnderWay<'_>> {
        let oldest = self.tasks.iter().min_by_key(|(id, task)| (task.begun_at_ms, **id));
        oldest.map(|(_, Task { plane, kind, caller, begun_at_ms, .. })| UnderWay {
            plane: *plane,
            kind: *kind,
            caller,
            begun_at_ms: *begun_at_ms,
        })
    }

    fn acts(&self, task: u64, plane: usize, kind: Kind, begun_at_ms: u64) {
        let ground = &self.common.ground;
        let ahead_ms = ground.clocks.ahead_ms(plane, ground.now_ms());
        ground.set_acting(Some(Acting { task, plane, kind, begun_at_ms, ahead_ms }));
    }

    fn poll(&mut self, id: u64) -> Option<Ended> {
        let (plane, kind, begun_at_ms) =
            self.tasks.get(&id).map(|task| (task.plane, task.kind, task.begun_at_ms))?;
        self.acts(id, plane, kind, begun_at_ms);
        let task = self.tasks.get_mut(&id)?;
        let ground = &self.common.ground;
        let flag = Arc::new(Flag(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&flag));
        let mut context = Context::from_waker(&waker);
        let mut done = None;
        // A set of futures wakes its parent when it wants another turn.
        while done.is_none() && flag.0.swap(false, Ordering::Relaxed) {
            match task.use_case.as_mut().poll(&mut context) {
                Poll::Ready(reply) => done = Some(reply),
                Poll::Pending => {}
            }
        }
        if let Some(reply) = &done {
            ground.tell(|| format!("ends: {}", reply.in_words()));
        }
        ground.set_acting(None);
        let reply = done?;
        let Task { caller, .. } = self.tasks.remove(&id)?;
        Some(Ended { caller, reply })
    }
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}
