//! The CI vendors' APIs for tests: Prism, which answers as an API's description says and rejects a request that does not fit it. It
//! installs Prism and GitHub's description once into the target directory, starts and ends the servers; what is asked of them, it
//! does not know.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value, json};

use crate::cargo::Cargo;
use crate::npm::Packages;

/// Where the tests look for GitHub.
pub(crate) const GITHUB: &str = "MOTORPOOL_GITHUB_API";
/// Where they look for GitLab.
pub(crate) const GITLAB: &str = "MOTORPOOL_GITLAB_API";

/// The last that runs on node 20.
const PRISM: &str = "5.14.2";
/// GitHub's own description of its API.
const DESCRIPTION: &str = "23.0.2";
/// Of GitHub's Enterprise Cloud: the others lack the runners of enterprises.
const EDITION: &str = "ghec.json";

/// The operations that we use. Whole, the description takes Prism a minute and gigabytes.
const PATHS: [&str; 15] = [
    "/app/installations/{installation_id}/access_tokens",
    "/orgs/{org}/installation",
    "/orgs/{org}/actions/runners",
    "/orgs/{org}/actions/runners/generate-jitconfig",
    "/orgs/{org}/actions/runners/{runner_id}",
    "/repos/{owner}/{repo}",
    "/repos/{owner}/{repo}/actions/runs/{run_id}/attempts/{attempt_number}/jobs",
    "/repos/{owner}/{repo}/actions/runs/{run_id}/jobs",
    "/repos/{owner}/{repo}/installation",
    "/repos/{owner}/{repo}/actions/runners",
    "/repos/{owner}/{repo}/actions/runners/generate-jitconfig",
    "/repos/{owner}/{repo}/actions/runners/{runner_id}",
    "/enterprises/{enterprise}/actions/runners",
    "/enterprises/{enterprise}/actions/runners/generate-jitconfig",
    "/enterprises/{enterprise}/actions/runners/{runner_id}",
];

/// It is up within a few seconds; beyond this it hangs.
const ANSWERS_WITHIN: Duration = Duration::from_secs(90);
const ENDS_WITHIN: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);

/// It ends with whoever started it, however that ends: then its stdin is closed.
const LAUNCHER: &str = "
process.stdin.on('close', () => process.exit(0)).resume();
process.argv.splice(1, 0, 'prism');
require('@stoplight/prism-cli');
";

/// The servers, which run as long as this value lives.
#[derive(Debug)]
pub(crate) struct Prism {
    github: Server,
    gitlab: Server,
}

impl Prism {
    /// Installs it if need be, starts one server for each vendor on a free port of loopback, and waits until they answer.
    pub(crate) fn start(cargo: &Cargo) -> Result<Self> {
        let home = cargo.target_directory().join("tools").join(format!("prism-{PRISM}-{DESCRIPTION}"));
        install(cargo, &home)?;
        let github = home.join("github.json");
        cut(&home.join(EDITION), &github)?;
        let gitlab = cargo.root().join("tests/ci/gitlab.openapi.yaml");
        let (mut github, mut gitlab) =
            (Server::start(cargo, &home, &github)?, Server::start(cargo, &home, &gitlab)?);
        github.wait_until_it_answers()?;
        gitlab.wait_until_it_answers()?;
        Ok(Self { github, gitlab })
    }

