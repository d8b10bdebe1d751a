//! What a VM is made of, as it stands in its directory from the day it is made. Nothing in here changes with a start: QEMU loads a snapshot's memory
//! only into a machine of the same devices.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Read, and never written: the VM writes into an overlay of its own.
    pub base: BaseImage,
    /// Of the overlay; none: as large as the base.
    pub disk_bytes: Option<u64>,
    pub memory_mib: u32,
    pub cpus: u16,
    pub acceleration: Acceleration,
    pub network: Network,
    pub console: Console,
    /// None: what the disk boots.
    pub kernel: Option<Kernel>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseImage {
    /// Absolute: the overlay names it.
    pub path: PathBuf,
    pub format: ImageFormat,
}

/// Said, and not guessed: a raw disk could be written by its guest so as to look like another format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageFormat {
    Raw,
    Qcow2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Acceleration {
    /// KVM where it works, else emulation.
    Best,
    Emulation,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    None,
    /// QEMU's own: it needs no privilege, and the guest reaches what this host reaches, and this host at 10.0.2.2.
    User {
        /// The guest reaches nothing but what is forwarded.
        restrict: bool,
        forwards: Vec<Forward>,
    },
    /// The value of a `-netdev` of the operator's, without its id: `tap,ifname=tap0,script=no,downscript=no`.
    Netdev(String),
}

/// From a TCP port of this host to one of the guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forward {
    pub host_address: Ipv4Addr,
    pub host_port: u16,
    pub guest_port: u16,
}

/// Where the guest's first serial port leads. What it says is in `console.log` in either case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Console {
    File,
    /// `serial.sock`, too, where one can write to it.
    Socket,
}

/// Booted by QEMU itself, past the disk's boot loader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    pub image: PathBuf,
    pub initrd: Option<PathBuf>,
    pub append: String,
}

impl ImageFormat {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
        }
    }
}
