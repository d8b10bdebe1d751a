//! The small guest of `backend-qemu`'s tests: Debian's cloud kernel, busybox as all of its programs, and an empty disk. It boots in seconds where a
//! whole Debian takes a minute. Nothing of it is installed on this host: the packages are only unpacked.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::cargo::Cargo;

use super::debian;
use super::recipe::Recipe;

const INIT: &str = "shared/backend-qemu/tests/machine/guest/init";

/// What the kernel needs for a disk, the host's word about the generation, and the power button. Some are built in, in some releases.
const MODULES: &str = "virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_blk qemu_fw_cfg evdev button";

/// The order in `modules` is the order in which they are loaded.
const MAKE: &str = r#"
set -eu
rm -rf packages tree
mkdir -p packages tree/bin tree/proc tree/sys tree/dev tree/mnt tree/modules
chmod 755 packages
kernel=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-.*-cloud-amd64\).*/\1/p' | head -n 1)
[ -n "$kernel" ] || { apt-get update -q; kernel=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-.*-cloud-amd64\).*/\1/p' | head -n 1); }
cd packages
apt-get download -q "$kernel" busybox-static
for package in *.deb; do dpkg-deb -x "$package" .; done
cd ..
cp packages/boot/vmlinuz-* vmlinuz
cp "$(find packages -path '*bin/busybox')" tree/bin/busybox
for module in $MODULES; do
    found=$(find packages -name "$module.ko" -o -name "$module.ko.xz")
    case "$found" in
    "") continue ;;
    *.xz) xz -dc "$found" > "tree/modules/$module.ko" ;;
    *) cp "$found" "tree/modules/$module.ko" ;;
    esac
    echo "$module" >> tree/modules/order
done
cp "$INIT" tree/init
chmod 755 tree/init
(cd tree && find . | ./bin/busybox cpio -o -H newc) | gzip > initrd.img
rm -f disk.img
truncate -s 64M disk.img
mke2fs -q -F -t ext4 disk.img
rm -rf packages tree
"#;

/// The folder with `vmlinuz`, `initrd.img` and `disk.img`.
pub(super) fn ensure(cargo: &Cargo) -> Result<PathBuf> {
    let release = debian::ready(cargo)?;
    let init = cargo.root().join(INIT);
    let text = fs::read_to_string(&init).with_context(|| format!("cannot read {}", init.display()))?;
    let init = init.to_str().context("the workspace's path is not UTF-8")?;
    let recipe = Recipe {
        name: "small-guest",
        what: "the small guest",
        script: MAKE,
        environment: &[("INIT", init), ("MODULES", MODULES)],
        ingredients: &format!("{release}\n{text}"),
    };
    recipe.made(cargo)
}
