//! A VM's QEMU process, whoever started it: whether there is one, and its end. It is known by the lock that it was born with, and that the kernel
//! gives back when it ends; a number that was noted would some day be another process's.

use std::fs::{self, File};
use std::io::ErrorKind;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::directory::{Directory, PID, PROCESS_LOCK};
use crate::error::{Error, file};
use crate::wait::pause;

/// How often the lock is tried: who looks whether it is held has it for a moment.
const TRIES: usize = 20;

/// The only way to ask is to take it, shared, for a moment.
pub(crate) fn is_alive(directory: &Directory) -> Result<bool, Error> {
    let path = directory.file(PROCESS_LOCK);
    let lock = match File::open(&path) {
        Ok(lock) => lock,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(file(&path, "opened")(error)),
    };
    match flock(&lock, FlockOperation::NonBlockingLockShared) {
        // Let go of it by name: a process that forks right now has this file, too, and to close it would not do.
        Ok(()) => flock(&lock, FlockOperation::NonBlockingUnlock)
            .map(|()| false)
            .map_err(|error| file(&path, "unlocked")(error.into())),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(file(&path, "locked")(error.into())),
    }
}

/// The lock for a new process; none: there is one already.
pub(crate) async fn lock_for_a_new_one(directory: &Directory) -> Result<Option<File>, Error> {
    let lock = directory.open(PROCESS_LOCK, false)?;
    for _try in 0..TRIES {
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(lock)),
            Err(Errno::WOULDBLOCK) => pause().await,
            Err(error) => return Err(file(&directory.file(PROCESS_LOCK), "locked")(error.into())),
        }
    }
    Ok(None)
}

/// At once, and whatever it does. That it has ended shows in the lock.
///
/// QEMU writes its number at its start, into a file that is removed before. Through a handle: if the lock is held *after* the handle was had, the
/// process of that number lives, and was QEMU when the handle was had.
pub(crate) fn kill(directory: &Directory) -> Result<(), Error> {
    let path = directory.file(PID);
    let pid = match fs::read_to_string(&path) {
        Ok(text) => text.trim().parse().ok().filter(|pid| *pid > 1).and_then(Pid::from_raw),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(file(&path, "read")(error)),
    };
    let Some(pid) = pid else { return Ok(()) };
    let handle = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(Errno::SRCH) => return Ok(()),
        Err(error) => return Err(file(&path, "followed to its process")(error.into())),
    };
    if !is_alive(directory)? || !has_open(pid, directory) {
        return Ok(());
    }
    match pidfd_send_signal(handle, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(file(&path, "followed to its process")(error.into())),
    }
}

/// The lock's file, as its stdin.
fn has_open(pid: Pid, directory: &Directory) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |path: &std::path::Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    let own = identity(&directory.file(PROCESS_LOCK));
    let stdin = format!("/proc/{}/fd/0", pid.as_raw_pid());
    own.is_some() && own == identity(stdin.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn sleeper(stdin: Stdio) -> std::process::Child {
        Command::new("sleep").arg("60").stdin(stdin).spawn().unwrap()
    }

    #[tokio::test]
    async fn a_process_is_known_by_its_lock_and_there_is_no_second() {
        let root = tempfile::tempdir().unwrap();
        let directory = Directory::at(root.path().to_owned());
        assert!(!is_alive(&directory).unwrap(), "there was never one");
        let lock = lock_for_a_new_one(&directory).await.unwrap().unwrap();
        let mut child = sleeper(lock.try_clone().unwrap().into());
        drop(lock);
        assert!(is_alive(&directory).unwrap());
        assert!(lock_for_a_new_one(&directory).await.unwrap().is_none());
        fs::write(directory.file(PID), format!("{}\n", child.id())).unwrap();
        kill(&directory).unwrap();
        child.wait().unwrap();
        assert!(!is_alive(&directory).unwrap());
        assert!(lock_for_a_new_one(&directory).await.unwrap().is_some());
    }

    /// The number in the file is another process's by now, which is never killed.
    #[tokio::test]
    async fn a_number_that_was_used_again_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let directory = Directory::at(root.path().to_owned());
        let mut another = sleeper(Stdio::null());
        fs::write(directory.file(PID), another.id().to_string()).unwrap();
        kill(&directory).unwrap();
        let lock = lock_for_a_new_one(&directory).await.unwrap().unwrap();
        let mut child = sleeper(lock.try_clone().unwrap().into());
        kill(&directory).unwrap();
        assert!(another.try_wait().unwrap().is_none(), "though a process of the VM's lives");
        for child in [&mut another, &mut child] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
