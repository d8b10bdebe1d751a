//! Requests and answers: the address, TLS, time-outs, limits, and one more try where that is safe. It knows no route, and keeps no
//! credential.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use motorpool_control::ports::ci::{CiError, CiTrouble, Rate};
use motorpool_control::ports::clock::Clock;
use motorpool_domain::Timestamp;
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Semaphore;

use crate::call::{Call, Response, message, scrubbed};
use crate::error::{CallError, SetupError};
use crate::health::{Health, Verb};
use crate::limits::{Account, LimitHeaders, LimitReport, Limits, server_time};
use crate::silence::Silence;

const CONNECT: Duration = Duration::from_secs(5);
/// From the beginning of a call to the last byte of its answer.
pub(crate) const ANSWER: Duration = Duration::from_secs(20);
/// GitHub takes 100 at once of an account, and there may be other control planes.
const AT_ONCE: usize = 20;
/// A page of a hundred runners with their labels is a tenth of this.
const LARGEST_ANSWER: usize = 4 << 20;
const PAUSE_MS: std::ops::Range<u64> = 200..1_000;

/// What differs between the vendors.
#[derive(Debug)]
pub(crate) struct Vendor {
    pub(crate) name: &'static str,
    /// None if it tells no limits.
    pub(crate) limit: Option<LimitHeaders>,
    pub(crate) token_header: &'static str,
    pub(crate) token_prefix: &'static str,
    pub(crate) headers: &'static [(&'static str, &'static str)],
}

#[derive(Debug)]
pub(crate) struct Transport {
    vendor: &'static Vendor,
    http: reqwest::Client,
    /// Without a slash at its end.
    base: String,
    limits: Mutex<Limits>,
    health: Mutex<Health>,
    silence: Mutex<Silence>,
    at_once: Semaphore,
    clock: Arc<dyn Clock>,
}

/// Who asks: the account whose calls are counted, and its token.
#[derive(Debug, Clone)]
pub(crate) struct Pass {
    pub(crate) account: Account,
    /// As the header has it, behind the vendor's prefix.
    pub(crate) token: SecretString,
    /// What that was made from, if it is not the token itself: no text may show it either.
    pub(crate) made_from: Option<SecretString>,
}

