//! The agent's calls to the control plane. It retries nothing and decides nothing.

mod checkpoints;

pub(crate) use checkpoints::HookCallError;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use motorpool_domain::text::visible;
use motorpool_wire::agent::{
    BootstrapAnswer, BootstrapRequest, RegistrationAnswer, RegistrationRequest, SyncAnswer, SyncRequest,
};
use motorpool_wire::error::ErrorEnvelope;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, InvalidHeaderValue, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, RequestBuilder, Response, StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::cli::INSECURE_HTTP;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Beyond the time that the answer may wait.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// The control plane asks the CI system meanwhile.
const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(60);
const ANSWER_BYTES: usize = 4 * 1024 * 1024;
const MESSAGE_CHARS: usize = 300;

/// Where the control plane is, checked to be a place to which a token may be sent.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    url: Url,
    loopback: bool,
}

impl Server {
    pub(crate) fn parse(text: &str, insecure_http: bool) -> Result<Self, ServerError> {
        // Not the text itself: it may hold a password.
        let mut url = Url::parse(text).map_err(|error| ServerError::Parse(error.to_string()))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(ServerError::Credentials);
        }
        let host = url.host_str().ok_or(ServerError::Scheme)?.trim_matches(['[', ']']);
        let loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        match url.scheme() {
            "https" => {}
            "http" if loopback || insecure_http => {}
            "http" => return Err(ServerError::Plain(host.to_owned())),
            _ => return Err(ServerError::Scheme),
        }
        url.set_query(None);
        url.set_fragment(None);
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        Ok(Self { url, loopback })
    }

    pub(crate) fn as_str(&self) -> &str {
        self.url.as_str().trim_end_matches('/')
    }

    fn route(&self, route: &str) -> String {
        self.api(&format!("agent/{route}"))
    }

    fn api(&self, path: &str) -> String {
        format!("{}/api/v1/{path}", self.as_str())
    }
}

#[derive(Debug, Error)]
pub(crate) enum ServerError {
    #[error("the server's address is no URL: {0}")]
    Parse(String),
    #[error("the server's address must begin with https:// or http://, and name a host")]
    Scheme,
    #[error("the server's address must not hold a user or password")]
    Credentials,
    #[error(
        "plain http:// to {0} would show the agent's token to the network; use https://, or say --insecure-http \
         ({variable}=1) if that network is safe",
        variable = INSECURE_HTTP
    )]
    Plain(String),
}

/// Its clones share their connections.
#[derive(Debug, Clone)]
pub(crate) struct ControlPlane {
    client: Client,
    server: Server,
}

