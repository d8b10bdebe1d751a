//! TLS, if its files are given.

use crate::args::ServeArgs;
use crate::errors::Failure;
use crate::private_file;
use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

pub(super) fn acceptor(args: &ServeArgs) -> Result<Option<TlsAcceptor>, Failure> {
    let (Some(cert), Some(key)) = (&args.tls_cert, &args.tls_key) else { return Ok(None) };
    private_file::must_be_closed(key)?;
    // Fails only if it is set already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = config(cert, key).map_err(|why| {
        Failure::failed(
            format!("cannot use {} with {}: {why}", cert.display(), key.display()),
            "both must be PEM files, the key belonging to the certificate",
        )
    })?;
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

pub(super) fn config(cert: &Path, key: &Path) -> Result<ServerConfig, String> {
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_file_iter(cert).and_then(Iterator::collect).map_err(|error| told(&error))?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| told(&error))?;
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
    let mut config = config.map_err(|error| error.to_string())?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn told(error: &pem::Error) -> String {
    error.to_string()
}
