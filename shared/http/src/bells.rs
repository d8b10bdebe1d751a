//! The doorbell of a control plane in one process: who waits for a runner or a claim is woken when it changes. A ring that nobody
//! waits for is forgotten; memory follows the number of those who wait.

use motorpool_control::ports::doorbell::Doorbell;
use motorpool_domain::record::Key;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

#[derive(Debug)]
pub struct Bells {
    hung: Mutex<HashMap<Key, Hung>>,
    closed: watch::Sender<bool>,
}

/// One bell with those who listen to it.
#[derive(Debug)]
struct Hung {
    rings: watch::Sender<()>,
    listeners: usize,
}

/// From the moment it is made no ring is missed, also while its holder looks elsewhere.
#[derive(Debug)]
pub struct Listening {
    bells: Arc<Bells>,
    bell: Key,
    rings: watch::Receiver<()>,
    closed: watch::Receiver<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    CapacityOption,
    /// It was silent for as long as it was listened to.
    Silent,
    /// Nothing will ring any more.
    Closed,
}

impl Default for Bells {
    fn default() -> Self {
        Self { hung: Mutex::default(), closed: watch::Sender::new(false) }
    }
}

impl Bells {
    pub fn listen(self: &Arc<Self>, bell: Key) -> Listening {
        let mut hung = self.hung();
        let entry =
            hung.entry(bell.clone()).or_insert_with(|| Hung { rings: watch::Sender::new(()), listeners: 0 });
        entry.listeners += 1;
        let rings = entry.rings.subscribe();
        Listening { bells: Arc::clone(self), bell, rings, closed: self.closed.subscribe() }
    }

    /// Wakes everybody, for good: the server shuts down.
    pub fn close(&self) {
        self.closed.send_replace(true);
    }

    /// How many bells somebody listens to.
    pub fn listened_to(&self) -> usize {
        self.hung().len()
    }

    fn hung(&self) -> MutexGuard<'_, HashMap<Key, Hung>> {
        // Nothing panics while it is held, and a half-done change of it would only cost a wake-up.
        self.hung.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Doorbell for Bells {
    fn ring(&self, bell: Key) {
        if let Some(hung) = self.hung().get(&bell) {
            hung.rings.send_replace(());
        }
    }
}

impl Listening {
    /// Waits for the next ring that was not yet told of, at most so long.
    pub async fn rung(&mut self, at_most: Duration) -> Woken {
        tokio::select! {
            biased;
            _ = self.closed.wait_for(|closed| *closed) => Woken::Closed,
            _ = self.rings.changed() => Woken::CapacityOption,
            () = tokio::time::sleep(at_most) => Woken::Silent,
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut hung = self.bells.hung();
        if let Some(entry) = hung.get_mut(&self.bell) {
            entry.listeners -= 1;
            if entry.listeners == 0 {
                hung.remove(&self.bell);
            }
        }
    }
}
