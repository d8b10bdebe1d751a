//! The pools file, `pools.toml`, read strictly: whatever is unknown or impossible is named with its line. It starts nothing.

mod alerts;
mod credentials;
mod host;
mod pools;
mod problem;
mod strict;
mod teams;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_alerts;
#[cfg(test)]
mod tests_ec2;

pub(crate) use alerts::AlertSettings;
pub(crate) use credentials::{
    CiCredentials, GitHubCredentials, GitHubLogin, GitLabCredentials, JenkinsCredentials,
};
pub(crate) use host::spec as host_spec;
pub(crate) use problem::PoolsFileError;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use motorpool_domain::claim::TeamLimits;
use motorpool_domain::pool::Rules;
use motorpool_domain::spec::Spec;
use motorpool_domain::{Owner, PoolName};
use motorpool_wire::pool_settings::PoolSettings;
use problem::Problems;
use strict::{Entry, Key};
use toml::de::DeTable;

#[derive(Debug, Clone)]
pub(crate) struct PoolsFile {
    /// How often the due pass runs.
    pub(crate) refresh: Duration,
    /// How often the sweep runs.
    pub(crate) sweep: Duration,
    pub(crate) resource_classes: BTreeMap<String, Spec>,
    /// SHA-256 of each token that a team may use.
    pub(crate) teams: BTreeMap<Owner, Vec<[u8; 32]>>,
    pub(crate) team_limits: BTreeMap<Owner, TeamLimits>,
    pub(crate) pools: BTreeMap<PoolName, Rules>,
    pub(crate) ci: CiCredentials,
    /// Nothing: incidents are only logged and listed.
    pub(crate) alerts: Option<AlertSettings>,
}

/// For `serve`.
pub(crate) fn load(path: &Path) -> Result<PoolsFile, PoolsFileError> {
    parse(&text_of(path)?, &path.display().to_string(), dir_of(path))
}

/// Only the file's pools, for a server that may be elsewhere: what is built into this binary does not matter.
pub(crate) fn load_pools(path: &Path) -> Result<BTreeMap<PoolName, PoolSettings>, PoolsFileError> {
    parse_pools(&text_of(path)?, &path.display().to_string())
}

/// `name` is what messages call the file; paths in it are relative to `dir`.
pub(crate) fn parse(text: &str, name: &str, dir: &Path) -> Result<PoolsFile, PoolsFileError> {
    read_with(text, name, |root, problems| read(root, dir, problems))
}

pub(crate) fn parse_pools(
    text: &str,
    name: &str,
) -> Result<BTreeMap<PoolName, PoolSettings>, PoolsFileError> {
    read_with(text, name, read_pools)
}

fn text_of(path: &Path) -> Result<String, PoolsFileError> {
    std::fs::read_to_string(path)
        .map_err(|source| PoolsFileError::Unreadable { path: path.to_owned(), source })
}

fn dir_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

fn read_with<T>(
    text: &str,
    name: &str,
    read: impl FnOnce(&DeTable<'_>, &mut Problems<'_>) -> T,
) -> Result<T, PoolsFileError> {
    let mut problems = Problems::of(text, name);
    let (root, broken) = DeTable::parse_recoverable(text);
    for error in &broken {
        problems.add(error.span().map_or(0, |span| span.start), &Key::root(), &problem::in_words(error));
    }
    // What a broken file seems to say is not worth more messages.
    problems.none_or_all()?;

    let read = read(root.get_ref(), &mut problems);
    problems.none_or_all()?;
    Ok(read)
}

const TOP_KEYS: &[&str] = &[
    "refresh_seconds",
    "sweep_seconds",
    "resource_classes",
    "teams",
    "github",
    "gitlab",
    "jenkins",
    "alerts",
    "pools",
];
const LONGEST_TICK_S: u64 = 24 * 3600;

