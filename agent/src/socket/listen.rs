//! The listening socket as a file: who may connect is its owner and its group, from the first moment on, and nobody else.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

use thiserror::Error;
use tokio::net::{UnixListener, UnixStream};

use super::address::SocketPlace;

const MODE: u32 = 0o660;
/// Where too many files are open, somebody closes one.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// The file goes with it.
#[derive(Debug)]
pub(crate) struct Listening {
    listener: UnixListener,
    path: PathBuf,
    inode: u64,
}

impl Listening {
    /// It is made under another name and comes to its own with its mode and group: nobody meets it more open than it is to be. One that a
    /// dead agent left is replaced.
    pub(crate) fn at(place: &SocketPlace) -> Result<Self, ListenError> {
        let SocketPlace { path, gid } = place;
        let failed = |source| ListenError::Failed { path: path.clone(), source };
        let dir = path.parent().ok_or_else(|| failed(io::Error::other("it has no directory")))?;
        check_directory(dir)?;
        check_free(path)?;
        let private = dir.join(format!(".{}", process::id()));
        let made = make(&private, *gid).and_then(|(listener, inode)| {
            fs::rename(&private, path)?;
            Ok(Self { listener, path: path.clone(), inode })
        });
        made.map_err(|error| {
            let _may_not_be_there = fs::remove_file(&private);
            failed(error)
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Safe to cancel.
    pub(super) async fn accept(&self) -> UnixStream {
        loop {
            match self.listener.accept().await {
                Ok((stream, _nameless)) => return stream,
                Err(error) => {
                    tracing::warn!(%error, "a hook's connection could not be taken");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

impl Drop for Listening {
    /// Another agent's may be in its place.
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _gone_already = fs::remove_file(&self.path);
        }
    }
}

fn make(path: &Path, gid: Option<u32>) -> io::Result<(UnixListener, u64)> {
    match fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = UnixListener::bind(path)?;
    chown(path, None, gid)?;
    fs::set_permissions(path, Permissions::from_mode(MODE))?;
    Ok((listener, fs::symlink_metadata(path)?.ino()))
}

/// Whoever can write to it can put a socket of his own in place of this one, and answer in its stead.
fn check_directory(dir: &Path) -> Result<(), ListenError> {
    let found = fs::metadata(dir).map_err(|source| ListenError::Directory { dir: dir.to_owned(), source })?;
    let (dir, mode) = (dir.to_owned(), found.mode() & 0o7777);
    let own = [0, rustix::process::geteuid().as_raw()];
    if !own.contains(&found.uid()) {
        return Err(ListenError::OthersDirectory { dir, uid: found.uid() });
    }
    match mode & 0o022 {
        0 => Ok(()),
        _writable => Err(ListenError::OpenDirectory { dir, mode }),
    }
}

/// A socket at which nobody listens is a dead agent's.
fn check_free(path: &Path) -> Result<(), ListenError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(source) => Err(ListenError::Failed { path: path.to_owned(), source }),
        Ok(found) if !found.file_type().is_socket() => Err(ListenError::NoSocket { path: path.to_owned() }),
        Ok(_socket) => match BlockingStream::connect(path) {
            Ok(_answered) => Err(ListenError::InUse { path: path.to_owned() }),
            Err(_nobody) => Ok(()),
        },
    }
}

#[derive(Debug, Error)]
pub(crate) enum ListenError {
    #[error("the socket {path} could not be made", path = path.display())]
    Failed { path: PathBuf, source: io::Error },
    #[error("the directory {dir} of the agent's socket could not be looked at; make it: mkdir -m 755 {dir}", dir = dir.display())]
    Directory { dir: PathBuf, source: io::Error },
    #[error(
        "the directory {dir} of the agent's socket is user {uid}'s, who could put another socket there; it must be root's or the agent's own user's",
        dir = dir.display()
    )]
    OthersDirectory { dir: PathBuf, uid: u32 },
    #[error(
        "the directory {dir} of the agent's socket can be written by others (mode {mode:03o}), who could put another socket there; close it: \
         chmod go-w {dir}",
        dir = dir.display()
    )]
    OpenDirectory { dir: PathBuf, mode: u32 },
    #[error("{path} is there and is no socket; remove it, or name another with --socket", path = path.display())]
    NoSocket { path: PathBuf },
    #[error("another agent listens at {path}; give each one its own with --socket", path = path.display())]
    InUse { path: PathBuf },
    #[error("the path {path} of the agent's socket is longer than {longest} bytes, which is all that a kernel takes", path = path.display())]
    TooLong { path: PathBuf, longest: usize },
    #[error("there is no group {group} for the agent's socket; make it, or name another with --socket-group")]
    NoGroup { group: String },
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn place(dir: &TempDir) -> SocketPlace {
        SocketPlace { path: dir.path().join("agent.sock"), gid: None }
    }

    fn close(dir: &TempDir, mode: u32) {
        fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
    }

    #[tokio::test]
    async fn refuse_20_only_owner_and_group_may_connect_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let listening = Listening::at(&place(&dir)).unwrap();
        let found = fs::symlink_metadata(listening.path()).unwrap();
        assert!(found.file_type().is_socket());
        assert_eq!(found.permissions().mode() & 0o7777, 0o660);
        assert_eq!(found.uid(), rustix::process::geteuid().as_raw());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no private name is left");
        drop(listening);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn refuse_20_its_group_is_the_one_that_was_named() {
        // Only root can give a file to a group that is not its own.
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let listening = Listening::at(&SocketPlace { gid: Some(50_123), ..place(&dir) }).unwrap();
        let found = fs::symlink_metadata(listening.path()).unwrap();
        assert_eq!((found.gid(), found.uid(), found.mode() & 0o777), (50_123, 0, 0o660));
    }

    #[tokio::test]
    async fn refuse_20_no_socket_is_made_where_others_could_put_their_own() {
        for mode in [0o770, 0o707, 0o777, 0o1777, 0o720] {
            let dir = tempfile::tempdir().unwrap();
            close(&dir, mode);
            let refused = Listening::at(&place(&dir)).unwrap_err();
            assert!(matches!(refused, ListenError::OpenDirectory { .. }), "{mode:o}: {refused}");
            assert!(refused.to_string().contains("chmod go-w"), "{refused}");
            close(&dir, 0o755);
            assert!(Listening::at(&place(&dir)).is_ok(), "{mode:o}, closed");
        }
        if rustix::process::geteuid().is_root() {
            let dir = tempfile::tempdir().unwrap();
            chown(dir.path(), Some(50_123), None).unwrap();
            assert!(matches!(Listening::at(&place(&dir)), Err(ListenError::OthersDirectory { .. })));
        }
    }

    #[tokio::test]
    async fn a_dead_agents_socket_is_replaced_a_living_ones_and_other_files_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = place(&dir).path;
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "a listener that dies leaves its file");
        let living = Listening::at(&place(&dir)).unwrap();
        assert!(matches!(Listening::at(&place(&dir)), Err(ListenError::InUse { .. })));
        drop(living);
        fs::write(&path, "precious").unwrap();
        assert!(matches!(Listening::at(&place(&dir)), Err(ListenError::NoSocket { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[tokio::test]
    async fn what_took_its_place_stays_when_it_goes() {
        let dir = tempfile::tempdir().unwrap();
        let listening = Listening::at(&place(&dir)).unwrap();
        fs::remove_file(listening.path()).unwrap();
        fs::write(place(&dir).path, "another's").unwrap();
        drop(listening);
        assert!(place(&dir).path.exists());
    }
}