impl ControlPlane {
    pub(crate) fn new(server: Server, ca_file: Option<&Path>) -> Result<Self, ClientError> {
        // It is an error only if one is installed already, which is as good.
        let _installed_already = rustls::crypto::ring::default_provider().install_default();
        let builder = Client::builder()
            .user_agent(concat!("motorpool-agent/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            // Nothing of ours redirects, and the token must not follow.
            .redirect(Policy::none())
            // One control plane, one connection: it is there or it is not.
            .pool_max_idle_per_host(1);
        let builder = if server.loopback { builder.no_proxy() } else { builder };
        let builder = match ca_file {
            Some(path) => builder.tls_certs_merge(certificates(path)?),
            // A host without any trusted root can still speak plain HTTP.
            None if server.url.scheme() == "http" => builder.tls_certs_only([]),
            None => builder,
        };
        let client = builder.build().map_err(ClientError::Build)?;
        Ok(Self { client, server })
    }

    pub(crate) async fn bootstrap(&self, request: &BootstrapRequest) -> Result<BootstrapAnswer, CallError> {
        let call = self.client.post(self.server.route("bootstrap")).json(request).timeout(ANSWER_TIMEOUT);
        send(call).await
    }

    pub(crate) async fn sync(
        &self,
        authorization: &Authorization,
        request: &SyncRequest,
    ) -> Result<SyncAnswer, CallError> {
        let timeout = Duration::from_millis(request.wait_ms).saturating_add(ANSWER_TIMEOUT);
        let call = self.client.post(self.server.route("sync")).json(request).timeout(timeout);
        send(call.header(AUTHORIZATION, authorization.header.clone())).await
    }

    pub(crate) async fn registration(
        &self,
        authorization: &Authorization,
        request: &RegistrationRequest,
    ) -> Result<RegistrationAnswer, CallError> {
        let call = self.client.post(self.server.route("registration")).json(request);
        let call = call.header(AUTHORIZATION, authorization.header.clone()).timeout(REGISTRATION_TIMEOUT);
        send(call).await
    }
}

fn certificates(path: &Path) -> Result<Vec<Certificate>, ClientError> {
    let pem = fs::read(path).map_err(|source| ClientError::CaFile { path: path.to_owned(), source })?;
    let found = Certificate::from_pem_bundle(&pem).map_err(ClientError::Build)?;
    if found.is_empty() { Err(ClientError::NoCertificate(path.to_owned())) } else { Ok(found) }
}

#[derive(Debug, Error)]
pub(crate) enum ClientError {
    #[error("the CA file {path} could not be read", path = path.display())]
    CaFile { path: PathBuf, source: io::Error },
    #[error("the CA file {path} holds no certificate in PEM form", path = _0.display())]
    NoCertificate(PathBuf),
    #[error("the HTTP client could not be made")]
    Build(#[source] reqwest::Error),
}

/// The agent's token as a header that no log shows.
#[derive(Debug, Clone)]
pub(crate) struct Authorization {
    header: HeaderValue,
}

impl Authorization {
    pub(crate) fn bearer(token: &SecretString) -> Result<Self, InvalidHeaderValue> {
        let mut header = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()))?;
        header.set_sensitive(true);
        Ok(Self { header })
    }
}

#[derive(Debug, Error)]
pub(crate) enum CallError {
    #[error("the control plane did not answer")]
    Unreachable(#[source] reqwest::Error),
    #[error("the control plane answered {status}: {message}")]
    Refused {
        status: StatusCode,
        message: String,
        /// How long it wants nobody to ask again, if it says so.
        retry_after: Option<Duration>,
    },
    #[error("the control plane's answer was not understood: {0}")]
    NotUnderstood(String),
}

async fn send<T: DeserializeOwned>(call: RequestBuilder) -> Result<T, CallError> {
    let response = call.send().await.map_err(CallError::Unreachable)?;
    let status = response.status();
    let retry_after = retry_after(response.headers());
    let body = bounded_body(response).await?;
    if status.is_success() {
        return serde_json::from_slice(&body).map_err(|error| {
            // Not the error's own text: it may quote the operator's scripts.
            let (what, line, column) = (error.classify(), error.line(), error.column());
            CallError::NotUnderstood(format!("{what:?} error at line {line}, column {column}"))
        });
    }
    let message = match serde_json::from_slice::<ErrorEnvelope>(&body) {
        Ok(ErrorEnvelope { error }) if error.hint.is_empty() => error.message,
        Ok(ErrorEnvelope { error }) => format!("{} ({})", error.message, error.hint),
        Err(_other_than_ours) => "no reason was given".to_owned(),
    };
    let message: String = message.chars().take(MESSAGE_CHARS).collect();
    Err(CallError::Refused { status, message: visible(&message), retry_after })
}

/// As the control plane tells it. A date, which HTTP allows too, would need its clock and ours to agree.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

async fn bounded_body(mut response: Response) -> Result<Vec<u8>, CallError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(CallError::Unreachable)? {
        if body.len().saturating_add(chunk.len()) > ANSWER_BYTES {
            return Err(CallError::NotUnderstood(format!("it is longer than {ANSWER_BYTES} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuse_26_plain_http_is_for_loopback_or_the_insistent() {
        for fine in
            ["https://pool.example", "http://127.0.0.1:8080", "http://localhost:1/", "http://[::1]:80"]
        {
            assert!(Server::parse(fine, false).is_ok(), "{fine}");
        }
        assert!(matches!(Server::parse("http://pool.example", false), Err(ServerError::Plain(_))));
        assert!(matches!(Server::parse("http://127.0.0.1.example", false), Err(ServerError::Plain(_))));
        assert!(Server::parse("http://pool.example", true).is_ok());
        assert!(matches!(Server::parse("ftp://pool.example", true), Err(ServerError::Scheme)));
        assert!(matches!(Server::parse("https://u:p@pool.example", true), Err(ServerError::Credentials)));
    }

    #[test]
    fn a_wait_is_read_where_it_is_a_number_of_seconds() {
        for (told, expected) in [
            (Some("62"), Some(62)),
            (Some(" 7 "), Some(7)),
            (Some("18446744073709551615"), Some(u64::MAX)),
            (Some("18446744073709551616"), None),
            (Some("-1"), None),
            (Some("1.5"), None),
            (Some("Mon, 16 Nov 2026 08:00:00 GMT"), None),
            (Some(""), None),
            (None, None),
        ] {
            let headers = told.map(|told| (RETRY_AFTER, HeaderValue::from_static(told)));
            let read = retry_after(&headers.into_iter().collect());
            assert_eq!(read, expected.map(Duration::from_secs), "{told:?}");
        }
    }

    #[test]
    fn routes_are_under_the_servers_path() {
        let at = |text| Server::parse(text, false).unwrap().route("sync");
        assert_eq!(at("https://a.example"), "https://a.example/api/v1/agent/sync");
        assert_eq!(at("https://a.example/pool/"), "https://a.example/pool/api/v1/agent/sync");
    }
}
