//! What Proxmox VE answers: `{"data": …}`, and for an error its words, which are in the body since 2025 and before that in the reason phrase
//! alone. What they mean is not judged here.

use std::collections::BTreeMap;

use hyper::ext::ReasonPhrase;
use secrecy::ExposeSecret;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::error::{Error, Problem};
use crate::settings::ApiToken;

const LONGEST_SAID: usize = 500;

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Without control characters, and without the token's secret.
    pub(crate) said: String,
    /// Of a request that was not taken: what is wrong, by parameter.
    pub(crate) errors: BTreeMap<String, String>,
    /// None if the body is not understood.
    pub(crate) data: Option<Value>,
}

#[derive(Default, Deserialize)]
struct Body {
    #[serde(default)]
    data: Value,
    #[serde(default)]
    message: Option<Value>,
    #[serde(default)]
    errors: Option<BTreeMap<String, Value>>,
}

impl Answer {
    pub(crate) fn new(status: u16, reason: Option<&ReasonPhrase>, body: &[u8], token: &ApiToken) -> Self {
        let parsed: Option<Body> = serde_json::from_slice(body).ok();
        let understood = parsed.is_some();
        let Body { data, message, errors } = parsed.unwrap_or_default();
        let clean = |text: &str| scrubbed(text, token);
        let message = message.as_ref().and_then(Value::as_str).map(clean).filter(|text| !text.is_empty());
        let reason = || reason.map(|reason| clean(&String::from_utf8_lossy(reason.as_bytes())));
        let text = |value: Value| match value {
            Value::String(text) => clean(&text),
            other
            @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                clean(&other.to_string())
            }
        };
        Self {
            status,
            said: message.or_else(reason).unwrap_or_default(),
            errors: errors
                .unwrap_or_default()
                .into_iter()
                .map(|(name, why)| (clean(&name), text(why)))
                .collect(),
            data: understood.then_some(data),
        }
    }

    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub(crate) fn read<T: DeserializeOwned>(self, attempted: &str) -> Result<T, Error> {
        let not_understood = |why: String| Error::new(attempted, Problem::NotUnderstood { why });
        let data = self.data.ok_or_else(|| not_understood("it is no JSON with `data`".to_owned()))?;
        serde_json::from_value(data).map_err(|error| not_understood(error.to_string()))
    }
}

/// A number, or a text that is one: Perl makes no difference, and neither do the answers.
pub(crate) fn number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Ok(match Value::deserialize(from)? {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        Value::Bool(set) => Some(u64::from(set)),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    })
}

fn scrubbed(text: &str, token: &ApiToken) -> String {
    let text: String =
        text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST_SAID).collect();
    text.replace(token.secret().expose_secret(), "[secret]")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> ApiToken {
        ApiToken::new("motorpool@pve!site".parse().unwrap(), &"canary-3b1c".into()).unwrap()
    }

    #[test]
    fn the_words_are_in_the_body_or_else_in_the_reason_phrase() {
        let reason = ReasonPhrase::from_static(b"VM is locked (backup)");
        for (body, expected) in [
            (r#"{"data":null,"message":"snapshot 'a' does not exist\n"}"#, "snapshot 'a' does not exist"),
            (r#"{"data":null,"message":""}"#, "VM is locked (backup)"),
            (r#"{"data":null}"#, "VM is locked (backup)"),
            ("<html>", "VM is locked (backup)"),
            ("", "VM is locked (backup)"),
        ] {
            assert_eq!(Answer::new(500, Some(&reason), body.as_bytes(), &token()).said, expected, "{body}");
        }
        assert_eq!(Answer::new(500, None, b"{}", &token()).said, "");
    }

    #[test]
    fn refuse_17_a_secret_that_is_sent_back_goes_no_further() {
        let body = r#"{"message":"no canary-3b1c","errors":{"x":"canary-3b1c"},"data":null}"#;
        let answer = Answer::new(400, None, body.as_bytes(), &token());
        assert_eq!(answer.said, "no [secret]");
        assert_eq!(answer.errors["x"], "[secret]");
    }
}
