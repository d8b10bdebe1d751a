//! The pools file, `pools.toml`, read strictly: whatever is unknown or impossible is named with its line. It starts nothing.

mod host;
mod problem;
mod strict;
#[cfg(test)]
mod tests;

pub(crate) use host::spec as host_spec;
pub(crate) use problem::PoolsFileError;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use motorpool_domain::pool::{BackendKind, Dispatch, Rules};
use motorpool_domain::spec::Spec;
use motorpool_domain::{Owner, PoolName};
use motorpool_wire::pool_settings::PoolSettings;
use problem::Problems;
use serde::Deserialize;
use strict::{Entry, Key};
use toml::Spanned;
use toml::de::DeTable;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolsFile {
    /// How often the due pass runs.
    pub(crate) refresh: Duration,
    /// How often the sweep runs.
    pub(crate) sweep: Duration,
    pub(crate) resource_classes: BTreeMap<String, Spec>,
    /// SHA-256 of each token that a team may use.
    pub(crate) teams: BTreeMap<Owner, Vec<[u8; 32]>>,
    pub(crate) pools: BTreeMap<PoolName, Rules>,
}

pub(crate) fn load(path: &Path) -> Result<PoolsFile, PoolsFileError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| PoolsFileError::Unreadable { path: path.to_owned(), source })?;
    parse(&text, &path.display().to_string())
}

/// `name` is what messages call the file.
pub(crate) fn parse(text: &str, name: &str) -> Result<PoolsFile, PoolsFileError> {
    let mut problems = Problems::of(text, name);
    let (root, broken) = DeTable::parse_recoverable(text);
    for error in &broken {
        problems.add(error.span().map_or(0, |span| span.start), &Key::root(), &problem::in_words(error));
    }
    // What a broken file seems to say is not worth more messages.
    problems.none_or_all()?;

    let file = read(root.get_ref(), &mut problems);
    problems.none_or_all()?;
    Ok(file)
}

const TOP_KEYS: &[&str] = &["refresh_seconds", "sweep_seconds", "resource_classes", "teams", "pools"];
const LONGEST_TICK_S: u64 = 24 * 3600;

/// As far as it can be read. It means something only if no problem was added.
fn read(root: &DeTable<'_>, problems: &mut Problems) -> PoolsFile {
    let mut file = PoolsFile {
        refresh: Duration::from_secs(30),
        sweep: Duration::from_secs(300),
        resource_classes: BTreeMap::new(),
        teams: BTreeMap::new(),
        pools: BTreeMap::new(),
    };
    let host = host_spec();
    let mut tokens_of = TokensOf::new();
    for entry in strict::entries(root, &Key::root()) {
        match entry.name {
            "refresh_seconds" => file.refresh = tick(&entry, problems).unwrap_or(file.refresh),
            "sweep_seconds" => file.sweep = tick(&entry, problems).unwrap_or(file.sweep),
            "resource_classes" => {
                for class in strict::named(&entry, "large = { cpu = 4, memory_mb = 8192 }", problems) {
                    if let Some(spec) = resource_class(&class, problems) {
                        file.resource_classes.insert(class.name.to_owned(), spec);
                    }
                }
            }
            "teams" => {
                for team in strict::named(&entry, "[teams.web]", problems) {
                    if let Some((owner, tokens)) = one_team(&team, &mut tokens_of, problems) {
                        file.teams.insert(owner, tokens);
                    }
                }
            }
            "pools" => {
                for pool in strict::named(&entry, "[pools.small]", problems) {
                    if let Some((name, rules)) = one_pool(&pool, host, problems) {
                        file.pools.insert(name, rules);
                    }
                }
            }
            unknown => problems.add(entry.at, &entry.key, &strict::unknown_key(unknown, TOP_KEYS)),
        }
    }
    file
}

fn tick(entry: &Entry<'_, '_>, problems: &mut Problems) -> Option<Duration> {
    let seconds: u64 = strict::value(entry, problems)?;
    if !(1..=LONGEST_TICK_S).contains(&seconds) {
        problems.add(entry.at, &entry.key, &format!("must be from 1 to {LONGEST_TICK_S}, is {seconds}"));
        return None;
    }
    Some(Duration::from_secs(seconds))
}

fn resource_class(class: &Entry<'_, '_>, problems: &mut Problems) -> Option<Spec> {
    let spec: Spec = strict::table(class, problems)?;
    for (key, zero) in [("cpu", spec.cpu == 0), ("memory_mb", spec.memory_mb == 0)] {
        if zero {
            problems.add(class.line_of(&[key]), &class.key.then(key), "must be above 0");
        }
    }
    Some(spec)
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
    problems: &mut Problems,
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

fn sha256_from_hex(text: &str) -> Option<[u8; 32]> {
    let mut sha256 = [0; 32];
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (index, byte) in sha256.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(sha256)
}

fn one_pool(pool: &Entry<'_, '_>, host: Spec, problems: &mut Problems) -> Option<(PoolName, Rules)> {
    let name = PoolName::parse(pool.name);
    if let Err(error) = &name {
        problems.add(pool.at, &pool.key, &error.to_string());
    }
    let settings: PoolSettings = strict::table(pool, problems)?;
    let mut built = true;
    if let Some(why) = not_built(settings.backend) {
        problems.add(pool.line_of(&["backend"]), &pool.key.then("backend"), &why);
        built = false;
    }
    if let Some(why) = not_yet(settings.dispatch) {
        problems.add(pool.line_of(&["dispatch"]), &pool.key.then("dispatch"), &why);
        built = false;
    }
    if !built {
        return None;
    }
    match settings.rules(host) {
        Ok(rules) => Some((name.ok()?, rules)),
        Err(error) => {
            let keys = keys_of(error.field);
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            let key = pool.last_of(&keys).unwrap_or(error.field);
            problems.add(pool.line_of(&keys), &pool.key.then(key), &error.problem);
            None
        }
    }
}

/// The keys that a rule's field may stand under: spans have a unit, and hardware is judged as a whole.
fn keys_of(field: &str) -> Vec<String> {
    let mut keys = vec![field.to_owned(), format!("{field}_minutes"), format!("{field}_seconds")];
    if field == "cpu" {
        keys.push("memory_mb".to_owned());
    }
    keys
}

fn not_built(backend: BackendKind) -> Option<String> {
    match backend {
        BackendKind::Local | BackendKind::BareMetal => None,
        BackendKind::Ec2 | BackendKind::Proxmox | BackendKind::Qemu => Some(format!(
            "backend \"{}\" is not built into this binary; it has \"local\" and \"bare_metal\"",
            backend.name()
        )),
    }
}

fn not_yet(dispatch: Dispatch) -> Option<String> {
    match dispatch {
        Dispatch::Claim => None,
        Dispatch::Hook | Dispatch::Lease => {
            Some(format!("dispatch \"{}\" comes with a later version; use \"claim\"", dispatch.name()))
        }
    }
}
