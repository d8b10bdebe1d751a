//! Every error, told apart: from the answer's status, its reason phrase or its body, and from a task's exit status.

use motorpool_backend_proxmox::{Begun, ConfigChange, Lock, Problem, Trust};
use motorpool_pve_tests::{Fault, SECRET, TOKEN};

use crate::stage::{Stage, client, client_with, name, on, vm};

/// As it is since 2025, and as it was before, when the reason phrase was all.
async fn both_ways(check: impl AsyncFn(&Stage)) {
    for in_reasons_alone in [false, true] {
        let stage = Stage::start().await;
        if in_reasons_alone {
            stage.cluster().state().speak_in_reasons_alone();
        }
        check(&stage).await;
    }
}

#[tokio::test]
async fn what_a_task_fails_for_is_told_apart() {
    let stage = Stage::start().await;
    let (vm, first, second) = (vm(), name("cp-1"), name("cp-2"));
    let proxmox = &stage.proxmox;
    stage.snapshot(&vm, &first).await;
    assert_eq!(stage.problem(proxmox.snapshot(&vm, &first, false).await).await, Problem::NameTaken);
    assert_eq!(stage.problem(proxmox.rollback(&vm, &second).await).await, Problem::SnapshotMissing);
    assert_eq!(stage.problem(proxmox.delete_snapshot(&vm, &second).await).await, Problem::SnapshotMissing);
    assert_eq!(stage.problem(proxmox.start(&vm).await).await, Problem::AlreadyRunning);
    for lock in [Lock::Backup, Lock::Rollback, Lock::SnapshotDelete] {
        stage.cluster().state().vm_mut(101).lock = Some(lock.to_string());
        let locked = Problem::Locked { lock };
        assert_eq!(stage.problem(proxmox.snapshot(&vm, &second, false).await).await, locked);
        assert_eq!(stage.problem(proxmox.rollback(&vm, &first).await).await, locked);
        assert_eq!(stage.problem(proxmox.delete_snapshot(&vm, &first).await).await, locked);
        assert_eq!(stage.problem(proxmox.stop(&vm).await).await, locked);
        stage.cluster().state().vm_mut(101).lock = None;
    }
    stage.cluster().state().vm_mut(101).snapshots[0].state = Some("prepare".to_owned());
    assert_eq!(stage.problem(proxmox.rollback(&vm, &first).await).await, Problem::SnapshotUnfinished);

    stage.cluster().state().add_vm(102, "pve1", "plain").running = true;
    assert_eq!(
        stage.problem(proxmox.snapshot(&on("pve1", 102), &first, false).await).await,
        Problem::NoSnapshots
    );

    stage.cluster().state().add_vm(103, "pve1", "tank").running = true;
    let on_zfs = on("pve1", 103);
    stage.snapshot(&on_zfs, &first).await;
    stage.snapshot(&on_zfs, &second).await;
    assert_eq!(stage.problem(proxmox.rollback(&on_zfs, &first).await).await, Problem::NotNewest);
    assert!(stage.cluster().state().vm(103).running, "it was not stopped for nothing");

    let exit_status = "zfs error: cannot rollback: dataset is busy".to_owned();
    stage.cluster().state().order(Fault::TaskFails { kind: "qmrollback", exit_status });
    assert_eq!(stage.problem(proxmox.rollback(&on_zfs, &second).await).await, Problem::Failed);
    let left = proxmox.status(&on_zfs).await.unwrap().lock;
    assert_eq!(left, Some(Lock::Rollback), "a rollback that fails on its way leaves its lock");
}

#[tokio::test]
async fn what_is_not_there_is_missed_and_not_taken_for_something_else() {
    both_ways(async |stage| {
        let gone = on("pve1", 199);
        let error = stage.proxmox.status(&gone).await.unwrap_err();
        assert_eq!(error.problem, Problem::VmMissing);
        assert_eq!(
            error.to_string(),
            "cannot see how VM 199 on pve1 is: there is no such VM on this node (Proxmox VE: 500 Configuration file \
             'nodes/pve1/qemu-server/199.conf' does not exist)"
        );
        assert_eq!(stage.proxmox.rollback(&gone, &name("x")).await.unwrap_err().problem, Problem::VmMissing);
        // On another node it is missing too, though it is there.
        assert_eq!(stage.proxmox.status(&on("pve2", 101)).await.unwrap_err().problem, Problem::VmMissing);
        let elsewhere = stage.proxmox.status(&on("pve9", 101)).await.unwrap_err();
        assert_eq!(elsewhere.problem, Problem::NodeUnreachable { begun: Begun::No });
        let upid = "UPID:pve1:0000C3A1:0012D687:674B1C2F:qmrollback:101:motorpool@pve!site:".parse().unwrap();
        assert_eq!(stage.proxmox.task(&upid).await.unwrap_err().problem, Problem::TaskUnknown);
    })
    .await;
}

#[tokio::test]
async fn a_node_that_is_down_is_told_by_any_other() {
    both_ways(async |stage| {
        stage.cluster().state().set_reachable("pve1", false);
        let error = stage.proxmox.rollback(&vm(), &name("x")).await.unwrap_err();
        assert_eq!(error.problem, Problem::NodeUnreachable { begun: Begun::No });
        assert!(error.is_passing() && !error.may_have_begun());
        assert_eq!(error.said, "595 No route to host");
        for (status, reason) in [(596, "Connection timed out"), (599, "Too many redirections")] {
            let line_ends = "POST nodes/pve1/qemu/101/status/stop".to_owned();
            stage.cluster().state().order(Fault::Answer { line_ends, status, reason: reason.to_owned() });
            let error = stage.proxmox.stop(&vm()).await.unwrap_err();
            assert_eq!(error.problem, Problem::NodeUnreachable { begun: Begun::Perhaps });
            assert!(error.is_passing() && error.may_have_begun());
        }
    })
    .await;
}

