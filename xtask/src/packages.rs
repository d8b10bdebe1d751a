//! Programs that the tests run and that come as Debian packages. Who may install them has them installed; anybody else is told by the
//! tests that need them.

use std::process::Stdio;

use anyhow::Result;

use crate::cargo::{Cargo, must_succeed};

/// A program, and the package that has it.
const NEEDED: [(&str, &str); 7] = [
    ("cloud-init", "cloud-init"),
    ("curl", "curl"),
    ("ip", "iproute2"),
    ("openssl", "openssl"),
    ("setpriv", "util-linux"),
    ("shellcheck", "shellcheck"),
    ("systemd-analyze", "systemd"),
];

pub(crate) fn ensure(cargo: &Cargo) -> Result<()> {
    let succeeds = |program: &str, arguments: &[&str]| {
        let mut command = cargo.tool(program);
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let there = |program: &str| succeeds("sh", &["-c", "command -v \"$0\"", program]);
    let missing: Vec<&str> =
        NEEDED.into_iter().filter(|(program, _)| !there(program)).map(|(_, package)| package).collect();
    let may_install = succeeds("sh", &["-c", "test \"$(id -u)\" = 0 && command -v apt-get"]);
    if missing.is_empty() || !may_install {
        return Ok(());
    }
    eprintln!("    missing: installing the packages {}", missing.join(", "));
    let install = [&["install", "-y", "-q", "--no-install-recommends"][..], &missing].concat();
    if !succeeds("apt-get", &install) {
        must_succeed(cargo.tool("apt-get").args(["update", "-q"]))?;
        must_succeed(cargo.tool("apt-get").args(&install))?;
    }
    Ok(())
}
