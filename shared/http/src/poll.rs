//! Long polls: look, and look again when woken, until there is something to tell or the time is over.

use crate::envelope::Refusal;
use crate::limits::took_too_long;
use crate::notify::{Waiter, Woken};
use std::pin::pin;
use std::time::Duration;

pub(crate) enum Polled<T> {
    /// Worth telling at once.
    Settled(T),
    /// To be told only when the time is over.
    Unsettled(T),
}

pub(crate) struct Patience {
    /// How long the caller asked to wait.
    pub(crate) wait: Duration,
    /// How long a lost wake-up may go unnoticed.
    pub(crate) recheck: Duration,
    /// How much longer than asked the answer may take.
    pub(crate) margin: Duration,
}

/// `waiter` must have been made before, so that nothing that happens after the first look is missed.
pub(crate) async fn long_poll<T, L, F>(
    mut waiter: Waiter,
    patience: Patience,
    mut look: L,
) -> Result<T, Refusal>
where
    L: FnMut() -> F,
    F: Future<Output = Result<Polled<T>, Refusal>>,
{
    let Patience { wait, recheck, margin } = patience;
    let looking = async {
        let mut over = pin!(tokio::time::sleep(wait));
        loop {
            let seen = match look().await? {
                Polled::Settled(seen) => return Ok(seen),
                Polled::Unsettled(seen) => seen,
            };
            if wait.is_zero() {
                return Ok(seen);
            }
            tokio::select! {
                biased;
                () = &mut over => return Ok(seen),
                woken = waiter.woken(recheck) => match woken {
                    Woken::Changed | Woken::TimedOut => {}
                    Woken::Closed => return Ok(seen),
                },
            }
        }
    };
    tokio::time::timeout(wait.saturating_add(margin), looking).await.unwrap_or_else(|_| Err(took_too_long()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notify::Notifier;
    use motorpool_control::ports::doorbell::Doorbell;
    use motorpool_domain::ClaimId;
    use motorpool_domain::record::Key;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    const NEVER: Duration = Duration::from_secs(600);

    fn claim() -> Key {
        Key::from(&ClaimId::parse("c-1").unwrap())
    }

    #[tokio::test]
    async fn without_a_wait_it_looks_once() {
        let notifier = Arc::new(Notifier::default());
        let looks = AtomicU32::new(0);
        let patience = Patience { wait: Duration::ZERO, recheck: Duration::ZERO, margin: NEVER };
        let seen = long_poll(notifier.waiter(claim()), patience, || async {
            Ok(Polled::Unsettled(looks.fetch_add(1, Ordering::SeqCst)))
        });
        assert_eq!(seen.await, Ok(0));
        assert_eq!(looks.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_change_during_the_look_is_not_missed() {
        let notifier = Arc::new(Notifier::default());
        let looks = AtomicU32::new(0);
        let patience = Patience { wait: NEVER, recheck: NEVER, margin: NEVER };
        let seen = long_poll(notifier.waiter(claim()), patience, || async {
            let look = looks.fetch_add(1, Ordering::SeqCst);
            notifier.ring(claim());
            Ok(if look < 3 { Polled::Unsettled(look) } else { Polled::Settled(look) })
        });
        assert_eq!(seen.await, Ok(3));
    }

    #[tokio::test]
    async fn a_lost_wake_up_costs_only_the_recheck() {
        let notifier = Arc::new(Notifier::default());
        let looks = AtomicU32::new(0);
        let patience = Patience { wait: NEVER, recheck: Duration::from_millis(1), margin: NEVER };
        let seen = long_poll(notifier.waiter(claim()), patience, || async {
            let look = looks.fetch_add(1, Ordering::SeqCst);
            Ok(if look < 2 { Polled::Unsettled(look) } else { Polled::Settled(look) })
        });
        assert_eq!(seen.await, Ok(2));
    }

    #[tokio::test]
    async fn when_the_time_is_over_it_tells_what_it_saw_last() {
        let notifier = Arc::new(Notifier::default());
        let patience = Patience { wait: Duration::from_millis(5), recheck: NEVER, margin: NEVER };
        let seen = long_poll(notifier.waiter(claim()), patience, || async { Ok(Polled::Unsettled("seen")) });
        assert_eq!(seen.await, Ok("seen"));
        assert_eq!(notifier.waited_for(), 0);
    }

    #[tokio::test]
    async fn closing_the_notifier_ends_it() {
        let notifier = Arc::new(Notifier::default());
        let patience = Patience { wait: NEVER, recheck: NEVER, margin: NEVER };
        let seen = long_poll(notifier.waiter(claim()), patience, || async {
            notifier.close();
            Ok(Polled::Unsettled("seen"))
        });
        assert_eq!(seen.await, Ok("seen"));
    }

    #[tokio::test]
    async fn a_look_that_hangs_is_given_up() {
        let notifier = Arc::new(Notifier::default());
        let patience = Patience { wait: Duration::ZERO, recheck: NEVER, margin: Duration::from_millis(1) };
        let seen =
            long_poll(notifier.waiter(claim()), patience, std::future::pending::<Result<Polled<()>, _>>);
        assert_eq!(seen.await, Err(took_too_long()));
    }
}
