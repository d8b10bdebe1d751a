//! What can be wrong with a ledger's file, in words for whoever runs the host.

use rusqlite::ErrorCode;
use rusqlite::ffi::SQLITE_IOERR_SHMSIZE;
use std::io;
use std::path::{Path, PathBuf};

/// Why a ledger was not opened, or not copied.
#[derive(Debug, thiserror::Error)]
pub enum SqliteError {
    #[error("the ledger's directory {} can't be used", path.display())]
    Directory {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("another process owns this ledger: it holds {}", path.display())]
    Locked { path: PathBuf },
    #[error("the file {} can't be used", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "{} is no ledger that this version of Motorpool knows: an earlier version made it, or another program. Move it away with the files \
         whose names begin with its own, and start with an empty ledger (runners that only it knows end by themselves at their deadlines); \
         or go on with the version that made it",
        path.display()
    )]
    Foreign { path: PathBuf },
    #[error(
        "{} is a ledger of format {found}, and this version of Motorpool reads format {known} only. Go on with the version that made it; \
         or move it away with the files whose names begin with its own, and start with an empty ledger (runners that only it knows end by \
         themselves at their deadlines)",
        path.display()
    )]
    Version { path: PathBuf, found: u32, known: u32 },
    #[error(
        "{} was left behind by a ledger that is no longer there, and would be taken for a part of the next one. Move it away too",
        path.display()
    )]
    LeftBehind { path: PathBuf },
    #[error(
        "{} would not be durable: its journal mode is '{journal_mode}' and its synchronous setting {synchronous}",
        path.display()
    )]
    NotDurable { path: PathBuf, journal_mode: String, synchronous: i64 },
    #[error("the ledger {} could not be opened", path.display())]
    Open {
        path: PathBuf,
        #[source]
        source: Box<EngineError>,
    },
    #[error("the ledger's writer could not be started")]
    Writer(#[source] io::Error),
    #[error("{} is there already, and a copy of a ledger replaces nothing", path.display())]
    Exists { path: PathBuf },
    #[error("another process is copying a ledger to {}", path.display())]
    BeingWritten { path: PathBuf },
    #[error("the ledger {} could not be copied to {}", from.display(), to.display())]
    Copy {
        from: PathBuf,
        to: PathBuf,
        #[source]
        source: Box<EngineError>,
    },
}

/// Why SQLite did not do what it was told.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("the disk of {} is full", file.display())]
    DiskFull {
        file: PathBuf,
        #[source]
        source: rusqlite::Error,
    },
    #[error("the disk of {} can't be read or written", file.display())]
    DiskFailed {
        file: PathBuf,
        #[source]
        source: rusqlite::Error,
    },
    #[error("SQLite answered with an error")]
    Sqlite(#[source] rusqlite::Error),
    #[error("the ledger's writer has ended")]
    WriterEnded,
}

impl EngineError {
    pub(super) fn of(file: &Path, source: rusqlite::Error) -> Self {
        let file = file.to_owned();
        // The index of the log could not be made longer: SQLite does not call that a full disk.
        let no_room = source.sqlite_error().is_some_and(|error| error.extended_code == SQLITE_IOERR_SHMSIZE);
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::DiskFull { file, source },
            Some(ErrorCode::SystemIoFailure) if no_room => Self::DiskFull { file, source },
            Some(ErrorCode::SystemIoFailure) => Self::DiskFailed { file, source },
            Some(_) | None => Self::Sqlite(source),
        }
    }
}
