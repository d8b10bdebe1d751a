//! Cuts: a control plane that is cut off at the n-th point of its work, before or after one of its calls, as a crash would. What it had
//! done by then is done.

use super::around::{Around, Call, Surrounded};
use motorpool_control::ports::ledger::Ledger;
use motorpool_control::ports::tx::Op;
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
pub type Cutting = Surrounded<Arc<Cuts>>;

impl Cutting {
    pub fn new(inner: Arc<dyn Ledger>, cuts: &Arc<Cuts>) -> Self {
        Self { inner, around: Arc::clone(cuts) }
    }
}

impl Around for Arc<Cuts> {
    async fn around<T: Send>(&self, call: Call<'_>, answer: impl Future<Output = T> + Send) -> T {
        let what = match call {
            Call::Read(_) => return answer.await,
            Call::Commit(tx) => {
                let mut parts: Vec<String> = tx.ops.iter().map(Op::path).map(what_stands_at).collect();
                // However many of a kind there are.
                parts.dedup();
                format!("a commit of {}", parts.join(", "))
            }
            Call::Touch => "a touch".to_owned(),
        };
        self.pass(format!("before {what}")).await;
        let written = answer.await;
        self.pass(format!("after {what}")).await;
        written
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
