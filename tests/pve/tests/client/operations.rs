//! Every operation, as it goes when nothing is wrong.

use std::time::Duration;

use motorpool_backend_proxmox::{
    CloneOrder, ConfigChange, Copied, Lock, Power, Problem, TaskEnd, TaskKind, TaskState,
};
use motorpool_pve_tests::Fault;

use crate::stage::{Stage, name, on, pace, vm};

#[tokio::test]
async fn inv_27_what_a_call_begins_is_done_when_its_task_has_ended() {
    let stage = Stage::start().await;
    let (vm, name) = (vm(), name("cp-1"));
    let upid = stage.proxmox.snapshot(&vm, &name, false).await.unwrap();
    assert_eq!(
        (upid.kind(), upid.vm(), upid.user()),
        (TaskKind::Snapshot, Some(vm.id), "motorpool@pve!site")
    );

    assert_eq!(stage.proxmox.task(&upid).await.unwrap(), TaskState::Running);
    let listed = stage.proxmox.snapshots(&vm).await.unwrap();
    assert!(listed[0].unfinished, "it is listed before it can be rolled back to");
    assert_eq!(stage.proxmox.status(&vm).await.unwrap().lock, Some(Lock::Snapshot));

    assert_eq!(stage.end(&upid).await, TaskEnd::Ok);
    let listed = stage.proxmox.snapshots(&vm).await.unwrap();
    let told: Vec<_> = listed.iter().map(|it| (it.name.clone(), it.unfinished, it.has_memory)).collect();
    assert_eq!(told, [(name, false, false)], "without the entry `current`");
    assert_eq!(stage.proxmox.status(&vm).await.unwrap().lock, None);
}

#[tokio::test]
async fn a_vm_goes_back_with_its_disk_and_its_configuration() {
    let stage = Stage::start().await;
    let (vm, name) = (vm(), name("cp-1"));
    stage.cluster().state().write(101, "/marker");
    stage.snapshot(&vm, &name).await;
    stage.cluster().state().write(101, "/nonce");
    let config = stage.proxmox.config(&vm).await.unwrap();
    let change = ConfigChange { set: vec![("tags", "dirty".to_owned())], ssh_keys: None };
    stage.proxmox.set_config(&vm, &config.digest, &change).await.unwrap();

    let stop = stage.proxmox.stop(&vm).await.unwrap();
    assert_eq!(stage.end(&stop).await, TaskEnd::Ok);
    let rollback = stage.proxmox.rollback(&vm, &name).await.unwrap();
    assert_eq!(stage.end(&rollback).await, TaskEnd::Ok);
    assert_eq!(stage.proxmox.status(&vm).await.unwrap().power, Power::Stopped);
    assert_eq!(stage.proxmox.config(&vm).await.unwrap().values.get("tags"), None);
    let start = stage.proxmox.start(&vm).await.unwrap();
    assert_eq!(stage.end(&start).await, TaskEnd::Ok);
    let delete = stage.proxmox.delete_snapshot(&vm, &name).await.unwrap();
    assert_eq!(stage.end(&delete).await, TaskEnd::Ok);

    let status = stage.proxmox.status(&vm).await.unwrap();
    assert_eq!((status.power, status.qmpstatus.as_deref()), (Power::Running, Some("running")));
    assert!(stage.proxmox.snapshots(&vm).await.unwrap().is_empty());
    let state = stage.cluster().state();
    let files: Vec<&String> = state.vm(101).files.iter().collect();
    assert_eq!(files, ["/marker"]);
}

#[tokio::test]
async fn with_its_memory_a_vm_comes_back_running() {
    let stage = Stage::start().await;
    let (vm, name) = (vm(), name("cp-1"));
    let taken = stage.proxmox.snapshot(&vm, &name, true).await.unwrap();
    assert_eq!(stage.end(&taken).await, TaskEnd::Ok);
    assert!(stage.proxmox.snapshots(&vm).await.unwrap()[0].has_memory);
    let stop = stage.proxmox.stop(&vm).await.unwrap();
    assert_eq!(stage.end(&stop).await, TaskEnd::Ok);
    let rollback = stage.proxmox.rollback(&vm, &name).await.unwrap();
    assert_eq!(stage.end(&rollback).await, TaskEnd::Ok);
    assert_eq!(stage.proxmox.status(&vm).await.unwrap().power, Power::Running);
}

#[tokio::test]
async fn a_vm_is_cloned_from_a_template_and_set_up() {
    let stage = Stage::start().await;
    let new = stage.proxmox.free_vm_id().await.unwrap();
    assert_eq!(u32::from(new), 100);
    let order = CloneOrder {
        template: on("pve1", 9000),
        new,
        name: "runner-1".to_owned(),
        on: None,
        copy: Copied::Full { to: Some("local-lvm".parse().unwrap()) },
        pool: None,
    };
    let upid = stage.proxmox.clone_vm(&order).await.unwrap();
    assert_eq!((upid.kind(), upid.vm().map(u32::from)), (TaskKind::Clone, Some(9000)));
    assert_eq!(stage.proxmox.status(&on("pve1", 100)).await.unwrap().lock, Some(Lock::Clone));
    assert_eq!(stage.end(&upid).await, TaskEnd::Ok);

    let vm = on("pve1", 100);
    let config = stage.proxmox.config(&vm).await.unwrap();
    assert_eq!(config.values["name"], "runner-1");
    let change = ConfigChange {
        set: vec![("ciuser", "runner".to_owned()), ("ipconfig0", "ip=dhcp".to_owned())],
        ssh_keys: Some("ssh-ed25519 AAAA+/= me@host\n".to_owned()),
    };
    stage.proxmox.set_config(&vm, &config.digest, &change).await.unwrap();
    let after = stage.proxmox.config(&vm).await.unwrap();
    assert_eq!(after.values["sshkeys"], "ssh-ed25519%20AAAA%2B%2F%3D%20me%40host");
    assert_eq!(after.values["ipconfig0"], "ip=dhcp");

    // Somebody else's change is not written over.
    let late = stage.proxmox.set_config(&vm, &config.digest, &change).await.unwrap_err();
    assert_eq!(late.problem, Problem::ConfigChanged);
    // Two that were told the same free number: one is told so.
    let taken = stage.proxmox.clone_vm(&order).await.unwrap_err();
    assert_eq!(taken.problem, Problem::VmIdTaken);
}

