//! What a CI system shows that a webhook is its own: a signature over the body as it came, or a token. Compared in constant time; neither secret nor
//! body is ever told.

use super::only;
use crate::auth::{sha256, sha256_from_hex};
use axum::http::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use motorpool_domain::Timestamp;
use motorpool_domain::delivery::is_recent;
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq};

/// Of the CI systems whose webhooks are taken.
#[derive(Debug, Clone, Default)]
pub struct WebhookSecrets {
    pub github: Option<GitHubSecret>,
    pub gitlab: Option<GitLabSecret>,
}

/// The secret of a GitHub webhook, with which GitHub signs.
#[derive(Debug, Clone)]
pub struct GitHubSecret(SecretString);

/// Of a GitLab webhook. Which of the two it is decides what is asked for: whoever signs is not let in by a token that travels in the clear.
#[derive(Debug, Clone)]
pub enum GitLabSecret {
    /// The secret token, which GitLab sends as it is.
    Token(SecretString),
    /// The key in a signing token, with which GitLab signs.
    SigningKey(SecretSlice<u8>),
}

/// Why a text is no secret of a webhook. It is not quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSecret {
    #[error("is too short to be a secret: take at least {SHORTEST} random characters")]
    Short,
    #[error("begins as a signing token of GitLab, and is none: whsec_ and at least 24 bytes in base64")]
    SigningToken,
}

/// A shorter one could be guessed.
const SHORTEST: usize = 16;
const SHORTEST_KEY: usize = 24;
const SIGNING_TOKEN: &str = "whsec_";

impl GitHubSecret {
    pub fn parse(secret: SecretString) -> Result<Self, BadSecret> {
        long_enough(secret).map(Self)
    }

    pub(crate) fn has_signed(&self, headers: &HeaderMap, body: &[u8]) -> bool {
        let Some(signature) = only(headers, "x-hub-signature-256")
            .and_then(|text| text.strip_prefix("sha256="))
            .and_then(sha256_from_hex)
        else {
            return false;
        };
        mac(self.0.expose_secret().as_bytes(), &[body]).is_some_and(|ours| bool::from(ours.ct_eq(&signature)))
    }
}

impl GitLabSecret {
    pub fn parse(secret: SecretString) -> Result<Self, BadSecret> {
        match secret.expose_secret().strip_prefix(SIGNING_TOKEN) {
            None => long_enough(secret).map(Self::Token),
            Some(key) => {
                let key = STANDARD.decode(key).map_err(|_| BadSecret::SigningToken)?;
                match key.len() >= SHORTEST_KEY {
                    true => Ok(Self::SigningKey(key.into())),
                    false => Err(BadSecret::SigningToken),
                }
            }
        }
    }

    pub(crate) fn vouches_for(&self, headers: &HeaderMap, body: &[u8], now: Timestamp) -> bool {
        match self {
            Self::Token(token) => only(headers, "x-gitlab-token").is_some_and(|given| {
                // As hashes: comparing the texts would tell how long the token is.
                bool::from(sha256(given).ct_eq(&sha256(token.expose_secret())))
            }),
            Self::SigningKey(key) => is_signed(key.expose_secret(), headers, body, now).unwrap_or(false),
        }
    }
}

/// The Standard Webhooks' form. While a key is exchanged for another, a message is signed with both.
fn is_signed(key: &[u8], headers: &HeaderMap, body: &[u8], now: Timestamp) -> Option<bool> {
    let [id, sent, signatures] =
        ["webhook-id", "webhook-timestamp", "webhook-signature"].map(|name| only(headers, name));
    let (id, sent, signatures) = (id?, sent?, signatures?);
    let sent_at = Timestamp::from_millis(sent.parse::<u64>().ok()?.checked_mul(1_000)?);
    let ours = mac(key, &[id.as_bytes(), b".", sent.as_bytes(), b".", body])?;
    let signed = signatures
        .split(' ')
        .filter_map(|signature| STANDARD.decode(signature.strip_prefix("v1,")?).ok())
        .fold(Choice::from(0), |any, signature| any | ours.as_slice().ct_eq(&signature));
    Some(bool::from(signed) && is_recent(sent_at, now))
}

/// Nothing can't happen: an HMAC takes a key of any length.
fn mac(key: &[u8], parts: &[&[u8]]) -> Option<[u8; 32]> {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).ok()?;
    parts.iter().for_each(|part| mac.update(part));
    Some(mac.finalize().into_bytes().into())
}

fn long_enough(secret: SecretString) -> Result<SecretString, BadSecret> {
    match secret.expose_secret().len() >= SHORTEST {
        true => Ok(secret),
        false => Err(BadSecret::Short),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderName;

    const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = all.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        pairs.collect()
    }

    /// GitHub's own example of a secret, a body and their signature.
    #[test]
    fn githubs_example_is_githubs() {
        let secret = GitHubSecret::parse("It's a Secret to Everybody".into()).unwrap();
        let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        assert!(secret.has_signed(&headers(&[("x-hub-signature-256", signature)]), b"Hello, World!"));
        assert!(!secret.has_signed(&headers(&[("x-hub-signature-256", signature)]), b"Hello, World"));
    }

    /// The Standard Webhooks' own example.
    #[test]
    fn the_standards_example_is_signed() {
        let secret = GitLabSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into()).unwrap();
        let body = br#"{"test": 2432232314}"#;
        let sent = Timestamp::from_millis(1_614_265_330_000);
        let signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        let all = [
            ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            ("webhook-timestamp", "1614265330"),
            ("webhook-signature", signature),
        ];
        assert!(secret.vouches_for(&headers(&all), body, sent));
        assert!(!secret.vouches_for(&headers(&all), body, NOW), "it is years old");
    }

    #[test]
    fn refuse_17_a_secret_that_is_none_is_not_quoted() {
        for (text, github, gitlab) in [
            ("", Some(BadSecret::Short), Some(BadSecret::Short)),
            ("fifteen-letters", Some(BadSecret::Short), Some(BadSecret::Short)),
            ("sixteen-letters!", None, None),
            ("whsec_not-base64-at-all", None, Some(BadSecret::SigningToken)),
            ("whsec_c2hvcnQ=", Some(BadSecret::Short), Some(BadSecret::SigningToken)),
            ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", None, None),
        ] {
            assert_eq!(GitHubSecret::parse(text.into()).err(), github, "{text}");
            assert_eq!(GitLabSecret::parse(text.into()).err(), gitlab, "{text}");
        }
        let shown = format!("{:?}", GitLabSecret::parse("sixteen-letters!".into()).unwrap());
        assert!(!shown.contains("sixteen"), "{shown}");
    }
}
