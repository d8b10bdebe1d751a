//! Every operation with exactly the privileges that it needs, and with each of them lacking.

use motorpool_backend_proxmox::{CloneOrder, ConfigChange, Copied, Error, Problem, Proxmox, Trust, VmId};
use motorpool_pve_tests::{Cluster, Server};

use crate::stage::{client_with, name, on, vm};

const TOKEN: &str = "motorpool@pve!small";
const SECRET: &str = "small";
const BRIDGE: &str = "/sdn/zones/localnetwork/vmbr0";

/// Path and privilege.
type Grant = (&'static str, &'static str);

async fn server_with(grants: &[Grant]) -> (Server, Proxmox) {
    let server = Server::plain(Cluster::default()).await;
    {
        let mut state = server.cluster.state();
        state.add_token(TOKEN, SECRET, "/nothing", &[]);
        for (path, privilege) in grants {
            state.grant(TOKEN, path, &[privilege]);
        }
    }
    let proxmox = client_with(&server.url, Trust::Host, TOKEN, SECRET);
    (server, proxmox)
}

/// With all of them it goes; with one lacking Proxmox VE says which, and we do.
async fn needs(grants: &[Grant], ask: impl AsyncFn(&Proxmox) -> Result<(), Error>) {
    let (_server, proxmox) = server_with(grants).await;
    ask(&proxmox).await.unwrap();
    for lacking in grants {
        let rest: Vec<Grant> = grants.iter().copied().filter(|grant| grant != lacking).collect();
        let (server, proxmox) = server_with(&rest).await;
        let error = ask(&proxmox).await.unwrap_err();
        let Problem::Forbidden { lacks } = &error.problem else { panic!("{error}") };
        assert!(
            lacks.path.starts_with(lacking.0) && lacks.privileges.iter().any(|one| one == lacking.1),
            "{error}"
        );
        assert!(
            error.to_string().contains(&format!("the token lacks {}", lacks.privileges.join(" or "))),
            "{error}"
        );
        assert!(!error.may_have_begun() && !error.is_passing());
        assert!(server.cluster.state().tasks().is_empty(), "nothing was begun");
    }
}

#[tokio::test]
async fn to_look_at_a_vm() {
    let audit = [("/vms/101", "VM.Audit")];
    needs(&audit, async |it| it.status(&vm()).await.map(drop)).await;
    needs(&audit, async |it| it.snapshots(&vm()).await.map(drop)).await;
    needs(&audit, async |it| it.has_snapshots(&vm()).await.map(drop)).await;
    needs(&audit, async |it| it.config(&vm()).await.map(drop)).await;
    // Nobody needs a privilege to see his own tasks.
    needs(&[], async |it| it.tasks(&vm()).await.map(drop)).await;
    needs(&[], async |it| it.free_vm_id().await.map(drop)).await;
}

#[tokio::test]
async fn to_snapshot_and_to_switch_on_and_off() {
    let snapshot = [("/vms/101", "VM.Snapshot")];
    needs(&snapshot, async |it| it.snapshot(&vm(), &name("x"), false).await.map(drop)).await;
    needs(&snapshot, async |it| it.rollback(&vm(), &name("x")).await.map(drop)).await;
    needs(&snapshot, async |it| it.delete_snapshot(&vm(), &name("x")).await.map(drop)).await;
    let rollback = [("/vms/101", "VM.Snapshot.Rollback")];
    needs(&rollback, async |it| it.rollback(&vm(), &name("x")).await.map(drop)).await;
    let power = [("/vms/101", "VM.PowerMgmt")];
    needs(&power, async |it| it.start(&vm()).await.map(drop)).await;
    needs(&power, async |it| it.stop(&vm()).await.map(drop)).await;
}

#[tokio::test]
async fn to_clone_and_to_set_up() {
    let clone = [
        ("/vms/9000", "VM.Clone"),
        ("/vms/120", "VM.Allocate"),
        ("/storage/local-lvm", "Datastore.AllocateSpace"),
        (BRIDGE, "SDN.Use"),
    ];
    let order = CloneOrder {
        template: on("pve1", 9000),
        new: VmId::try_from(120).unwrap(),
        name: "runner-1".to_owned(),
        on: None,
        copy: Copied::Linked,
        pool: None,
    };
    needs(&clone, async |it| it.clone_vm(&order).await.map(drop)).await;
    let set_up = [("/vms/101", "VM.Config.Options"), ("/vms/101", "VM.Config.Cloudinit")];
    let change = ConfigChange {
        set: vec![("tags", "motorpool".to_owned())],
        ssh_keys: Some("ssh-ed25519 A".to_owned()),
    };
    let digest = {
        let (_server, proxmox) = server_with(&[("/vms/101", "VM.Audit")]).await;
        proxmox.config(&vm()).await.unwrap().digest
    };
    needs(&set_up, async |it| it.set_config(&vm(), &digest, &change).await).await;
    let (node, storage) = ("pve1".parse().unwrap(), "local-lvm".parse().unwrap());
    needs(&[("/storage/local-lvm", "Datastore.Audit")], async |it| {
        it.storage_use(&node, &storage).await.map(drop)
    })
    .await;
}
