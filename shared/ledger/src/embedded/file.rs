//! The embedded ledger's place on disk: its directory, the lock that makes one process its owner, and the proof that
//! what SQLite commits there is synced. It reads and writes no records.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use dynoxide::storage::Storage;
use dynoxide::{Database, DynoxideError};

use super::EmbeddedError;

/// `PRAGMA synchronous`: FULL syncs the log at every commit, EXTRA does more.
const SYNCHRONOUS_FULL: i64 = 2;

/// A database file that no other process may open as long as this value lives.
#[derive(Debug)]
pub(super) struct OwnedFile {
    path: PathBuf,
    /// Held, never read: closing it gives the lock back.
    _lock: File,
}

impl OwnedFile {
    pub(super) fn take(dir: &Path) -> Result<Self, EmbeddedError> {
        let dir = create_directory(dir)?;
        let lock = lock(dir.join("ledger.lock"))?;
        let path = dir.join("ledger.db");
        // SQLite would create it readable for all; its log and index files take over the mode of this one.
        create_private(&path).map_err(|source| EmbeddedError::File { path: path.clone(), source })?;
        Ok(Self { path, _lock: lock })
    }

    pub(super) fn open(&self) -> Result<Database, EmbeddedError> {
        let name = self.path.to_str().ok_or_else(|| EmbeddedError::Path { path: self.path.clone() })?;
        self.check_durable(name)?;
        Database::new(name).map_err(|error| self.refused(error))
    }

    /// The engine does not set `synchronous`: it is what SQLite was built with, so it is looked up and not assumed.
    /// The engine hides its own connection, hence one opened in the same way, and closed again.
    fn check_durable(&self, name: &str) -> Result<(), EmbeddedError> {
        let storage = Storage::new(name).map_err(|error| self.refused(error))?;
        let connection = storage.conn();
        let synchronous: i64 = connection
            .pragma_query_value(None, "synchronous", |row| row.get(0))
            .map_err(|error| self.refused(error.into()))?;
        let journal_mode: String = connection
            .pragma_query_value(None, "journal_mode", |row| row.get(0))
            .map_err(|error| self.refused(error.into()))?;
        if synchronous < SYNCHRONOUS_FULL || journal_mode != "wal" {
            let path = self.path.clone();
            return Err(EmbeddedError::NotDurable { path, synchronous, journal_mode });
        }
        Ok(())
    }

    fn refused(&self, error: DynoxideError) -> EmbeddedError {
        EmbeddedError::Open { path: self.path.clone(), source: Box::new(error) }
    }
}

/// Gives the absolute path: SQLite would take a relative one that begins with `file:` for a URI.
fn create_directory(dir: &Path) -> Result<PathBuf, EmbeddedError> {
    let failed = |source| EmbeddedError::Directory { path: dir.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
    dir.canonicalize().map_err(failed)
}

fn lock(path: PathBuf) -> Result<File, EmbeddedError> {
    let file = match create_private(&path) {
        Ok(file) => file,
        Err(source) => return Err(EmbeddedError::Lock { path, source }),
    };
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(EmbeddedError::Locked { path }),
        Err(TryLockError::Error(source)) => Err(EmbeddedError::Lock { path, source }),
    }
}

fn create_private(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}
