//! Tokens and what they may do. A privilege on a path holds below it, too.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(crate) struct Access {
    tokens: BTreeMap<String, Token>,
}

#[derive(Debug)]
struct Token {
    secret: String,
    granted: BTreeMap<String, BTreeSet<String>>,
}

/// Any of these privileges, on this path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) path: String,
    pub(crate) any_of: &'static [&'static str],
}

impl Access {
    pub(crate) fn add(&mut self, token: &str, secret: &str) {
        self.tokens.insert(token.to_owned(), Token { secret: secret.to_owned(), granted: BTreeMap::new() });
    }

    pub(crate) fn grant(&mut self, token: &str, path: &str, privileges: &[&str]) {
        let granted = &mut self.tokens.get_mut(token).expect("a token").granted;
        granted.entry(path.to_owned()).or_default().extend(privileges.iter().map(|one| (*one).to_owned()));
    }

    pub(crate) fn take_away(&mut self, token: &str, privilege: &str) {
        for granted in self.tokens.get_mut(token).expect("a token").granted.values_mut() {
            granted.remove(privilege);
        }
    }

    /// Who asks, or what is said to somebody unknown.
    pub(crate) fn who(&self, authorization: Option<&str>) -> Result<String, &'static str> {
        let pair = authorization.and_then(|text| text.strip_prefix("PVEAPIToken=")).ok_or("No ticket")?;
        let (id, secret) = pair.split_once('=').ok_or("authentication failure")?;
        match self.tokens.get(id) {
            Some(token) if token.secret == secret => Ok(id.to_owned()),
            Some(_) => Err("invalid token value!"),
            None => Err("no such token"),
        }
    }

    /// In Proxmox VE's words, if one of these is lacking.
    pub(crate) fn lacks(&self, token: &str, needs: &[Need]) -> Option<String> {
        let lacking = needs.iter().find(|need| !self.may(token, need))?;
        Some(format!("Permission check failed ({}, {})", lacking.path, lacking.any_of.join("|")))
    }

    pub(crate) fn may(&self, token: &str, need: &Need) -> bool {
        let above =
            |path: &str| path == "/" || need.path == path || need.path.starts_with(&format!("{path}/"));
        self.tokens.get(token).is_some_and(|token| {
            let mut granted = token.granted.iter().filter(|(path, _)| above(path));
            granted.any(|(_, privileges)| need.any_of.iter().any(|one| privileges.contains(*one)))
        })
    }
}
