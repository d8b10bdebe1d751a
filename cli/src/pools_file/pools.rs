//! One pool of the pools file: its settings, its size by resource class, and what this binary or this file lacks for it.

use std::collections::{BTreeMap, BTreeSet};

use motorpool_domain::ci::CiSystem;
use motorpool_domain::pool::{BackendKind, Dispatch, Rules};
use motorpool_domain::spec::Spec;
use motorpool_domain::{Owner, PoolName};
use motorpool_wire::pool_settings::PoolSettings;
use toml::de::DeTable;

use super::host_spec;
use super::problem::Problems;
use super::strict::{self, Entry};

/// Which CI systems the file has credentials for, be they good or not.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Systems {
    pub(super) github: bool,
    pub(super) gitlab: bool,
    pub(super) jenkins: bool,
}

/// What the rest of the file has for a pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given<'a> {
    pub(super) classes: &'a BTreeMap<String, Spec>,
    pub(super) systems: Systems,
    pub(super) teams: &'a BTreeSet<Owner>,
}

pub(super) fn entries<'t, 'i>(root: &'t DeTable<'i>, problems: &mut Problems<'_>) -> Vec<Entry<'t, 'i>> {
    strict::entry(root, "pools")
        .map(|entry| strict::named(&entry, "[pools.small]", problems))
        .unwrap_or_default()
}

/// For a server that is this very binary with this very file.
pub(super) fn for_serve(
    pool: &Entry<'_, '_>,
    given: &Given<'_>,
    problems: &mut Problems<'_>,
) -> Option<(PoolName, Rules)> {
    let Given { classes, systems, teams } = given;
    let (name, settings) = settings(pool, classes, problems)?;
    let before = problems.count();
    if let Some(why) = not_built(settings.backend) {
        problems.add(pool.line_of(&["backend"]), &pool.key.then("backend"), &why);
    }
    if let Some(why) = not_yet(settings.dispatch) {
        problems.add(pool.line_of(&["dispatch"]), &pool.key.then("dispatch"), &why);
    }
    if let Some(ci) = &settings.ci {
        let there = match ci.system {
            CiSystem::GitHub => systems.github,
            CiSystem::GitLab => systems.gitlab,
            CiSystem::Jenkins => systems.jenkins,
        };
        if !there {
            let system = ci.system.name();
            let why =
                format!("needs credentials for {system}, and the file has no table [{system}] at its top");
            problems.add(pool.line_of(&["ci"]), &pool.key.then("ci"), &why);
        }
    }
    for unknown in settings.teams.iter().flatten().filter(|team| !teams.contains(*team)) {
        let why = format!("there is no team {unknown}: the file has no table [teams.{unknown}]");
        problems.add(pool.line_of(&["teams"]), &pool.key.then("teams"), &why);
    }
    if problems.count() > before {
        return None;
    }
    Some((name?, rules(pool, settings, problems)?))
}

/// For a server that judges for itself what it can do.
pub(super) fn for_elsewhere(
    pool: &Entry<'_, '_>,
    classes: &BTreeMap<String, Spec>,
    problems: &mut Problems<'_>,
) -> Option<(PoolName, PoolSettings)> {
    let (name, settings) = settings(pool, classes, problems)?;
    rules(pool, settings.clone(), problems)?;
    Some((name?, settings))
}

/// A pool's tables, which are read key by key, so that a mistake is found where it stands.
const TABLES: [&str; 2] = ["ec2", "ci"];
/// A key of the file alone: a server knows a pool by its CPUs and memory.
const RESOURCE_CLASS: &str = "resource_class";

