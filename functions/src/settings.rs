//! A function's settings, from its environment and nothing else. Read strictly: an error names the variable and says how it should
//! look, and never quotes what it holds.

mod alerts;
mod ci;
mod webhooks;

use motorpool_control::ports::alerts::AlertSender;
use motorpool_control::ports::ci::CiSystems;
use motorpool_domain::Owner;
use motorpool_domain::claim::{NamedLimits, TeamLimits};
use motorpool_domain::spec::Spec;
use motorpool_http::WebhookSecrets;
use motorpool_http::auth::sha256_from_hex;
use secrecy::SecretString;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// What the environment says.
#[derive(Debug)]
pub struct FromEnvironment {
    pub table: String,
    pub queue_prefix: String,
    pub admin_token: SecretString,
    /// Every control plane on one ledger has the same: a launch secret that one makes is redeemed at another.
    pub server_secret: SecretString,
    pub settings: PlaneSettings,
    pub ci: CiSystems,
    /// Who is told of incidents; nothing where they are only logged.
    pub alerts: Option<Arc<dyn AlertSender>>,
    pub webhooks: WebhookSecrets,
    /// Where agents reach the functions; machines on EC2 are told.
    pub url: Option<String>,
}

/// What stands in `MOTORPOOL_SETTINGS`; of `serve`, in its pools file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaneSettings {
    /// How often the schedule calls refresh.
    pub refresh: Duration,
    pub sweep: Duration,
    pub teams: Vec<(Owner, [u8; 32])>,
    pub limits: BTreeMap<Owner, TeamLimits>,
    pub resource_classes: BTreeMap<String, Spec>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the environment variable {name} {problem}; it should be {looks}")]
pub struct SettingsError {
    name: &'static str,
    problem: String,
    looks: &'static str,
}

const TABLE: Variable = Variable {
    name: "MOTORPOOL_TABLE",
    looks: "the name of the DynamoDB table, 3 to 255 letters, digits, dots, dashes and underscores",
};
const QUEUE_PREFIX: Variable = Variable {
    name: "MOTORPOOL_QUEUE_PREFIX",
    looks: "what the names of the SQS queues begin with, 1 to 20 letters, digits, dashes and underscores",
};
const ADMIN_TOKEN: Variable = Variable {
    name: "MOTORPOOL_ADMIN_TOKEN",
    looks: "the operator's token, of at least 16 characters without spaces",
};
const SERVER_SECRET: Variable = Variable {
    name: "MOTORPOOL_SERVER_SECRET",
    looks: "the secret that every serve and function on this table has, at least 32 random characters",
};
const SETTINGS: Variable = Variable {
    name: "MOTORPOOL_SETTINGS",
    looks: r#"JSON such as {"refresh_seconds":60,"sweep_seconds":300,"teams":{"team-a":{"token_sha256":["<64 hexadecimal digits>"],"max_slots":20}},"resource_classes":{"large":{"cpu":4,"memory_mb":8192}}}"#,
};

const URL: Variable = Variable {
    name: "MOTORPOOL_URL",
    looks: "where machines on EC2 reach these functions, beginning with https://",
};

const LAMBDA: Variable = Variable {
    name: "AWS_LAMBDA_RUNTIME_API",
    looks: "set by Lambda: this program is a function; on your machine run it with `cargo lambda watch`",
};

const BY_DEFAULT: &str = "motorpool";
/// A shorter one could be guessed. The same as of `serve`.
const SHORTEST_TOKEN: usize = 16;
const SHORTEST_SECRET: usize = 32;
const LONGEST_TICK_S: u64 = 24 * 3600;

impl FromEnvironment {
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, SettingsError> {
        let name = |of: &Variable, range: std::ops::RangeInclusive<usize>, also: &[u8]| {
            let name = variable(of.name).unwrap_or_else(|| BY_DEFAULT.to_owned());
            let fits = range.contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || also.contains(&byte));
            if fits { Ok(name) } else { Err(of.wrong("is no such name")) }
        };
        let secret = |of: &Variable, shortest: usize| {
            let secret = variable(of.name).ok_or_else(|| of.wrong("is not set"))?;
            match secret.len() >= shortest {
                true => Ok(SecretString::from(secret)),
                false => Err(of.wrong("is too short")),
            }
        };
        Ok(Self {
            table: name(&TABLE, 3..=255, b".-_")?,
            queue_prefix: name(&QUEUE_PREFIX, 1..=20, b"-_")?,
            admin_token: secret(&ADMIN_TOKEN, SHORTEST_TOKEN)?,
            server_secret: secret(&SERVER_SECRET, SHORTEST_SECRET)?,
            settings: PlaneSettings::parse(&variable(SETTINGS.name).unwrap_or_else(|| "{}".to_owned()))?,
            ci: ci::read(&variable)?,
            alerts: alerts::read(&variable)?,
            webhooks: webhooks::read(&variable)?,
            url: match variable(URL.name) {
                Some(url) if url.starts_with("https://") => Some(url.trim_end_matches('/').to_owned()),
                Some(_) => return Err(URL.wrong("is no such address")),
                None => None,
            },
        })
    }
}