#[tokio::test]
async fn what_the_proxy_or_the_cluster_can_not_do_now_may_be_asked_again() {
    both_ways(async |stage| {
        for (status, reason, may_have_begun) in [
            (503, "Service Unavailable", true),
            (502, "Bad Gateway", true),
            (500, "cluster not ready - no quorum?", true),
            (500, "got no worker upid - start worker failed", true),
            (500, "can't lock file '/var/lock/qemu-server/lock-101.conf' - got timeout", false),
        ] {
            let line_ends = "/status/stop".to_owned();
            stage.cluster().state().order(Fault::Answer { line_ends, status, reason: reason.to_owned() });
            let error = stage.proxmox.stop(&vm()).await.unwrap_err();
            assert!(error.is_passing(), "{error}");
            assert_eq!(error.may_have_begun(), may_have_begun, "{error}");
        }
        let (line_ends, reason) = ("/status/stop".to_owned(), "storage 'tank' is not online".to_owned());
        stage.cluster().state().order(Fault::Answer { line_ends, status: 500, reason: reason.clone() });
        let error = stage.proxmox.stop(&vm()).await.unwrap_err();
        assert_eq!(
            (&error.problem, error.said.as_str()),
            (&Problem::Failed, "500 storage 'tank' is not online")
        );
        assert!(!error.is_passing() && !error.may_have_begun());
        assert!(stage.cluster().state().tasks().is_empty());
    })
    .await;
}

#[tokio::test]
async fn refuse_08_a_token_that_is_not_accepted_is_told_as_such() {
    both_ways(async |stage| {
        for (token, secret) in [(TOKEN, "wrong"), ("motorpool@pve!gone", SECRET), ("root@pam!site", SECRET)] {
            let stranger = client_with(&stage.server.url, Trust::Host, token, secret);
            let error = stranger.status(&vm()).await.unwrap_err();
            assert_eq!(error.problem, Problem::Unauthorized, "{token}");
            assert!(!error.is_passing());
        }
    })
    .await;
}

#[tokio::test]
async fn what_does_not_fit_is_told_by_parameter() {
    both_ways(async |stage| {
        let digest = stage.proxmox.config(&vm()).await.unwrap().digest;
        let change = ConfigChange { set: vec![("nmae", "x".to_owned())], ssh_keys: None };
        let error = stage.proxmox.set_config(&vm(), &digest, &change).await.unwrap_err();
        let Problem::BadParameter { errors } = &error.problem else { panic!("{error}") };
        assert!(errors["nmae"].contains("not defined in schema"), "{error}");
        assert!(error.to_string().contains("nmae: property is not defined"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn fault_15_an_answer_that_is_lost_leaves_a_task_that_can_be_found() {
    let stage = Stage::start().await;
    let (vm, name) = (vm(), name("cp-1"));
    stage.cluster().state().order(Fault::LoseTheAnswer { line_ends: "/snapshot".to_owned() });
    let error = stage.proxmox.snapshot(&vm, &name, false).await.unwrap_err();
    assert!(matches!(error.problem, Problem::NoAnswer { begun: Begun::Perhaps, .. }), "{error:?}");
    assert!(error.may_have_begun() && error.is_passing());
    let running = stage.proxmox.running_tasks(&vm).await.unwrap();
    assert_eq!(running.len(), 1);
    stage.end(&running[0].upid).await;
    assert_eq!(stage.proxmox.snapshots(&vm).await.unwrap()[0].name, name);
}

#[tokio::test]
async fn who_can_not_be_connected_to_has_begun_nothing() {
    let port = {
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        nobody.local_addr().unwrap().port()
    };
    let proxmox = client(&format!("http://127.0.0.1:{port}"), Trust::Host);
    let error = proxmox.stop(&vm()).await.unwrap_err();
    assert!(matches!(error.problem, Problem::NoAnswer { begun: Begun::No, .. }), "{error:?}");
    assert!(error.is_passing() && !error.may_have_begun());
}

#[tokio::test]
async fn refuse_17_no_error_shows_the_secret() {
    both_ways(async |stage| {
        let (line_ends, reason) = ("/current".to_owned(), format!("no ticket for {SECRET}"));
        stage.cluster().state().order(Fault::Answer { line_ends, status: 401, reason });
        let error = stage.proxmox.status(&vm()).await.unwrap_err();
        assert_eq!(error.said, "401 no ticket for [secret]");
        assert!(!format!("{error:?} {:?}", stage.proxmox).contains(SECRET));
    })
    .await;
}

#[tokio::test]
async fn refuse_18_an_answer_that_is_not_understood_proves_nothing() {
    let stage = Stage::start().await;
    let (line_ends, reason) = ("/status/stop".to_owned(), "OK".to_owned());
    stage.cluster().state().order(Fault::Answer { line_ends, status: 200, reason });
    // `{"data":null}` where the id of a task was due.
    let error = stage.proxmox.stop(&vm()).await.unwrap_err();
    assert!(matches!(error.problem, Problem::NotUnderstood { .. }), "{error:?}");
    assert!(error.may_have_begun());
}
