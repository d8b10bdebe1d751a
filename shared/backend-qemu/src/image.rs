//! The VM's image without a QEMU process: `qemu-img`, which works on it, is waited for, and holds the driver's lock for as long as it runs.

use std::ffi::OsStr;
use std::fs;
use std::process::Stdio;

use serde::Deserialize;
use tokio::process::Command;

use crate::directory::{OVERLAY, OVERLAY_DRAFT};
use crate::driver_lock::Held;
use crate::error::{Error, file};
use crate::host::Vm;
use crate::machine::{BaseImage, Machine};
use crate::names::SnapshotName;
use crate::qmp::BlockSnapshot;

impl Vm {
    /// A new overlay, whole or not at all. One that is there is of a VM that is no more.
    pub(crate) async fn make_overlay(&self, held: &Held, machine: &Machine) -> Result<(), Error> {
        let overlay = self.directory().file(OVERLAY);
        for left_over in [OVERLAY, OVERLAY_DRAFT] {
            self.directory().forget(left_over)?;
        }
        let BaseImage { path, format } = &machine.base;
        let size = machine.disk_bytes.map(|bytes| bytes.to_string());
        let mut arguments: Vec<&OsStr> =
            ["create", "-q", "-f", "qcow2", "-F", format.as_str(), "-b"].map(OsStr::new).to_vec();
        arguments.extend([path.as_os_str(), OsStr::new(OVERLAY_DRAFT)]);
        arguments.extend(size.as_ref().map(OsStr::new));
        self.qemu_img(held, "make the VM's disk", &arguments).await?;
        self.directory().close_file(OVERLAY_DRAFT)?;
        fs::rename(self.directory().file(OVERLAY_DRAFT), &overlay).map_err(file(&overlay, "named"))
    }

    pub(crate) async fn image_snapshots(&self, held: &Held) -> Result<Vec<BlockSnapshot>, Error> {
        #[derive(Deserialize)]
        struct Info {
            #[serde(default)]
            snapshots: Vec<BlockSnapshot>,
        }
        let said = self.qemu_img(held, "list snapshots", &["info", "--output=json", OVERLAY]).await?;
        let Info { snapshots } = serde_json::from_slice(&said)
            .map_err(|source| Error::Content { path: self.directory().file(OVERLAY), source })?;
        Ok(snapshots)
    }

    pub(crate) async fn take_image_snapshot(&self, held: &Held, name: &SnapshotName) -> Result<(), Error> {
        self.snapshot_command(held, "take a snapshot", "-c", name).await
    }

    /// The disk becomes as it was. Whatever memory the snapshot has is left alone.
    pub(crate) async fn restore_image(&self, held: &Held, name: &SnapshotName) -> Result<(), Error> {
        self.snapshot_command(held, "go back to a snapshot", "-a", name).await
    }

    pub(crate) async fn delete_image_snapshot(&self, held: &Held, name: &SnapshotName) -> Result<(), Error> {
        self.snapshot_command(held, "delete a snapshot", "-d", name).await
    }

    async fn snapshot_command(
        &self,
        held: &Held,
        attempted: &'static str,
        flag: &str,
        name: &SnapshotName,
    ) -> Result<(), Error> {
        self.qemu_img(held, attempted, &["snapshot", "-q", flag, name.as_str(), OVERLAY]).await.map(|_| ())
    }

    /// In the VM's directory, so that no path of ours is taken for a protocol's or an option's. It is never killed: a driver that gives up, or is
    /// killed, leaves it to its end, and its lock says when that is.
    async fn qemu_img(
        &self,
        held: &Held,
        attempted: &'static str,
        arguments: &[impl AsRef<OsStr>],
    ) -> Result<Vec<u8>, Error> {
        let program = &self.programs().qemu_img;
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.directory().path());
        command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command.stdin(held.as_stdin()?).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |source| Error::Program { program: program.display().to_string(), source };
        let output = command.output().await.map_err(failed)?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().replace(char::is_control, " ");
            return Err(Error::Image { attempted, said });
        }
        Ok(output.stdout)
    }
}
