//! The embedded ledger: SQLite in one file that one process owns. One connection writes, and many callers share its commits; readers stand
//! beside it. It knows no kind of record, and decides nothing.

mod apply;
mod backup;
mod columns;
mod error;
mod file;
mod log;
mod read;
mod schema;
mod sweep;
mod writer;

pub use backup::backup;
pub use error::{EngineError, SqliteError};
pub use sweep::Swept;

use async_trait::async_trait;
use file::OwnedFile;
use motorpool_control::ports::ledger::{Children, Ledger, LedgerError, Placed, Span, Touch};
use motorpool_control::ports::tx::{Committed, Stored, Tx};
use motorpool_domain::Timestamp;
use motorpool_domain::record::Path;
use read::Readers;
use rusqlite::Connection;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use writer::Writer;

const READERS: usize = 4;
/// Rows that are read on the writer's connection at most, where nobody writes.
const FEW: usize = 128;

/// A handle on the ledger. The last one that is dropped closes the file, and waits for that.
#[derive(Debug, Clone)]
pub struct SqliteLedger {
    shared: Arc<Shared>,
}

/// Dropped in this order: the writer's connection is the last to be closed, which writes all of the log back; then the lock is given back.
#[derive(Debug)]
struct Shared {
    readers: Readers,
    writer: Writer,
    /// The number of the row that the walk over all of them came to.
    swept_to: AtomicI64,
    file: OwnedFile,
}

impl SqliteLedger {
    /// The ledger in this directory, which is made if it is not there. No other process may own it.
    pub fn open(dir: &std::path::Path) -> Result<Self, SqliteError> {
        let file = OwnedFile::take(dir)?;
        let connection = file.open_writer()?;
        let readers = (0..READERS).map(|_| file.open_reader()).collect::<Result<_, _>>()?;
        let writer = Writer::start(connection, file.path()).map_err(SqliteError::Writer)?;
        let shared = Shared { readers: Readers::new(readers), writer, swept_to: AtomicI64::new(0), file };
        Ok(Self { shared: Arc::new(shared) })
    }

    fn read<T>(
        &self,
        rows: usize,
        attempted: impl FnOnce() -> String,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, LedgerError> {
        let failed = |source| EngineError::of(self.shared.file.path(), source);
        let Shared { readers, writer, .. } = &*self.shared;
        // The writer's connection knows the pages that it wrote, where a reader must fetch them again after each commit. But who writes waits for it.
        let idle = (rows <= FEW).then(|| writer.idle()).flatten();
        let read = match idle {
            Some(pen) => read(pen.connection()),
            None => readers.read(read),
        };
        read.map_err(failed).map_err(|error| LedgerError::failed(attempted(), error))
    }

    async fn write<T: Send + 'static>(
        &self,
        attempted: impl FnOnce() -> String,
        work: impl FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        self.shared.writer.write(work).await.map_err(|error| LedgerError::failed(attempted(), error))
    }
}

#[async_trait]
impl Ledger for SqliteLedger {
    async fn get(&self, paths: &[Path]) -> Result<Vec<Option<Stored>>, LedgerError> {
        self.read(paths.len(), || names("read", paths), |connection| read::get_all(connection, paths))
    }

    async fn commit(&self, tx: &Tx) -> Result<Committed, LedgerError> {
        let attempted = || "commit a transaction".to_owned();
        tx.check().map_err(|error| LedgerError::failed(attempted(), error))?;
        let tx = tx.clone();
        self.write(attempted, move |connection| apply::commit(connection, &tx)).await
    }

    async fn touch(&self, touch: &Touch) -> Result<(), LedgerError> {
        let attempted = || format!("note marks of {}", touch.path);
        let touch = touch.clone();
        self.write(attempted, move |connection| apply::touch(connection, &touch)).await
    }

    async fn list(&self, span: &Span, at_most: usize) -> Result<Vec<Placed>, LedgerError> {
        self.read(
            at_most,
            || format!("list {}", span.list),
            |connection| read::list(connection, span, at_most),
        )
    }

    async fn count(&self, span: &Span, at_most: usize) -> Result<usize, LedgerError> {
        self.read(
            at_most,
            || format!("count {}", span.list),
            |connection| read::count(connection, span, at_most),
        )
    }

    async fn children(&self, of: &Children, at_most: usize) -> Result<Vec<Stored>, LedgerError> {
        let attempted = || format!("read what stands under {}", of.of);
        self.read(at_most, attempted, |connection| read::children(connection, of, at_most))
    }

    async fn due(&self, now: Timestamp, at_most: usize) -> Result<Vec<Path>, LedgerError> {
        self.read(at_most, || "read what is due".to_owned(), |connection| read::due(connection, now, at_most))
    }

    async fn ping(&self) -> Result<(), LedgerError> {
        if !self.shared.writer.is_running() {
            return Err(LedgerError::failed("answer", EngineError::WriterEnded));
        }
        self.read(1, || "answer".to_owned(), read::ping)
    }
}

fn names(attempted: &str, paths: &[Path]) -> String {
    let names: Vec<_> = paths.iter().map(ToString::to_string).collect();
    format!("{attempted} {}", names.join(", "))
}
