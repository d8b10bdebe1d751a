//! Wakes whoever waits in this process for a runner or a claim to change: the doorbell of a control plane in one process. A change that
//! nobody waits for is forgotten; memory follows the number of those who wait.

use motorpool_control::ports::doorbell::Doorbell;
use motorpool_domain::record::Key;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

#[derive(Debug)]
pub struct Notifier {
    waiters: Mutex<HashMap<Key, Waiters>>,
    closed: watch::Sender<bool>,
}

/// Those who wait for one record.
#[derive(Debug)]
struct Waiters {
    wake: watch::Sender<()>,
    count: usize,
}

/// One waiter. From the moment it is made it misses no change, even while its holder looks elsewhere.
#[derive(Debug)]
pub struct Waiter {
    notifier: Arc<Notifier>,
    record: Key,
    wake: watch::Receiver<()>,
    closed: watch::Receiver<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    Changed,
    TimedOut,
    /// Nobody will be woken any more.
    Closed,
}

impl Default for Notifier {
    fn default() -> Self {
        Self { waiters: Mutex::default(), closed: watch::Sender::new(false) }
    }
}

impl Notifier {
    pub fn waiter(self: &Arc<Self>, record: Key) -> Waiter {
        let mut waiters = self.waiters();
        let here = waiters
            .entry(record.clone())
            .or_insert_with(|| Waiters { wake: watch::Sender::new(()), count: 0 });
        here.count += 1;
        let wake = here.wake.subscribe();
        Waiter { notifier: Arc::clone(self), record, wake, closed: self.closed.subscribe() }
    }

    /// Wakes everybody, for good: the server shuts down.
    pub fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Ends when the server shuts down.
    pub(crate) fn closing(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut closed = self.closed.subscribe();
        // Whoever could say that it closes is gone, which is as good.
        async move { drop(closed.wait_for(|closed| *closed).await) }
    }

    /// How many records somebody waits for.
    pub fn waited_for(&self) -> usize {
        self.waiters().len()
    }

    fn waiters(&self) -> MutexGuard<'_, HashMap<Key, Waiters>> {
        // Nothing panics while the lock is held, and a half-done change of the map would only cost a wake-up.
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Doorbell for Notifier {
    fn ring(&self, changed: Key) {
        if let Some(here) = self.waiters().get(&changed) {
            here.wake.send_replace(());
        }
    }
}

impl Waiter {
    /// Waits for the next change that was not yet told of, at most so long.
    pub async fn woken(&mut self, at_most: Duration) -> Woken {
        tokio::select! {
            biased;
            _ = self.closed.wait_for(|closed| *closed) => Woken::Closed,
            _ = self.wake.changed() => Woken::Changed,
            () = tokio::time::sleep(at_most) => Woken::TimedOut,
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut waiters = self.notifier.waiters();
        if let Some(here) = waiters.get_mut(&self.record) {
            here.count -= 1;
            if here.count == 0 {
                waiters.remove(&self.record);
            }
        }
    }
}
