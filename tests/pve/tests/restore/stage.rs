//! A used VM in the model, its snapshot, and a driver whose journal is kept when it is killed.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use motorpool_backend_proxmox::restore::{DriveError, Driver, Goal, Journal, Memory, Operation, Outcome};
use motorpool_backend_proxmox::{
    ApiToken, Limits, Pace, Proxmox, ProxmoxSettings, SnapshotName, Trust, Vm, VmId,
};
use motorpool_pve_tests::{Cluster, Machines, SECRET, Server, TOKEN};

pub(crate) struct Stage {
    pub(crate) server: Server,
    pub(crate) proxmox: Proxmox,
    pub(crate) disk: Disk,
    pub(crate) limits: Limits,
}

/// Keeps what was noted last, and its story.
#[derive(Debug, Default)]
pub(crate) struct Disk(Mutex<Vec<Memory>>);

impl Journal for Disk {
    async fn note(&self, memory: &Memory) -> io::Result<()> {
        self.0.lock().unwrap().push(memory.clone());
        Ok(())
    }
}

impl Disk {
    pub(crate) fn last(&self) -> Option<Memory> {
        self.0.lock().unwrap().last().cloned()
    }
}

impl Stage {
    /// The marker is from before the snapshot, the nonce from after it.
    pub(crate) async fn used() -> Self {
        let stage = Self::new().await;
        stage.cluster().state().write(101, "/marker");
        assert!(matches!(stage.run(Goal::Snapshot { memory: false }).await, Ok(Outcome::Done(_))));
        stage.cluster().state().write(101, "/nonce");
        stage
    }

    pub(crate) async fn new() -> Self {
        Self::of(Cluster::default()).await
    }

    pub(crate) async fn over(machines: Arc<dyn Machines>) -> Self {
        Self::of(Cluster::with_machines(machines)).await
    }

    async fn of(cluster: Cluster) -> Self {
        let server = Server::plain(cluster).await;
        let token = ApiToken::new(TOKEN.parse().unwrap(), &SECRET.into()).unwrap();
        let settings = ProxmoxSettings { url: server.url.clone(), token, trust: Trust::Host };
        let proxmox = Proxmox::new(&settings).unwrap();
        Self { server, proxmox, disk: Disk::default(), limits: Limits::default() }
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.server.cluster
    }

    pub(crate) async fn run(&self, goal: Goal) -> Result<Outcome, DriveError> {
        self.go_on(Memory::of(operation(goal)), Duration::ZERO).await
    }

    pub(crate) async fn go_on(
        &self,
        memory: Memory,
        may_arrive_for: Duration,
    ) -> Result<Outcome, DriveError> {
        let Self { proxmox, disk, limits, .. } = self;
        Driver { proxmox, journal: disk, limits, pace: &pace() }.drive(memory, may_arrive_for).await
    }

    /// The VM is as before the job, runs since one more boot, and its snapshot is gone.
    pub(crate) fn assert_clean(&self, boots: u64) {
        let state = self.cluster().state();
        let vm = state.vm(101);
        assert_eq!(vm.files.iter().collect::<Vec<_>>(), ["/marker"]);
        assert_eq!((vm.running, vm.boots, vm.lock.as_deref()), (true, boots, None));
        assert_eq!((vm.rollbacks, vm.rollbacks_while_running), (1, 0));
        assert!(vm.snapshots.is_empty());
        for kind in ["qmstop", "qmrollback", "qmstart", "qmdelsnapshot"] {
            assert_eq!(state.count(kind), 1, "{kind}");
        }
    }
}

pub(crate) fn pace() -> Pace {
    Pace {
        first_pause: Duration::from_millis(1),
        longest_pause: Duration::from_millis(1),
        may_arrive_for: Duration::from_millis(1),
    }
}

pub(crate) fn vm() -> Vm {
    Vm { node: "pve1".parse().unwrap(), id: VmId::try_from(101).unwrap() }
}

pub(crate) fn operation(goal: Goal) -> Operation {
    Operation { id: "t-1".to_owned(), vm: vm(), snapshot: SnapshotName::of("cp-1"), goal }
}
