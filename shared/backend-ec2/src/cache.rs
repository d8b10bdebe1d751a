//! What was read from EC2, kept for a while: bounded, and read once for all who ask at the same time. What can't be read anew is served
//! old; what could not be read a moment ago is not asked for again yet.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use motorpool_domain::Timestamp;

use crate::errors::Ec2Error;

pub(crate) struct Cache<K, V> {
    lifetime: Duration,
    most: usize,
    slots: Mutex<HashMap<K, Slot<V>>>,
}

struct Slot<V> {
    asked_at: Timestamp,
    kept: Option<Kept<V>>,
    failed: Option<(Ec2Error, Timestamp)>,
    under_way: Option<Reading<V>>,
}

struct Kept<V> {
    value: Arc<V>,
    read_at: Timestamp,
}

/// Behind a failure, often of being asked too often, come all who waited; without this each would try anew.
const AFTER_A_FAILURE: Duration = Duration::from_secs(1);

/// Whoever waits for it also drives it on: nobody depends on the one who began it.
type Reading<V> = Shared<BoxFuture<'static, Result<Arc<V>, Ec2Error>>>;

impl<K, V> Cache<K, V>
where
    K: Clone + Eq + Hash + fmt::Debug,
    V: Send + Sync + 'static,
{
    pub(crate) fn new(lifetime: Duration, most: usize) -> Self {
        Self { lifetime, most, slots: Mutex::default() }
    }

    /// What is kept, if it is young enough; else what `read` brings. Who comes while somebody reads gets the same answer, an error as well.
    pub(crate) async fn get<F>(
        &self,
        key: &K,
        now: Timestamp,
        read: impl FnOnce() -> F,
    ) -> Result<Arc<V>, Ec2Error>
    where
        F: Future<Output = Result<V, Ec2Error>> + Send + 'static,
    {
        let reading = {
            let mut slots = self.lock();
            self.make_room(&mut slots, key);
            let empty = || Slot { asked_at: now, kept: None, failed: None, under_way: None };
            let slot = slots.entry(key.clone()).or_insert_with(empty);
            slot.asked_at = now;
            if let Some(known) = slot.known(now, self.lifetime) {
                return known;
            }
            slot.under_way
                .get_or_insert_with(|| read().map(|read| read.map(Arc::new)).boxed().shared())
                .clone()
        };
        let outcome = reading.clone().await;
        let mut slots = self.lock();
        let Some(slot) = slots.get_mut(key) else { return outcome };
        if slot.under_way.as_ref().is_some_and(|current| current.ptr_eq(&reading)) {
            slot.under_way = None;
            match &outcome {
                Ok(value) => slot.kept = Some(Kept { value: Arc::clone(value), read_at: now }),
                Err(error) => slot.failed = Some((error.clone(), now)),
            }
        }
        match (outcome, &slot.kept) {
            (Err(error), Some(old)) => {
                tracing::warn!(?key, %error, "EC2 can't be read, and what it said before is used");
                Ok(Arc::clone(&old.value))
            }
            (outcome, _) => outcome,
        }
    }

    /// The one that was asked for the longest ago goes.
    fn make_room(&self, slots: &mut HashMap<K, Slot<V>>, key: &K) {
        if slots.len() < self.most || slots.contains_key(key) {
            return;
        }
        let oldest = slots.iter().min_by_key(|(_, slot)| slot.asked_at).map(|(key, _)| key.clone());
        if let Some(oldest) = oldest {
            slots.remove(&oldest);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, Slot<V>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V> Slot<V> {
    /// What needs no reading: the value while it is young, and for a moment what became of the last try.
    fn known(&self, now: Timestamp, lifetime: Duration) -> Option<Result<Arc<V>, Ec2Error>> {
        let kept = self.kept.as_ref();
        if let Some(kept) = kept.filter(|kept| now.since(kept.read_at) < lifetime) {
            return Some(Ok(Arc::clone(&kept.value)));
        }
        let (error, _) = self.failed.as_ref().filter(|(_, at)| now.since(*at) < AFTER_A_FAILURE)?;
        Some(kept.map_or_else(|| Err(error.clone()), |old| Ok(Arc::clone(&old.value))))
    }
}

impl<K, V> fmt::Debug for Cache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;
    use std::sync::atomic::{AtomicU32, Ordering};

    const LIFETIME: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    /// Counts its reads, and answers with that count, after others had their turn.
    #[derive(Clone, Default)]
    struct Source(Arc<AtomicU32>);

    impl Source {
        fn read(&self, fails: bool) -> impl Future<Output = Result<u32, Ec2Error>> + Send + 'static {
            let count = Arc::clone(&self.0);
            async move {
                let read = count.fetch_add(1, Ordering::SeqCst) + 1;
                tokio::task::yield_now().await;
                if fails { Err(Ec2Error::Unfit("down".to_owned())) } else { Ok(read) }
            }
        }

        fn reads(&self) -> u32 {
            self.0.load(Ordering::SeqCst)
        }
    }

    #[tokio::test]
    async fn all_who_ask_at_once_are_served_by_one_read() {
        let (cache, source) = (Cache::new(LIFETIME, 4), Source::default());
        let all = join_all((0..500).map(|_| cache.get(&"a", at(0), || source.read(false)))).await;
        assert!(all.into_iter().all(|read| *read.unwrap() == 1));
        let all = join_all((0..500).map(|_| cache.get(&"b", at(0), || source.read(true)))).await;
        assert!(all.iter().all(Result::is_err), "an error is shared too");
        assert_eq!(source.reads(), 2);
    }

    #[tokio::test]
    async fn what_is_old_is_read_anew_and_served_old_if_that_fails() {
        let (cache, source) = (Cache::new(LIFETIME, 4), Source::default());
        let get = async |now, fails| cache.get(&"a", at(now), || source.read(fails)).await;
        assert!(get(0, true).await.is_err(), "there is nothing old yet");
        assert!(get(0, false).await.is_err(), "it is not asked again at once");
        assert_eq!(*get(1, false).await.unwrap(), 2);
        assert_eq!(*get(10, false).await.unwrap(), 2);
        assert_eq!(*get(11, true).await.unwrap(), 2);
        assert_eq!(*get(11, false).await.unwrap(), 2);
        assert_eq!(*get(12, false).await.unwrap(), 4);
    }

    #[tokio::test]
    async fn a_read_whose_beginner_went_away_is_finished_by_the_next() {
        let (cache, source) = (Cache::new(LIFETIME, 4), Source::default());
        assert!(cache.get(&"a", at(0), || source.read(false)).now_or_never().is_none(), "it waits");
        assert_eq!(*cache.get(&"a", at(0), || source.read(false)).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn it_does_not_grow_beyond_its_bound() {
        let (cache, source) = (Cache::new(LIFETIME, 3), Source::default());
        for key in 0..100_u64 {
            cache.get(&key, at(key), || source.read(false)).await.unwrap();
        }
        assert_eq!(cache.lock().len(), 3);
        cache.get(&99, at(99), || source.read(false)).await.unwrap();
        assert_eq!(source.reads(), 100, "the last ones are kept");
    }
}
