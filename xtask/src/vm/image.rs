//! The machine's image: this host's own Debian release with a kernel, systemd and cloud-init, as it comes from its packages, and the certificate of
//! the place where the test's downloads are. Made once, into `tools` in the target directory, and again when its recipe changes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use crate::cargo::{Cargo, must_succeed};
use crate::clock::Stopwatch;

/// QEMU's agent is the test's way to look into the machine. curl and iproute2 are what docs/ec2.md asks of an image.
const PACKAGES: &str = "ca-certificates,cloud-init,curl,dbus,ifupdown,iproute2,linux-image-cloud-amd64,qemu-guest-agent,\
                        systemd-sysv,udev";

/// `$1` is the recipe's folder, `$2` where the image is made, `$3` the Debian release. The certificate is as docs/ec2.md says.
const MAKE: &str = r#"
set -eu
cd "$2"
rm -rf tree
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 -subj /CN=downloads \
    -addext basicConstraints=critical,CA:FALSE -addext subjectAltName=IP:10.0.2.2 -keyout downloads.key -out downloads.pem
mmdebstrap --quiet --mode=root --variant=minbase --include="$PACKAGES" \
    --aptopt='APT::Install-Recommends "false"' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --customize-hook='cp -r "$RECIPE"/root/. "$1/"' \
    --customize-hook='install -D -m 0644 downloads.pem "$1/usr/local/share/ca-certificates/downloads.crt"' \
    --customize-hook='chroot "$1" update-ca-certificates' \
    "$3" tree
cp -L tree/vmlinuz tree/initrd.img .
mke2fs -q -F -t ext4 -d tree disk.img 1200M
rm -rf tree
"#;

/// The folder with `disk.img`, `vmlinuz`, `initrd.img`, `downloads.pem` and `downloads.key`. Whoever else makes it at the same time is waited for.
pub(super) fn ensure(cargo: &Cargo) -> Result<PathBuf> {
    let release = release(&fs::read_to_string("/etc/os-release").context("which Debian this is")?).context(
        "the machine is made of Debian's packages, for this host's own release, and this host is no Debian",
    )?;
    install_tools(cargo, &release)?;
    let recipe_dir = cargo.root().join("xtask/vm");
    let recipe = format!("{release}\n{PACKAGES}\n{MAKE}\n{}", files(&recipe_dir)?);
    let home = cargo.target_directory().join("tools/vm-image");
    fs::create_dir_all(&home).with_context(|| format!("cannot make {}", home.display()))?;
    let lock = File::create(home.join("lock")).context("cannot make a lock file for the image")?;
    lock.lock().context("cannot wait for whoever makes the image")?;
    let made_by = home.join("recipe");
    if fs::read_to_string(&made_by).is_ok_and(|made_by| made_by == recipe) {
        return Ok(home);
    }

    let watch = Stopwatch::start();
    eprintln!("    the image is missing or of another recipe: making one of Debian {release}, once");
    if made_by.exists() {
        fs::remove_file(&made_by).context("cannot forget the image's recipe")?;
    }
    let mut make = cargo.tool("sh");
    make.args(["-c", MAKE, "make"]).arg(&recipe_dir).arg(&home).arg(&release);
    make.env("PACKAGES", PACKAGES).env("RECIPE", &recipe_dir).stdin(Stdio::null());
    must_succeed_quietly(&mut make, &home.join("make.log"))?;
    fs::write(&made_by, recipe).context("cannot note the image's recipe")?;
    eprintln!("    the image is made: {watch}");
    Ok(home)
}

fn must_succeed_quietly(command: &mut std::process::Command, log: &Path) -> Result<()> {
    let written = File::create(log).with_context(|| format!("cannot make {}", log.display()))?;
    let also = written.try_clone().with_context(|| format!("cannot open {} twice", log.display()))?;
    let status = command.stdout(written).stderr(also).status().context("cannot make the image")?;
    ensure!(status.success(), "the image could not be made; {} says why", log.display());
    Ok(())
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
    if ["mmdebstrap", "mke2fs", "openssl", "qemu-system-x86_64"].into_iter().all(there) {
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

/// What the recipe copies into the image, in one text.
fn files(dir: &Path) -> Result<String> {
    let mut names: Vec<PathBuf> = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))? {
            let path = entry?.path();
            if path.is_dir() { dirs.push(path) } else { names.push(path) }
        }
    }
    names.sort();
    let mut text = String::new();
    for path in names {
        let content = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        text += &format!("{}\n{content}\n", path.strip_prefix(dir).unwrap_or(&path).display());
    }
    Ok(text)
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
