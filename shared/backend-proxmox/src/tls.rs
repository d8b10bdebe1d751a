//! Whom we take for Proxmox VE. A pinned certificate is compared as a whole, so neither its names nor its dates nor its signer matter: a
//! server that has it must still prove that the key is its own.

use std::sync::Arc;

use reqwest::{Certificate, ClientBuilder};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, SignatureScheme};

use crate::error::SetupError;
use crate::fingerprint::Fingerprint;
use crate::settings::Trust;

pub(crate) fn trusting(builder: ClientBuilder, trust: &Trust) -> Result<ClientBuilder, SetupError> {
    let provider = rustls::crypto::ring::default_provider();
    // A TLS provider may be installed already, which is as good.
    let _installed_already = provider.clone().install_default();
    Ok(match trust {
        Trust::Host => builder,
        Trust::Authority(pem) => {
            let unusable = |why: String| SetupError::Authority { why };
            let found =
                Certificate::from_pem_bundle(pem.as_bytes()).map_err(|error| unusable(error.to_string()))?;
            if found.is_empty() {
                return Err(unusable("there is no certificate in it".to_owned()));
            }
            builder.tls_certs_only(found)
        }
        Trust::Pinned(fingerprint) => {
            let provider = Arc::new(provider);
            let pinned = Pinned { fingerprint: *fingerprint, provider: Arc::clone(&provider) };
            let config = rustls::ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .map_err(|error| SetupError::Https { why: error.to_string() })?
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(pinned))
                .with_no_client_auth();
            builder.tls_backend_preconfigured(config)
        }
    })
}

#[derive(Debug)]
struct Pinned {
    fingerprint: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if Fingerprint::of(end_entity) == self.fingerprint {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
