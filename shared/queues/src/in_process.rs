//! The queue inside one process. It is not durable, on purpose: the ledger is the truth, and whoever starts a process heals
//! its queues from there. It has no threads or timers of its own: what is due is noticed by the next caller, or by one that waits.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use motorpool_control::ports::queue::{Queue, QueueError, QueueName, Receipt, Received};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::clock;

/// A queue that holds this many messages, hidden ones included, takes no more.
pub const MOST_MESSAGES: usize = 100_000;

/// In bytes.
pub const LARGEST_BODY: usize = 256 * 1024;

/// The other bounds are those of SQS, so that nobody comes to rely on more.
const MOST_AT_ONCE: usize = 10;
const LONGEST_WAIT: Duration = Duration::from_secs(20);
const LONGEST_VISIBILITY: Duration = Duration::from_secs(12 * 3600);

/// Of the dead letters the newest are kept.
const MOST_DEAD_LETTERS: usize = 1_000;

/// All queues of this process. Messages come in the order in which they became visible: one that was given back is last.
#[derive(Debug, Default)]
pub struct InProcessQueue {
    lines: Mutex<HashMap<QueueName, Arc<Line>>>,
}

#[async_trait]
impl Queue for InProcessQueue {
    async fn send(&self, queue: &QueueName, body: String) -> Result<(), QueueError> {
        let line = self.line(queue);
        line.messages().send(body).map_err(|full| QueueError {
            queue: queue.clone(),
            attempted: "take another message",
            source: Box::new(full),
        })?;
        line.changed.notify_waiters();
        Ok(())
    }

    async fn receive(
        &self,
        queue: &QueueName,
        most: usize,
        wait: Duration,
        visibility: Duration,
    ) -> Result<Vec<Received>, QueueError> {
        let line = self.line(queue);
        let visibility = visibility.min(LONGEST_VISIBILITY);
        let deadline = clock::now() + wait.min(LONGEST_WAIT);
        loop {
            // Made before the look, so that what comes right after the look is not missed.
            let changed = line.changed.notified();
            let now = clock::now();
            let (received, next_visible) = {
                let mut messages = line.messages();
                let received =
                    messages.receive(most.min(MOST_AT_ONCE), queue.max_receives(), now, visibility);
                (received, messages.next_visible())
            };
            if !received.is_empty() {
                // Who waits may have reckoned with a later end of visibility than the one that now comes first.
                line.changed.notify_waiters();
                return Ok(received);
            }
            if most == 0 || now >= deadline {
                return Ok(received);
            }
            let look_again = next_visible.map_or(deadline, |instant| instant.min(deadline));
            let _woken_or_due = timeout_at(look_again, changed).await;
        }
    }

    async fn delete(&self, queue: &QueueName, receipt: &Receipt) -> Result<(), QueueError> {
        self.line(queue).messages().delete(receipt, clock::now());
        Ok(())
    }

    async fn give_back(&self, queue: &QueueName, receipt: &Receipt) -> Result<(), QueueError> {
        let line = self.line(queue);
        line.messages().give_back(receipt, clock::now());
        line.changed.notify_waiters();
        Ok(())
    }

    async fn dead_letters(&self, queue: &QueueName, most: usize) -> Result<Vec<String>, QueueError> {
        Ok(self.line(queue).messages().dead.iter().take(most).cloned().collect())
    }
}

impl InProcessQueue {
    fn line(&self, queue: &QueueName) -> Arc<Line> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        match lines.get(queue) {
            Some(line) => Arc::clone(line),
            None => Arc::clone(lines.entry(queue.clone()).or_default()),
        }
    }
}

/// One queue.
#[derive(Debug, Default)]
struct Line {
    messages: Mutex<Messages>,
    /// Wakes all who wait: they are few, and each looks again.
    changed: Notify,
}

impl Line {
    /// Never held across an await.
    fn messages(&self) -> MutexGuard<'_, Messages> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The messages of one queue. Time is an argument.
#[derive(Debug, Default)]
struct Messages {
    sent: u64,
    visible: VecDeque<Message>,
    hidden: HashMap<u64, Message>,
    /// The hidden ones, by the instant until which each is.
    until: BTreeSet<(Instant, u64)>,
    dead: VecDeque<String>,
}

#[derive(Debug)]
struct Message {
    id: u64,
    body: String,
    receives: u32,
    /// Of the last receive.
    hidden_until: Option<Instant>,
}

#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("it is full: it holds {MOST_MESSAGES} messages")]
    Full,
    #[error("the body has {0} bytes, and {LARGEST_BODY} are the most")]
    TooLarge(usize),
}

