//! What this process has seen of checkpoints: how long their steps took, and who said that a job had ended. For figures alone; nothing is decided on it.

use motorpool_domain::AuditResult;
use motorpool_domain::checkpoint::FinalizeSource;
use motorpool_domain::pool::BackendKind;
use motorpool_domain::runner::CleaningStep;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A step of a checkpoint that takes its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Create,
    Reset,
    /// After a job that went well: what it left is removed.
    Delete,
    Readiness,
}

impl Step {
    pub const ALL: [Self; 4] = [Self::Create, Self::Reset, Self::Delete, Self::Readiness];

    /// Its name in figures and in the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "checkpoint_create_duration_seconds",
            Self::Reset => "reset_duration_seconds",
            Self::Delete => "checkpoint_delete_duration_seconds",
            Self::Readiness => "readiness_duration_seconds",
        }
    }
}

impl From<CleaningStep> for Step {
    fn from(step: CleaningStep) -> Self {
        match step {
            CleaningStep::Reset => Self::Reset,
            CleaningStep::Cleanup => Self::Delete,
            CleaningStep::Readiness => Self::Readiness,
        }
    }
}

/// The upper bounds of all but the last bucket: from a write to the ledger to a machine that takes its time to be ready.
pub const BOUNDS_S: [f64; 10] = [0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 30.0, 60.0, 180.0, 600.0];

/// Durations by bucket, each counted in one.
#[derive(Debug, Default)]
pub struct Durations {
    buckets: [AtomicU64; BOUNDS_S.len() + 1],
    sum_us: AtomicU64,
}

impl Durations {
    fn add(&self, took: Duration) {
        let bucket = BOUNDS_S.iter().take_while(|bound| took.as_secs_f64() > **bound).count();
        if let Some(bucket) = self.buckets.get(bucket) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.sum_us.fetch_add(took_us, Ordering::Relaxed);
    }

    /// How many there were up to each bound, and in all: each counts what those before it do.
    pub fn up_to_each(&self) -> [u64; BOUNDS_S.len() + 1] {
        let mut so_far = 0;
        self.buckets.each_ref().map(|bucket| {
            so_far += bucket.load(Ordering::Relaxed);
            so_far
        })
    }

    pub fn sum(&self) -> Duration {
        Duration::from_micros(self.sum_us.load(Ordering::Relaxed))
    }
}

type ByResult = [Durations; RESULTS.len()];

pub const RESULTS: [AuditResult; 2] = [AuditResult::Ok, AuditResult::Error];

#[derive(Debug, Default)]
pub struct Measures {
    steps: [[ByResult; BackendKind::ALL.len()]; Step::ALL.len()],
    finalized: [AtomicU64; FinalizeSource::ALL.len()],
}

impl Measures {
    pub(crate) fn took(&self, step: Step, backend: BackendKind, result: AuditResult, took: Duration) {
        if let Some(durations) = self.durations(step, backend, result) {
            durations.add(took);
        }
    }

    pub(crate) fn finalized(&self, source: FinalizeSource) {
        if let Some(count) = place(&FinalizeSource::ALL, source).and_then(|place| self.finalized.get(place)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn durations(&self, step: Step, backend: BackendKind, result: AuditResult) -> Option<&Durations> {
        let by_backend = self.steps.get(place(&Step::ALL, step)?)?;
        by_backend.get(place(&BackendKind::ALL, backend)?)?.get(place(&RESULTS, result)?)
    }

    pub fn finalized_by(&self, source: FinalizeSource) -> u64 {
        let count = place(&FinalizeSource::ALL, source).and_then(|place| self.finalized.get(place));
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }
}

fn place<T: PartialEq>(all: &[T], one: T) -> Option<usize> {
    all.iter().position(|known| *known == one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_up_to_each_bound_that_it_does_not_exceed() {
        let durations = Durations::default();
        for took_ms in [5, 6, 700_000] {
            durations.add(Duration::from_millis(took_ms));
        }
        assert_eq!(durations.up_to_each(), [1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3]);
        assert_eq!(durations.sum(), Duration::from_millis(700_011));
    }

    #[test]
    fn each_step_backend_and_result_has_its_own() {
        let measures = Measures::default();
        let took = Duration::from_secs(1);
        measures.took(Step::Reset, BackendKind::BareMetal, AuditResult::Error, took);
        let counts = |step, backend, result| {
            measures.durations(step, backend, result).unwrap().up_to_each().last().copied().unwrap()
        };
        for step in Step::ALL {
            for backend in BackendKind::ALL {
                for result in RESULTS {
                    let is_it =
                        (step, backend, result) == (Step::Reset, BackendKind::BareMetal, AuditResult::Error);
                    assert_eq!(counts(step, backend, result), u64::from(is_it));
                }
            }
        }
        measures.finalized(FinalizeSource::Poller);
        let counted = FinalizeSource::ALL.map(|source| measures.finalized_by(source));
        assert_eq!(counted, [0, 1, 0, 0, 0]);
    }
}