fn settings(
    pool: &Entry<'_, '_>,
    classes: &BTreeMap<String, Spec>,
    problems: &mut Problems<'_>,
) -> Option<(Option<PoolName>, PoolSettings)> {
    let name = PoolName::parse(pool.name);
    if let Err(error) = &name {
        problems.add(pool.at, &pool.key, &error.to_string());
    }
    let [ec2, ci] = TABLES;
    // All three are read before the first that is wrong ends the pool's reading.
    let ec2 = pool.child(ec2).map(|entry| strict::table(&entry, problems));
    let ci = pool.child(ci).map(|entry| strict::table(&entry, problems));
    let class = pool.child(RESOURCE_CLASS).map(|entry| class_of(&entry, classes, problems));
    let apart = [TABLES[0], TABLES[1], RESOURCE_CLASS];
    let mut settings: PoolSettings = strict::table_without(pool, &apart, problems)?;
    settings.ec2 = swap(ec2)?;
    settings.ci = swap(ci)?;
    if let Some(spec) = swap(class)? {
        for (key, given) in [("cpu", settings.cpu.is_some()), ("memory_mb", settings.memory_mb.is_some())] {
            if given {
                let why = "is given by resource_class, too; leave one out";
                problems.add(pool.line_of(&[key]), &pool.key.then(key), why);
                return None;
            }
        }
        (settings.cpu, settings.memory_mb) = (Some(spec.cpu), Some(spec.memory_mb));
    }
    Some((name.ok(), settings))
}

/// Nothing if the key was there and its value wrong.
fn swap<T>(read: Option<Option<T>>) -> Option<Option<T>> {
    match read {
        None => Some(None),
        Some(None) => None,
        Some(Some(value)) => Some(Some(value)),
    }
}

fn class_of(
    entry: &Entry<'_, '_>,
    classes: &BTreeMap<String, Spec>,
    problems: &mut Problems<'_>,
) -> Option<Spec> {
    let name: String = strict::value(entry, problems)?;
    let found = classes.get(&name).copied();
    if found.is_none() {
        let known: Vec<&str> = classes.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { format!("only {}", known.join(", ")) };
        let why = format!("there is no class {name:?}: [resource_classes] has {known}");
        problems.add(entry.at, &entry.key, &why);
    }
    found
}

fn rules(pool: &Entry<'_, '_>, settings: PoolSettings, problems: &mut Problems<'_>) -> Option<Rules> {
    let error = match settings.rules(host_spec()) {
        Ok(rules) => return Some(rules),
        Err(error) => error,
    };
    let keys = keys_of(error.field);
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let tables = TABLES.iter().filter_map(|name| pool.child(name));
    let nested = tables.into_iter().find(|table| table.last_of(&keys).is_some());
    let table = nested.as_ref().filter(|_| pool.last_of(&keys).is_none()).unwrap_or(pool);
    let key = table.last_of(&keys).unwrap_or(error.field);
    problems.add(table.line_of(&keys), &table.key.then(key), &error.problem);
    None
}

/// The keys that a rule's field may stand under: spans have a unit, and hardware is judged as a whole.
fn keys_of(field: &str) -> Vec<String> {
    let mut keys = vec![field.to_owned(), format!("{field}_minutes"), format!("{field}_seconds")];
    if field == "cpu" {
        keys.push("memory_mb".to_owned());
    }
    keys
}

pub(crate) const EC2_IS_BUILT_IN: bool = cfg!(feature = "ec2");

fn not_built(backend: BackendKind) -> Option<String> {
    match backend {
        BackendKind::Local | BackendKind::BareMetal => None,
        BackendKind::Ec2 if EC2_IS_BUILT_IN => None,
        BackendKind::Ec2 => Some(
            "this binary was built without the feature \"ec2\": `cargo build --release --features ec2`"
                .to_owned(),
        ),
        BackendKind::Proxmox | BackendKind::Qemu => {
            let has = if EC2_IS_BUILT_IN {
                "\"local\", \"bare_metal\" and \"ec2\""
            } else {
                "\"local\" and \"bare_metal\""
            };
            Some(format!("backend \"{}\" is not built into this binary; it has {has}", backend.name()))
        }
    }
}

fn not_yet(dispatch: Dispatch) -> Option<String> {
    match dispatch {
        Dispatch::Claim | Dispatch::Hook => None,
        Dispatch::Lease => Some(format!(
            "dispatch \"{}\" comes with a later version; use \"claim\" or \"hook\"",
            dispatch.name()
        )),
    }
}