impl Messages {
    fn send(&mut self, body: String) -> Result<(), Refused> {
        if body.len() > LARGEST_BODY {
            return Err(Refused::TooLarge(body.len()));
        }
        if self.visible.len() + self.hidden.len() >= MOST_MESSAGES {
            return Err(Refused::Full);
        }
        self.sent += 1;
        self.visible.push_back(Message { id: self.sent, body, receives: 0, hidden_until: None });
        Ok(())
    }

    /// What was received `max_receives` times already is set aside instead.
    fn receive(
        &mut self,
        most: usize,
        max_receives: u32,
        now: Instant,
        visibility: Duration,
    ) -> Vec<Received> {
        self.show_due(now);
        let mut received = Vec::new();
        while received.len() < most
            && let Some(mut message) = self.visible.pop_front()
        {
            if message.receives >= max_receives {
                self.bury(message.body);
                continue;
            }
            message.receives += 1;
            received.push(Received {
                body: message.body.clone(),
                receipt: receipt(&message),
                receives: message.receives,
            });
            let until = now + visibility;
            message.hidden_until = Some(until);
            self.until.insert((until, message.id));
            self.hidden.insert(message.id, message);
        }
        received
    }

    fn delete(&mut self, receipt: &Receipt, now: Instant) {
        self.show_due(now);
        let _deleted = self.take_hidden(receipt);
    }

    fn give_back(&mut self, receipt: &Receipt, now: Instant) {
        self.show_due(now);
        if let Some(message) = self.take_hidden(receipt) {
            self.visible.push_back(message);
        }
    }

    fn next_visible(&self) -> Option<Instant> {
        self.until.first().map(|(until, _id)| *until)
    }

    /// Makes visible what was hidden until now or earlier, in the order of those instants.
    fn show_due(&mut self, now: Instant) {
        while let Some((until, id)) = self.until.first().copied()
            && until <= now
        {
            self.until.remove(&(until, id));
            self.visible.extend(self.hidden.remove(&id));
        }
    }

    /// The message of this receipt, unless it was deleted or became visible since.
    fn take_hidden(&mut self, of: &Receipt) -> Option<Message> {
        let id = of.0.split_once('.')?.0.parse().ok()?;
        if receipt(self.hidden.get(&id)?) != *of {
            return None;
        }
        let message = self.hidden.remove(&id)?;
        if let Some(until) = message.hidden_until {
            self.until.remove(&(until, id));
        }
        Some(message)
    }

    fn bury(&mut self, body: String) {
        if self.dead.len() >= MOST_DEAD_LETTERS {
            self.dead.pop_front();
        }
        self.dead.push_back(body);
    }
}

/// Each receive has another: it names the message and how often it was received.
fn receipt(message: &Message) -> Receipt {
    Receipt(format!("{}.{}", message.id, message.receives))
}

#[cfg(test)]
mod tests {
    use super::*;
    use motorpool_domain::PoolName;

    const LONG: Duration = Duration::from_secs(600);

    fn idle() -> QueueName {
        QueueName::Idle(PoolName::parse("small").unwrap())
    }

    async fn bodies(
        queue: &InProcessQueue,
        most: usize,
        wait: Duration,
        visibility: Duration,
    ) -> Vec<String> {
        let received = queue.receive(&idle(), most, wait, visibility).await.unwrap();
        received.into_iter().map(|message| message.body).collect()
    }

