//! What a rollback takes back, and what it does not.

use motorpool_backend_qemu::Status;
use motorpool_backend_qemu::restore::{Afterwards, DriveError, Failure, Goal, Memory};

use crate::bench::{Bench, Stopwatch, operation};
use crate::guest::Guest;

#[tokio::test]
#[ignore = "needs QEMU and the small guest: cargo xtask vm qemu"]
async fn inv_28_live_file_and_process_are_gone_and_the_generation_is_new() {
    let watch = Stopwatch::start();
    let (bench, mut guest) = Bench::started().await;
    watch.says("made, and booted cold");
    let (boot_id, random) = (guest.boot_id(), guest.sh("cat /proc/sys/kernel/random/uuid"));
    let watch = Stopwatch::start();
    bench.does("t-1", Goal::Snapshot(Memory::Included)).await;
    watch.says("saved live");
    for (number, id) in [(2, "t-2"), (3, "t-3")] {
        guest.work();
        let clock: u64 = guest.sh("date +%s").parse().unwrap();
        let before = generation_guid(&bench).await;
        let watch = Stopwatch::start();
        let done = bench.does(id, Goal::Rollback(Memory::Included, Afterwards::Keep)).await;
        watch.says("taken back live: cut off, loaded, going on");
        guest = Guest::of(bench.vm.path());
        assert_eq!(guest.sh("echo here"), "here");
        watch.says("and answered");
        assert_eq!(
            (done.generation, guest.generation()),
            (number, number),
            "the host's word reaches the guest"
        );
        assert_eq!(guest.traces(), ("before".to_owned(), false));
        assert_eq!(guest.boot_id(), boot_id, "it did not boot");
        assert_ne!(generation_guid(&bench).await, before, "and its kernel can know");
        assert_ne!(guest.sh("cat /proc/sys/kernel/random/uuid"), random);
        let battery_clock: u64 =
            guest.sh("date -d \"$(hwclock -r -u | cut -c5-24)\" -D '%b %d %H:%M:%S %Y' +%s").parse().unwrap();
        assert!(
            battery_clock >= clock,
            "the clock that the host keeps is not taken back: {battery_clock}, {clock}"
        );
        assert_eq!(bench.vm.status().await.unwrap(), Status::Running { generation: number });
    }
    bench.does("t-4", Goal::Rollback(Memory::Included, Afterwards::Delete)).await;
    assert_eq!(bench.vm.snapshots().await.unwrap(), []);
    assert_eq!(Guest::of(bench.vm.path()).generation(), 4);
    bench.end().await;
}

async fn generation_guid(bench: &Bench) -> String {
    bench.vm.qmp().await.unwrap().generation_guid().await.unwrap()
}

#[tokio::test]
#[ignore = "needs QEMU and the small guest: cargo xtask vm qemu"]
async fn inv_28_cold_file_and_process_are_gone_and_the_boot_is_new() {
    let (bench, mut guest) = Bench::started().await;
    let boot_id = guest.boot_id();
    let watch = Stopwatch::start();
    bench.does("t-1", Goal::Snapshot(Memory::DiskOnly)).await;
    watch.says("disk saved");
    guest.work();
    let live = Goal::Rollback(Memory::Included, Afterwards::Keep);
    let refused = bench.vm.drive(&operation("t-2", live)).await;
    assert!(matches!(refused, Err(DriveError::Failed(Failure::NoMemory))), "{refused:?}");
    assert_eq!(guest.traces().0, "after\nbefore", "nothing was thrown away for it");
    let watch = Stopwatch::start();
    let done = bench.does("t-3", Goal::Rollback(Memory::DiskOnly, Afterwards::Delete)).await;
    watch.says("taken back cold: cut off, disk restored, started, snapshot deleted");
    let mut guest = Guest::booted(bench.vm.path());
    watch.says("and booted");
    assert_eq!((done.generation, guest.generation()), (2, 2));
    assert_eq!(guest.traces(), ("before".to_owned(), false));
    assert_ne!(guest.boot_id(), boot_id);
    assert_eq!(bench.vm.snapshots().await.unwrap(), []);
    bench.end().await;
}

/// A snapshot with memory is good for both, and one that is taken while nothing runs is a disk's.
#[tokio::test]
#[ignore = "needs QEMU and the small guest: cargo xtask vm qemu"]
async fn a_live_snapshot_serves_a_cold_rollback_too() {
    let (bench, mut guest) = Bench::started().await;
    bench.does("t-1", Goal::Snapshot(Memory::Included)).await;
    guest.work();
    bench.does("t-2", Goal::Rollback(Memory::DiskOnly, Afterwards::Delete)).await;
    assert_eq!(Guest::booted(bench.vm.path()).traces(), ("before".to_owned(), false));
    bench.vm.stop(std::time::Duration::ZERO).await.unwrap();
    bench.does("t-3", Goal::Snapshot(Memory::DiskOnly)).await;
    let found = bench.vm.snapshots().await.unwrap();
    assert_eq!((found.len(), found[0].memory), (1, Memory::DiskOnly));
    bench.does("t-4", Goal::Delete).await;
    assert_eq!(bench.vm.snapshots().await.unwrap(), []);
    assert_eq!(bench.vm.status().await.unwrap(), Status::Stopped);
    bench.end().await;
}
