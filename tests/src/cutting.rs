//! Cuts: a control plane that is cut off at the n-th point of its work, before or after one of its calls, as a crash would. What it had
//! done by then is done.

use async_trait::async_trait;
use motorpool_control::ports::ledger::{Children, Ledger, LedgerError, Placed, Span, Touch};
use motorpool_control::ports::tx::{Committed, Op, Stored, Tx};
use motorpool_domain::Timestamp;
use motorpool_domain::record::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Counts the points that are passed, and cuts at one of them, once.
#[derive(Debug, Default)]
pub struct Cuts {
    inner: Mutex<Inner>,
    cut: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    at: Option<usize>,
    passed: Vec<String>,
}

impl Cuts {
    /// Without `at`, it only counts.
    pub fn new(at: Option<usize>) -> Arc<Self> {
        Arc::new(Self { inner: Mutex::new(Inner { at, passed: Vec::new() }), cut: Notify::new() })
    }

    /// From here on: counts anew, and cuts at this point.
    pub fn cut_at(&self, at: Option<usize>) {
        *self.inner() = Inner { at, passed: Vec::new() };
    }

    /// Returns at once; at the point of the cut, never.
    pub async fn pass(&self, what: String) {
        let cut = {
            let mut inner = self.inner();
            let cut = inner.at == Some(inner.passed.len());
            inner.passed.push(what);
            cut
        };
        if cut {
            self.cut.notify_one();
            std::future::pending::<()>().await;
        }
    }

    /// What came of `work`; nothing if it was cut off.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.cut.notified() => None,
            done = work => Some(done),
        }
    }

    /// What was passed so far, in its order.
    pub fn passed(&self) -> Vec<String> {
        self.inner().passed.clone()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A ledger whose writes can be cut off. Reads are no points: nothing is done by them.
#[derive(Debug)]
pub struct Cutting {
    inner: Arc<dyn Ledger>,
    cuts: Arc<Cuts>,
}

impl Cutting {
    pub fn new(inner: Arc<dyn Ledger>, cuts: &Arc<Cuts>) -> Self {
        Self { inner, cuts: Arc::clone(cuts) }
    }

    async fn write<T>(&self, what: &str, write: impl Future<Output = T>) -> T {
        self.cuts.pass(format!("before {what}")).await;
        let written = write.await;
        self.cuts.pass(format!("after {what}")).await;
        written
    }
}

#[async_trait]
impl Ledger for Cutting {
    async fn get(&self, paths: &[Path]) -> Result<Vec<Option<Stored>>, LedgerError> {
        self.inner.get(paths).await
    }

    async fn commit(&self, tx: &Tx) -> Result<Committed, LedgerError> {
        let mut parts: Vec<String> = tx.ops.iter().map(Op::path).map(what_stands_at).collect();
        // However many of a kind there are.
        parts.dedup();
        self.write(&format!("a commit of {}", parts.join(", ")), self.inner.commit(tx)).await
    }

    async fn touch(&self, touch: &Touch) -> Result<(), LedgerError> {
        self.write("a touch", self.inner.touch(touch)).await
    }

    async fn list(&self, span: &Span, at_most: usize) -> Result<Vec<Placed>, LedgerError> {
        self.inner.list(span, at_most).await
    }

    async fn count(&self, span: &Span, at_most: usize) -> Result<usize, LedgerError> {
        self.inner.count(span, at_most).await
    }

    async fn children(&self, of: &Children, at_most: usize) -> Result<Vec<Stored>, LedgerError> {
        self.inner.children(of, at_most).await
    }

    async fn due(&self, now: Timestamp, at_most: usize) -> Result<Vec<Path>, LedgerError> {
        self.inner.due(now, at_most).await
    }

    async fn ping(&self) -> Result<(), LedgerError> {
        self.inner.ping().await
    }
}

/// Its kind, and that of the child: `runner`, or `pool/shortage`.
fn what_stands_at(path: &Path) -> String {
    let kind = path.key.kind.as_str();
    match path.child.as_deref().and_then(|name| name.split('#').next()) {
        None => kind.to_owned(),
        Some(child) => format!("{kind}/{child}"),
    }
}
