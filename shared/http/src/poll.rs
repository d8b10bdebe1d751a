//! Long polls: look, and look again when the bell rings, until there is something to tell or the time is over.

use crate::bells::{Listening, Woken};
use crate::envelope::Refusal;
use crate::limits::took_too_long;
use std::pin::pin;
use std::time::Duration;

pub(crate) enum Look<T> {
    /// Worth telling at once.
    Settled(T),
    /// To be told only when the time is over.
    Unsettled(T),
}

pub(crate) struct Patience {
    /// How long the caller asked to wait.
    pub(crate) wait: Duration,
    /// How long a lost ring may go unnoticed.
    pub(crate) recheck: Duration,
    /// How much longer than asked it may take.
    pub(crate) margin: Duration,
}

/// `listening` must have begun before, so that nothing that happens after the first look is missed.
pub(crate) async fn long_poll<T, L, F>(
    mut listening: Listening,
    patience: Patience,
    mut look: L,
) -> Result<T, Refusal>
where
    L: FnMut() -> F,
    F: Future<Output = Result<Look<T>, Refusal>>,
{
    let Patience { wait, recheck, margin } = patience;
    let looking = async {
        let mut over = pin!(tokio::time::sleep(wait));
        loop {
            let seen = match look().await? {
                Look::Settled(seen) => return Ok(seen),
                Look::Unsettled(seen) => seen,
            };
            if wait.is_zero() {
                return Ok(seen);
            }
            tokio::select! {
                biased;
                () = &mut over => return Ok(seen),
                woken = listening.rung(recheck) => match woken {
                    Woken::CapacityOption | Woken::Silent => {}
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
    use crate::bells::Bells;
    use motorpool_control::ports::doorbell::Doorbell;
    use motorpool_domain::ClaimId;
    use motorpool_domain::record::Key;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    const NEVER: Duration = Duration::from_secs(600);

    fn bell() -> Key {
        Key::from(&ClaimId::parse("c-1").unwrap())
    }

    #[tokio::test]
    async fn without_a_wait_it_looks_once() {
        let bells = Arc::new(Bells::default());
        let looks = AtomicU32::new(0);
        let patience = Patience { wait: Duration::ZERO, recheck: Duration::ZERO, margin: NEVER };
        let seen = long_poll(bells.listen(bell()), patience, || async {
            Ok(Look::Unsettled(looks.fetch_add(1, Ordering::SeqCst)))
        });
        assert_eq!(seen.await, Ok(0));
        assert_eq!(looks.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_ring_during_the_look_is_not_lost() {
        let bells = Arc::new(Bells::default());
        let looks = AtomicU32::new(0);
        let patience = Patience { wait: NEVER, recheck: NEVER, margin: NEVER };
        let seen = long_poll(bells.listen(bell()), patience, || async {
            let look = looks.fetch_add(1, Ordering::SeqCst);
            bells.ring(bell());
            Ok(if look < 3 { Look::Unsettled(look) } else { Look::Settled(look) })
        });
        assert_eq!(seen.await, Ok(3));
    }

    #[tokio::test]
    async fn a_lost_ring_costs_only_the_recheck() {
        let bells = Arc::new(Bells::default());
        let looks = AtomicU32::new(0);
        let patience = Patience { wait: NEVER, recheck: Duration::from_millis(1), margin: NEVER };
        let seen = long_poll(bells.listen(bell()), patience, || async {
            let look = looks.fetch_add(1, Ordering::SeqCst);
            Ok(if look < 2 { Look::Unsettled(look) } else { Look::Settled(look) })
        });
        assert_eq!(seen.await, Ok(2));
    }

    #[tokio::test]
    async fn when_the_time_is_over_it_tells_what_it_saw_last() {
        let bells = Arc::new(Bells::default());
        let patience = Patience { wait: Duration::from_millis(5), recheck: NEVER, margin: NEVER };
        let seen = long_poll(bells.listen(bell()), patience, || async { Ok(Look::Unsettled("seen")) });
        assert_eq!(seen.await, Ok("seen"));
        assert_eq!(bells.listened_to(), 0);
    }

    #[tokio::test]
    async fn closing_the_bells_ends_it() {
        let bells = Arc::new(Bells::default());
        let patience = Patience { wait: NEVER, recheck: NEVER, margin: NEVER };
        let seen = long_poll(bells.listen(bell()), patience, || async {
            bells.close();
            Ok(Look::Unsettled("seen"))
        });
        assert_eq!(seen.await, Ok("seen"));
    }

    #[tokio::test]
    async fn a_look_that_hangs_is_given_up() {
        let bells = Arc::new(Bells::default());
        let patience = Patience { wait: Duration::ZERO, recheck: NEVER, margin: Duration::from_millis(1) };
        let seen = long_poll(bells.listen(bell()), patience, std::future::pending::<Result<Look<()>, _>>);
        assert_eq!(seen.await, Err(took_too_long()));
    }
}
