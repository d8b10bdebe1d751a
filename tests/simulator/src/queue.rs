//! The queue in simulated time: messages come twice, late, or never, and are visible again too early. That one is deleted only
//! after its effect is durable (invariant 9) is checked here.

use super::faults::Fault;
use super::gate::{Gate, Side, Toward};
use super::ground::Ground;
use super::weather::Wind;
use async_trait::async_trait;
use motorpool_control::ports::queue::{Queue, QueueError, QueueName, Receipt, Received};
use motorpool_domain::runner::RunnerState;
use motorpool_domain::{Epoch, RunnerId};
use motorpool_wire::queue::{FinalizeNotice, IdleNotice};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct SimQueue {
    ground: Arc<Ground>,
    lines: Mutex<BTreeMap<String, Line>>,
}

#[derive(Debug, Default)]
struct Line {
    sent: u64,
    messages: BTreeMap<u64, Message>,
    /// When each body was last sent, whatever became of it.
    last_sent_ms: BTreeMap<String, u64>,
    dead: Vec<String>,
}

#[derive(Debug)]
struct Message {
    body: String,
    visible_at_ms: u64,
    received_at_ms: u64,
    receives: u32,
    /// Another with the same body was sent in the same breath.
    copy: bool,
    /// It became visible before its receiver's time was over.
    early: bool,
}

impl SimQueue {
    pub(crate) fn new(ground: Arc<Ground>) -> Self {
        Self { ground, lines: Mutex::default() }
    }

    /// Whether some message, seen or hidden, announces this runner in this epoch.
    pub(crate) fn announces(&self, queue: &QueueName, runner: &RunnerId, epoch: Epoch) -> bool {
        let lines = self.lines();
        let Some(line) = lines.get(&queue.to_string()) else { return false };
        line.messages
            .values()
            .filter_map(|message| serde_json::from_str::<IdleNotice>(&message.body).ok())
            .any(|notice| notice.runner == *runner && notice.epoch == epoch)
    }

    /// Into the finalize queue comes what nobody understands, or again what was there long ago.
    pub(crate) fn litter(&self, poison: bool) {
        let now_ms = self.ground.now_ms();
        let mut lines = self.lines();
        let line = lines.entry(QueueName::Finalize.to_string()).or_default();
        let sent: Vec<&String> = line.last_sent_ms.keys().collect();
        let old = self.ground.chance().one_of(&sent).map(|body| (*body).clone());
        let Some(body) = old.filter(|_| !poison).or_else(|| poison.then(|| format!("poison {now_ms}")))
        else {
            return;
        };
        let is_over = serde_json::from_str::<FinalizeNotice>(&body).is_ok_and(|notice| {
            self.ground.oracle().runner(&notice.runner).is_none_or(|runner| runner.epoch > notice.epoch)
        });
        if is_over {
            self.ground.fired(Fault::RedrivenLate);
        }
        self.ground.tell(|| format!("queue finalize: somebody puts in {body}"));
        line.sent += 1;
        let message = Message {
            body,
            visible_at_ms: now_ms,
            received_at_ms: 0,
            receives: 0,
            copy: false,
            early: false,
        };
        line.messages.insert(line.sent, message);
    }

    async fn travels(&self, side: Side) {
        let wait_ms = self.ground.chance().skewed(3, 1_500);
        Gate::new(&self.ground, wait_ms, side, Toward::Queue).await;
    }

    fn lines(&self) -> MutexGuard<'_, BTreeMap<String, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Deleted while the runner that it announces is idle all the same: then nobody will hear of it.
    fn effect_is_durable(&self, message: &Message, resent: bool) {
        let Ok(notice) = serde_json::from_str::<IdleNotice>(&message.body) else { return };
        let IdleNotice { runner, epoch, offer: _ } = notice;
        let idle = self
            .ground
            .oracle()
            .runner(&runner)
            .is_some_and(|known| known.epoch == epoch && known.state == RunnerState::Idle);
        if idle && !resent {
            let what =
                format!("the notice of {runner}@{epoch} is deleted, and the runner is idle all the same");
            self.ground.broken(9, &[&runner], what);
        }
    }
}

#[async_trait]
impl Queue for SimQueue {
    async fn send(&self, queue: &QueueName, body: String) -> Result<(), QueueError> {
        self.travels(Side::Before).await;
        let now_ms = self.ground.now_ms();
        let lost = self.ground.strikes(Wind::QueueLossy);
        let refused = lost && self.ground.chance().hits(3_000);
        if refused {
            return Err(failed(queue, "send a message"));
        }
        let copies = if self.ground.strikes(Wind::QueueRepeats) { 2 } else { 1 };
        let late_ms = match self.ground.strikes(Wind::QueueLossy) {
            true => self.ground.chance().between(1_000, 120_000),
            false => 0,
        };
        {
            let mut lines = self.lines();
            let line = lines.entry(queue.to_string()).or_default();
            line.last_sent_ms.insert(body.clone(), now_ms);
            for copy in 0..copies {
                if lost {
                    break;
                }
                line.sent += 1;
                let message = Message {
                    body: body.clone(),
                    visible_at_ms: now_ms + late_ms * copy + if copies == 1 { late_ms } else { 0 },
                    received_at_ms: 0,
                    receives: 0,
                    copy: copies > 1,
                    early: false,
                };
                line.messages.insert(line.sent, message);
            }
        }
        if lost {
            self.ground.fired(Fault::LostMessage);
        }
        self.ground.tell(|| format!("queue {queue}: {} {body}", if lost { "loses" } else { "takes" }));
        self.travels(Side::After).await;
        Ok(())
    }

