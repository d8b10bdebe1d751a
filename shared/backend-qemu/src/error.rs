//! Why something could not be done to a VM: what was attempted, and in `source` what came of it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::names::VmName;
use crate::qmp::QmpError;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no VM {0}")]
    Missing(VmName),
    #[error("the VM {0} is there already, and is another machine")]
    AnotherMachine(VmName),
    #[error("somebody else is at the VM {vm}, and was for {} s", .waited.as_secs())]
    Locked { vm: VmName, waited: Duration },
    #[error("the VM {0} has a QEMU process already")]
    Runs(VmName),
    #[error("the VM {vm} does not run")]
    DoesNotRun { vm: VmName },
    #[error("the VM {vm} does not end, though it was killed")]
    DoesNotEnd { vm: VmName },
    #[error("{} could not be {done}", .path.display())]
    File { path: PathBuf, done: &'static str, source: io::Error },
    #[error("{} does not hold what it should", .path.display())]
    Content { path: PathBuf, source: serde_json::Error },
    #[error("the program {program} could not be started")]
    Program { program: String, source: io::Error },
    /// The VM's QEMU ended before it answered.
    #[error("QEMU ended with {status}: {said}")]
    Ended { status: String, said: String },
    #[error("QEMU does not answer within {} s after its start", .within.as_secs())]
    Silent { within: Duration },
    /// The snapshot's memory is of a machine under KVM, and this host has none any more. Its disk is good for a cold rollback.
    #[error("the snapshot {snapshot} was taken under KVM, which does not work here any more")]
    NoKvm { snapshot: String },
    #[error("qemu-img could not {attempted}: {said}")]
    Image { attempted: &'static str, said: String },
    #[error("QEMU was asked in vain")]
    Qmp(#[from] QmpError),
}

pub(crate) fn file(path: &Path, done: &'static str) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { path, done, source }
}