    async fn send(queue: &InProcessQueue, bodies: &[&str]) {
        for body in bodies {
            queue.send(&idle(), (*body).to_owned()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn messages_come_in_the_order_in_which_they_became_visible() {
        let queue = InProcessQueue::default();
        send(&queue, &["a", "b", "c"]).await;
        let first = queue.receive(&idle(), 1, Duration::ZERO, LONG).await.unwrap().remove(0);
        assert_eq!(first.body, "a");
        send(&queue, &["d"]).await;
        queue.give_back(&idle(), &first.receipt).await.unwrap();
        assert_eq!(bodies(&queue, 10, Duration::ZERO, LONG).await, ["b", "c", "d", "a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_empty_receive_lasts_exactly_its_wait() {
        let queue = InProcessQueue::default();
        let start = clock::now();
        assert!(bodies(&queue, 10, Duration::from_secs(7), LONG).await.is_empty());
        assert_eq!(clock::now() - start, Duration::from_secs(7));
        assert!(bodies(&queue, 10, Duration::MAX, LONG).await.is_empty());
        assert_eq!(clock::now() - start, Duration::from_secs(27), "no wait is longer than that of SQS");
        assert!(bodies(&queue, 10, Duration::ZERO, Duration::MAX).await.is_empty());
        assert!(bodies(&queue, 0, LONG, LONG).await.is_empty());
        assert_eq!(clock::now() - start, Duration::from_secs(27));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_gets_a_message_at_the_very_end_of_its_visibility() {
        let queue = Arc::new(InProcessQueue::default());
        let start = clock::now();
        send(&queue, &["a", "b"]).await;
        assert_eq!(bodies(&queue, 1, Duration::ZERO, Duration::from_secs(9)).await, ["a"]);
        let waiting = Arc::clone(&queue);
        let waiter = tokio::spawn(async move {
            // "b" is taken before it looks, and "a" for a while longer than "b".
            tokio::time::sleep(Duration::from_secs(1)).await;
            (bodies(&waiting, 1, Duration::from_secs(20), LONG).await, clock::now())
        });
        assert_eq!(bodies(&queue, 1, Duration::ZERO, Duration::from_secs(5)).await, ["b"]);
        let (got, at) = waiter.await.unwrap();
        assert_eq!((got, at - start), (vec!["b".to_owned()], Duration::from_secs(5)));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_learns_of_a_visibility_that_ends_sooner() {
        let queue = Arc::new(InProcessQueue::default());
        let start = clock::now();
        send(&queue, &["a"]).await;
        let taken =
            queue.receive(&idle(), 1, Duration::ZERO, Duration::from_secs(15)).await.unwrap().remove(0);
        let waiting = Arc::clone(&queue);
        let waiter =
            tokio::spawn(
                async move { (bodies(&waiting, 1, Duration::from_secs(20), LONG).await, clock::now()) },
            );
        tokio::time::sleep(Duration::from_secs(1)).await;
        // Given back and taken again before the waiter runs, for a shorter time.
        queue.give_back(&idle(), &taken.receipt).await.unwrap();
        assert_eq!(bodies(&queue, 1, Duration::ZERO, Duration::from_secs(2)).await, ["a"]);
        let (got, at) = waiter.await.unwrap();
        assert_eq!((got, at - start), (vec!["a".to_owned()], Duration::from_secs(3)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_receipt_is_worthless_once_its_message_is_visible_again() {
        let queue = InProcessQueue::default();
        send(&queue, &["a"]).await;
        let taken =
            queue.receive(&idle(), 1, Duration::ZERO, Duration::from_secs(1)).await.unwrap().remove(0);
        tokio::time::sleep(Duration::from_secs(1)).await;
        queue.delete(&idle(), &taken.receipt).await.unwrap();
        for garbage in ["", ".", "1", "1.", "x.1", "99999999999999999999.1"] {
            queue.delete(&idle(), &Receipt(garbage.to_owned())).await.unwrap();
            queue.give_back(&idle(), &Receipt(garbage.to_owned())).await.unwrap();
        }
        assert_eq!(bodies(&queue, 1, Duration::ZERO, LONG).await, ["a"]);
    }

    #[tokio::test]
    async fn a_full_queue_and_a_large_body_are_refused_and_hidden_messages_count() {
        let queue = InProcessQueue::default();
        for _ in 0..MOST_MESSAGES {
            queue.send(&idle(), String::new()).await.unwrap();
        }
        let taken = queue.receive(&idle(), 1, Duration::ZERO, LONG).await.unwrap().remove(0);
        let full = queue.send(&idle(), String::new()).await.unwrap_err();
        assert_eq!(full.to_string(), "the queue idle-small could not take another message");
        queue.delete(&idle(), &taken.receipt).await.unwrap();
        queue.send(&idle(), "x".repeat(LARGEST_BODY + 1)).await.unwrap_err();
        queue.send(&idle(), "x".repeat(LARGEST_BODY)).await.unwrap();
        let other = QueueName::Idle(PoolName::parse("large").unwrap());
        queue.send(&other, String::new()).await.unwrap();
    }

    #[test]
    fn of_the_dead_letters_the_newest_are_kept() {
        let mut messages = Messages::default();
        for n in 0..=MOST_DEAD_LETTERS {
            messages.bury(n.to_string());
        }
        assert_eq!(messages.dead.len(), MOST_DEAD_LETTERS);
        assert_eq!(messages.dead.front().map(String::as_str), Some("1"));
    }
}
