//! Which Debian this host is, and the packages that QEMU's machines are made and run with.

use std::fs;
use std::process::Stdio;

use anyhow::{Context, Result};

use crate::cargo::{Cargo, must_succeed};

/// The host's release, with all that is needed installed.
pub(super) fn ready(cargo: &Cargo) -> Result<String> {
    let release = release(&fs::read_to_string("/etc/os-release").context("which Debian this is")?).context(
        "the machine is made of Debian's packages, for this host's own release, and this host is no Debian",
    )?;
    install_tools(cargo, &release)?;
    Ok(release)
}

/// QEMU's packages break those of other versions: on a host with newer ones from elsewhere, they are taken from its own release.
fn install_tools(cargo: &Cargo, release: &str) -> Result<()> {
    let there = |program: &str| {
        let mut command = cargo.tool("sh");
        command
            .args(["-c", "command -v \"$0\" >/dev/null", program])
            .status()
            .is_ok_and(|status| status.success())
    };
    if ["mmdebstrap", "mke2fs", "openssl", "qemu-img", "qemu-system-x86_64"].into_iter().all(there) {
        return Ok(());
    }
    eprintln!("    missing: installing the packages mmdebstrap and qemu-system-x86, with what they need");
    must_succeed(cargo.tool("apt-get").args(["update", "-q"]).stdout(Stdio::null()))?;
    let utils = format!("qemu-utils/{release}");
    let mut install = cargo.tool("apt-get");
    install.args(["install", "-y", "-q", "--no-install-recommends", "--allow-downgrades"]);
    install.args(["e2fsprogs", "mmdebstrap", "openssl", "qemu-system-x86", &utils]).stdout(Stdio::null());
    must_succeed(&mut install).context("`cargo xtask vm` needs mmdebstrap and QEMU, and root to install them")
}

/// The release's code name.
fn release(os_release: &str) -> Option<String> {
    let field = |name: &str| {
        let line = os_release.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
        Some(line.trim_matches('"').to_owned())
    };
    field("ID").filter(|id| id == "debian").and_then(|_| field("VERSION_CODENAME"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_debian_has_a_release_to_make_the_machine_of() {
        let debian = "PRETTY_NAME=\"Debian GNU/Linux 12\"\nVERSION_CODENAME=bookworm\nID=debian\n";
        assert_eq!(release(debian).as_deref(), Some("bookworm"));
        assert_eq!(release("ID=fedora\nVERSION_CODENAME=\"\"\n"), None);
        assert_eq!(release("ID=\"debian\"\n"), None);
    }
}
