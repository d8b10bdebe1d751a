//! Holds the dependency rules between our crates, over `cargo metadata`. What comes from outside the workspace is
//! judged here only where a whole tree must be without it; licences and single bans are in `deny.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

/// Each crate by name, with what it needs to be built and run: normal and build dependencies, of every platform.
type Graph = BTreeMap<String, BTreeSet<String>>;

const DOMAIN: &str = "motorpool-domain";
const WIRE: &str = "motorpool-wire";
const CONTROL: &str = "motorpool-control";
const AGENT: &str = "motorpool-agent";

#[test]
fn members_depend_only_on_the_layers_under_them() -> Result<()> {
    let metadata = workspace()?;
    let members = members(&metadata);
    let broken = broken_between_members(&graph(&metadata)?, &members);
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
    Ok(())
}

/// Features are those of a build of the whole workspace: a member that turns on an AWS feature of a shared dependency
/// is seen here too.
#[test]
fn the_agent_links_no_aws_crate() -> Result<()> {
    let graph = graph(&workspace()?)?;
    let broken =
        broken_in_tree(&graph, AGENT, "the agent links no aws-* crate", |name| name.starts_with("aws-"));
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
    Ok(())
}

/// As the README builds it. `cargo metadata` knows only a build of the whole workspace, so cargo's own tree of this one is asked for.
#[test]
fn the_first_build_links_no_aws_crate() -> Result<()> {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--package", "motorpool", "--edges", "normal", "--prefix", "none"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .context("cargo tree")?;
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout)?;
    assert!(tree.contains("rusqlite "), "this is not the tree of serve:\n{tree}");
    let linked: Vec<&str> = tree.lines().filter(|line| line.starts_with("aws")).collect();
    assert!(linked.is_empty(), "{linked:?}");
    Ok(())
}

#[test]
fn the_domain_is_pure() -> Result<()> {
    let graph = graph(&workspace()?)?;
    let broken = broken_in_tree(&graph, DOMAIN, "the domain is pure: no async, no I/O, no chance", |name| {
        is_impure(name)
    });
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
    Ok(())
}

/// A service is known by one crate: everybody else has a port.
#[test]
fn each_aws_service_has_one_crate_that_knows_it() -> Result<()> {
    let metadata = workspace()?;
    let (graph, members) = (graph(&metadata)?, members(&metadata));
    for (sdk, owner) in [
        ("aws-sdk-dynamodb", "motorpool-ledger"),
        ("aws-sdk-ec2", "motorpool-backend-ec2"),
        ("aws-sdk-sqs", "motorpool-queues"),
    ] {
        let knows = |member: &&String| graph.get(*member).is_some_and(|needs| needs.contains(sdk));
        let who: Vec<&String> = members.iter().filter(knows).collect();
        assert_eq!(who, [owner], "{sdk}");
    }
    Ok(())
}

/// It takes many minutes and gigabytes to build: the demo and the functions may not ask that of anybody who has no use for EC2, nor may
/// the tests of anything else.
#[test]
fn the_default_build_has_no_ec2_sdk() -> Result<()> {
    const MAY: [&str; 3] = ["motorpool-backend-ec2", "motorpool-ec2-tests", "motorpool-vm"];
    let metadata = workspace()?;
    let graph = graph(&metadata)?;
    let broken: Vec<String> = members(&metadata)
        .iter()
        .filter(|member| !MAY.contains(&member.as_str()))
        .flat_map(|member| {
            broken_in_tree(&graph, member, "the default features build no aws-sdk-ec2", |name| {
                name == "aws-sdk-ec2"
            })
        })
        .collect();
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
    Ok(())
}

/// The rules would be worth nothing if a broken one went unseen.
#[test]
fn a_broken_rule_names_its_edge() {
    let graph = graph_of(&[
        ("motorpool-aws", &["motorpool-domain"]),
        ("motorpool-domain", &["motorpool-wire", "serde"]),
        ("motorpool-functions", &["motorpool-aws", "motorpool-http", "xtask"]),
        ("motorpool-wire", &["motorpool-domain"]),
        ("motorpool-ledger", &["motorpool-control", "motorpool-queues"]),
        ("motorpool-agent", &["motorpool-wire", "motorpool-control", "reqwest"]),
        ("motorpool-backend-moon", &["motorpool-control", "motorpool-http"]),
        ("motorpool-backend-proxmox", &["motorpool-control", "motorpool-domain"]),
        ("motorpool-backend-qemu", &["motorpool-control"]),
        ("motorpool-control", &["motorpool-wire"]),
        ("motorpool-http", &["motorpool-control"]),
        ("motorpool-queues", &[]),
        ("motorpool-new", &["motorpool-domain"]),
        ("motorpool", &["motorpool-agent", "xtask"]),
        ("xtask", &["motorpool-domain"]),
        ("reqwest", &["tokio"]),
        ("tokio", &[]),
        ("serde", &[]),
    ]);
    let members =
        graph.keys().filter(|name| name.starts_with("motorpool") || *name == "xtask").cloned().collect();

    let broken = broken_between_members(&graph, &members);

    let edges: Vec<&str> = broken.iter().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(
        edges,
        [
            "motorpool → xtask",
            "motorpool-agent → motorpool-control",
            "motorpool-aws → motorpool-domain",
            "motorpool-backend-moon → motorpool-http",
            "motorpool-backend-proxmox → motorpool-control",
            "motorpool-backend-qemu → motorpool-control",
            "motorpool-domain → motorpool-wire",
            "motorpool-functions → xtask",
            "motorpool-ledger → motorpool-queues",
            "motorpool-new → motorpool-domain",
            "xtask → motorpool-domain",
        ],
        "{broken:#?}"
    );
    assert_eq!(
        broken_in_tree(&graph, "motorpool-agent", "no tokio", |name| name == "tokio"),
        ["motorpool-agent → reqwest → tokio: breaks \"no tokio\""]
    );
    assert_eq!(
        broken_in_tree(&graph, "nobody", "no tokio", |name| name == "tokio"),
        ["nobody: is not in the graph"]
    );
}

