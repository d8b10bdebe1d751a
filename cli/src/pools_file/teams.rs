//! The teams of the pools file, each with the hashes of its tokens.

use std::collections::BTreeMap;

use motorpool_domain::Owner;
use motorpool_http::auth::sha256_from_hex;
use serde::Deserialize;
use toml::Spanned;

use super::problem::Problems;
use super::strict::{self, Entry};

pub(super) fn read(entry: &Entry<'_, '_>, problems: &mut Problems<'_>) -> BTreeMap<Owner, Vec<[u8; 32]>> {
    let mut tokens_of = TokensOf::new();
    let teams = strict::named(entry, "[teams.web]", problems);
    teams.iter().filter_map(|team| one_team(team, &mut tokens_of, problems)).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TeamSettings {
    token_sha256: Vec<Spanned<String>>,
}

/// Each token's team. A token says who its caller is: it can't be two teams'.
type TokensOf = BTreeMap<[u8; 32], String>;

fn one_team(
    team: &Entry<'_, '_>,
    tokens_of: &mut TokensOf,
    problems: &mut Problems<'_>,
) -> Option<(Owner, Vec<[u8; 32]>)> {
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
    let TeamSettings { token_sha256 } = strict::table(team, problems)?;
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
    Some((owner?, tokens))
}
