//! The lock that an agent holds for its whole life, as seen from outside: is it held, and by whom. Nobody here keeps it.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use crate::error::{Failure, file};

#[derive(Debug, Clone)]
pub(crate) struct AgentLock {
    path: PathBuf,
}

impl AgentLock {
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// The only way to ask is to take it, shared, for a moment: an agent that starts just now tries again.
    pub(crate) fn held(&self) -> Result<bool, Failure> {
        let lock = match File::open(&self.path) {
            Ok(lock) => lock,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(file(&self.path, "opened")(error)),
        };
        match flock(&lock, FlockOperation::NonBlockingLockShared) {
            // Let go of it by name: a process that forks right now has this file, too, and to close it would not do.
            Ok(()) => flock(&lock, FlockOperation::NonBlockingUnlock)
                .map(|()| false)
                .map_err(|error| file(&self.path, "unlocked")(error.into())),
            Err(Errno::WOULDBLOCK) => Ok(true),
            Err(error) => Err(file(&self.path, "locked")(error.into())),
        }
    }

    /// Signals the process that holds the lock, if it is held, and its number in there is not that of an earlier holder.
    pub(crate) fn signal_holder(&self, signal: Signal) -> Result<(), Failure> {
        if !self.held()? {
            return Ok(());
        }
        let Some(pid) = self.pid()? else { return Ok(()) };
        match self.signal_if_holder(pid, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(source) => Err(Failure::Signal { pid: pid.as_raw_pid(), source }),
        }
    }

    fn pid(&self) -> Result<Option<Pid>, Failure> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(text.trim().parse().ok().filter(|pid| *pid > 1).and_then(Pid::from_raw)),
            Err(error) if [ErrorKind::NotFound, ErrorKind::InvalidData].contains(&error.kind()) => Ok(None),
            Err(error) => Err(file(&self.path, "read")(error)),
        }
    }

    /// Through a handle: between the look and the signal the number can't become another process's.
    #[cfg(target_os = "linux")]
    fn signal_if_holder(&self, pid: Pid, signal: Signal) -> Result<(), Errno> {
        let process = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
        if self.is_open_in(pid) {
            rustix::process::pidfd_send_signal(process, signal)?;
        }
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    fn signal_if_holder(&self, pid: Pid, signal: Signal) -> Result<(), Errno> {
        rustix::process::kill_process(pid, signal)
    }

    #[cfg(target_os = "linux")]
    fn is_open_in(&self, pid: Pid) -> bool {
        use std::os::unix::fs::MetadataExt;
        let Ok(own) = fs::metadata(&self.path) else { return false };
        let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        // Following the link: that is the open file itself, whatever its path has become.
        open.flatten()
            .filter_map(|entry| fs::metadata(entry.path()).ok())
            .any(|other| (other.dev(), other.ino()) == (own.dev(), own.ino()))
    }
}
