//! Waiting for what must come; one that waits in vain says for what. No test asserts how long something took, but what ends at a
//! deadline of its own ends neither before nor long after it, on the clock that the deadline is counted on.

use anyhow::{Result, bail, ensure};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Only something that hangs takes so long.
pub const PATIENCE: Duration = Duration::from_secs(120);

const PAUSE: Duration = Duration::from_millis(30);

/// Asks until there is an answer.
pub async fn until<T>(what: &str, ask: impl AsyncFn() -> Result<Option<T>>) -> Result<T> {
    let asking = async {
        loop {
            if let Some(answer) = ask().await? {
                return Ok(answer);
            }
            sleep(PAUSE).await;
        }
    };
    match timeout(PATIENCE, asking).await {
        Ok(answer) => answer,
        Err(_) => bail!("waited {} s in vain until {what}", PATIENCE.as_secs()),
    }
}

/// Asks until there is an answer, which comes at the deadline: it is an error if it is there before, or still not there long after.
pub async fn at_deadline<T>(
    what: &str,
    deadline: Deadline,
    ask: impl AsyncFn() -> Result<Option<T>>,
) -> Result<T> {
    loop {
        let asked_ms = boot_ms();
        match ask().await? {
            Some(answer) => {
                deadline.has_come(boot_ms(), what)?;
                return Ok(answer);
            }
            None => deadline.is_not_long_over(asked_ms, what)?,
        }
        sleep(PAUSE).await;
    }
}

/// An agent's deadline, on the boot clock of this host, which all its processes share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    /// The agent counts from when it sent its request, so it is early by as long as the answer was held.
    earliest_ms: u64,
    latest_ms: u64,
}

impl Deadline {
    /// How late an agent may be on a busy host. The deadlines of which one could be taken for another are further apart: a grace
    /// that nobody set is two minutes.
    const LATE_MS: u64 = 30_000;

    /// A deadline that lay `in_ms` ahead at some instant from `asked_ms` to `answered_ms` of the boot clock. `held_ms`: how long an answer to
    /// the agent can have been on its way.
    pub fn told(in_ms: u64, asked_ms: u64, answered_ms: u64, held_ms: u64) -> Self {
        Self { earliest_ms: (asked_ms + in_ms).saturating_sub(held_ms), latest_ms: answered_ms + in_ms }
    }

    /// The same, so much later.
    #[must_use]
    pub fn after(self, grace: Duration) -> Self {
        let Self { earliest_ms, latest_ms } = self;
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        Self { earliest_ms: earliest_ms + grace_ms, latest_ms: latest_ms + grace_ms }
    }

    fn has_come(self, now_ms: u64, what: &str) -> Result<()> {
        let early_ms = self.earliest_ms.saturating_sub(now_ms);
        ensure!(early_ms == 0, "{early_ms} ms before its time: {what}");
        Ok(())
    }

    fn is_not_long_over(self, now_ms: u64, what: &str) -> Result<()> {
        let late_ms = now_ms.saturating_sub(self.latest_ms);
        ensure!(late_ms <= Self::LATE_MS, "{late_ms} ms after its time, still not: {what}");
        Ok(())
    }
}

/// Milliseconds since this host booted, suspend included.
pub fn boot_ms() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let whole_ms = u64::try_from(time.tv_sec).unwrap_or_default() * 1_000;
    whole_ms + u64::try_from(time.tv_nsec).unwrap_or_default() / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_missed_before_its_earliest_and_long_after_its_latest_instant() {
        let deadline = Deadline::told(8_000, 1_000, 1_200, 3_000);
        assert_eq!(deadline, Deadline { earliest_ms: 6_000, latest_ms: 9_200 });
        assert!(deadline.has_come(5_999, "it").is_err() && deadline.has_come(6_000, "it").is_ok());
        assert!(deadline.is_not_long_over(39_200, "it").is_ok());
        assert!(deadline.is_not_long_over(39_201, "it").is_err());
        let fence = deadline.after(Duration::from_secs(4));
        assert_eq!(fence, Deadline { earliest_ms: 10_000, latest_ms: 13_200 });
    }

    #[tokio::test]
    async fn what_ends_early_or_never_is_an_error() {
        let now_ms = boot_ms();
        let soon = Deadline::told(60_000, now_ms, now_ms, 0);
        let early = at_deadline("it is over", soon, async || Ok(Some(()))).await;
        assert!(early.is_err_and(|error| error.to_string().contains("before its time: it is over")));
        let past = Deadline { earliest_ms: 0, latest_ms: now_ms.saturating_sub(Deadline::LATE_MS + 1) };
        let late = at_deadline("it is over", past, async || Ok(None::<()>)).await;
        assert!(late.is_err_and(|error| error.to_string().contains("still not: it is over")));
        assert!(at_deadline("it is over", past, async || Ok(Some(()))).await.is_ok());
    }
}
