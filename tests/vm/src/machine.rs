//! The machine itself: QEMU under software emulation, with an instance's two networks. It does not outlive this program, however that ends.

use crate::guest::Guest;
use crate::metadata::Metadata;
use crate::pipe;
use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Only a machine that hangs takes so long to end.
const ENDS_WITHIN: Duration = Duration::from_secs(12 * 60);

/// EC2's own machines are known by these letters, and by saying so twice.
const UUID: &str = "ec2e1916-9099-7caf-fd21-012345abcdef";

#[derive(Debug)]
pub(crate) struct Machine {
    qemu: Child,
    console: PathBuf,
    agent_socket: PathBuf,
    /// Held for as long as the machine may ask it.
    _metadata: Metadata,
}

impl Machine {
    /// Switches it on. Its disk is as the image was made, whatever another machine wrote. `dir` is for its sockets and its console.
    pub(crate) fn boot(image: &Path, dir: &Path, metadata: Metadata) -> Result<Self> {
        let (console, agent_socket) = (dir.join("console.log"), dir.join("guest-agent.sock"));
        let disk = format!("file={},format=raw,if=virtio,snapshot=on", option(&image.join("disk.img")));
        let serial = format!("file:{}", console.display());
        let socket = format!("socket,id=agent,server=on,wait=off,path={}", option(&agent_socket));
        let mut qemu = ends_with_us("qemu-system-x86_64");
        qemu.args(["-accel", "tcg,thread=multi", "-m", "1024", "-smp", "2", "-display", "none"])
            .args(["-monitor", "none", "-no-reboot", "-smbios", &format!("type=1,uuid={UUID},serial={UUID}")])
            .arg("-kernel")
            .arg(image.join("vmlinuz"))
            .arg("-initrd")
            .arg(image.join("initrd.img"))
            .args(["-append", "root=/dev/vda rw console=ttyS0 net.ifnames=0", "-drive", &disk])
            // eth0: this host's loopback is at 10.0.2.2, as other machines of an instance's network are.
            // Without IPv6, of which QEMU would announce a way to nowhere: cloud-init waits 50 s for an answer from there.
            .args(["-netdev", "user,id=net,ipv6=off", "-device", "virtio-net-pci,netdev=net,romfile="])
            // eth1: nothing but the metadata service, at its link-local address.
            .args([
                "-netdev",
                &metadata_network(metadata.address)?,
                "-device",
                "virtio-net-pci,netdev=meta,romfile=",
            ])
            .args(["-device", "virtio-serial-pci", "-chardev", &socket])
            .args(["-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0"])
            .args(["-serial", &serial])
            .stdin(Stdio::null());
        let qemu = qemu.spawn().context("QEMU could not be started: `cargo xtask vm` installs it")?;
        Ok(Self { qemu, console, agent_socket, _metadata: metadata })
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.qemu.try_wait().context("cannot look after QEMU")
    }

    /// Waits until it ends by itself.
    pub(crate) async fn end(&mut self) -> Result<ExitStatus> {
        let ended = timeout(ENDS_WITHIN, self.qemu.wait()).await;
        ended
            .with_context(|| format!("the machine still runs after {} s", ENDS_WITHIN.as_secs()))?
            .context("QEMU's end")
    }

    pub(crate) fn guest(&self) -> Guest {
        Guest::behind(&self.agent_socket)
    }

    /// What it wrote there, without the colours.
    pub(crate) fn console(&self) -> String {
        let text = std::fs::read(&self.console).unwrap_or_default();
        String::from_utf8_lossy(&text).replace(|c: char| c.is_control() && c != '\n', "")
    }
}

/// The network of the link-local addresses. Each connection to the metadata address is a pipe to the stand-in.
fn metadata_network(stand_in: SocketAddr) -> Result<String> {
    let this = std::env::current_exe().context("this program's own path")?;
    let this = option(&this).replace('\'', r"'\''");
    let pipe = format!("'{this}' {} {stand_in}", pipe::NAME);
    Ok(format!(
        "user,id=meta,ipv6=off,net=169.254.169.0/24,host=169.254.169.1,dns=169.254.169.2,restrict=on,guestfwd=tcp:169.254.169.254:80-cmd:{pipe}"
    ))
}

/// A value among QEMU's options, in which a comma is doubled.
fn option(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// A command that is killed with this value, and with this program even if that is killed itself.
pub(crate) fn ends_with_us(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program).kill_on_drop(true);
    command
}
