//! The instance metadata service of EC2, version 2 alone: who this instance is, and what the provider will do to it. It asks
//! for no credentials, goes through no proxy, follows no redirect, and never falls back to version 1.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use motorpool_domain::runner::Notice;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::clock::{BootClock, BootInstant};

pub(crate) const ADDRESS: &str = "http://169.254.169.254";
/// The same service in networks without IPv4.
const ADDRESS_V6: &str = "fd00:ec2::254";

const TOKEN: HeaderName = HeaderName::from_static("x-aws-ec2-metadata-token");
const TOKEN_TTL: HeaderName = HeaderName::from_static("x-aws-ec2-metadata-token-ttl-seconds");
const TTL_SECONDS: u16 = 3_600;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
const ANSWER_BYTES: usize = 16 * 1024;
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Imds {
    client: Client,
    address: String,
    session: Mutex<Option<Session>>,
}

#[derive(Debug, Clone)]
struct Session {
    token: HeaderValue,
    until: BootInstant,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Instance {
    pub(crate) id: String,
    /// Counted from 0 among the instances that one call launched.
    pub(crate) launch_index: u32,
}

impl Imds {
    pub(crate) fn at(address: &str) -> Result<Self, ImdsError> {
        let address = checked(address).ok_or_else(|| ImdsError::Address(address.to_owned()))?;
        let client = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(ANSWER_TIMEOUT)
            .redirect(Policy::none())
            .no_proxy()
            .pool_max_idle_per_host(1)
            // It speaks plain HTTP only.
            .tls_certs_only([])
            .build()
            .map_err(ImdsError::Client)?;
        Ok(Self { client, address, session: Mutex::new(None) })
    }

    /// At boot the service may be late.
    pub(crate) async fn instance_until(&self, give_up_at: BootInstant) -> Result<Instance, ImdsError> {
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match self.instance().await {
                Ok(instance) => return Ok(instance),
                Err(error) => error,
            };
            let again_at = BootClock.now() + pause.mul_f64(rand::random_range(0.5..1.0));
            if give_up_at.passed(again_at) {
                return Err(error);
            }
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the instance metadata could not be had yet"
            );
            BootClock.sleep_until(again_at).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn instance(&self) -> Result<Instance, ImdsError> {
        let id = self.must_get(Item::InstanceId).await?;
        let named = id.strip_prefix("i-").is_some_and(|hex| {
            (1..=32).contains(&hex.len()) && hex.bytes().all(|byte| byte.is_ascii_alphanumeric())
        });
        if !named {
            return Err(ImdsError::NotUnderstood(Item::InstanceId));
        }
        let index = self.must_get(Item::LaunchIndex).await?;
        let launch_index =
            u32::from_str(&index).map_err(|_not_a_number| ImdsError::NotUnderstood(Item::LaunchIndex))?;
        Ok(Instance { id, launch_index })
    }

    /// The worst that is announced; almost always nothing is.
    pub(crate) async fn notice(&self) -> Result<Option<Notice>, ImdsError> {
        if let Some(text) = self.get(Item::InstanceAction).await? {
            let SpotAction { action, time } = parsed(Item::InstanceAction, &text)?;
            tracing::warn!(?action, time, "the provider interrupts this instance");
            return Ok(Some(Notice::Interruption));
        }
        if let Some(text) = self.get(Item::Rebalance).await? {
            let Rebalance { notice_time } = parsed(Item::Rebalance, &text)?;
            tracing::debug!(notice_time, "the provider recommends to leave this instance");
            return Ok(Some(Notice::Rebalance));
        }
        Ok(None)
    }

    async fn must_get(&self, item: Item) -> Result<String, ImdsError> {
        self.get(item).await?.ok_or(ImdsError::Missing(item))
    }

    /// `None` if there is no such thing, as it is with notices almost always.
    async fn get(&self, item: Item) -> Result<Option<String>, ImdsError> {
        match self.get_once(item).await {
            // It forgot the session, as it does when the instance was stopped and started.
            Err(ImdsError::Status { status: StatusCode::UNAUTHORIZED, item: _ }) => {
                self.keep(None);
                self.get_once(item).await
            }
            told => told,
        }
    }

    async fn get_once(&self, item: Item) -> Result<Option<String>, ImdsError> {
        let session = self.session().await?;
        let call = self.client.get(format!("{}/latest/meta-data/{item}", self.address));
        let response = call.header(TOKEN, session.token).send().await.map_err(ImdsError::Unreachable)?;
        match response.status() {
            StatusCode::OK => bounded_text(item, response).await.map(Some),
            StatusCode::NOT_FOUND => Ok(None),
            status => Err(ImdsError::Status { item, status }),
        }
    }

