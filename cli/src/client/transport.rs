//! Requests and answers: address, token, TLS, time-outs, and what an error means. It knows no route.

use std::time::Duration;

use motorpool_agent::cli::INSECURE_HTTP;
use motorpool_domain::text::visible;
use motorpool_wire::error::{ErrorCode, ErrorEnvelope};
use reqwest::header::DATE;
use reqwest::{Certificate, Method, RequestBuilder, StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::token::{self, Source};
use super::{ApiResponse, ApiResult};
use crate::args::ConnectArgs;
use crate::errors::{Failure, FailureKind, chain};

const CONNECT: Duration = Duration::from_secs(5);
/// How long an answer may take, beyond what the server was asked to wait.
const ANSWER: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    /// Without a slash at its end.
    base: String,
    here: bool,
    token: Option<SecretString>,
    token_source: Source,
}

/// An answer of one of the routes beside the API, such as `/ready`.
#[derive(Debug, Clone)]
pub(crate) struct Plain {
    pub(crate) status: StatusCode,
    pub(crate) body: String,
    pub(crate) date: Option<String>,
}

impl Client {
    pub(crate) fn new(args: &ConnectArgs) -> Result<Self, Failure> {
        let url = address(args.server())?;
        let here = is_loopback(&url);
        must_not_be_plain_elsewhere(&url, args.insecure_http)?;
        let token::Token { secret, source } = token::find(args, here, |name| std::env::var(name).ok())?;
        // A TLS provider may be installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = reqwest::Client::builder()
            .user_agent(concat!("motorpool/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            // A token is for the server that was named, not for where that sends us.
            .redirect(reqwest::redirect::Policy::none());
        if here {
            http = http.no_proxy();
        }
        if let Some(path) = &args.ca_file {
            http = http.tls_certs_merge(authorities(path)?);
        }
        let http = http.build().map_err(|error| Failure::failed(chain(&error), ""))?;
        let base = url.as_str().trim_end_matches('/').to_owned();
        Ok(Self { http, base, here, token: secret, token_source: source })
    }

    pub(crate) fn server(&self) -> &str {
        &self.base
    }

    /// Whether the server is on this host.
    pub(crate) fn here(&self) -> bool {
        self.here
    }

    pub(crate) fn encrypted(&self) -> bool {
        self.base.starts_with("https:")
    }

    pub(crate) fn token_source(&self) -> &Source {
        &self.token_source
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str, query: &[(&str, &str)]) -> ApiResult<T> {
        self.get_waiting(path, query, Duration::ZERO).await
    }

    pub(super) async fn get_waiting<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
        wait: Duration,
    ) -> ApiResult<T> {
        self.ask(self.request(Method::GET, path, query).timeout(wait + ANSWER)).await
    }

    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
        body: Option<&impl Serialize>,
    ) -> ApiResult<T> {
        let mut request = self.request(Method::POST, path, query).timeout(ANSWER);
        if let Some(body) = body {
            request = request.json(body);
        }
        self.ask(request).await
    }

    pub(super) async fn put<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> ApiResult<T> {
        self.ask(self.request(Method::PUT, path, &[]).timeout(ANSWER).json(body)).await
    }

    pub(super) async fn patch<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> ApiResult<T> {
        self.ask(self.request(Method::PATCH, path, &[]).timeout(ANSWER).json(body)).await
    }

    pub(super) async fn delete<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
    ) -> ApiResult<T> {
        self.ask(self.request(Method::DELETE, path, query).timeout(ANSWER)).await
    }

    /// A route that is not under `/api/v1`, or whose answer is no JSON of ours. Any status is an answer.
    pub(crate) async fn plain(&self, path: &str) -> Result<Plain, Failure> {
        let request = self.http.get(format!("{}/{path}", self.base)).timeout(ANSWER);
        let answer = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = answer.status();
        let date = answer.headers().get(DATE).and_then(|date| date.to_str().ok()).map(str::to_owned);
        let body = answer.text().await.map_err(|error| self.unreachable(&error))?;
        Ok(Plain { status, body, date })
    }

    /// Of the answer as it may be shown.
    pub(super) fn understand<T: DeserializeOwned>(&self, json: &Value) -> Result<T, Failure> {
        T::deserialize(&shown(json)).map_err(|error| {
            Failure::failed(
                format!("the answer of {} is not understood: {error}", self.base),
                "is it a motorpool of the same version? `motorpool doctor` compares them",
            )
        })
    }

    fn request(&self, method: Method, path: &str, query: &[(&str, &str)]) -> RequestBuilder {
        let mut request = self.http.request(method, format!("{}/api/v1/{path}", self.base)).query(query);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose_secret());
        }
        request
    }

    async fn ask<T: DeserializeOwned>(&self, request: RequestBuilder) -> ApiResult<T> {
        let answer = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = answer.status();
        let body = answer.bytes().await.map_err(|error| self.unreachable(&error))?;
        if !status.is_success() {
            return Err(self.refusal(status, &body));
        }
        let json: Value = serde_json::from_slice(&body).map_err(|_| self.no_motorpool(status))?;
        let value = self.understand(&json)?;
        Ok(ApiResponse { value, json })
    }

    fn refusal(&self, status: StatusCode, body: &[u8]) -> Failure {
        let Ok(ErrorEnvelope { error }) = serde_json::from_slice(body) else {
            return self.no_motorpool(status);
        };
        let mut failure = Failure::from(error);
        if failure.kind == FailureKind::Refused(ErrorCode::Unauthorized) {
            failure.hint = match &self.token_source {
                Source::None => {
                    "no token was sent: set $MOTORPOOL_TOKEN, or name a file with --token-file, or serve's directory \
                     with --data-dir"
                        .to_owned()
                }
                source @ (Source::File(_) | Source::Environment(_)) => {
                    format!("the token is from {source}: is it this server's?")
                }
            };
        }
        failure
    }

    fn no_motorpool(&self, status: StatusCode) -> Failure {
        Failure::failed(
            format!("{} answered {status}, and not as motorpool does", self.base),
            "is --server (or $MOTORPOOL_SERVER) the right address, or is a proxy in between?",
        )
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let why = root_cause(error);
        let hint = if why.contains("CaUsedAsEndEntity") {
            "its certificate is made as an authority's (CA:TRUE), which is not taken as a server's, whoever trusts it; \
             docs/ec2.md has the openssl line that makes one that is"
                .to_owned()
        } else if why.contains("certificate") {
            "if its certificate is from an authority of your own, name that with --ca-file".to_owned()
        } else if error.is_timeout() && !error.is_connect() {
            "it accepted the connection and did not answer in time: look at its log".to_owned()
        } else {
            format!("is `motorpool serve` running at {}? Another address goes with --server", self.base)
        };
        Failure::new(FailureKind::Unreachable, format!("cannot reach {}: {why}", self.base), hint)
    }
}

