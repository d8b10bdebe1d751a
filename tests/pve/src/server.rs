//! The API on a port of loopback of its own, over HTTPS as Proxmox VE has it, or plain.

use std::net::TcpListener;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum_server::tls_rustls::RustlsConfig;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use sha2::{Digest, Sha256};
use tokio::task::JoinHandle;

use crate::cluster::Cluster;
use crate::request::Asked;

/// It ends when this is dropped.
#[derive(Debug)]
pub struct Server {
    pub url: String,
    pub port: u16,
    pub cluster: Cluster,
    /// None if it is plain.
    pub tls: Option<Tls>,
    serving: JoinHandle<std::io::Result<()>>,
}

/// How its clients know it.
#[derive(Debug, Clone)]
pub struct Tls {
    /// As `/etc/pve/pve-root-ca.pem` has it.
    pub authority_pem: String,
    /// Of the server's own certificate, as `pvenode cert info` shows it.
    pub fingerprint: String,
}

impl Server {
    pub async fn https(cluster: Cluster) -> Self {
        // It may be installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "Proxmox Virtual Environment");
        let authority =
            CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority");
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let key = KeyPair::generate().expect("a key");
        let own = CertificateParams::new(names)
            .expect("parameters")
            .signed_by(&key, &authority)
            .expect("a certificate");
        let hash = Sha256::digest(own.der());
        let fingerprint = hash.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":");
        let tls = Tls { authority_pem: authority.pem(), fingerprint };
        let config = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(
                vec![own.der().clone()],
                PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
            )
            .expect("a configuration");
        let (listener, port) = free_port();
        let server = axum_server::from_tcp_rustls(listener, RustlsConfig::from_config(Arc::new(config)))
            .expect("a server");
        let serving = tokio::spawn(server.serve(app(cluster.clone()).into_make_service()));
        Self { url: format!("https://127.0.0.1:{port}"), port, cluster, tls: Some(tls), serving }
    }

    pub async fn plain(cluster: Cluster) -> Self {
        let (listener, port) = free_port();
        let server = axum_server::from_tcp(listener).expect("a server");
        let serving = tokio::spawn(server.serve(app(cluster.clone()).into_make_service()));
        Self { url: format!("http://127.0.0.1:{port}"), port, cluster, tls: None, serving }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn free_port() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("a socket that does not block");
    let port = listener.local_addr().expect("an address").port();
    (listener, port)
}

fn app(cluster: Cluster) -> Router {
    Router::new().fallback(move |request: Request| {
        let cluster = cluster.clone();
        async move {
            match Asked::read(request).await {
                Ok(asked) => {
                    let (answer, in_body, lost) = cluster.answer(&asked);
                    answer.response(in_body, lost)
                }
                Err(refused) => refused.response(true, false),
            }
        }
    })
}