/// The file as far as it can be read. What is returned means something only if no problem was added.
fn read(root: &DeTable<'_>, dir: &Path, problems: &mut Problems<'_>) -> PoolsFile {
    let mut file = PoolsFile {
        refresh: Duration::from_secs(30),
        sweep: Duration::from_secs(300),
        resource_classes: resource_classes(root, problems),
        teams: BTreeMap::new(),
        team_limits: BTreeMap::new(),
        pools: BTreeMap::new(),
        ci: CiCredentials::default(),
        alerts: None,
    };
    let mut systems = pools::Systems::default();
    for entry in strict::entries(root, &Key::root()) {
        match entry.name {
            "refresh_seconds" => file.refresh = tick(&entry, problems).unwrap_or(file.refresh),
            "sweep_seconds" => file.sweep = tick(&entry, problems).unwrap_or(file.sweep),
            "teams" => {
                let teams::Teams { tokens, limits } = teams::read(&entry, problems);
                (file.teams, file.team_limits) = (tokens, limits);
            }
            "github" => {
                systems.github = true;
                file.ci.github = credentials::github(&entry, dir, problems);
            }
            "gitlab" => {
                systems.gitlab = true;
                file.ci.gitlab = credentials::gitlab(&entry, dir, problems);
            }
            "jenkins" => {
                systems.jenkins = true;
                file.ci.jenkins = credentials::jenkins(&entry, dir, problems);
            }
            "alerts" => file.alerts = alerts::read(&entry, dir, problems),
            "resource_classes" | "pools" => {}
            unknown => problems.add(entry.at, &entry.key, &strict::unknown_key(unknown, TOP_KEYS)),
        }
    }
    // By name alone: a team whose own table is wrong is a team.
    let teams = strict::entry(root, "teams").map(|teams| names_in(&teams)).unwrap_or_default();
    for pool in pools::entries(root, problems) {
        let given = pools::Given { classes: &file.resource_classes, systems, teams: &teams };
        if let Some((name, rules)) = pools::for_serve(&pool, &given, problems) {
            file.pools.insert(name, rules);
        }
    }
    file
}

fn names_in(table: &Entry<'_, '_>) -> BTreeSet<Owner> {
    table.names().into_iter().filter_map(|name| Owner::parse(name).ok()).collect()
}

fn read_pools(root: &DeTable<'_>, problems: &mut Problems<'_>) -> BTreeMap<PoolName, PoolSettings> {
    let classes = resource_classes(root, problems);
    for entry in strict::entries(root, &Key::root()) {
        match entry.name {
            "resource_classes" | "pools" => {}
            known if TOP_KEYS.contains(&known) => problems.add(
                entry.at,
                &entry.key,
                "is the server's own: leave it out here, and have it in the file of `motorpool serve`",
            ),
            unknown => {
                problems.add(
                    entry.at,
                    &entry.key,
                    &strict::unknown_key(unknown, &["resource_classes", "pools"]),
                );
            }
        }
    }
    pools::entries(root, problems)
        .iter()
        .filter_map(|pool| pools::for_elsewhere(pool, &classes, problems))
        .collect()
}

fn tick(entry: &Entry<'_, '_>, problems: &mut Problems<'_>) -> Option<Duration> {
    let seconds: u64 = strict::value(entry, problems)?;
    if !(1..=LONGEST_TICK_S).contains(&seconds) {
        problems.add(entry.at, &entry.key, &format!("must be from 1 to {LONGEST_TICK_S}, is {seconds}"));
        return None;
    }
    Some(Duration::from_secs(seconds))
}

/// First of all: pools may be sized by them.
fn resource_classes(root: &DeTable<'_>, problems: &mut Problems<'_>) -> BTreeMap<String, Spec> {
    let Some(entry) = strict::entry(root, "resource_classes") else { return BTreeMap::new() };
    let classes = strict::named(&entry, "large = { cpu = 4, memory_mb = 8192 }", problems);
    classes
        .iter()
        .filter_map(|class| Some((class.name.to_owned(), resource_class(class, problems)?)))
        .collect()
}

fn resource_class(class: &Entry<'_, '_>, problems: &mut Problems<'_>) -> Option<Spec> {
    let spec: Spec = strict::table(class, problems)?;
    for (key, zero) in [("cpu", spec.cpu == 0), ("memory_mb", spec.memory_mb == 0)] {
        if zero {
            problems.add(class.line_of(&[key]), &class.key.then(key), "must be above 0");
        }
    }
    Some(spec)
}