/// The answer without what steers a terminal: what agents and callers wrote stands in its texts.
fn shown(json: &Value) -> Value {
    match json {
        Value::String(text) => Value::String(visible(text)),
        Value::Array(items) => items.iter().map(shown).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (visible(name), shown(value))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => json.clone(),
    }
}

/// The last cause says it best: "Connection refused", "UnknownIssuer". Those before it name layers.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

fn address(text: &str) -> Result<Url, Failure> {
    let url = Url::parse(text).ok().filter(|url| ["http", "https"].contains(&url.scheme()) && url.has_host());
    let url = url.ok_or_else(|| {
        Failure::usage(
            format!("{text:?} is no server's address"),
            "write it as http://127.0.0.1:8080 or https://pool.example.com",
        )
    })?;
    if !url.username().is_empty()
        || url.password().is_some()
        || url.query().is_some()
        || url.fragment().is_some()
    {
        return Err(Failure::usage(
            "the server's address must be without user, password, query and fragment",
            "a token goes into a file or $MOTORPOOL_TOKEN",
        ));
    }
    Ok(url)
}

fn must_not_be_plain_elsewhere(url: &Url, insecure_http: bool) -> Result<(), Failure> {
    if url.scheme() == "https" || insecure_http || is_loopback(url) {
        return Ok(());
    }
    Err(Failure::usage(
        format!(
            "over plain http:// to {} the token could be read on the way",
            url.host_str().unwrap_or_default()
        ),
        format!("use https://, or say --insecure-http ({INSECURE_HTTP}=1) if the network in between is safe"),
    ))
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn authorities(path: &std::path::Path) -> Result<Vec<Certificate>, Failure> {
    let wrong = |why: String| {
        Failure::usage(
            format!("cannot use the certificate authority {}: {why}", path.display()),
            "--ca-file names a file with one or more certificates in PEM",
        )
    };
    let pem = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let certificates = Certificate::from_pem_bundle(&pem).map_err(|error| wrong(chain(&error)))?;
    if certificates.is_empty() { Err(wrong("it holds no certificate".to_owned())) } else { Ok(certificates) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_http_and_hold_no_secret() {
        assert!(address("http://127.0.0.1:8080").is_ok());
        assert!(address("https://pool.example.com/motorpool/").is_ok());
        for bad in ["127.0.0.1:8080", "ftp://x", "http://", "http://me:secret@x/", "http://x/?token=y", ""] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_loopback_is_here() {
        for (text, expected) in [
            ("http://127.0.0.1:8080", true),
            ("http://localhost:1", true),
            ("http://[::1]:8080", true),
            ("http://10.0.0.1", false),
            ("http://localhost.example.com", false),
        ] {
            assert_eq!(is_loopback(&address(text).unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn refuse_26_plain_http_is_for_loopback_or_the_insistent() {
        for (text, allowed) in [
            ("http://127.0.0.1:8080", true),
            ("http://[::1]:8080", true),
            ("http://localhost", true),
            ("https://pool.example.com", true),
            ("http://pool.example.com", false),
            ("http://10.0.0.1:8080", false),
            ("http://127.0.0.1.example.com", false),
        ] {
            let url = address(text).unwrap();
            assert_eq!(must_not_be_plain_elsewhere(&url, false).is_ok(), allowed, "{text}");
            assert_eq!(must_not_be_plain_elsewhere(&url, true), Ok(()), "{text}");
        }
    }
}
