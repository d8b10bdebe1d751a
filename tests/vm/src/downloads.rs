//! Where the machines fetch the agent and the runner program, by HTTPS. The image trusts its certificate, as a real one trusts those of public
//! places.

use crate::HOST;
use anyhow::{Context, Result};
use axum::Router;
use axum::extract::Path as InPath;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use axum_server::Handle;
use axum_server::tls_rustls::{RustlsConfig, from_tcp_rustls};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Downloads {
    port: u16,
    files: Arc<BTreeMap<String, Vec<u8>>>,
    handle: Handle<SocketAddr>,
}

impl Downloads {
    /// With the certificate that the image was made with.
    pub(crate) async fn start<const N: usize>(image: &Path, files: [(&str, Vec<u8>); N]) -> Result<Self> {
        let files: Arc<BTreeMap<_, _>> =
            Arc::new(files.map(|(name, bytes)| (name.to_owned(), bytes)).into_iter().collect());
        let _ = rustls::crypto::ring::default_provider().install_default();
        let tls = RustlsConfig::from_pem_file(image.join("downloads.pem"), image.join("downloads.key"));
        let tls = tls.await.context("the certificate of the downloads")?;
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("the downloads")?;
        socket.set_nonblocking(true)?;
        let port = socket.local_addr()?.port();
        let (handle, served) = (Handle::new(), Arc::clone(&files));
        let server = from_tcp_rustls(socket, tls)?.handle(handle.clone());
        tokio::spawn(server.serve(app(served).into_make_service()));
        Ok(Self { port, files, handle })
    }

    /// As a pool names it, for TOML.
    pub(crate) fn named(&self, name: &str) -> Result<String> {
        let bytes = self.files.get(name).with_context(|| format!("{name} is not offered"))?;
        let sha256: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(self.claimed(name, &sha256))
    }

    /// With a checksum that may be another's.
    pub(crate) fn claimed(&self, name: &str, sha256: &str) -> String {
        format!(r#"{{ url = "https://{HOST}:{}/{name}", sha256 = "{sha256}" }}"#, self.port)
    }
}

impl Drop for Downloads {
    fn drop(&mut self) {
        self.handle.shutdown();
    }
}

fn app(files: Arc<BTreeMap<String, Vec<u8>>>) -> Router {
    Router::new().route(
        "/{name}",
        get(move |InPath(name): InPath<String>| async move {
            match files.get(&name) {
                Some(bytes) => bytes.clone().into_response(),
                None => StatusCode::NOT_FOUND.into_response(),
            }
        }),
    )
}
