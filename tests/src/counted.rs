//! A ledger that counts the calls at its port, by method: what a use case costs, whatever keeps the records.

use async_trait::async_trait;
use motorpool_control::ports::ledger::{Children, Ledger, LedgerError, Placed, Span, Touch};
use motorpool_control::ports::tx::{Committed, Stored, Tx};
use motorpool_domain::Timestamp;
use motorpool_domain::record::Path;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Debug, Clone)]
pub struct Counted {
    inner: Arc<dyn Ledger>,
    calls: Arc<Mutex<Calls>>,
}

pub type Calls = BTreeMap<&'static str, u32>;

impl Counted {
    pub fn new(inner: Arc<dyn Ledger>) -> Self {
        Self { inner, calls: Arc::default() }
    }

    /// What was called since the last time, and how often.
    pub fn take(&self) -> Calls {
        std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn counting(&self, method: &'static str) -> &dyn Ledger {
        *self.calls.lock().unwrap_or_else(PoisonError::into_inner).entry(method).or_default() += 1;
        self.inner.as_ref()
    }
}

#[async_trait]
impl Ledger for Counted {
    async fn get(&self, paths: &[Path]) -> Result<Vec<Option<Stored>>, LedgerError> {
        self.counting("get").get(paths).await
    }

    async fn commit(&self, tx: &Tx) -> Result<Committed, LedgerError> {
        self.counting("commit").commit(tx).await
    }

    async fn touch(&self, touch: &Touch) -> Result<(), LedgerError> {
        self.counting("touch").touch(touch).await
    }

    async fn list(&self, span: &Span, at_most: usize) -> Result<Vec<Placed>, LedgerError> {
        self.counting("list").list(span, at_most).await
    }

    async fn count(&self, span: &Span, at_most: usize) -> Result<usize, LedgerError> {
        self.counting("count").count(span, at_most).await
    }

    async fn children(&self, of: &Children, at_most: usize) -> Result<Vec<Stored>, LedgerError> {
        self.counting("children").children(of, at_most).await
    }

    async fn due(&self, now: Timestamp, at_most: usize) -> Result<Vec<Path>, LedgerError> {
        self.counting("due").due(now, at_most).await
    }

    async fn ping(&self) -> Result<(), LedgerError> {
        self.counting("ping").ping().await
    }
}