#[tokio::test]
async fn how_full_a_storage_is() {
    let stage = Stage::start().await;
    let (node, storage) = ("pve1".parse().unwrap(), "local-lvm".parse().unwrap());
    let used = stage.proxmox.storage_use(&node, &storage).await.unwrap();
    assert_eq!((used.percent(), used.total_bytes), (71, 100 << 30));
    assert_eq!(used.used_bytes + used.available_bytes, used.total_bytes);
    stage.cluster().state().set_active("local-lvm", false);
    let error = stage.proxmox.storage_use(&node, &storage).await.unwrap_err();
    assert_eq!(error.problem, Problem::Unavailable, "it is not taken for an empty one");
}

#[tokio::test]
async fn whether_a_vm_can_be_snapshotted_is_known_before() {
    let stage = Stage::start().await;
    stage.cluster().state().add_vm(102, "pve1", "plain");
    assert!(stage.proxmox.has_snapshots(&vm()).await.unwrap());
    assert!(!stage.proxmox.has_snapshots(&on("pve1", 102)).await.unwrap());
}

#[tokio::test]
async fn tasks_of_a_vm_are_listed_the_newest_first_and_those_of_others_to_who_may_see_them() {
    let stage = Stage::start().await;
    let vm = vm();
    stage.snapshot(&vm, &name("cp-1")).await;
    let backup = stage.cluster().state().anothers_task(101, "vzdump", "root@pam");
    let stop = stage.proxmox.stop(&vm).await.unwrap();

    let kinds = async || -> Vec<TaskKind> {
        stage.proxmox.tasks(&vm).await.unwrap().iter().map(|task| task.upid.kind()).collect()
    };
    assert_eq!(kinds().await, [TaskKind::Stop, TaskKind::Snapshot]);
    stage.cluster().state().grant("motorpool@pve!site", "/nodes/pve1", &["Sys.Audit"]);
    assert_eq!(kinds().await, [TaskKind::Stop, TaskKind::Other, TaskKind::Snapshot]);
    stage.end(&stop).await;
    let running = stage.proxmox.running_tasks(&vm).await.unwrap();
    assert_eq!(running.iter().map(|task| task.upid.as_str()).collect::<Vec<_>>(), [backup.as_str()]);
    stage.cluster().state().end_task(&backup, "job errors");
    assert!(stage.proxmox.running_tasks(&vm).await.unwrap().is_empty());
    // Those of other VMs are not.
    assert!(stage.proxmox.tasks(&on("pve1", 9000)).await.unwrap().is_empty());
}

#[tokio::test]
async fn warnings_are_no_failure() {
    let stage = Stage::start().await;
    stage.cluster().state().order(Fault::TaskWarns { kind: "qmstop", warnings: 2 });
    let stop = stage.proxmox.stop(&vm()).await.unwrap();
    assert_eq!(stage.end(&stop).await, TaskEnd::Warnings(2));
}

#[tokio::test]
async fn a_task_that_takes_too_long_is_told_of_and_goes_on() {
    let stage = Stage::start().await;
    let upid = stage.cluster().state().anothers_task(101, "qmrollback", "motorpool@pve!site");
    let upid = upid.parse().unwrap();
    // Nothing ends this task, so the limit is what ends the wait, whatever it is.
    let error = stage.proxmox.ended(&upid, Duration::from_millis(20), &pace()).await.unwrap_err();
    assert_eq!(error.problem, Problem::Unfinished { within: Duration::from_millis(20) });
    assert!(error.may_have_begun());
    assert_eq!(stage.proxmox.task(&upid).await.unwrap(), TaskState::Running);
}

#[tokio::test]
async fn a_wait_goes_on_while_the_node_can_not_be_reached() {
    let stage = Stage::start().await;
    let stop = stage.proxmox.stop(&vm()).await.unwrap();
    stage.cluster().state().set_reachable("pve1", false);
    let asks = |stage: &Stage| {
        stage.cluster().state().lines().iter().filter(|line| line.ends_with("/status")).count()
    };
    let until_it_is_back = async {
        while asks(&stage) < 5 {
            tokio::task::yield_now().await;
        }
        stage.cluster().state().set_reachable("pve1", true);
    };
    let (limit, pace) = (Duration::from_secs(60), pace());
    let (end, ()) = tokio::join!(stage.proxmox.ended(&stop, limit, &pace), until_it_is_back);
    assert_eq!(end.unwrap(), TaskEnd::Ok);
}

#[tokio::test]
async fn vms_of_several_nodes_are_reached_through_any_of_them() {
    let stage = Stage::start().await;
    stage.cluster().state().add_vm(201, "pve2", "tank").running = true;
    let vm = on("pve2", 201);
    let stop = stage.proxmox.stop(&vm).await.unwrap();
    assert_eq!(stop.node().as_str(), "pve2");
    assert_eq!(stage.end(&stop).await, TaskEnd::Ok);
}
