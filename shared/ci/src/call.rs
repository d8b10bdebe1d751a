//! One request and its answer, without how they travel: what is asked for, what an answer says for itself, and how an error tells of it.

use motorpool_domain::Timestamp;
use reqwest::header::HeaderMap;
use reqwest::{Method, StatusCode};
use secrecy::ExposeSecret;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::CallError;
use crate::transport::Pass;

const LONGEST_MESSAGE: usize = 300;

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// Under the base, without a slash at its beginning.
    pub(crate) path: String,
    pub(crate) query: Vec<(&'static str, String)>,
    pub(crate) body: Option<Value>,
    /// Whether making the call twice is as good as making it once.
    pub(crate) repeatable: bool,
    /// What to say was attempted: "register the runner …".
    pub(crate) attempted: String,
}

/// An answer that is neither about limits nor about an error on the vendor's side.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// What an error says for itself, without control characters.
    pub(crate) message: String,
    /// When it was given, by the vendor's clock or else by ours.
    pub(crate) at: Timestamp,
    body: Body,
}

/// A body may hold a secret, so it is not shown.
struct Body(Vec<u8>);

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Call {
    pub(crate) fn get(
        path: String,
        query: Vec<(&'static str, String)>,
        attempted: impl Into<String>,
    ) -> Self {
        Self { method: Method::GET, path, query, body: None, repeatable: true, attempted: attempted.into() }
    }

    pub(crate) fn post(path: String, body: Option<Value>, attempted: impl Into<String>) -> Self {
        let query = Vec::new();
        Self { method: Method::POST, path, query, body, repeatable: false, attempted: attempted.into() }
    }

    pub(crate) fn put(path: String, body: Value, attempted: impl Into<String>) -> Self {
        Self { method: Method::PUT, body: Some(body), ..Self::get(path, Vec::new(), attempted) }
    }

    pub(crate) fn delete(path: String, attempted: impl Into<String>) -> Self {
        Self { method: Method::DELETE, ..Self::get(path, Vec::new(), attempted) }
    }
}

impl Response {
    pub(crate) fn new(
        status: StatusCode,
        headers: HeaderMap,
        message: String,
        at: Timestamp,
        body: Vec<u8>,
    ) -> Self {
        Self { status, headers, message, at, body: Body(body) }
    }

    /// Where the body does not fit, only line and column are said: the text there may be a secret.
    pub(crate) fn read<T: DeserializeOwned>(&self, vendor: &str, attempted: &str) -> Result<T, CallError> {
        serde_json::from_slice(&self.body.0).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            let why = format!("the answer of {vendor} is not understood (line {line}, column {column})");
            CallError::failed(attempted, why)
        })
    }

    /// For an answer that somebody can do something about: `what_to_do`.
    pub(crate) fn refused(&self, vendor: &str, attempted: &str, what_to_do: &str) -> CallError {
        let Self { status, message, .. } = self;
        let said = if message.is_empty() { String::new() } else { format!(": {message}") };
        CallError::Refused(format!("cannot {attempted}: {what_to_do} ({vendor}: {}{said})", status.as_u16()))
    }

    /// For an answer that nobody expects of this vendor.
    pub(crate) fn unexpected(&self, vendor: &str, attempted: &str) -> CallError {
        let Self { status, message, .. } = self;
        CallError::failed(attempted, format!("{vendor} answered {status} ({message})"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// What an error says for itself: `message` with both, or `error` and `error_description` of GitLab.
pub(crate) fn message(body: &[u8]) -> String {
    let Ok(Value::Object(fields)) = serde_json::from_slice(body) else { return String::new() };
    let said = ["message", "error_description", "error"].iter().find_map(|name| fields.get(*name));
    let text = match said {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST_MESSAGE).collect()
}

/// No vendor should send a token back; if one does, the token goes no further.
pub(crate) fn scrubbed(text: String, pass: &Pass) -> String {
    let Pass { account: _, token, made_from } = pass;
    let secrets = [Some(token), made_from.as_ref()].into_iter().flatten().map(ExposeSecret::expose_secret);
    secrets.filter(|secret| !secret.is_empty()).fold(text, |text, secret| text.replace(secret, "[secret]"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Account;

    #[test]
    fn an_errors_text_is_found_in_the_vendors_shapes() {
        for (body, expected) in [
            (r#"{"message":"Bad\ncredentials","documentation_url":"x"}"#, "Bad credentials"),
            (r#"{"message":{"tag_list":["is too long"]}}"#, r#"{"tag_list":["is too long"]}"#),
            (r#"{"error":"insufficient_scope","error_description":"needs api"}"#, "needs api"),
            (r#"{"error":"runner_type is missing"}"#, "runner_type is missing"),
            ("<html>", ""),
            ("[]", ""),
        ] {
            assert_eq!(message(body.as_bytes()), expected, "{body}");
        }
        let long = format!(r#"{{"message":"{}"}}"#, "x".repeat(10_000));
        assert_eq!(message(long.as_bytes()).len(), LONGEST_MESSAGE);
    }

    #[test]
    fn refuse_17_a_secret_that_is_sent_back_goes_no_further() {
        let pass =
            Pass { account: Account::Token, token: "bWU6Y2FuYXJ5".into(), made_from: Some("canary".into()) };
        let said = scrubbed("Basic bWU6Y2FuYXJ5 is canary".to_owned(), &pass);
        assert_eq!(said, "Basic [secret] is [secret]");
    }
}
