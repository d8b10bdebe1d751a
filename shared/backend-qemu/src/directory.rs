//! A VM's directory on disk: what is in it, who may read it, and how it comes and goes. It starts and asks no process.
//!
//! `machine.json` what the VM is (written last: with it the VM is there), `overlay.qcow2` its disk, `generation.json` how often it was started,
//! `driver.lock` held by who drives it, `process.lock` held by its QEMU; of QEMU's making: `qemu.pid`, `qmp.sock`, `serial.sock`, `console.log`,
//! `qemu.log`.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, file};

pub(crate) const OVERLAY: &str = "overlay.qcow2";
pub(crate) const OVERLAY_DRAFT: &str = "overlay.draft";
pub(crate) const MACHINE: &str = "machine.json";
pub(crate) const GENERATION: &str = "generation.json";
pub(crate) const DRIVER_LOCK: &str = "driver.lock";
pub(crate) const PROCESS_LOCK: &str = "process.lock";
pub(crate) const PID: &str = "qemu.pid";
pub(crate) const QMP_SOCKET: &str = "qmp.sock";
pub(crate) const SERIAL_SOCKET: &str = "serial.sock";
pub(crate) const CONSOLE_LOG: &str = "console.log";
pub(crate) const QEMU_LOG: &str = "qemu.log";

const OWN_DIRECTORY: u32 = 0o700;
const OWN_FILE: u32 = 0o600;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Directory {
    path: PathBuf,
}

impl Directory {
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn make(&self) -> Result<(), Error> {
        let mut builder = DirBuilder::new();
        builder.mode(OWN_DIRECTORY).recursive(true);
        builder.create(&self.path).map_err(file(&self.path, "made"))?;
        self.close(&self.path, OWN_DIRECTORY)
    }

    /// To all but its owner, if it is there.
    pub(crate) fn close_file(&self, name: &str) -> Result<(), Error> {
        self.close(&self.file(name), OWN_FILE)
    }

    fn close(&self, path: &Path, mode: u32) -> Result<(), Error> {
        match fs::set_permissions(path, Permissions::from_mode(mode)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(file(path, "closed to others")(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// For reading and writing, made if it is not there, and emptied if that is asked for.
    pub(crate) fn open(&self, name: &str, truncate: bool) -> Result<File, Error> {
        let path = self.file(name);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(truncate).mode(OWN_FILE);
        options.open(&path).map_err(file(&path, "opened"))
    }

    pub(crate) fn forget(&self, name: &str) -> Result<(), Error> {
        let path = self.file(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(file(&path, "removed")(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// The old content or the new one, whatever happens; the new one when it returns.
    pub(crate) fn write(&self, name: &str, content: &impl Serialize) -> Result<(), Error> {
        let (path, draft) = (self.file(name), self.file(&format!("{name}.draft")));
        let text =
            serde_json::to_vec(content).map_err(|source| Error::Content { path: path.clone(), source })?;
        let written = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create(true).truncate(true).mode(OWN_FILE).open(&draft)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&draft, &path)?;
            File::open(&self.path)?.sync_all()
        };
        written().map_err(file(&path, "written"))
    }

    pub(crate) fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Error> {
        let path = self.file(name);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(file(&path, "read")(error)),
        };
        serde_json::from_slice(&text).map(Some).map_err(|source| Error::Content { path, source })
    }

    /// The last of what QEMU said on its stderr.
    pub(crate) fn last_words(&self) -> String {
        const LONGEST: usize = 600;
        let said = fs::read(self.file(QEMU_LOG)).unwrap_or_default();
        let last = said.get(said.len().saturating_sub(LONGEST)..).unwrap_or_default();
        String::from_utf8_lossy(last).trim().replace(char::is_control, " ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn refuse_20_nobody_else_reads_or_enters() {
        let root = tempfile::tempdir().unwrap();
        let directory = Directory::at(root.path().join("vms/a"));
        directory.make().unwrap();
        directory.write(MACHINE, &1).unwrap();
        directory.open(QEMU_LOG, true).unwrap();
        assert_eq!(mode(directory.path()), 0o700);
        assert_eq!((mode(&directory.file(MACHINE)), mode(&directory.file(QEMU_LOG))), (0o600, 0o600));
    }

    #[test]
    fn what_is_not_there_is_none_and_what_cannot_be_read_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let directory = Directory::at(root.path().to_owned());
        assert_eq!(directory.read::<u32>(MACHINE).unwrap(), None);
        directory.write(MACHINE, &7).unwrap();
        assert_eq!(directory.read::<u32>(MACHINE).unwrap(), Some(7));
        fs::write(directory.file(MACHINE), "{").unwrap();
        assert!(directory.read::<u32>(MACHINE).is_err());
    }
}
