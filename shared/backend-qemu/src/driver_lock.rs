//! One driver at a VM at a time. The programs that a driver starts on the VM's image have its lock, too: of a driver that was killed it is free when
//! the last of them has ended, so nobody begins beside them.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::directory::DRIVER_LOCK;
use crate::error::{Error, file};
use crate::host::Vm;
use crate::wait::{Deadline, pause};

/// Whoever has it is the only one at the VM, until it is dropped.
#[derive(Debug)]
pub struct Held {
    lock: File,
}

impl Vm {
    /// Waits for whoever is at the VM.
    pub async fn hold(&self) -> Result<Held, Error> {
        let waited = self.limits().lock;
        let mut deadline = Deadline::within(waited);
        loop {
            if let Some(held) = self.try_hold()? {
                return Ok(held);
            }
            if deadline.passed().await {
                return Err(Error::Locked { vm: self.name().clone(), waited });
            }
            pause().await;
        }
    }

    /// None: somebody else is at it.
    pub fn try_hold(&self) -> Result<Option<Held>, Error> {
        let path = self.directory().file(DRIVER_LOCK);
        if !self.directory().path().exists() {
            return Err(Error::Missing(self.name().clone()));
        }
        let lock = self.directory().open(DRIVER_LOCK, false)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(file(&path, "locked")(error.into())),
        }
        // The one before may have removed the VM: then this is the lock of a VM that is no more.
        let same = match (lock.metadata(), fs::metadata(&path)) {
            (Ok(own), Ok(there)) => (own.dev(), own.ino()) == (there.dev(), there.ino()),
            (Ok(_), Err(_)) | (Err(_), _) => false,
        };
        Ok(same.then_some(Held { lock }))
    }
}

impl Held {
    /// For a program that works on the VM's image. It holds the lock for as long as it runs.
    pub(crate) fn as_stdin(&self) -> Result<Stdio, Error> {
        Ok(self.lock.try_clone().map_err(file(DRIVER_LOCK.as_ref(), "opened twice"))?.into())
    }
}
