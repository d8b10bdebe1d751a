//! Requests and answers: the address, the token, time-outs, and what an error means. It knows no route, and makes no call twice: whether
//! one that was not answered may be repeated depends on what it was.

use std::time::Duration;

use hyper::ext::ReasonPhrase;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Url};
use secrecy::{ExposeSecret, SecretString};

use crate::answer::Answer;
use crate::error::{Begun, Error, Problem, SetupError};
use crate::explain;
use crate::settings::{ApiToken, ProxmoxSettings, TokenId};
use crate::tls;

const CONNECT: Duration = Duration::from_secs(5);
/// From the beginning of a call to the last byte of its answer. A node that hands a call on to another gives up after 30 s, and says so in
/// its answer, which is worth more than our own impatience; a 401 comes 3 s late on purpose.
const ANSWER: Duration = Duration::from_secs(40);
/// Proxmox VE closes a connection that was idle for 5 s. A call on one that is just being closed would look like one whose answer was lost.
const IDLE: Duration = Duration::from_secs(2);
/// The tasks of a busy VM are a hundredth of this.
const LARGEST_ANSWER: usize = 4 << 20;

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// Under `/api2/json/`.
    pub(crate) path: String,
    /// In the query of a GET or DELETE, which may have no body; in the form of a POST or PUT.
    pub(crate) parameters: Vec<(&'static str, String)>,
    pub(crate) attempted: String,
}

#[derive(Debug)]
pub(crate) struct Transport {
    http: reqwest::Client,
    /// With `/api2/json/` at its end.
    base: String,
    token: ApiToken,
}

impl Call {
    pub(crate) fn get(path: String, attempted: impl Into<String>) -> Self {
        Self { method: Method::GET, path, parameters: Vec::new(), attempted: attempted.into() }
    }

    pub(crate) fn post(path: String, attempted: impl Into<String>) -> Self {
        Self { method: Method::POST, ..Self::get(path, attempted) }
    }

    pub(crate) fn put(path: String, attempted: impl Into<String>) -> Self {
        Self { method: Method::PUT, ..Self::get(path, attempted) }
    }

    pub(crate) fn delete(path: String, attempted: impl Into<String>) -> Self {
        Self { method: Method::DELETE, ..Self::get(path, attempted) }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.parameters.push((name, value.into()));
        self
    }
}

impl Transport {
    pub(crate) fn new(settings: &ProxmoxSettings) -> Result<Self, SetupError> {
        let ProxmoxSettings { url, token, trust } = settings;
        let (address, here) =
            checked(url).map_err(|problem| SetupError::Address { url: without_user(url), problem })?;
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("motorpool/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            .timeout(ANSWER)
            .pool_idle_timeout(IDLE)
            // A token is for the server that was named, not for where that sends us.
            .redirect(reqwest::redirect::Policy::none());
        if here {
            builder = builder.no_proxy();
        }
        let http = tls::trusting(builder, trust)?
            .build()
            .map_err(|error| SetupError::Https { why: root_cause(&error) })?;
        let base = format!("{}/api2/json/", address.as_str().trim_end_matches('/'));
        Ok(Self { http, base, token: token.clone() })
    }

    pub(crate) fn token(&self) -> &TokenId {
        self.token.id()
    }

    pub(crate) async fn ask(&self, call: Call) -> Result<Answer, Error> {
        let answer = self.exchange(&call).await?;
        let (method, path, status) = (&call.method, &call.path, answer.status);
        tracing::debug!(%method, path, status, said = answer.said, "Proxmox VE answered");
        if answer.is_success() {
            return Ok(answer);
        }
        let said = format!("{status} {}", answer.said);
        Err(Error::saying(&call.attempted, explain::refusal(&answer), said.trim_end()))
    }

    async fn exchange(&self, call: &Call) -> Result<Answer, Error> {
        let Call { method, path, parameters, attempted } = call;
        let mut form = form_urlencoded::Serializer::new(String::new());
        let parameters = form.extend_pairs(parameters).finish();
        let in_body = [Method::POST, Method::PUT].contains(method);
        let mut url = format!("{}{path}", self.base);
        if !in_body && !parameters.is_empty() {
            url = format!("{url}?{parameters}");
        }
        let mut request =
            self.http.request(method.clone(), url).header(AUTHORIZATION, self.authorization(attempted)?);
        if in_body {
            request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(parameters);
        }
        let unanswered = |error: reqwest::Error| {
            let begun = if error.is_connect() || error.is_builder() { Begun::No } else { Begun::Perhaps };
            Error::new(attempted, Problem::NoAnswer { why: root_cause(&error), begun })
        };
        let mut response = request.send().await.map_err(unanswered)?;
        let (status, reason) =
            (response.status().as_u16(), response.extensions().get::<ReasonPhrase>().cloned());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unanswered)? {
            if body.len() + chunk.len() > LARGEST_ANSWER {
                let why = format!("it is larger than {LARGEST_ANSWER} bytes");
                return Err(Error::new(attempted, Problem::NotUnderstood { why }));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer::new(status, reason.as_ref(), &body, &self.token))
    }

    fn authorization(&self, attempted: &str) -> Result<HeaderValue, Error> {
        let text = format!("PVEAPIToken={}={}", self.token.id(), self.token.secret().expose_secret());
        let text = SecretString::from(text);
        let mut value = HeaderValue::try_from(text.expose_secret()).map_err(|_| {
            let why = "the token holds characters that no header has".to_owned();
            Error::new(attempted, Problem::NoAnswer { why, begun: Begun::No })
        })?;
        value.set_sensitive(true);
        Ok(value)
    }
}

/// An address as an error may show it: what was written may hold a password.
fn without_user(address: &str) -> String {
    match address.rsplit_once('@') {
        Some((_, rest)) => format!("…@{rest}"),
        None => address.to_owned(),
    }
}

/// The address, and whether it is on this host.
fn checked(address: &str) -> Result<(Url, bool), &'static str> {
    let url = Url::parse(address).map_err(|_| "write it as https://host:8006")?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it must be without user and password");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("it must be without query and fragment");
    }
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let here = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    match url.scheme() {
        "https" => Ok((url, here)),
        "http" if here => Ok((url, here)),
        _ => Err("it must begin with https://, as it is sent a token"),
    }
}

/// The last cause says it best; those before it name layers.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuse_26_a_token_is_sent_over_https_only_but_for_loopback() {
        for (address, good) in [
            ("https://pve1.example.org:8006", true),
            ("https://192.0.2.7:8006/", true),
            ("https://proxy.example.org/pve/", true),
            ("http://127.0.0.1:8006", true),
            ("http://[::1]:8006", true),
            ("http://localhost:1", true),
            ("http://pve1.example.org:8006", false),
            ("http://localhost.example.org", false),
            ("http://192.0.2.7:8006", false),
            ("ftp://pve1", false),
            ("https://me:secret@pve1:8006", false),
            ("https://pve1:8006/?x=y", false),
            ("pve1:8006", false),
        ] {
            assert_eq!(checked(address).is_ok(), good, "{address}");
        }
        assert_eq!(without_user("https://me:secret@pve1"), "…@pve1");
    }
}
