//! What the driver starts, and what becomes of it when the driver is gone, with scripts in the place of QEMU's programs.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use motorpool_backend_qemu::restore::{Goal, Memory, Operation};
use motorpool_backend_qemu::{
    Acceleration, BaseImage, Console, Error, Host, ImageFormat, Limits, Machine, Network, Programs, Status,
    Vm,
};

/// Makes the disk, lists nothing, and takes its time over a snapshot.
const QEMU_IMG: &str = r#"
case "$1" in
create) for last; do :; done; : > "$last" ;;
info) echo '{}' ;;
snapshot) echo begun > begun; sleep 1; echo ended > ended ;;
esac
"#;
const QEMU: &str = "env > environment; printf '%s\\n' \"$@\" > arguments; echo 'no such machine' >&2; exit 3";

fn script(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

async fn made(dir: &Path) -> Vm {
    let programs = Programs {
        qemu: script(dir, "qemu", QEMU),
        qemu_img: script(dir, "qemu-img", QEMU_IMG),
        ..Programs::default()
    };
    let host = Host { root: dir.join("vms"), programs, limits: Limits::default() };
    let vm = host.vm(&"vm-1".parse().unwrap());
    let machine = Machine {
        base: BaseImage { path: "/base.raw".into(), format: ImageFormat::Raw },
        disk_bytes: None,
        memory_mib: 64,
        cpus: 1,
        acceleration: Acceleration::Emulation,
        network: Network::None,
        console: Console::File,
        kernel: None,
    };
    vm.make(&machine).await.unwrap();
    vm
}

#[tokio::test]
async fn a_qemu_that_ends_at_once_is_told_in_its_words_and_each_try_is_a_generation() {
    let dir = tempfile::tempdir().unwrap();
    let vm = made(dir.path()).await;
    for number in [1, 2] {
        let refused = vm.start().await;
        assert!(
            matches!(&refused, Err(Error::Ended { said, .. }) if said == "no such machine"),
            "{refused:?}"
        );
        assert_eq!(vm.generation().unwrap().number, number);
    }
    assert_eq!(vm.status().await.unwrap(), Status::Stopped);
    let arguments = fs::read_to_string(vm.path().join("arguments")).unwrap();
    assert!(arguments.contains("vm-1.2\n"), "{arguments}");
    vm.remove().await.unwrap();
    assert_eq!(vm.status().await.unwrap(), Status::Gone);
}

#[tokio::test]
async fn refuse_17_qemu_sees_nothing_of_our_environment() {
    let dir = tempfile::tempdir().unwrap();
    let vm = made(dir.path()).await;
    assert!(vm.start().await.is_err());
    let environment = fs::read_to_string(vm.path().join("environment")).unwrap();
    let names: Vec<&str> = environment.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    assert!(names.iter().all(|name| ["PATH", "PWD", "OLDPWD", "SHLVL", "_"].contains(name)), "{names:?}");
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "ours has more");
}

/// The driver is gone in the middle: the next one comes when what it began has ended.
#[tokio::test]
async fn inv_27_nobody_begins_beside_a_program_of_a_driver_that_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let vm = made(dir.path()).await;
    let operation = Operation {
        id: "t-1".parse().unwrap(),
        snapshot: "mp-1".parse().unwrap(),
        goal: Goal::Snapshot(Memory::DiskOnly),
    };
    let cut = tokio::time::timeout(Duration::from_secs(30), async {
        tokio::select! {
            done = vm.drive(&operation) => drop(done),
            () = begun(&vm) => {}
        }
    });
    cut.await.unwrap();
    assert!(vm.try_hold().unwrap().is_none(), "it still works on the image");
    let _held = vm.hold().await.unwrap();
    assert!(vm.path().join("ended").exists());
}

async fn begun(vm: &Vm) {
    while !vm.path().join("begun").exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
