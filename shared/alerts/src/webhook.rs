//! One receiver, told by POST: its address, time-outs and signature. It follows no redirect, asks no proxy, and reads no answer but its status.

use crate::address::is_public;
use crate::body;
use crate::error::SetupError;
use crate::resolve::{Checked, Lookup, OfTheHost};
use crate::signature::signature;
use async_trait::async_trait;
use motorpool_control::ports::alerts::{AlertSender, SendError};
use motorpool_control::ports::clock::Clock;
use motorpool_domain::alert::AlertMessage;
use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

const CONNECT: Duration = Duration::from_secs(5);
/// From the beginning of a request to its status.
const ANSWER: Duration = Duration::from_secs(10);
/// A shorter one could be guessed.
const SHORTEST_SECRET: usize = 16;

#[derive(Debug, Clone)]
pub struct AlertConfig {
    /// A chat's webhook is known by its address alone: it is a secret.
    pub url: SecretString,
    pub format: Format,
    /// Plain HTTP, and addresses of this host and its network.
    pub allow_private: bool,
}

#[derive(Debug, Clone)]
pub enum Format {
    /// `{"text": …}`, as Slack and what is like it take it.
    Slack,
    /// Every field, signed with this secret.
    Json { secret: SecretString },
}

pub struct Webhook {
    http: reqwest::Client,
    url: Url,
    format: Format,
    clock: Arc<dyn Clock>,
    /// One message at a time.
    turn: Mutex<()>,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook").field("format", &self.format).finish_non_exhaustive()
    }
}

impl Webhook {
    /// Nobody is called.
    pub fn new(config: AlertConfig, clock: Arc<dyn Clock>) -> Result<Self, SetupError> {
        Self::looking_up(config, clock, Arc::new(OfTheHost), ANSWER)
    }

    /// The same with names looked up elsewhere, and so long for an answer.
    pub fn looking_up(
        config: AlertConfig,
        clock: Arc<dyn Clock>,
        lookup: Arc<dyn Lookup>,
        answer: Duration,
    ) -> Result<Self, SetupError> {
        let AlertConfig { url, format, allow_private } = config;
        let url = checked(url.expose_secret(), allow_private)?;
        match &format {
            Format::Json { secret } if secret.expose_secret().len() < SHORTEST_SECRET => {
                return Err(SetupError::Secret { shortest: SHORTEST_SECRET });
            }
            Format::Json { .. } | Format::Slack => {}
        }
        // A TLS provider may be installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .user_agent(concat!("motorpool/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            .timeout(answer)
            .redirect(reqwest::redirect::Policy::none())
            // A proxy would look the name up by itself.
            .no_proxy()
            .dns_resolver(Checked { lookup, allow_private })
            .build()
            .map_err(|error| SetupError::Https { why: root_cause(error) })?;
        Ok(Self { http, url, format, clock, turn: Mutex::new(()) })
    }
}

#[async_trait]
impl AlertSender for Webhook {
    async fn send(&self, message: &AlertMessage) -> Result<(), SendError> {
        let _turn = self.turn.lock().await;
        let failed = |source: String| SendError::Failed { source: source.into() };
        let body = match &self.format {
            Format::Slack => body::slack(message),
            Format::Json { .. } => body::json(message),
        };
        let body = body.map_err(|error| failed(error.to_string()))?;
        let mut request = self
            .http
            .post(self.url.clone())
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Format::Json { secret } = &self.format {
            let timestamp = self.clock.now().as_millis() / 1_000;
            request = request
                .header("X-Motorpool-Timestamp", timestamp)
                .header("X-Motorpool-Signature", signature(secret, timestamp, &body));
        }
        let answer = request.body(body).send().await.map_err(|error| failed(root_cause(error)))?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status => Err(SendError::Refused { status: status.as_u16() }),
        }
    }
}

/// The address, if it may be told.
fn checked(address: &str, allow_private: bool) -> Result<Url, SetupError> {
    let wrong = |why| Err(SetupError::Address(why));
    let Ok(url) = Url::parse(address.trim()) else { return wrong("is none; write it as https://host/path") };
    if !url.username().is_empty() || url.password().is_some() {
        return wrong("must be without user and password");
    }
    match url.scheme() {
        "https" => {}
        "http" if allow_private => {}
        "http" => {
            return wrong(
                "must begin with https://; plain http:// is for receivers within your network, with allow_private = true",
            );
        }
        _ => return wrong("must begin with https://"),
    }
    // However it was written, a number is an address by now.
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(ip) if !allow_private && !is_public(ip) => wrong(
            "is of this host, its network or a metadata service; if that is meant, say allow_private = true",
        ),
        Ok(_) | Err(_) => Ok(url),
    }
}

/// The last cause says it best, and names no address.
fn root_cause(error: reqwest::Error) -> String {
    let error = error.without_url();
    if error.is_timeout() {
        return "there was no answer in time".to_owned();
    }
    let mut cause: &dyn std::error::Error = &error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