    /// The variables that tell the tests where the servers are.
    pub(crate) fn variables(&self) -> [(&'static str, String); 2] {
        [(GITHUB, self.github.url()), (GITLAB, self.gitlab.url())]
    }

    /// What they have to say for themselves.
    pub(crate) fn logs(&self) -> String {
        format!("{} and {}", self.github.log.display(), self.gitlab.log.display())
    }

    /// Waits until somebody ends them.
    pub(crate) fn wait(mut self) -> Result<ExitStatus> {
        self.github.child.wait().context("cannot wait for Prism")
    }
}

#[derive(Debug)]
struct Server {
    child: Child,
    /// Held, never written to.
    stdin: Option<ChildStdin>,
    address: SocketAddr,
    log: PathBuf,
}

impl Server {
    fn start(cargo: &Cargo, home: &Path, description: &Path) -> Result<Self> {
        // Bound for a moment only: it is Prism that is to listen.
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free for Prism")?;
        let address = free.local_addr().context("cannot tell which port is free")?;
        drop(free);
        let log = home.join(format!("port-{}.log", address.port()));
        let written = File::create(&log).with_context(|| format!("cannot make {}", log.display()))?;
        let also = written.try_clone().with_context(|| format!("cannot open {} twice", log.display()))?;
        let mut child = cargo
            .tool("node")
            .args(["-e", LAUNCHER, "--", "mock", "--errors", "--host"])
            .args([address.ip().to_string(), "--port".to_owned(), address.port().to_string()])
            .arg(description)
            // Where it is installed, so that node finds it.
            .current_dir(home)
            .stdin(Stdio::piped())
            .stdout(written)
            .stderr(also)
            .spawn()
            .context("cannot start node")?;
        let stdin = child.stdin.take();
        Ok(Self { child, stdin, address, log })
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn wait_until_it_answers(&mut self) -> Result<()> {
        for _ in 0..ANSWERS_WITHIN.as_millis() / PAUSE.as_millis() {
            if let Some(status) = self.child.try_wait().context("cannot look after Prism")? {
                bail!("Prism ended at once with {status}; its log is {}", self.log.display());
            }
            if self.answers().is_ok() {
                return Ok(());
            }
            thread::sleep(PAUSE);
        }
        bail!("Prism did not answer within {} s; its log is {}", ANSWERS_WITHIN.as_secs(), self.log.display())
    }

    /// That it knows no such path is an answer, too.
    fn answers(&self) -> Result<()> {
        let within = Duration::from_secs(5);
        let mut stream = TcpStream::connect_timeout(&self.address, within)?;
        stream.set_read_timeout(Some(within))?;
        write!(stream, "GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address)?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        ensure!(line.starts_with("HTTP/"), "it hung up");
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stdin.take());
        for _ in 0..ENDS_WITHIN.as_millis() / PAUSE.as_millis() {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            thread::sleep(PAUSE);
        }
        eprintln!("    Prism did not end when told to, and is killed");
        // Neither can fail in a way that could be helped here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn install(cargo: &Cargo, home: &Path) -> Result<()> {
    let packages = Packages {
        name: "Prism",
        packages: &[format!("@stoplight/prism-cli@{PRISM}"), format!("@octokit/openapi@{DESCRIPTION}")],
        needed_by: "the tests over the CI vendors' API descriptions",
    };
    packages.install(cargo, home, |modules| {
        // The package has a dozen editions, half a gigabyte; this one is enough.
        let package = modules.join("@octokit");
        fs::rename(package.join("openapi/generated").join(EDITION), home.join(EDITION))
            .context("GitHub's description is not where it should be")?;
        fs::remove_dir_all(&package).context("cannot remove the other editions of GitHub's description")
    })
}

/// Writes the part of a description that we use, each operation and schema as the vendor wrote it.
fn cut(whole: &Path, part: &Path) -> Result<()> {
    let text = fs::read(whole).with_context(|| format!("cannot read {}", whole.display()))?;
    let whole: Value = serde_json::from_slice(&text).context("GitHub's description is no JSON")?;
    let cut = mended(part_of(&whole, &PATHS)?);
    // Never half a file, should somebody read it meanwhile.
    let new = part.with_extension("new");
    fs::write(&new, cut.to_string()).with_context(|| format!("cannot write {}", new.display()))?;
    fs::rename(&new, part).with_context(|| format!("cannot write {}", part.display()))
}

/// The paths, and whatever they refer to.
fn part_of(whole: &Value, paths: &[&str]) -> Result<Value> {
    let mut chosen = Map::new();
    for path in paths {
        let operations = whole.get("paths").and_then(|all| all.get(*path));
        let operations = operations.with_context(|| format!("GitHub's description has no path {path}"))?;
        chosen.insert((*path).to_owned(), operations.clone());
    }
    let mut components = Map::new();
    let (mut seen, mut open) = (BTreeSet::new(), Vec::new());
    chosen.values().for_each(|operations| references(operations, &mut open));
    while let Some(reference) = open.pop() {
        if !seen.insert(reference.clone()) {
            continue;
        }
        let found = reference.strip_prefix('#').and_then(|pointer| whole.pointer(pointer));
        let found = found.with_context(|| format!("GitHub's description lacks {reference}"))?;
        let named = reference.strip_prefix("#/components/").and_then(|rest| rest.split_once('/'));
        let (kind, name) = named.with_context(|| format!("{reference} is no component"))?;
        let kind = components.entry(kind).or_insert_with(|| json!({}));
        kind.as_object_mut().context("no object")?.insert(name.to_owned(), found.clone());
        references(found, &mut open);
    }
    let keep = |name: &str| whole.get(name).cloned().unwrap_or_default();
    Ok(json!({"openapi": keep("openapi"), "info": keep("info"), "servers": keep("servers"), "paths": chosen,
        "components": components}))
}

/// GitHub's own example of a job lacks a time that its schema requires, so Prism would not answer with it.
fn mended(mut part: Value) -> Value {
    let jobs =
        part.pointer_mut("/components/examples/job-paginated/value/jobs").and_then(Value::as_array_mut);
    for job in jobs.into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(started) = job.get("started_at").cloned() {
            job.entry("created_at").or_insert(started);
        }
    }
    part
}

fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get("$ref") {
                found.push(reference.clone());
            }
            fields.values().for_each(|field| references(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_its_paths_and_whatever_they_refer_to() -> Result<()> {
        let whole = json!({
            "openapi": "3.0.3", "info": {}, "servers": [],
            "paths": {
                "/a": {"get": {"parameters": [{"$ref": "#/components/parameters/p"}]}},
                "/b": {"get": {"parameters": [{"$ref": "#/components/parameters/q"}]}},
            },
            "components": {
                "parameters": {"p": {"schema": {"$ref": "#/components/schemas/s"}}, "q": {}},
                "schemas": {"s": {"items": {"$ref": "#/components/schemas/s"}}, "t": {}},
            },
        });
        let part = part_of(&whole, &["/a"])?;
        assert_eq!(part["paths"], json!({"/a": whole["paths"]["/a"]}));
        assert_eq!(
            part["components"],
            json!({"parameters": {"p": whole["components"]["parameters"]["p"]},
                "schemas": {"s": whole["components"]["schemas"]["s"]}})
        );
        assert!(part_of(&whole, &["/c"]).is_err());
        Ok(())
    }
}
