//! How often the CI system may be asked: what its answers say about that, and until when nobody asks it. It sends nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use motorpool_control::ports::ci::Rate;
use motorpool_domain::Timestamp;
use reqwest::StatusCode;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// No vendor's window is longer. A reset that seems farther away is a wrong clock.
const LONGEST: Duration = Duration::from_secs(3_600);
/// What GitHub asks for where its answer does not say how long; doubled while it goes on.
const UNSAID: Duration = Duration::from_secs(60);
const UNSAID_DOUBLINGS: u32 = 4;

/// Whose calls are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Account {
    Token,
    /// Where there are two: GitLab's that only reads, Jenkins' that brings nodes online.
    SecondToken,
    /// A GitHub App as itself.
    App,
    Installation(u64),
}

/// How a vendor names the headers that tell its limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LimitHeaders {
    pub(crate) remaining: &'static str,
    /// The reset is in seconds since 1970.
    pub(crate) reset: &'static str,
}

/// What one answer says about the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LimitReport {
    remaining: Option<u64>,
    resets_in: Option<Duration>,
    retry_after: Option<Duration>,
    refused: bool,
}

impl LimitReport {
    /// `message` is the answer's own text: GitHub's limits on bursts show in it alone.
    pub(crate) fn of(
        status: StatusCode,
        headers: &HeaderMap,
        message: &str,
        names: Option<LimitHeaders>,
        now: Timestamp,
    ) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let number = |name: &str| text(name).and_then(|value| value.trim().parse::<u64>().ok());
        // By the vendor's own clock where it tells it: ours may be off.
        let now = server_time(headers).unwrap_or(now);
        let remaining = names.and_then(|names| number(names.remaining));
        let resets_in = names
            .and_then(|names| number(names.reset))
            .map(|at| now.until(Timestamp::from_millis(at.saturating_mul(1_000))).min(LONGEST));
        let retry_after = number(RETRY_AFTER.as_str()).map(|wait| Duration::from_secs(wait).min(LONGEST));
        let refused = match status {
            StatusCode::TOO_MANY_REQUESTS => true,
            StatusCode::FORBIDDEN => {
                retry_after.is_some()
                    || remaining == Some(0)
                    || message.to_ascii_lowercase().contains("rate limit")
            }
            _ => false,
        };
        Self { remaining, resets_in, retry_after, refused }
    }

    pub(crate) fn refused(self) -> bool {
        self.refused
    }
}

/// When the answer was given, by its sender's clock.
pub(crate) fn server_time(headers: &HeaderMap) -> Option<Timestamp> {
    let date = headers.get(DATE)?.to_str().ok()?;
    let parsed = jiff::fmt::rfc2822::parse(date).ok()?;
    u64::try_from(parsed.timestamp().as_millisecond()).ok().map(Timestamp::from_millis)
}

#[derive(Debug, Default)]
pub(crate) struct Limits(BTreeMap<Account, Limit>);

#[derive(Debug, Default)]
struct Limit {
    quota: Option<Quota>,
    closed_until: Option<Timestamp>,
    /// Refusals one after the other that did not say how long to wait.
    refusals: u32,
}

#[derive(Debug)]
struct Quota {
    remaining: u64,
    resets_at: Timestamp,
}

impl Limits {
    /// How long nobody may ask on this account.
    pub(crate) fn closed_for(&self, account: Account, now: Timestamp) -> Option<Duration> {
        let until = self.0.get(&account)?.closed_until?;
        let wait = now.until(until);
        (!wait.is_zero()).then_some(wait)
    }

    pub(crate) fn note(&mut self, account: Account, report: LimitReport, now: Timestamp) {
        let LimitReport { remaining, resets_in, retry_after, refused } = report;
        let limit = self.0.entry(account).or_default();
        if let (Some(remaining), Some(resets_in)) = (remaining, resets_in) {
            limit.quota = Some(Quota { remaining, resets_at: now.after(resets_in) });
        }
        let used_up = resets_in.filter(|_| remaining == Some(0));
        let wait = if refused {
            let said = retry_after.max(used_up);
            let doubled = UNSAID * 2_u32.pow(limit.refusals.min(UNSAID_DOUBLINGS));
            limit.refusals = if said.is_some() { 0 } else { limit.refusals.saturating_add(1) };
            said.unwrap_or(doubled)
        } else {
            limit.refusals = 0;
            used_up.unwrap_or_default()
        };
        // An answer that was under way when another was refused opens nothing.
        if !wait.is_zero() {
            limit.closed_until = limit.closed_until.max(Some(now.after(wait)));
        }
    }

