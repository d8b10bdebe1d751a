//! Where Proxmox VE is, who asks, and whom we take for it. Parsed once: what is made here can be used.

use std::fmt;
use std::str::FromStr;

use secrecy::{ExposeSecret, SecretString};

use crate::error::SetupError;
use crate::fingerprint::Fingerprint;

#[derive(Debug, Clone)]
pub struct ProxmoxSettings {
    /// `https://host:8006`: any node of the cluster, which hands on what is for another one.
    pub url: String,
    pub token: ApiToken,
    pub trust: Trust,
}

/// How the server shows that it is the one that was meant.
#[derive(Debug, Clone)]
pub enum Trust {
    /// By a certificate of an authority that this host trusts.
    Host,
    /// By one of this authority alone, in PEM: that of the cluster is in `/etc/pve/pve-root-ca.pem`.
    Authority(String),
    /// By this very certificate, whoever signed it and whatever name it has.
    Pinned(Fingerprint),
}

#[derive(Debug, Clone)]
pub struct ApiToken {
    id: TokenId,
    secret: SecretString,
}

/// `user@realm!token`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenId(String);

impl ApiToken {
    /// The secret may have the line's end of its file.
    pub fn new(id: TokenId, secret: &SecretString) -> Result<Self, SetupError> {
        let text = secret.expose_secret().trim();
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(SetupError::Secret);
        }
        Ok(Self { id, secret: SecretString::from(text) })
    }

    pub fn id(&self) -> &TokenId {
        &self.id
    }

    pub(crate) fn secret(&self) -> &SecretString {
        &self.secret
    }
}

impl TokenId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TokenId {
    type Err = SetupError;

    fn from_str(text: &str) -> Result<Self, SetupError> {
        let word = |text: &str| {
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.+".contains(&b))
        };
        let parts = text.split_once('!').and_then(|(user, token)| Some((user.rsplit_once('@')?, token)));
        match parts {
            Some(((user, realm), token)) if word(&user.replace('@', "_")) && word(realm) && word(token) => {
                Ok(Self(text.to_owned()))
            }
            Some(_) | None => Err(SetupError::TokenId { text: text.chars().take(100).collect() }),
        }
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_named_as_proxmox_ve_names_it() {
        for (text, good) in [
            ("motorpool@pve!site", true),
            ("root@pam!a-b.c", true),
            ("me@example.org@ldap!x", true),
            ("motorpool@pve", false),
            ("motorpool!site", false),
            ("motorpool@pve!", false),
            ("motorpool@pve!site=uuid", false),
            ("a b@pve!site", false),
            ("a@pve!site\nX: y", false),
        ] {
            assert_eq!(text.parse::<TokenId>().is_ok(), good, "{text:?}");
        }
    }

    #[test]
    fn refuse_17_a_secret_is_not_shown() {
        let id: TokenId = "motorpool@pve!site".parse().unwrap();
        let token = ApiToken::new(id.clone(), &"canary\n".into()).unwrap();
        assert_eq!(token.secret().expose_secret(), "canary");
        assert!(!format!("{token:?}").contains("canary"));
        for secret in ["", " \n", "two words", "a\nb"] {
            assert_eq!(ApiToken::new(id.clone(), &secret.into()).unwrap_err(), SetupError::Secret);
        }
    }
}
