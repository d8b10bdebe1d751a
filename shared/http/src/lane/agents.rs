//! The places of agents. Whose token an agent brings, only `control` can tell, and it must read the body for that: so a token that was
//! found good has places of its own from then on, and one that was not yet is a newcomer's, of which there are few. Whoever invents tokens takes places
//! from newcomers alone.

use super::places::{Place, Places};
use crate::auth::{sha256, sha256_from_hex};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

const SHARDS: usize = 16;
/// Tokens that a shard remembers. One that is forgotten though it is good is a newcomer's once more.
const REMEMBERED: usize = 4_096;

#[derive(Debug)]
pub(crate) struct Agents {
    /// A token stands in the table as its hash under a key that nobody knows.
    hasher: RandomState,
    known: [RwLock<HashMap<u64, Arc<Places>>>; SHARDS],
    each: usize,
    pub(super) working: Arc<Places>,
    pub(super) newcomers_reading: Arc<Places>,
    pub(super) newcomers_working: Arc<Places>,
}

pub(crate) struct AgentPlaces {
    pub(crate) each: usize,
    pub(crate) all: usize,
    pub(crate) newcomers: usize,
}

/// A request whose token has not been found good yet.
#[derive(Debug)]
pub(crate) struct Newcomer {
    agents: Arc<Agents>,
    key: u64,
    place: Mutex<Option<Place>>,
}

impl Agents {
    pub(crate) fn new(AgentPlaces { each, all, newcomers }: AgentPlaces) -> Self {
        Self {
            hasher: RandomState::new(),
            known: Default::default(),
            each,
            working: Places::new(all),
            newcomers_reading: Places::new(newcomers.min(all)),
            newcomers_working: Places::new(newcomers.min(all)),
        }
    }

    /// The token's key in the table, and its own places if it has been found good.
    pub(super) fn find(&self, token: &str) -> (u64, Option<Arc<Places>>) {
        let key = self.hasher.hash_one(sha256(token));
        let shard = self.shard(key).read().unwrap_or_else(PoisonError::into_inner);
        (key, shard.get(&key).cloned())
    }

    fn remember(&self, key: u64) -> Arc<Places> {
        let mut shard = self.shard(key).write().unwrap_or_else(PoisonError::into_inner);
        if shard.len() >= REMEMBERED {
            shard.retain(|_, places| !places.is_empty());
        }
        Arc::clone(shard.entry(key).or_insert_with(|| Places::new(self.each)))
    }

    /// An agent whose token is good named the next one, by its hash: it will not come as a newcomer.
    pub(crate) fn expect(&self, token_sha256: &str) {
        if let Some(hash) = sha256_from_hex(token_sha256) {
            self.remember(self.hasher.hash_one(hash));
        }
    }

    /// Places for one thing that an agent asks whose token was found good, as long as it is worked on. Nothing if it asks too much at once, or all
    /// agents do.
    pub(crate) fn enter(&self, token: &str) -> Option<[Place; 2]> {
        let (key, own) = self.find(token);
        let own = own.unwrap_or_else(|| self.remember(key)).take()?;
        Some([own, self.working.take()?])
    }

    /// The token is good no more, as its answer does not tell.
    pub(crate) fn forget_token(&self, token: &str) {
        self.forget(self.find(token).0);
    }

    /// The token is good no more.
    pub(super) fn forget(&self, key: u64) {
        self.shard(key).write().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }

    #[expect(clippy::indexing_slicing, reason = "a remainder is less than its divisor")]
    fn shard(&self, key: u64) -> &RwLock<HashMap<u64, Arc<Places>>> {
        &self.known[key as usize % SHARDS]
    }
}

impl Newcomer {
    pub(super) fn new(agents: Arc<Agents>, key: u64) -> Arc<Self> {
        Arc::new(Self { agents, key, place: Mutex::new(None) })
    }

    pub(super) fn holds(&self, place: Place) {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
    }

    /// Its token was found good: it leaves its place to other newcomers, and has its own from now on.
    pub(crate) fn is_known_now(&self) {
        let own = self.agents.remember(self.key).take();
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = own;
    }
}
