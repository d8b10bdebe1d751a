//! The driver is a process of its own here, and is killed at many moments of a save and of a load; then the same operation goes on.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use motorpool_backend_qemu::restore::{Afterwards, Goal, Memory, Operation};
use tokio::time::sleep;

use crate::bench::{Bench, Stopwatch, host, operation};
use crate::guest::Guest;

const ROOT: &str = "MOTORPOOL_QEMU_TEST_ROOT";
const OPERATION: &str = "MOTORPOOL_QEMU_TEST_OPERATION";

/// No test: the driver that is killed. Without its order it does nothing.
#[tokio::test]
#[ignore = "is started by the others"]
async fn driver() {
    let (Some(root), Some(order)) = (std::env::var_os(ROOT), std::env::var(OPERATION).ok()) else { return };
    let ordered: Operation = serde_json::from_str(&order).unwrap();
    let vm = host(PathBuf::from(root)).vm(&"vm-1".parse().unwrap());
    vm.drive(&ordered).await.unwrap();
}

/// Whether it was killed before it was done.
async fn kill_after(bench: &Bench, ordered: &Operation, after: Duration) -> bool {
    let mut driver = Command::new(std::env::current_exe().unwrap())
        .args(["killed::driver", "--exact", "--ignored"])
        .env(ROOT, &bench.host.root)
        .env(OPERATION, serde_json::to_string(ordered).unwrap())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    sleep(after).await;
    let was_done = driver.try_wait().unwrap().is_some();
    driver.kill().unwrap();
    driver.wait().unwrap();
    !was_done
}

#[tokio::test]
#[ignore = "needs QEMU and the small guest: cargo xtask vm qemu"]
async fn fault_27_a_driver_is_killed_in_a_live_save() {
    let (bench, mut guest) = Bench::started().await;
    let mut killed = 0;
    for round in 0..14_u32 {
        let save = operation(&format!("save-{round}"), Goal::Snapshot(Memory::Included));
        killed += u32::from(kill_after(&bench, &save, Duration::from_millis(20) * round).await);
        bench.vm.drive(&save).await.unwrap();
        let found = bench.vm.snapshots().await.unwrap();
        assert_eq!((found.len(), found[0].memory), (1, Memory::Included), "round {round}");
        assert_eq!(guest.sh("echo here"), "here", "it goes on by itself");
        bench.does(&format!("delete-{round}"), Goal::Delete).await;
    }
    eprintln!("    killed in the middle of {killed} of 14 saves");
    assert!(killed > 3);
    bench.end().await;
}

#[tokio::test]
#[ignore = "needs QEMU and the small guest: cargo xtask vm qemu"]
async fn inv_27_fault_27_a_driver_is_killed_in_a_live_rollback() {
    let (bench, mut guest) = Bench::started().await;
    bench.does("t-1", Goal::Snapshot(Memory::Included)).await;
    let (mut killed, mut generation) = (0, 1);
    for round in 0..20_u32 {
        guest.work();
        let back = operation(&format!("back-{round}"), Goal::Rollback(Memory::Included, Afterwards::Keep));
        killed += u32::from(kill_after(&bench, &back, Duration::from_millis(15) * round).await);
        let watch = Stopwatch::start();
        let done = bench.vm.drive(&back).await.unwrap();
        watch.says(&format!("round {round} was gone on with"));
        guest = Guest::of(bench.vm.path());
        assert_eq!(guest.traces(), ("before".to_owned(), false), "round {round}");
        assert!(done.generation > generation && guest.generation() == done.generation, "round {round}");
        generation = done.generation;
        // The same order again changes nothing under whoever uses the VM by now.
        guest.sh("echo more >/mnt/more");
        assert_eq!(bench.vm.drive(&back).await.unwrap(), done);
        assert_eq!(guest.sh("cat /mnt/more; rm /mnt/more"), "more");
    }
    eprintln!("    killed in the middle of {killed} of 20 live rollbacks");
    assert!(killed > 3);
    bench.end().await;
}

#[tokio::test]
#[ignore = "needs QEMU and the small guest: cargo xtask vm qemu"]
async fn inv_27_fault_27_a_driver_is_killed_in_a_cold_rollback() {
    let (bench, mut guest) = Bench::started().await;
    bench.does("t-1", Goal::Snapshot(Memory::DiskOnly)).await;
    let mut killed = 0;
    for round in 0..6_u32 {
        guest.work();
        let back = operation(&format!("back-{round}"), Goal::Rollback(Memory::DiskOnly, Afterwards::Keep));
        killed += u32::from(kill_after(&bench, &back, Duration::from_millis(45) * round).await);
        let done = bench.vm.drive(&back).await.unwrap();
        guest = Guest::booted(bench.vm.path());
        assert_eq!(guest.traces(), ("before".to_owned(), false), "round {round}");
        assert_eq!(guest.generation(), done.generation, "round {round}");
    }
    eprintln!("    killed in the middle of {killed} of 6 cold rollbacks");
    assert!(killed > 1);
    bench.end().await;
}