    /// The scarcest of the quotas that still hold.
    pub(crate) fn rate(&self, now: Timestamp) -> Option<Rate> {
        let quotas = self.0.values().filter_map(|limit| limit.quota.as_ref());
        let holding = quotas.filter_map(|quota| {
            let resets_in = now.until(quota.resets_at);
            (!resets_in.is_zero()).then_some(Rate { remaining: quota.remaining, resets_in })
        });
        holding.min_by_key(|rate| rate.remaining)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::{HeaderName, HeaderValue};

    const NAMES: LimitHeaders =
        LimitHeaders { remaining: "x-ratelimit-remaining", reset: "x-ratelimit-reset" };
    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn report(status: u16, headers: &[(&'static str, &'static str)], message: &str) -> LimitReport {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        LimitReport::of(StatusCode::from_u16(status).unwrap(), &headers.collect(), message, Some(NAMES), NOW)
    }

    fn closed_after(report: LimitReport) -> Option<u64> {
        let mut limits = Limits::default();
        limits.note(Account::Token, report, NOW);
        limits.closed_for(Account::Token, NOW).map(|wait| wait.as_secs())
    }

    #[test]
    fn what_closes_and_for_how_long() {
        let used_up = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1800000090")];
        for (what, report, expected) in [
            ("the last call succeeded", report(200, &used_up, ""), Some(90)),
            ("used up", report(403, &used_up, "API rate limit exceeded"), Some(90)),
            ("bursts, with a time", report(403, &[("retry-after", "7")], ""), Some(7)),
            ("bursts, without one", report(403, &[], "You have exceeded a secondary rate limit"), Some(60)),
            ("429 alone", report(429, &[], ""), Some(60)),
            (
                "no permission",
                report(403, &[("x-ratelimit-remaining", "9")], "Resource not accessible"),
                None,
            ),
            ("plenty left", report(200, &[("x-ratelimit-remaining", "9")], ""), None),
            ("absurdly long", report(429, &[("retry-after", "999999999999")], ""), Some(3_600)),
        ] {
            assert_eq!(closed_after(report), expected, "{what}");
        }
    }

    #[test]
    fn a_reset_is_counted_from_the_senders_own_clock() {
        // Ten minutes before our time, and one before the reset.
        let headers = [
            ("date", "Fri, 15 Jan 2027 07:50:00 GMT"),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "1799999460"),
        ];
        assert_eq!(closed_after(report(403, &headers, "")), Some(60));
    }

    #[test]
    fn refusals_without_a_time_are_waited_for_longer_and_longer() {
        let (mut limits, mut now) = (Limits::default(), NOW);
        for expected in [60, 120, 240, 480, 960, 960] {
            limits.note(Account::Token, report(429, &[], ""), now);
            let wait = limits.closed_for(Account::Token, now).unwrap();
            assert_eq!(wait.as_secs(), expected);
            now = now.after(wait);
        }
        assert_eq!(limits.closed_for(Account::Token, now), None);
    }

    #[test]
    fn accounts_are_counted_apart_and_the_scarcest_is_shown() {
        let mut limits = Limits::default();
        let left = |remaining| {
            report(200, &[("x-ratelimit-remaining", remaining), ("x-ratelimit-reset", "1800000090")], "")
        };
        limits.note(Account::Installation(1), left("0"), NOW);
        limits.note(Account::Installation(2), left("40"), NOW);
        assert!(limits.closed_for(Account::Installation(1), NOW).is_some());
        assert!(limits.closed_for(Account::Installation(2), NOW).is_none());
        let resets_in = Duration::from_secs(90);
        assert_eq!(limits.rate(NOW), Some(Rate { remaining: 0, resets_in }));
        assert_eq!(limits.rate(NOW.after(resets_in)), None, "it no longer holds");
    }
}
