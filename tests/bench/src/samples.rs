//! What many repetitions took: percentiles and rates.

use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    pub(crate) fn add(&mut self, sample: Duration) {
        self.0.push(sample);
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The sample below which this share of them lies; zero if there is none.
    pub(crate) fn percentile(&self, share: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort();
        let last = sorted.len().saturating_sub(1);
        let index = (last as f64 * share).round() as usize;
        sorted.get(index).copied().unwrap_or_default()
    }

    pub(crate) fn p50(&self) -> Duration {
        self.percentile(0.5)
    }
}

/// Milliseconds, to the microsecond.
pub(crate) fn ms(span: Duration) -> f64 {
    round(span.as_secs_f64() * 1_000.0, 1_000.0)
}

pub(crate) fn ratio(ours: f64, floor: f64) -> f64 {
    round(ours / floor, 100.0)
}

pub(crate) fn per_second(count: usize, span: Duration) -> f64 {
    round(count as f64 / span.as_secs_f64(), 10.0)
}

fn round(number: f64, parts: f64) -> f64 {
    (number * parts).round() / parts
}
