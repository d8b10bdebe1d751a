//! A ledger around another, with something done around each call: what that is, says [`Around`]. Nothing is kept here.

use async_trait::async_trait;
use motorpool_control::ports::ledger::{Children, Ledger, LedgerError, Placed, Span, Touch};
use motorpool_control::ports::tx::{Committed, Stored, Tx};
use motorpool_domain::Timestamp;
use motorpool_domain::record::Path;
use std::fmt::Debug;
use std::sync::Arc;

#[derive(Debug, Clone)]
pub struct Surrounded<A> {
    pub(super) inner: Arc<dyn Ledger>,
    pub(super) around: A,
}

pub trait Around: Debug + Send + Sync {
    /// Has the call answered, sooner or later.
    fn around<T: Send>(
        &self,
        call: Call<'_>,
        answer: impl Future<Output = T> + Send,
    ) -> impl Future<Output = T> + Send;
}

/// What is called: a method's name, with what it changes.
#[derive(Debug, Clone, Copy)]
pub enum Call<'a> {
    Read(&'static str),
    Commit(&'a Tx),
    Touch,
}

#[async_trait]
impl<A: Around> Ledger for Surrounded<A> {
    async fn get(&self, paths: &[Path]) -> Result<Vec<Option<Stored>>, LedgerError> {
        self.around.around(Call::Read("get"), self.inner.get(paths)).await
    }

    async fn commit(&self, tx: &Tx) -> Result<Committed, LedgerError> {
        self.around.around(Call::Commit(tx), self.inner.commit(tx)).await
    }

    async fn touch(&self, touch: &Touch) -> Result<(), LedgerError> {
        self.around.around(Call::Touch, self.inner.touch(touch)).await
    }

    async fn list(&self, span: &Span, at_most: usize) -> Result<Vec<Placed>, LedgerError> {
        self.around.around(Call::Read("list"), self.inner.list(span, at_most)).await
    }

    async fn count(&self, span: &Span, at_most: usize) -> Result<usize, LedgerError> {
        self.around.around(Call::Read("count"), self.inner.count(span, at_most)).await
    }

    async fn children(&self, of: &Children, at_most: usize) -> Result<Vec<Stored>, LedgerError> {
        self.around.around(Call::Read("children"), self.inner.children(of, at_most)).await
    }

    async fn due(&self, now: Timestamp, at_most: usize) -> Result<Vec<Path>, LedgerError> {
        self.around.around(Call::Read("due"), self.inner.due(now, at_most)).await
    }

    async fn ping(&self) -> Result<(), LedgerError> {
        self.around.around(Call::Read("ping"), self.inner.ping()).await
    }
}
