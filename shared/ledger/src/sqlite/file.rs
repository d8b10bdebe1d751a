//! A ledger's place on disk: its directory, the lock that makes one process its owner, its database file, and the proof
//! that what SQLite commits there is synced. It reads and writes no records.

use super::error::{EngineError, SqliteError};
use super::log;
use super::schema::{self, Identity};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `PRAGMA synchronous`: FULL syncs the log at every commit, EXTRA does more.
const SYNCHRONOUS_FULL: i64 = 2;
/// Nobody else should write here. Whoever does, by hand, is waited for this long.
pub(super) const BUSY: Duration = Duration::from_secs(5);
/// A database's own header.
const HEADER_BYTES: u64 = 100;
const WRITER_CACHE_KIB: i64 = 16 << 10;
/// All of our statements stay prepared.
const STATEMENTS: usize = 48;

/// A ledger's file that no other process may own as long as this value lives.
#[derive(Debug)]
pub(super) struct OwnedFile {
    path: PathBuf,
    _lock: Lock,
}

impl OwnedFile {
    pub(super) fn take(dir: &Path) -> Result<Self, SqliteError> {
        let dir = create_directory(dir)?;
        let lock_path = dir.join("ledger.lock");
        let lock = Lock::take(&lock_path)?.ok_or(SqliteError::Locked { path: lock_path })?;
        let path = dir.join("ledger.db");
        if is_absent(&path)? {
            create(&dir, &path)?;
        }
        // First without SQLite, which would make files beside it.
        check_identity(&path, header(&path)?)?;
        drop(open_known(&path)?);
        // Its log and index files take over the mode of this one, which may have come from elsewhere.
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(unusable(&path))?;
        Ok(Self { path, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The connection that writes. The log is not written back by SQLite itself, at some commit: the writer says when.
    pub(super) fn open_writer(&self) -> Result<Connection, SqliteError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = open(&self.path, flags)?;
        self.set_up_writer(&connection).map_err(|source| unopened(&self.path, source))?;
        self.check_durable(&connection)?;
        Ok(connection)
    }

    pub(super) fn open_reader(&self) -> Result<Connection, SqliteError> {
        open(&self.path, read_only())
    }

    fn set_up_writer(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        // Where a sync leaves data in the drive's own memory (macOS), ask for more.
        connection.pragma_update(None, "fullfsync", true)?;
        connection.pragma_update(None, "checkpoint_fullfsync", true)?;
        connection.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))?;
        connection
            .pragma_update_and_check(None, "journal_size_limit", log::LONGEST_RESTING_BYTES, |_| Ok(()))?;
        connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
        // What a savepoint would take back is kept in memory, not in a file of a perhaps full disk.
        connection.pragma_update(None, "temp_store", "MEMORY")
    }

    /// Looked up, not assumed: a file system may have no shared memory for the log, and SQLite then goes without it.
    fn check_durable(&self, connection: &Connection) -> Result<(), SqliteError> {
        let failed = |source| unopened(&self.path, source);
        let journal_mode: String =
            connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).map_err(failed)?;
        let synchronous: i64 =
            connection.pragma_query_value(None, "synchronous", |row| row.get(0)).map_err(failed)?;
        if journal_mode != "wal" || synchronous < SYNCHRONOUS_FULL {
            return Err(SqliteError::NotDurable { path: self.path.clone(), journal_mode, synchronous });
        }
        Ok(())
    }
}

/// A connection that only reads, to a ledger of ours. Anything else is refused, and nothing is changed in it.
///
/// Only SQLite opens the file: whoever closes it by other means gives back the locks that this process may have on it.
pub(super) fn open_known(path: &Path) -> Result<Connection, SqliteError> {
    let connection = open(path, read_only())?;
    let identity = match Identity::of(&connection) {
        Ok(identity) => Some(identity),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => None,
        Err(source) => return Err(unopened(path, source)),
    };
    check_identity(path, identity)?;
    Ok(connection)
}

/// A file that one process holds at a time.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Lock {
    /// Makes the file if need be. Nothing if another process holds it.
    pub(super) fn take(path: &Path) -> Result<Option<Self>, SqliteError> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path).map_err(unusable(path))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(unusable(path)(source)),
        }
    }

    pub(super) fn file(&self) -> &File {
        &self.0
    }
}

impl Drop for Lock {
    /// Closing it is not enough: a child that this process has just forked holds the same lock until it runs its program.
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "a lock of the ledger could not be given back before its file was closed");
        }
    }
}

/// Makes a file that is complete on disk the one that has this name, and the name durable.
pub(super) fn rename_durably(from: &Path, to: &Path) -> Result<(), SqliteError> {
    File::open(from).and_then(|file| file.sync_all()).map_err(unusable(from))?;
    std::fs::rename(from, to).map_err(unusable(to))?;
    let dir = to.parent().unwrap_or(Path::new("/"));
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(unusable(dir))
}