/// Whoever starts a function by hand is told what it is.
pub fn must_be_lambda(variable: impl Fn(&str) -> Option<String>) -> Result<(), SettingsError> {
    variable(LAMBDA.name).map(|_| ()).ok_or_else(|| LAMBDA.wrong("is not set"))
}

impl PlaneSettings {
    fn parse(text: &str) -> Result<Self, SettingsError> {
        // What is no object could be read as one, field by field.
        if !text.trim_start().starts_with('{') {
            return Err(SETTINGS.wrong("is no JSON object"));
        }
        let written: Written =
            serde_json::from_str(text).map_err(|error| SETTINGS.wrong(in_words(&error)))?;
        let Written { refresh_seconds, sweep_seconds, teams, resource_classes } = written;
        for (name, seconds) in [("refresh_seconds", refresh_seconds), ("sweep_seconds", sweep_seconds)] {
            if !(1..=LONGEST_TICK_S).contains(&seconds) {
                return Err(SETTINGS.wrong(format!("has a {name} that is not from 1 to {LONGEST_TICK_S}")));
            }
        }
        for (name, spec) in &resource_classes {
            if spec.cpu == 0 || spec.memory_mb == 0 {
                return Err(SETTINGS.wrong(format!("has a resource class {name:?} without CPUs or memory")));
            }
        }
        Ok(Self {
            refresh: Duration::from_secs(refresh_seconds),
            sweep: Duration::from_secs(sweep_seconds),
            teams: tokens(&teams)?,
            limits: limits(&teams)?,
            resource_classes,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default = "thirty")]
    refresh_seconds: u64,
    #[serde(default = "three_hundred")]
    sweep_seconds: u64,
    #[serde(default)]
    teams: BTreeMap<String, Team>,
    #[serde(default)]
    resource_classes: BTreeMap<String, Spec>,
}

/// A team with its limits, or, as it was written before there were any, the hashes of its tokens alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum Team {
    Tokens(Vec<String>),
    Limited(LimitedTeam),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitedTeam {
    token_sha256: Vec<String>,
    max_open_claims: Option<u32>,
    max_slots: Option<u32>,
    max_requests_at_once: Option<u32>,
}

impl Team {
    fn hashes(&self) -> &[String] {
        match self {
            Self::Tokens(hashes) => hashes,
            Self::Limited(LimitedTeam { token_sha256, .. }) => token_sha256,
        }
    }

    fn limits(&self) -> NamedLimits {
        match self {
            Self::Tokens(_) => NamedLimits::default(),
            Self::Limited(LimitedTeam {
                token_sha256: _,
                max_open_claims,
                max_slots,
                max_requests_at_once,
            }) => NamedLimits {
                max_open_claims: *max_open_claims,
                max_slots: *max_slots,
                max_requests_at_once: *max_requests_at_once,
            },
        }
    }
}

fn thirty() -> u64 {
    30
}

fn three_hundred() -> u64 {
    300
}

/// Of teams whose names were read already.
fn limits(teams: &BTreeMap<String, Team>) -> Result<BTreeMap<Owner, TeamLimits>, SettingsError> {
    let mut all = BTreeMap::new();
    for (name, team) in teams {
        let wrong = |what: String| SETTINGS.wrong(format!("has a team {name:?} {what}"));
        let limits = team.limits().checked().map_err(|error| wrong(format!("whose {error}")))?;
        let owner = Owner::parse(name.as_str()).map_err(|_| wrong("whose name is none".to_owned()))?;
        all.insert(owner, limits);
    }
    Ok(all)
}

/// Each token with its team. A token says who its caller is: it can't be two teams'.
fn tokens(teams: &BTreeMap<String, Team>) -> Result<Vec<(Owner, [u8; 32])>, SettingsError> {
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for (team, settings) in teams {
        let wrong = |what: &str| SETTINGS.wrong(format!("has a team {team:?} {what}"));
        let owner = Owner::parse(team.as_str()).map_err(|_| wrong("whose name is none"))?;
        if owner == Owner::operator() {
            return Err(wrong("whose name is reserved for whoever has the admin token"));
        }
        for hash in settings.hashes() {
            let hash = sha256_from_hex(hash)
                .ok_or_else(|| wrong("with a token_sha256 that is not 64 hexadecimal digits"))?;
            if !seen.insert(hash) {
                return Err(wrong("with a token that is there twice"));
            }
            all.push((owner.clone(), hash));
        }
    }
    Ok(all)
}

/// Where, and what kind of mistake; serde's own words would quote values.
fn in_words(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        serde_json::error::Category::Data => "has a field that is unknown or of another type",
        serde_json::error::Category::Syntax
        | serde_json::error::Category::Eof
        | serde_json::error::Category::Io => "is not JSON",
    };
    format!("{what}, at line {} column {}", error.line(), error.column())
}

struct Variable {
    name: &'static str,
    looks: &'static str,
}

impl Variable {
    fn wrong(&self, problem: impl Into<String>) -> SettingsError {
        SettingsError { name: self.name, problem: problem.into(), looks: self.looks }
    }
}

#[cfg(test)]
mod tests;