    async fn session(&self) -> Result<Session, ImdsError> {
        let known = self.session.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(session) = known.filter(|session| !session.until.passed(BootClock.now())) {
            return Ok(session);
        }
        // A token that is used for half of its life at most does not end while it is under way.
        let until = BootClock.now() + Duration::from_secs(u64::from(TTL_SECONDS / 2));
        let url = format!("{}/latest/api/token", self.address);
        let call = self.client.put(url).header(TOKEN_TTL, HeaderValue::from(TTL_SECONDS));
        let response = call.send().await.map_err(ImdsError::Unreachable)?;
        match response.status() {
            StatusCode::OK => {}
            status => return Err(ImdsError::NoToken { status }),
        }
        let text = bounded_text(Item::Token, response).await?;
        let mut token =
            HeaderValue::from_str(&text).map_err(|_not_a_header| ImdsError::NotUnderstood(Item::Token))?;
        if token.is_empty() {
            return Err(ImdsError::NotUnderstood(Item::Token));
        }
        token.set_sensitive(true);
        let session = Session { token, until };
        self.keep(Some(session.clone()));
        Ok(session)
    }

    fn keep(&self, session: Option<Session>) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = session;
    }
}

/// What can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item {
    Token,
    InstanceId,
    LaunchIndex,
    InstanceAction,
    Rebalance,
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Token => "token",
            Self::InstanceId => "instance-id",
            Self::LaunchIndex => "ami-launch-index",
            Self::InstanceAction => "spot/instance-action",
            Self::Rebalance => "events/recommendations/rebalance",
        })
    }
}

#[derive(Debug, Deserialize)]
struct SpotAction {
    action: Action,
    time: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Terminate,
    Stop,
    Hibernate,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rebalance {
    notice_time: String,
}

#[derive(Debug, Error)]
pub(crate) enum ImdsError {
    #[error(
        "{0:?} is no address of an instance metadata service: http:// with a link-local or loopback number"
    )]
    Address(String),
    #[error("the HTTP client could not be made")]
    Client(#[source] reqwest::Error),
    #[error("the instance metadata service did not answer")]
    Unreachable(#[source] reqwest::Error),
    #[error(
        "the instance metadata service gives no session token (it answered {status}), and version 1, which needs none, is not used"
    )]
    NoToken { status: StatusCode },
    #[error("the instance metadata service answered {status} for {item}")]
    Status { item: Item, status: StatusCode },
    #[error("the instance metadata service has no {0}")]
    Missing(Item),
    #[error("the instance metadata service's {0} was not understood")]
    NotUnderstood(Item),
}

fn parsed<T: DeserializeOwned>(item: Item, text: &str) -> Result<T, ImdsError> {
    serde_json::from_str(text).map_err(|_other| ImdsError::NotUnderstood(item))
}

async fn bounded_text(item: Item, mut response: Response) -> Result<String, ImdsError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(ImdsError::Unreachable)? {
        body.extend_from_slice(&chunk);
        if body.len() > ANSWER_BYTES {
            return Err(ImdsError::NotUnderstood(item));
        }
    }
    let text = String::from_utf8(body).map_err(|_not_text| ImdsError::NotUnderstood(item))?;
    Ok(text.trim().to_owned())
}

/// A number on this host or this link, so that nobody else is told anything or believed.
fn checked(address: &str) -> Option<String> {
    let url = Url::parse(address).ok()?;
    let bare = url.username().is_empty() && url.password().is_none() && url.path() == "/";
    let host: IpAddr = url.host_str()?.trim_matches(['[', ']']).parse().ok()?;
    let near = match host {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.to_string() == ADDRESS_V6,
    };
    let plain = url.scheme() == "http" && url.query().is_none() && url.fragment().is_none();
    (bare && near && plain).then(|| url.as_str().trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_is_on_this_host_or_this_link() {
        for fine in [ADDRESS, "http://127.0.0.1:1338/", "http://[::1]:80", "http://[fd00:ec2::254]"] {
            assert!(checked(fine).is_some(), "{fine}");
        }
        for wrong in [
            "https://169.254.169.254",
            "http://10.0.0.1",
            "http://metadata.example",
            "http://localhost",
            "http://u:p@127.0.0.1",
            "http://127.0.0.1/latest",
            "http://[fe80::1]",
            "file:///latest",
            "",
        ] {
            assert!(checked(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn notices_are_read_as_ec2_writes_them_and_nothing_else_is_one() {
        for action in ["terminate", "stop", "hibernate"] {
            let text = format!(r#"{{"action": "{action}", "time": "2026-11-16T08:22:00Z"}}"#);
            assert!(parsed::<SpotAction>(Item::InstanceAction, &text).is_ok(), "{action}");
        }
        for other in ["", "none", "{}", r#"{"action":"dance","time":""}"#, "<html>"] {
            assert!(parsed::<SpotAction>(Item::InstanceAction, other).is_err(), "{other}");
            assert!(parsed::<Rebalance>(Item::Rebalance, other).is_err(), "{other}");
        }
        let text = r#"{"noticeTime": "2026-11-16T08:22:00Z"}"#;
        assert!(parsed::<Rebalance>(Item::Rebalance, text).is_ok());
    }
}
