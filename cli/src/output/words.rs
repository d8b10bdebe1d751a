//! Durations and amounts as people say them.

use std::time::Duration;

use motorpool_domain::Timestamp;

/// Two units at most: `0.4 s`, `42 s`, `3 min 5 s`, `2 h`, `3 d 4 h`.
pub(crate) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    let two = |large: u64, large_unit: &str, small: u64, small_unit: &str| {
        if small == 0 {
            format!("{large} {large_unit}")
        } else {
            format!("{large} {large_unit} {small} {small_unit}")
        }
    };
    match seconds {
        0..10 => format!("{:.1} s", span.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3_600 => two(seconds / 60, "min", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
        86_400.. => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

pub(crate) fn span_ms(millis: u64) -> String {
    span(Duration::from_millis(millis))
}

/// `at` seen from `now`; a clock that is a little behind shows as "0.0 s ago".
pub(crate) fn ago(at: Timestamp, now: Timestamp) -> String {
    format!("{} ago", span(now.since(at)))
}

/// Of cents, small parts matter: `$0.0312`, `$1.74`, `$1250.00`.
pub(crate) fn dollars(amount: f64) -> String {
    if amount < 1.0 { format!("${amount:.4}") } else { format!("${amount:.2}") }
}

/// `1 runner`, `2 runners`.
pub(crate) fn some(count: impl Into<u64>, what: &str) -> String {
    let count = count.into();
    if count == 1 { format!("{count} {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short_and_exact_enough() {
        for (millis, expected) in [
            (0, "0.0 s"),
            (420, "0.4 s"),
            (9_940, "9.9 s"),
            (42_000, "42 s"),
            (60_000, "1 min"),
            (185_000, "3 min 5 s"),
            (7_200_000, "2 h"),
            (7_500_000, "2 h 5 min"),
            (273_600_000, "3 d 4 h"),
        ] {
            assert_eq!(span_ms(millis), expected);
        }
    }

    #[test]
    fn what_lies_ahead_is_now() {
        let (early, late) = (Timestamp::from_millis(1_000), Timestamp::from_millis(61_000));
        assert_eq!(ago(early, late), "1 min ago");
        assert_eq!(ago(late, early), "0.0 s ago");
    }

    #[test]
    fn money_has_as_many_places_as_matter() {
        for (amount, expected) in [
            (0.0, "$0.0000"),
            (0.03124, "$0.0312"),
            (0.5, "$0.5000"),
            (1.736, "$1.74"),
            (1_250.0, "$1250.00"),
        ] {
            assert_eq!(dollars(amount), expected);
        }
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!((some(1_u32, "runner"), some(0_u32, "runner")), ("1 runner".into(), "0 runners".into()));
    }
}
