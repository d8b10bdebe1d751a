//! A ledger that counts the calls at its port, by method: what a use case costs, whatever keeps the records.

use super::around::{Around, Call, Surrounded};
use motorpool_control::ports::ledger::Ledger;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

pub type Counted = Surrounded<Counter>;

#[derive(Debug, Clone, Default)]
pub struct Counter(Arc<Mutex<Calls>>);

pub type Calls = BTreeMap<&'static str, u32>;

impl Counted {
    pub fn new(inner: Arc<dyn Ledger>) -> Self {
        Self { inner, around: Counter::default() }
    }

    /// What was called since the last time, and how often.
    pub fn take(&self) -> Calls {
        std::mem::take(&mut *self.around.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Around for Counter {
    async fn around<T: Send>(&self, call: Call<'_>, answer: impl Future<Output = T> + Send) -> T {
        let method = match call {
            Call::Read(method) => method,
            Call::Commit(_) => "commit",
            Call::Touch => "touch",
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(method).or_default() += 1;
        answer.await
    }
}
