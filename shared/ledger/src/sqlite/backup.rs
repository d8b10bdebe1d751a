//! A copy of a ledger that another process may own and be writing: consistent, complete or not there, and a ledger that can be started from.

use super::error::{EngineError, SqliteError};
use super::file::{Lock, open_known, rename_durably, unusable, with_end};
use std::path::{Path, PathBuf};

/// Copies the ledger `file` to a file that is not there yet. Whoever owns the ledger goes on meanwhile; the copy is as the ledger was at one
/// moment.
///
/// To start from it, make it `ledger.db` in a directory that holds nothing of another ledger.
pub fn backup(file: &Path, to: &Path) -> Result<(), SqliteError> {
    let (file, to) = (absolute(file)?, absolute(to)?);
    check_free(&to)?;
    let ledger = open_known(&file)?;
    let part = with_end(&to, ".part");
    // Left over by a copy that was cut off, it is written anew. SQLite would create it readable for all.
    let held = Lock::take(&part)?.ok_or_else(|| SqliteError::BeingWritten { path: to.clone() })?;
    // What is held may have become another's finished copy meanwhile.
    check_free(&to)?;
    held.file().set_len(0).map_err(unusable(&part))?;
    let copied = part.to_str().ok_or_else(|| rusqlite::Error::InvalidPath(part.clone()));
    let copied = copied.and_then(|part| ledger.execute("VACUUM INTO ?1", [part]));
    let finished = copied
        .map_err(|source| SqliteError::Copy {
            from: file.clone(),
            to: to.clone(),
            source: Box::new(EngineError::of(&to, source)),
        })
        .and_then(|_| check_free(&to))
        .and_then(|()| rename_durably(&part, &to));
    if finished.is_err() {
        // Half a copy helps nobody, and may be what fills the disk.
        let _ = std::fs::remove_file(&part);
    }
    finished
}

/// SQLite would take a relative path that begins with `file:` for a URI.
fn absolute(path: &Path) -> Result<PathBuf, SqliteError> {
    std::path::absolute(path).map_err(unusable(path))
}

fn check_free(path: &Path) -> Result<(), SqliteError> {
    match path.symlink_metadata() {
        Ok(_) => Err(SqliteError::Exists { path: path.to_owned() }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(unusable(path)(source)),
    }
}
