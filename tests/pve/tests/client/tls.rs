//! Whom the client takes for Proxmox VE: who has the pinned certificate, or one of the named authority, and nobody else.

use motorpool_backend_proxmox::{Fingerprint, Problem, Trust};
use motorpool_pve_tests::{Cluster, Server, Tls};

use crate::stage::{client, vm};

async fn https() -> (Server, Tls) {
    let server = Server::https(Cluster::default()).await;
    let tls = server.tls.clone().unwrap();
    (server, tls)
}

#[tokio::test]
async fn the_pinned_certificate_and_no_other() {
    let (server, tls) = https().await;
    let (_other, others) = https().await;
    let pinned: Fingerprint = tls.fingerprint.parse().unwrap();
    client(&server.url, Trust::Pinned(pinned)).status(&vm()).await.unwrap();
    // Under a name that is not in the certificate, too.
    let by_another_name = format!("https://[::ffff:127.0.0.1]:{}", server.port);
    client(&by_another_name, Trust::Pinned(pinned)).status(&vm()).await.unwrap();

    let wrong: Fingerprint = others.fingerprint.parse().unwrap();
    let error = client(&server.url, Trust::Pinned(wrong)).status(&vm()).await.unwrap_err();
    assert!(matches!(error.problem, Problem::NoAnswer { .. }), "{error:?}");
    assert_eq!(server.cluster.state().lines().len(), 2, "the token was not sent");
}

#[tokio::test]
async fn the_named_authority_and_no_other() {
    let (server, tls) = https().await;
    let (_other, others) = https().await;
    client(&server.url, Trust::Authority(tls.authority_pem)).status(&vm()).await.unwrap();
    for trust in [Trust::Authority(others.authority_pem), Trust::Host] {
        let error = client(&server.url, trust).status(&vm()).await.unwrap_err();
        assert!(matches!(error.problem, Problem::NoAnswer { .. }), "{error:?}");
    }
    assert_eq!(server.cluster.state().lines().len(), 1, "the token was not sent");
}
