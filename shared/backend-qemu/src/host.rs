//! The host's VMs by name, each with its directory and the way to its QEMU. It does nothing to them.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::directory::{Directory, MACHINE};
use crate::error::{Error, file};
use crate::generation::Generation;
use crate::machine::Machine;
use crate::names::VmName;
use crate::qmp::{Qmp, QmpError};
use crate::wait::Limits;

#[derive(Debug, Clone)]
pub struct Host {
    /// Each VM has a directory in here. Of this user's own: who can write to it has the VMs.
    pub root: PathBuf,
    pub programs: Programs,
    pub limits: Limits,
}

#[derive(Debug, Clone)]
pub struct Programs {
    pub qemu: PathBuf,
    pub qemu_img: PathBuf,
    /// Of util-linux: QEMU has a session of its own, and so outlives the terminal that it was started from.
    pub setsid: PathBuf,
}

impl Default for Programs {
    fn default() -> Self {
        Self { qemu: "qemu-system-x86_64".into(), qemu_img: "qemu-img".into(), setsid: "setsid".into() }
    }
}

/// One VM, whether it is there or not.
#[derive(Debug, Clone)]
pub struct Vm {
    host: Host,
    name: VmName,
    directory: Directory,
}

impl Host {
    pub fn vm(&self, name: &VmName) -> Vm {
        Vm { host: self.clone(), name: name.clone(), directory: Directory::at(self.root.join(name.as_str())) }
    }

    /// Those that have a directory, wholly made or not.
    pub fn vms(&self) -> Result<Vec<VmName>, Error> {
        let entries = match fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(file(&self.root, "read")(error)),
        };
        let mut names: Vec<VmName> =
            entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        names.sort();
        Ok(names)
    }
}

impl Vm {
    pub fn name(&self) -> &VmName {
        &self.name
    }

    /// Where its console is written, and where `serial.sock` is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// None: there is no such VM, or it was never wholly made.
    pub fn machine(&self) -> Result<Option<Machine>, Error> {
        self.directory.read(MACHINE)
    }

    /// That was begun last.
    pub fn generation(&self) -> Result<Generation, Error> {
        Generation::read(&self.directory)
    }

    /// A session with its QEMU, if it has one. While it lasts, nobody else has one.
    pub async fn qmp(&self) -> Result<Qmp, QmpError> {
        Qmp::connect(&self.directory, self.host.limits.answer).await
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.host.limits
    }

    pub(crate) fn programs(&self) -> &Programs {
        &self.host.programs
    }
}
