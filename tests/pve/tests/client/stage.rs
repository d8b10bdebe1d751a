//! A model of Proxmox VE, the client that speaks to it, and the VM that both know.

use motorpool_backend_proxmox::{
    ApiToken, Error, Pace, Problem, Proxmox, ProxmoxSettings, SnapshotName, TaskEnd, Trust, Upid, Vm, VmId,
};
use motorpool_pve_tests::{Cluster, SECRET, Server, TOKEN};
use std::time::Duration;

pub(crate) struct Stage {
    pub(crate) server: Server,
    pub(crate) proxmox: Proxmox,
}

impl Stage {
    pub(crate) async fn start() -> Self {
        let server = Server::plain(Cluster::default()).await;
        let proxmox = client(&server.url, Trust::Host);
        Self { server, proxmox }
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.server.cluster
    }

    /// How a task ends that has begun.
    pub(crate) async fn end(&self, upid: &Upid) -> TaskEnd {
        self.proxmox.ended(upid, Duration::from_secs(60), &pace()).await.unwrap()
    }

    /// What was begun has failed, and this is why.
    pub(crate) async fn problem(&self, begun: Result<Upid, Error>) -> Problem {
        self.end(&begun.unwrap()).await.problem().unwrap()
    }

    /// A snapshot that is there.
    pub(crate) async fn snapshot(&self, vm: &Vm, name: &SnapshotName) {
        let upid = self.proxmox.snapshot(vm, name, false).await.unwrap();
        assert_eq!(self.end(&upid).await, TaskEnd::Ok);
    }
}

pub(crate) fn client(url: &str, trust: Trust) -> Proxmox {
    client_with(url, trust, TOKEN, SECRET)
}

pub(crate) fn client_with(url: &str, trust: Trust, token: &str, secret: &str) -> Proxmox {
    let token = ApiToken::new(token.parse().unwrap(), &secret.into()).unwrap();
    Proxmox::new(&ProxmoxSettings { url: url.to_owned(), token, trust }).unwrap()
}

/// The model's clock goes with the requests, so nobody has to wait for it.
pub(crate) fn pace() -> Pace {
    Pace {
        first_pause: Duration::from_millis(1),
        longest_pause: Duration::from_millis(1),
        may_arrive_for: Duration::from_millis(1),
    }
}

pub(crate) fn vm() -> Vm {
    on("pve1", 101)
}

pub(crate) fn on(node: &str, id: u32) -> Vm {
    Vm { node: node.parse().unwrap(), id: VmId::try_from(id).unwrap() }
}

pub(crate) fn name(id: &str) -> SnapshotName {
    SnapshotName::of(id)
}