    async fn receive(
        &self,
        queue: &QueueName,
        most: usize,
        _wait: Duration,
        visibility: Duration,
    ) -> Result<Vec<Received>, QueueError> {
        self.travels(Side::Before).await;
        let now_ms = self.ground.now_ms();
        let mut received = Vec::new();
        while received.len() < most.min(10) {
            let early = self.ground.strikes(Wind::QueueShortVisibility);
            let hidden_ms = match early {
                true => self.ground.chance().between(50, 3_000),
                false => u64::try_from(visibility.as_millis()).unwrap_or(u64::MAX),
            };
            let mut lines = self.lines();
            let line = lines.entry(queue.to_string()).or_default();
            let Some((id, message)) = line
                .messages
                .iter_mut()
                .filter(|(_, message)| message.visible_at_ms <= now_ms)
                .min_by_key(|(id, message)| (message.visible_at_ms, **id))
            else {
                break;
            };
            let id = *id;
            if message.receives >= queue.max_receives() {
                let dead = line.messages.remove(&id).map(|message| message.body);
                let is_poison = |body: &String| serde_json::from_str::<FinalizeNotice>(body).is_err();
                if *queue == QueueName::Finalize && dead.as_ref().is_some_and(is_poison) {
                    self.ground.fired(Fault::PoisonSetAside);
                }
                line.dead.extend(dead);
                continue;
            }
            if message.copy && message.receives == 0 {
                self.ground.fired(Fault::DuplicateDelivery);
            }
            if message.early {
                self.ground.fired(Fault::VisibleAgain);
            }
            message.early = early;
            message.receives += 1;
            message.received_at_ms = now_ms;
            message.visible_at_ms = now_ms + hidden_ms;
            received.push(Received {
                body: message.body.clone(),
                receipt: Receipt(format!("{id}.{}", message.receives)),
                receives: message.receives,
            });
        }
        self.ground.tell(|| {
            let bodies: Vec<&str> = received.iter().map(|message| message.body.as_str()).collect();
            format!("queue {queue}: gives [{}]", bodies.join(", "))
        });
        self.travels(Side::After).await;
        Ok(received)
    }

    async fn delete(&self, queue: &QueueName, receipt: &Receipt) -> Result<(), QueueError> {
        self.travels(Side::Before).await;
        let deleted = {
            let mut lines = self.lines();
            let line = lines.entry(queue.to_string()).or_default();
            let id = valid(line, receipt);
            let message = id.and_then(|id| line.messages.remove(&id));
            message.map(|message| {
                let resent =
                    line.last_sent_ms.get(&message.body).is_some_and(|sent| *sent >= message.received_at_ms);
                (message, resent)
            })
        };
        if let Some((message, resent)) = deleted {
            if matches!(queue, QueueName::Idle(_)) {
                self.effect_is_durable(&message, resent);
            }
            self.ground.tell(|| format!("queue {queue}: deletes {}", message.body));
        }
        self.travels(Side::After).await;
        Ok(())
    }

    async fn give_back(&self, queue: &QueueName, receipt: &Receipt) -> Result<(), QueueError> {
        self.travels(Side::Before).await;
        let now_ms = self.ground.now_ms();
        let mut lines = self.lines();
        let line = lines.entry(queue.to_string()).or_default();
        if let Some(message) = valid(line, receipt).and_then(|id| line.messages.get_mut(&id)) {
            message.visible_at_ms = now_ms;
            message.early = false;
        }
        Ok(())
    }

    async fn dead_letters(&self, queue: &QueueName, most: usize) -> Result<Vec<String>, QueueError> {
        self.travels(Side::Before).await;
        let lines = self.lines();
        let dead = lines.get(&queue.to_string()).map(|line| line.dead.as_slice()).unwrap_or_default();
        Ok(dead.iter().take(most).cloned().collect())
    }
}

/// The message of this receipt, unless it was deleted or received again since.
fn valid(line: &Line, receipt: &Receipt) -> Option<u64> {
    let (id, receives) = receipt.0.split_once('.')?;
    let id = id.parse().ok()?;
    let message = line.messages.get(&id)?;
    (message.receives.to_string() == receives).then_some(id)
}

fn failed(queue: &QueueName, attempted: &'static str) -> QueueError {
    QueueError { queue: queue.clone(), attempted, source: "the queue does not answer".into() }
}
