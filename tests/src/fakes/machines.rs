//! Machines that exist once they are launched, and go when they are told to or when a test takes them away.

use async_trait::async_trait;
use motorpool_control::ports::backend::{Backend, BackendError, LaunchError, LaunchOrder, Machine, Ordered};
use motorpool_domain::runner::{Presence, Runner};
use motorpool_domain::{PoolName, RunnerId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub struct Machines(Mutex<Yard>);

#[derive(Debug, Default)]
struct Yard {
    secrets: BTreeMap<RunnerId, String>,
    there: BTreeSet<RunnerId>,
    launches: u32,
    mood: Mood,
}

/// How the provider answers the next launches.
#[derive(Debug, Clone, Default)]
pub enum Mood {
    #[default]
    Willing,
    Refuses(String),
    /// The machine is made, but the answer is lost.
    Mute,
}

impl Machines {
    pub fn mood(&self, mood: Mood) {
        self.yard().mood = mood;
    }

    pub fn there(&self) -> Vec<RunnerId> {
        self.yard().there.iter().cloned().collect()
    }

    /// How often the provider was asked for a machine.
    pub fn launches(&self) -> u32 {
        self.yard().launches
    }

    /// A machine dies by itself.
    pub fn die(&self, id: &RunnerId) {
        self.yard().there.remove(id);
    }

    /// A machine that no record knows.
    pub fn stray(&self, id: RunnerId) {
        self.yard().there.insert(id);
    }

    pub fn secret(&self, id: &RunnerId) -> Option<String> {
        self.yard().secrets.get(id).cloned()
    }

    fn yard(&self) -> MutexGuard<'_, Yard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn machine(id: &RunnerId) -> Machine {
    Machine { runner: id.clone(), provider_id: format!("machine:{id}") }
}

#[async_trait]
impl Backend for Machines {
    async fn launch(&self, order: &LaunchOrder<'_>) -> Result<Vec<Machine>, LaunchError> {
        let mut yard = self.yard();
        yard.launches += 1;
        if let Mood::Refuses(why) = &yard.mood {
            return Err(LaunchError::Refused(why.clone()));
        }
        for Ordered { runner, secret } in &order.machines {
            yard.secrets.insert(runner.clone(), secret.clone());
            yard.there.insert(runner.clone());
        }
        match &yard.mood {
            Mood::Mute => Err(LaunchError::Unconfirmed("the answer was lost".into())),
            Mood::Willing | Mood::Refuses(_) => {
                Ok(order.machines.iter().map(|ordered| machine(&ordered.runner)).collect())
            }
        }
    }

    async fn describe(&self, runner: &Runner) -> Result<Presence, BackendError> {
        Ok(if self.yard().there.contains(&runner.id) { Presence::There } else { Presence::Gone })
    }

    async fn ensure_gone(&self, runner: &Runner) -> Result<Presence, BackendError> {
        self.yard().there.remove(&runner.id);
        Ok(Presence::Gone)
    }

    async fn inventory(&self, _: &PoolName) -> Result<Vec<Machine>, BackendError> {
        Ok(self.yard().there.iter().map(machine).collect())
    }

    async fn discard(&self, machine: &Machine) -> Result<(), BackendError> {
        self.yard().there.remove(&machine.runner);
        Ok(())
    }
}