pub(super) fn unusable(path: &Path) -> impl Fn(std::io::Error) -> SqliteError {
    |source| SqliteError::File { path: path.to_owned(), source }
}

/// Gives the absolute path: SQLite would take a relative one that begins with `file:` for a URI.
fn create_directory(dir: &Path) -> Result<PathBuf, SqliteError> {
    let failed = |source| SqliteError::Directory { path: dir.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
    dir.canonicalize().map_err(failed)
}

/// Whether there is no ledger yet. A log beside one that is not there would be read into the next.
fn is_absent(path: &Path) -> Result<bool, SqliteError> {
    if file_length(path)? > 0 {
        return Ok(false);
    }
    for end in ["-wal", "-journal"] {
        let beside = with_end(path, end);
        if file_length(&beside)? > 0 {
            return Err(SqliteError::LeftBehind { path: beside });
        }
    }
    Ok(true)
}

fn file_length(path: &Path) -> Result<u64, SqliteError> {
    match std::fs::metadata(path) {
        Ok(found) => Ok(found.len()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        Err(source) => Err(unusable(path)(source)),
    }
}

/// Under another name first: what has the ledger's name is a whole ledger, whenever this process or its host ends.
fn create(dir: &Path, path: &Path) -> Result<(), SqliteError> {
    let new = dir.join("ledger.db.new");
    for left in [new.clone(), with_end(&new, "-journal")] {
        match std::fs::remove_file(&left) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(source) => return Err(unusable(&left)(source)),
        }
    }
    // SQLite would create it readable for all.
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).map_err(unusable(&new))?;
    let connection = open(&new, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    schema::create(&connection).map_err(|source| unopened(&new, source))?;
    drop(connection);
    rename_durably(&new, path)
}

/// The path with these characters more: what SQLite calls the files beside a database.
pub(super) fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// To be called by whoever just took the lock, and has no connection yet.
fn header(path: &Path) -> Result<Option<Identity>, SqliteError> {
    let mut header = Vec::new();
    let file = File::open(path).map_err(unusable(path))?;
    file.take(HEADER_BYTES).read_to_end(&mut header).map_err(unusable(path))?;
    Ok(Identity::in_header(&header))
}

fn check_identity(path: &Path, identity: Option<Identity>) -> Result<(), SqliteError> {
    let path = path.to_owned();
    match identity {
        Some(Identity { application_id: schema::APPLICATION_ID, version: schema::VERSION }) => Ok(()),
        Some(Identity { application_id: schema::APPLICATION_ID, version }) => {
            Err(SqliteError::Version { path, found: version, known: schema::VERSION })
        }
        Some(Identity { .. }) | None => Err(SqliteError::Foreign { path }),
    }
}

fn read_only() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

fn open(path: &Path, flags: OpenFlags) -> Result<Connection, SqliteError> {
    let opened = Connection::open_with_flags(path, flags).and_then(|connection| {
        connection.busy_timeout(BUSY)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        // Without it a statement with `LIMIT ?` is parsed and planned anew each time that its limit is bound: half of what a listing cost.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        Ok(connection)
    });
    opened.map_err(|source| unopened(path, source))
}

fn unopened(path: &Path, source: rusqlite::Error) -> SqliteError {
    SqliteError::Open { path: path.to_owned(), source: Box::new(EngineError::of(path, source)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_writer_s_own_connection_syncs_every_commit() -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let file = OwnedFile::take(dir.path())?;
        let writer = file.open_writer()?;
        let setting = |name| writer.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        assert_eq!(setting("synchronous")?, SYNCHRONOUS_FULL);
        assert_eq!(setting("wal_autocheckpoint")?, 0);
        assert_eq!(setting("journal_size_limit")?, log::LONGEST_RESTING_BYTES);
        let mode: String = writer.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
        assert_eq!(mode, "wal");
        Ok(())
    }

    #[test]
    fn a_connection_that_does_not_sync_is_refused() -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let file = OwnedFile::take(dir.path())?;
        let writer = file.open_writer()?;
        writer.pragma_update(None, "synchronous", "NORMAL")?;
        let refused = file.check_durable(&writer);
        assert!(matches!(refused, Err(SqliteError::NotDurable { synchronous: 1, .. })), "{refused:?}");

        writer.pragma_update(None, "synchronous", "FULL")?;
        writer.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
        let refused = file.check_durable(&writer);
        assert!(matches!(refused, Err(SqliteError::NotDurable { .. })), "{refused:?}");
        Ok(())
    }
    /// A forked child has the same open file until it runs its program, as this second handle on it has.
    #[test]
    fn a_lock_is_given_back_though_another_has_its_file_open() -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("ledger.lock");
        let lock = Lock::take(&path)?.ok_or("it is held")?;
        let _open = lock.file().try_clone()?;
        assert!(Lock::take(&path)?.is_none());
        drop(lock);
        assert!(Lock::take(&path)?.is_some());
        Ok(())
    }
}
