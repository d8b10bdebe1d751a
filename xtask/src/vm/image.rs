//! The machine's image: this host's own Debian release with a kernel, systemd and cloud-init, as it comes from its packages, and the certificate of
//! the place where the test's downloads are.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cargo::Cargo;

use super::debian;
use super::recipe::Recipe;

/// QEMU's agent is the test's way to look into the machine. curl and iproute2 are what docs/ec2.md asks of an image.
const PACKAGES: &str = "ca-certificates,cloud-init,curl,dbus,ifupdown,iproute2,linux-image-cloud-amd64,qemu-guest-agent,\
                        systemd-sysv,udev";

/// The certificate is as docs/ec2.md says.
const MAKE: &str = r#"
set -eu
rm -rf tree
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 -subj /CN=downloads \
    -addext basicConstraints=critical,CA:FALSE -addext subjectAltName=IP:10.0.2.2 -keyout downloads.key -out downloads.pem
mmdebstrap --quiet --mode=root --variant=minbase --include="$PACKAGES" \
    --aptopt='APT::Install-Recommends "false"' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --customize-hook='cp -r "$RECIPE"/root/. "$1/"' \
    --customize-hook='install -D -m 0644 downloads.pem "$1/usr/local/share/ca-certificates/downloads.crt"' \
    --customize-hook='chroot "$1" update-ca-certificates' \
    "$RELEASE" tree
cp -L tree/vmlinuz tree/initrd.img .
mke2fs -q -F -t ext4 -d tree disk.img 1200M
rm -rf tree
"#;

/// The folder with `disk.img`, `vmlinuz`, `initrd.img`, `downloads.pem` and `downloads.key`.
pub(super) fn ensure(cargo: &Cargo) -> Result<PathBuf> {
    let release = debian::ready(cargo)?;
    let recipe_dir = cargo.root().join("xtask/vm");
    let files = files(&recipe_dir)?;
    let recipe_dir = recipe_dir.to_str().context("the workspace's path is not UTF-8")?;
    let recipe = Recipe {
        name: "vm-image",
        what: "the image of an EC2 machine",
        script: MAKE,
        environment: &[("PACKAGES", PACKAGES), ("RECIPE", recipe_dir), ("RELEASE", &release)],
        ingredients: &files,
    };
    recipe.made(cargo)
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