/// What a member may depend on among the members, and the rule in words.
fn rule(member: &str) -> (fn(&str) -> bool, &'static str) {
    match member {
        DOMAIN => (|_| false, "domain → nothing"),
        WIRE => (|to| to == DOMAIN, "wire → domain"),
        CONTROL => (|to| [DOMAIN, WIRE].contains(&to), "control → domain, wire"),
        "motorpool-alerts" | "motorpool-ci" | "motorpool-ledger" | "motorpool-queues" => ADAPTER,
        "motorpool-backend-proxmox" | "motorpool-backend-qemu" => (
            |to| [DOMAIN, WIRE].contains(&to),
            "backend-proxmox, backend-qemu → domain, wire: agents of sites link them",
        ),
        backend if backend.starts_with("motorpool-backend-") => ADAPTER,
        "motorpool-http" => (|to| [CONTROL, DOMAIN, WIRE].contains(&to), "http → control, domain, wire"),
        AGENT => (|to| [DOMAIN, WIRE].contains(&to), "agent → domain, wire"),
        "motorpool-aws" => (|_| false, "aws → nothing"),
        "motorpool"
        | "motorpool-ci-tests"
        | "motorpool-functions"
        | "motorpool-pve-tests"
        | "motorpool-simulator"
        | "motorpool-tests" => (
            |to| !["motorpool", "motorpool-bench", "motorpool-tests", "xtask"].contains(&to),
            "cli, functions, simulator and tests → any library",
        ),
        "motorpool-bench" | "motorpool-ec2-tests" | "motorpool-vm" => (
            |to| !["motorpool", "motorpool-bench", "motorpool-vm", "xtask"].contains(&to),
            "bench and the tests over EC2 and of booted machines → any library, and what the tests share",
        ),
        "xtask" => (|_| false, "xtask → nothing"),
        _ => (|_| false, "a new crate → nothing, until tests/tests/layers.rs has a rule for it"),
    }
}

const ADAPTER: (fn(&str) -> bool, &str) =
    (|to| [CONTROL, DOMAIN, WIRE].contains(&to), "adapter → control, domain, wire");

fn broken_between_members(graph: &Graph, members: &BTreeSet<String>) -> Vec<String> {
    let mut broken = Vec::new();
    for (from, dependencies) in graph.iter().filter(|(name, _)| members.contains(*name)) {
        let (allowed, words) = rule(from);
        for to in dependencies.iter().filter(|name| members.contains(*name) && !allowed(name)) {
            broken.push(format!("{from} → {to}: breaks \"{words}\""));
        }
    }
    broken
}

/// Each crate in the tree of `root` that is forbidden, with the path that leads to it.
fn broken_in_tree(graph: &Graph, root: &str, words: &str, forbidden: impl Fn(&str) -> bool) -> Vec<String> {
    if !graph.contains_key(root) {
        return vec![format!("{root}: is not in the graph")];
    }
    let mut broken = Vec::new();
    let mut seen = BTreeSet::from([root]);
    let mut paths = vec![vec![root]];
    while let Some(path) = paths.pop() {
        let Some(dependencies) = path.last().and_then(|last| graph.get(*last)) else { continue };
        for to in dependencies.iter().map(String::as_str) {
            if !seen.insert(to) {
                continue;
            }
            let path: Vec<&str> = path.iter().copied().chain([to]).collect();
            if forbidden(to) {
                broken.push(format!("{}: breaks \"{words}\"", path.join(" → ")));
            } else {
                paths.push(path);
            }
        }
    }
    broken
}

/// Async runtimes and traits, clients, randomness. By prefix where a family of crates shares it.
fn is_impure(name: &str) -> bool {
    let families =
        ["tokio", "async-", "futures", "hyper", "reqwest", "rand", "aws-", "smol", "rustix", "axum"];
    families.iter().any(|family| name.starts_with(family)) || ["getrandom", "mio", "polling"].contains(&name)
}

fn workspace() -> Result<Metadata> {
    // The current directory of a test is its package's; `--locked`, since a test must not change the lock file.
    MetadataCommand::new().other_options(["--locked".to_owned()]).exec().context("cannot run cargo metadata")
}

fn members(metadata: &Metadata) -> BTreeSet<String> {
    metadata.workspace_packages().iter().map(|package| package.name.to_string()).collect()
}

/// Two versions of a crate count as one: the rules are about names.
fn graph(metadata: &Metadata) -> Result<Graph> {
    let names: BTreeMap<_, _> =
        metadata.packages.iter().map(|package| (&package.id, package.name.to_string())).collect();
    let name = |id| names.get(id).cloned().with_context(|| format!("cargo metadata does not describe {id}"));
    let mut graph = Graph::new();
    for node in &metadata.resolve.as_ref().context("cargo metadata has resolved nothing")?.nodes {
        let dependencies = graph.entry(name(&node.id)?).or_default();
        for dependency in &node.deps {
            if dependency.dep_kinds.iter().any(|info| info.kind != DependencyKind::Development) {
                dependencies.insert(name(&dependency.pkg)?);
            }
        }
    }
    Ok(graph)
}

fn graph_of(edges: &[(&str, &[&str])]) -> Graph {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    edges.iter().map(|(from, to)| ((*from).to_owned(), owned(to))).collect()
}