impl Transport {
    pub(crate) fn new(
        vendor: &'static Vendor,
        address: &str,
        plain_http: bool,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, SetupError> {
        let wrong =
            |problem| SetupError::Address { vendor: vendor.name, url: without_user(address), problem };
        let (url, here) = checked(address, plain_http).map_err(wrong)?;
        // A TLS provider may be installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = reqwest::Client::builder()
            .user_agent(concat!("motorpool/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            .timeout(ANSWER)
            // A token is for the server that was named, not for where that sends us.
            .redirect(reqwest::redirect::Policy::none());
        if here {
            http = http.no_proxy();
        }
        let http = http
            .build()
            .map_err(|error| SetupError::Https { vendor: vendor.name, why: root_cause(&error) })?;
        Ok(Self {
            vendor,
            http,
            base: url.as_str().trim_end_matches('/').to_owned(),
            limits: Mutex::default(),
            health: Mutex::default(),
            silence: Mutex::default(),
            at_once: Semaphore::new(AT_ONCE),
            clock,
        })
    }

    pub(crate) fn set_clock(&mut self, clock: Arc<dyn Clock>) {
        self.clock = clock;
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    pub(crate) fn rate(&self) -> Option<Rate> {
        self.limits().rate(self.now())
    }

    /// Notes the outcome of one thing that was asked for, for people who look at the pool, and passes it on.
    pub(crate) fn noted<T>(
        &self,
        scope: &str,
        verb: Verb,
        outcome: Result<T, CallError>,
    ) -> Result<T, CiError> {
        self.health().note(scope, verb, outcome.as_ref().map(|_| ()), self.now());
        Ok(outcome?)
    }

    pub(crate) fn trouble(&self, scope: &str) -> Option<CiTrouble> {
        self.health().trouble(scope, self.now())
    }

    pub(crate) async fn ask(&self, pass: &Pass, call: &Call) -> Result<Response, CallError> {
        let answer = match self.once(pass, call).await {
            Err(Fault::Passing(first)) if call.repeatable => {
                tokio::time::sleep(Duration::from_millis(rand::random_range(PAUSE_MS))).await;
                match self.once(pass, call).await {
                    // It was not repeated, so what counts is that the first one may have arrived, or may yet.
                    Err(Fault::Closed(_) | Fault::Silent(_)) => Err(Fault::Passing(first)),
                    second @ (Ok(_) | Err(_)) => second,
                }
            }
            first @ (Ok(_) | Err(_)) => first,
        };
        answer.map_err(|fault| match fault {
            Fault::Passing(why) | Fault::Lasting(why) | Fault::TimedOut(why) => {
                CallError::failed(&call.attempted, why)
            }
            Fault::Closed(wait) => CallError::RateLimited(wait),
            Fault::Silent(wait) => CallError::Silent(wait),
        })
    }

    async fn once(&self, pass: &Pass, call: &Call) -> Result<Response, Fault> {
        // Nobody closes the semaphore; were it closed, one more call would do no harm.
        let _permit = self.at_once.acquire().await;
        if let Some(wait) = self.limits().closed_for(pass.account, self.now()) {
            return Err(Fault::Closed(wait));
        }
        let (status, headers, body) = self.unless_silent(pass, call).await?;
        let message = scrubbed(message(&body), pass);
        let now = self.now();
        let report = LimitReport::of(status, &headers, &message, self.vendor.limit, now);
        self.limits().note(pass.account, report, now);
        let vendor = self.vendor.name;
        tracing::debug!(vendor, method = %call.method, path = call.path, status = status.as_u16(), "the CI system answered");
        if report.refused() {
            let wait = self.limits().closed_for(pass.account, now).unwrap_or_default();
            tracing::warn!(vendor, wait_s = wait.as_secs(), "the CI system takes no more calls for a while");
            return Err(Fault::Closed(wait));
        }
        if status.is_server_error() {
            return Err(Fault::Passing(format!("{vendor} answered {status}")));
        }
        let at = server_time(&headers).unwrap_or(now);
        Ok(Response::new(status, headers, message, at, body))
    }

    /// Not asked again at once where it did not answer in all that time: else each caller would wait as long as the first.
    async fn unless_silent(
        &self,
        pass: &Pass,
        call: &Call,
    ) -> Result<(StatusCode, HeaderMap, Vec<u8>), Fault> {
        let asked_at = self.now();
        if let Some(wait) = self.silence().left_alone_for(asked_at) {
            return Err(Fault::Silent(wait));
        }
        let outcome = self.exchange(pass, call).await;
        match &outcome {
            Err(Fault::TimedOut(_)) => self.silence().timed_out(asked_at, self.now()),
            Ok(_) | Err(Fault::Passing(_) | Fault::Lasting(_) | Fault::Closed(_) | Fault::Silent(_)) => {
                self.silence().over();
            }
        }
        outcome
    }

    async fn exchange(&self, pass: &Pass, call: &Call) -> Result<(StatusCode, HeaderMap, Vec<u8>), Fault> {
        let Vendor { name, token_header, token_prefix, headers, limit: _ } = self.vendor;
        let token = format!("{token_prefix}{}", pass.token.expose_secret());
        let mut token = HeaderValue::try_from(token).map_err(|_| {
            Fault::Lasting(format!("the token for {name} holds characters that no token has"))
        })?;
        token.set_sensitive(true);
        let url = format!("{}/{}", self.base, call.path);
        let mut request = self.http.request(call.method.clone(), url).header(*token_header, token);
        for (name, value) in *headers {
            request = request.header(*name, *value);
        }
        if !call.query.is_empty() {
            request = request.query(&call.query);
        }
        if let Some(body) = &call.body {
            request = request.json(body);
        }
        let unreachable = |error: reqwest::Error| {
            let why = format!("{}: {}", self.base, root_cause(&error));
            if error.is_timeout() { Fault::TimedOut(why) } else { Fault::Passing(why) }
        };
        let mut answer = request.send().await.map_err(unreachable)?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(unreachable)? {
            if body.len() + chunk.len() > LARGEST_ANSWER {
                return Err(Fault::Lasting(format!(
                    "the answer of {name} is larger than {LARGEST_ANSWER} bytes"
                )));
            }
            body.extend_from_slice(&chunk);
        }
        Ok((status, headers, body))
    }

    fn limits(&self) -> std::sync::MutexGuard<'_, Limits> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn silence(&self) -> std::sync::MutexGuard<'_, Silence> {
        self.silence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn health(&self) -> std::sync::MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Fault {
    /// What may be over in a moment.
    Passing(String),
    Lasting(String),
    TimedOut(String),
    Closed(Duration),
    Silent(Duration),
}

/// The token without the line's end of its file, if it can stand in a header.
pub(crate) fn checked_token(token: &SecretString) -> Option<SecretString> {
    let token = token.expose_secret().trim();
    let good = !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic());
    good.then(|| SecretString::from(token))
}

/// An address as an error may show it: what was written may hold a password.
fn without_user(address: &str) -> String {
    match address.rsplit_once('@') {
        Some((_, rest)) => format!("…@{rest}"),
        None => address.to_owned(),
    }
}

/// The address, and whether it is on this host.
fn checked(address: &str, plain_http: bool) -> Result<(Url, bool), &'static str> {
    let url = Url::parse(address).map_err(|_| "write it as https://host")?;
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
        "http" if here || plain_http => Ok((url, here)),
        _ => Err("it must begin with https://, as it is sent a credential"),
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
    fn refuse_17_a_credential_is_sent_over_https_only_but_for_loopback() {
        for (address, plain_http, expected) in [
            ("https://api.github.com", false, true),
            ("https://github.example.com/api/v3/", false, true),
            ("http://127.0.0.1:8080", false, true),
            ("http://[::1]:8080", false, true),
            ("http://localhost:1", false, true),
            ("http://gitlab.internal", false, false),
            ("http://localhost.example.com", false, false),
            ("http://gitlab.internal", true, true),
            ("ftp://gitlab.internal", true, false),
            ("https://me:secret@gitlab.com", false, false),
            ("https://gitlab.com/?private_token=x", false, false),
            ("gitlab.com", false, false),
        ] {
            assert_eq!(checked(address, plain_http).is_ok(), expected, "{address}");
        }
        assert_eq!(without_user("https://me:secret@gitlab.com"), "…@gitlab.com");
    }
}
