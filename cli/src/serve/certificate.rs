//! A server's certificate as an agent on a Linux machine judges it: by webpki, with the machine's own authorities and those of the file, for
//! the name that the agent was told. This host's authorities stand in for the machine's.

use std::sync::Arc;
use std::time::Duration;

use motorpool_domain::Timestamp;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, Error as TlsError, RootCertStore};

/// What is wrong with it: the rest of a sentence that begins with the certificate.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("is none, in PEM")]
    None,
    #[error("is made as an authority's (CA:TRUE), which agents do not take as a server's")]
    Authority,
    #[error(
        "can't be followed to anybody whom they trust: the authority that signed it is not below it in the file"
    )]
    UnknownIssuer,
    #[error("is not for {host}{}", but_for(.names))]
    OtherName { host: String, names: Vec<String> },
    #[error("has expired")]
    Expired,
    #[error("is not valid yet")]
    NotYet,
    #[error("can't be used: {0}")]
    Other(String),
}

impl Problem {
    pub(super) fn hint(&self, host: &str) -> String {
        let kind = if host.parse::<std::net::IpAddr>().is_ok() { "IP" } else { "DNS" };
        match self {
            Self::UnknownIssuer => {
                "put the certificate of the authority, and of those between, below it in the same file"
                    .to_owned()
            }
            Self::None
            | Self::Authority
            | Self::OtherName { .. }
            | Self::Expired
            | Self::NotYet
            | Self::Other(_) => format!(
                "docs/ec2.md has the openssl line that makes one: with subjectAltName={kind}:{host} and \
                 basicConstraints=critical,CA:FALSE"
            ),
        }
    }
}

fn but_for(names: &[String]) -> String {
    match names {
        [] => ": it has no subjectAltName".to_owned(),
        names => format!(" but for {}", names.join(", ")),
    }
}

pub(super) fn judge(pem: &str, host: &str, now: Timestamp) -> Result<(), Problem> {
    let other = |error: &dyn std::fmt::Display| Problem::Other(error.to_string());
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| other(&error))?;
    let Some((own, between)) = chain.split_first() else { return Err(Problem::None) };
    let mut roots = RootCertStore::empty();
    for certificate in &chain {
        roots.add(certificate.clone()).map_err(|error| other(&error))?;
    }
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| other(&error))?;
    let name = ServerName::try_from(host).map_err(|error| other(&error))?;
    let now = UnixTime::since_unix_epoch(Duration::from_millis(now.as_millis()));
    match verifier.verify_server_cert(own, between, &name, &[], now) {
        Ok(_) => Ok(()),
        Err(error) => Err(problem(&error, host)),
    }
}

fn problem(error: &TlsError, host: &str) -> Problem {
    let TlsError::InvalidCertificate(error) = error else { return Problem::Other(error.to_string()) };
    if let CertificateError::NotValidForNameContext { presented, .. } = error {
        return Problem::OtherName {
            host: host.to_owned(),
            names: presented.iter().map(|name| bare(name)).collect(),
        };
    }
    if matches!(error, CertificateError::UnknownIssuer) {
        return Problem::UnknownIssuer;
    }
    if matches!(error, CertificateError::Expired | CertificateError::ExpiredContext { .. }) {
        return Problem::Expired;
    }
    if matches!(error, CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. }) {
        return Problem::NotYet;
    }
    // rustls has no variant for an authority's certificate: only the text names it.
    let told = error.to_string();
    if told.contains("CaUsedAsEndEntity") { Problem::Authority } else { Problem::Other(told) }
}

/// `DnsName("a")` and `IpAddress(10.0.0.5)`, as webpki tells them, are `a` and `10.0.0.5` for people.
fn bare(name: &str) -> String {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
    inner.trim_matches('"').to_owned()
}
