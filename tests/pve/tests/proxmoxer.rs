//! The model driven by proxmoxer, which others wrote against real Proxmox VE: what it expects of ids, forms, reason phrases and errors, the
//! model has. `cargo xtask test` installs it.

use std::process::{Output, Stdio};

use motorpool_pve_tests::{Cluster, SECRET, Server, TOKEN};
use tokio::process::Command;

/// The interpreter that has it.
const PYTHON: &str = "MOTORPOOL_PROXMOXER_PYTHON";

#[tokio::test(flavor = "multi_thread")]
async fn proxmoxer_finds_a_proxmox_ve() {
    let server = Server::https(Cluster::default()).await;
    {
        let mut state = server.cluster.state();
        state.add_token("motorpool@pve!small", "small", "/vms", &["VM.Audit"]);
        state.set_reachable("pve2", false);
    }
    let Output { status, stdout, stderr } = drive(&server).await;
    let said = String::from_utf8_lossy(&stdout);
    assert!(
        status.success() && said.contains("proxmoxer is content"),
        "{}",
        String::from_utf8_lossy(&stderr)
    );
    let state = server.cluster.state();
    assert_eq!((state.vm(101).rollbacks, state.vm(101).rollbacks_while_running), (1, 0));
}

/// What it finds in the answers is what it judges by: without the reason phrases it is not content.
#[tokio::test(flavor = "multi_thread")]
async fn proxmoxer_tells_when_something_is_not_as_it_expects() {
    let server = Server::https(Cluster::default()).await;
    let fault = motorpool_pve_tests::Fault::TaskWarns { kind: "qmrollback", warnings: 1 };
    server.cluster.state().order(fault);
    let Output { status, stderr, .. } = drive(&server).await;
    assert!(!status.success() && String::from_utf8_lossy(&stderr).contains("WARNINGS: 1"));
}

async fn drive(server: &Server) -> Output {
    let python = std::env::var_os(PYTHON).unwrap_or_else(|| {
        panic!(
            "{PYTHON} is not set: run `cargo xtask test`, or name a python that has proxmoxer and requests"
        )
    });
    let directory = tempfile::tempdir().expect("a directory");
    let authority = directory.path().join("pve-root-ca.pem");
    std::fs::write(&authority, &server.tls.as_ref().expect("HTTPS").authority_pem).expect("a file");
    Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/proxmoxer_check.py"))
        .arg(server.port.to_string())
        .arg(&authority)
        .env("PVE_TOKEN_ID", TOKEN)
        .env("PVE_TOKEN_SECRET", SECRET)
        .env("PVE_SMALL_SECRET", "small")
        .env("NO_PROXY", "*")
        .env_remove("REQUESTS_CA_BUNDLE")
        .env_remove("CURL_CA_BUNDLE")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .expect("a python")
}
