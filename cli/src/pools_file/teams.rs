//! The teams of the pools file, each with the hashes of its tokens and its limits.

use std::collections::BTreeMap;

use motorpool_domain::Owner;
use motorpool_domain::claim::{NamedLimits, TeamLimits};
use motorpool_http::auth::sha256_from_hex;
use serde::Deserialize;
use toml::Spanned;

use super::problem::Problems;
use super::strict::{self, Entry};

#[derive(Debug, Default)]
pub(super) struct Teams {
    pub(super) tokens: BTreeMap<Owner, Vec<[u8; 32]>>,
    pub(super) limits: BTreeMap<Owner, TeamLimits>,
}

pub(super) fn read(entry: &Entry<'_, '_>, problems: &mut Problems<'_>) -> Teams {
    let (mut tokens_of, mut teams) = (TokensOf::new(), Teams::default());
    for team in strict::named(entry, "[teams.web]", problems) {
        if let Some((owner, tokens, limits)) = one_team(&team, &mut tokens_of, problems) {
            teams.tokens.insert(owner.clone(), tokens);
            teams.limits.insert(owner, limits);
        }
    }
    teams
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TeamSettings {
    token_sha256: Vec<Spanned<String>>,
    max_open_claims: Option<u32>,
    max_slots: Option<u32>,
    max_requests_at_once: Option<u32>,
}

/// Each token's team. A token says who its caller is: it can't be two teams'.
type TokensOf = BTreeMap<[u8; 32], String>;

fn one_team(
    team: &Entry<'_, '_>,
    tokens_of: &mut TokensOf,
    problems: &mut Problems<'_>,
) -> Option<(Owner, Vec<[u8; 32]>, TeamLimits)> {
    let owner = match Owner::parse(team.name) {
        Ok(owner) if owner == Owner::operator() => {
            problems.add(
                team.at,
                &team.key,
                "is reserved for whoever has the admin token; choose another name",
            );
            None
        }
        Ok(owner) => Some(owner),
        Err(error) => {
            problems.add(team.at, &team.key, &error.to_string());
            None
        }
    };
    let TeamSettings { token_sha256, max_open_claims, max_slots, max_requests_at_once } =
        strict::table(team, problems)?;
    let limits = NamedLimits { max_open_claims, max_slots, max_requests_at_once }.checked();
    if let Err(error) = limits {
        problems.add(team.line_of(&[error.field]), &team.key.then(error.field), error.problem());
    }
    let mut tokens = Vec::new();
    for text in &token_sha256 {
        let mut wrong = |what: &str| problems.add(text.span().start, &team.key.then("token_sha256"), what);
        let Some(sha256) = sha256_from_hex(text.get_ref()) else {
            wrong("must be 64 hexadecimal digits; `motorpool token` prints a token and the line for it");
            continue;
        };
        match tokens_of.insert(sha256, team.name.to_owned()) {
            Some(other) if other == team.name => wrong("is here twice; leave one out"),
            Some(other) => wrong(&format!("is also a token of team {other}; make one for each")),
            None => tokens.push(sha256),
        }
    }
    Some((owner?, tokens, limits.ok()?))
}
