//! Fifty VMs on three nodes are reset at once, by one thread: each is asked about no more often than one alone.

use std::time::Duration;

use futures_util::future::join_all;
use motorpool_backend_proxmox::restore::{Driver, Goal, Memory, Operation, Outcome};
use motorpool_backend_proxmox::{Limits, SnapshotName, Vm, VmId};

use crate::stage::{Disk, Stage, pace};

const VMS: u32 = 50;
/// One look before each of four calls and one at the end, of three calls each.
const LOOKS_AND_CALLS: usize = 19;

#[tokio::test]
async fn fifty_resets_at_once() {
    let stage = Stage::new().await;
    let vms: Vec<Vm> = (0..VMS)
        .map(|nth| {
            let (id, node) = (200 + nth, ["pve1", "pve2", "pve3"][nth as usize % 3]);
            let mut state = stage.cluster().state();
            state.add_node(node);
            state.add_vm(id, node, "local-lvm").running = true;
            state.write(id, "/marker");
            Vm { node: node.parse().unwrap(), id: VmId::try_from(id).unwrap() }
        })
        .collect();
    all(&stage, &vms, Goal::Snapshot { memory: false }).await;
    for vm in &vms {
        stage.cluster().state().write(vm.id.into(), "/nonce");
    }
    let before = stage.cluster().state().lines().len();
    all(&stage, &vms, Goal::Rollback).await;

    let state = stage.cluster().state();
    for vm in &vms {
        let vm = state.vm(vm.id.into());
        assert_eq!(vm.files.iter().collect::<Vec<_>>(), ["/marker"]);
        assert_eq!((vm.running, vm.rollbacks, vm.rollbacks_while_running), (true, 1, 0));
        assert!(vm.snapshots.is_empty());
    }
    let lines = &state.lines()[before..];
    let looks_at_tasks = lines.iter().filter(|line| line.ends_with(":/status")).count();
    let others = lines.len() - looks_at_tasks;
    println!("{VMS} resets: {others} calls, and {looks_at_tasks} looks at tasks that ran");
    assert_eq!(others, LOOKS_AND_CALLS * vms.len());
}

async fn all(stage: &Stage, vms: &[Vm], goal: Goal) {
    let (limits, pace) = (Limits::default(), pace());
    let outcomes = join_all(vms.iter().map(async |vm| {
        let snapshot = SnapshotName::of(&format!("cp-{}", vm.id));
        let memory = Memory::of(Operation { id: format!("t-{}", vm.id), vm: vm.clone(), snapshot, goal });
        let disk = Disk::default();
        let driver = Driver { proxmox: &stage.proxmox, journal: &disk, limits: &limits, pace: &pace };
        driver.drive(memory, Duration::ZERO).await
    }))
    .await;
    for outcome in outcomes {
        assert!(matches!(outcome, Ok(Outcome::Done(_))), "{outcome:?}");
    }
}
