//! proxmoxer, a client of Proxmox VE that others wrote: the tests have it judge their model. It is installed here, and run by the tests.

use std::path::PathBuf;

use anyhow::Result;

use crate::cargo::Cargo;
use crate::venv::Package;

/// Where the tests look for the python that has it.
pub(crate) const PYTHON: &str = "MOTORPOOL_PROXMOXER_PYTHON";

const PACKAGE: Package = Package {
    name: "proxmoxer",
    extras: "",
    version: "2.3.0",
    // It speaks HTTPS through this.
    beside: &["requests==2.34.2"],
    needed_by: "the tests of Proxmox VE's API",
};

/// The python that has it, installed if need be.
pub(crate) fn ensure(cargo: &Cargo) -> Result<PathBuf> {
    PACKAGE.install(cargo)
}
