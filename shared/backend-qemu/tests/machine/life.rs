//! A VM's life but for rollbacks: found again, never started twice, stopped in three ways.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use motorpool_backend_qemu::restore::{Afterwards, Goal, Memory};
use motorpool_backend_qemu::{Error, Limits, Machine, Status};

use crate::bench::{Bench, Stopwatch, host, machine};
use crate::guest::Guest;

#[tokio::test]
#[ignore = "needs QEMU and the small guest: cargo xtask vm qemu"]
async fn one_that_runs_is_found_again_and_never_started_twice() {
    let bench = Bench::new().await;
    assert_eq!(bench.vm.status().await.unwrap(), Status::Stopped);
    let another = host(bench.host.root.clone()).vm(bench.vm.name());
    let (one, two) = tokio::join!(bench.vm.start(), another.start());
    assert_eq!((one.unwrap().number, two.unwrap().number), (1, 1));
    assert_eq!(another.status().await.unwrap(), Status::Running { generation: 1 });
    bench.vm.make(&machine()).await.unwrap();
    let larger = Machine { memory_mib: 300, ..machine() };
    assert!(matches!(bench.vm.make(&larger).await, Err(Error::AnotherMachine(_))));
    for (file, mode) in [("", 0o700), ("qmp.sock", 0o600), ("serial.sock", 0o600), ("overlay.qcow2", 0o600)] {
        let path = if file.is_empty() { bench.vm.path().to_owned() } else { bench.vm.path().join(file) };
        let found = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "refuse_20: {}", path.display());
    }
    bench.end().await;
}

#[tokio::test]
#[ignore = "needs QEMU and the small guest: cargo xtask vm qemu"]
async fn it_ends_when_its_guest_does_or_when_its_time_is_over() {
    let (bench, mut guest) = Bench::started().await;
    let watch = Stopwatch::start();
    bench.vm.stop(Duration::from_secs(60)).await.unwrap();
    watch.says("ended by its power button");
    assert_eq!(bench.vm.status().await.unwrap(), Status::Stopped);
    let said =
        String::from_utf8_lossy(&std::fs::read(bench.vm.path().join("console.log")).unwrap()).into_owned();
    assert!(said.contains("the button was pressed"), "{said}");

    assert_eq!(bench.vm.start().await.unwrap().number, 2);
    guest = {
        drop(guest);
        Guest::booted(bench.vm.path())
    };
    assert_eq!(guest.traces().0, "before", "its disk is its own");
    guest.sh("killall head");
    bench.vm.stop(Duration::from_secs(1)).await.unwrap();
    assert_eq!(bench.vm.status().await.unwrap(), Status::Stopped);
    bench.end().await;
}

/// It hears no order any more: neither a stop nor a rollback waits for it for ever.
#[tokio::test]
#[ignore = "needs QEMU and the small guest: cargo xtask vm qemu"]
async fn a_qemu_that_hangs_is_killed() {
    let (mut bench, mut guest) = Bench::started().await;
    bench.does("t-1", Goal::Snapshot(Memory::Included)).await;
    guest.work();
    let second = Duration::from_secs(1);
    bench.host.limits = Limits { answer: second, quit: second, silence: second * 3, ..Limits::default() };
    bench.vm = bench.host.vm(bench.vm.name());
    signal(bench.vm.path(), "-STOP");
    assert_eq!(bench.vm.status().await.unwrap(), Status::Busy);
    bench.does("t-2", Goal::Rollback(Memory::Included, Afterwards::Delete)).await;
    assert_eq!(Guest::of(bench.vm.path()).traces(), ("before".to_owned(), false));
    signal(bench.vm.path(), "-STOP");
    bench.vm.stop(Duration::ZERO).await.unwrap();
    assert_eq!(bench.vm.status().await.unwrap(), Status::Stopped);
    bench.vm.remove().await.unwrap();
    assert_eq!(bench.vm.status().await.unwrap(), Status::Gone);
}

fn signal(vm: &Path, signal: &str) {
    let pid = std::fs::read_to_string(vm.join("qemu.pid")).unwrap();
    assert!(Command::new("kill").args([signal, pid.trim()]).status().unwrap().success());
}
