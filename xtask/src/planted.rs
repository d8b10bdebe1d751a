//! `cargo xtask planted`: plants known bugs, one at a time, into a copy of the tree, and demands that the simulator finds each.
//! The working tree itself is never touched.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::cargo::{Cargo, output};
use crate::clock::Stopwatch;
use crate::soak;

/// Within so many seeds each must be found.
const SEEDS: u64 = 1_000;

/// The copy's packages have another version, and its simulator another name. Cargo tells the packages of two workspaces apart by
/// nothing else: in the target directory, which both share, a planted bug must never take the place of our own code.
const PLANTED: &str = "motorpool-simulator-planted";
const RENAMED: [(&str, &str, &str); 2] = [
    ("Cargo.toml", "[workspace.package]\nversion = \"", "[workspace.package]\nversion = \"9"),
    (
        "tests/simulator/Cargo.toml",
        "[[bin]]\nname = \"motorpool-simulator\"",
        "[[bin]]\nname = \"motorpool-simulator-planted\"",
    ),
];

pub(crate) fn run(only: Option<&str>) -> Result<String> {
    let cargo = Cargo::find()?;
    let patches: Vec<Patch> =
        all(cargo.root())?.into_iter().filter(|patch| only.is_none_or(|name| patch.name == name)).collect();
    ensure!(!patches.is_empty(), "there is no planted bug {}", only.unwrap_or("at all"));
    let tree = Tree { at: cargo.target_directory().join("planted").join("tree") };
    for patch in &patches {
        let watch = Stopwatch::start();
        eprintln!("==> {}: {}", patch.name, patch.plants);
        tree.become_a_copy(&cargo)?;
        tree.plant(patch)?;
        let simulator = soak::build(&cargo, &tree.at, PLANTED, false)
            .context("the tree with the planted bug can't be built")?;
        let found = hunt(&cargo, &simulator).with_context(|| format!("{}: {}", patch.name, patch.plants))?;
        eprintln!("<== {}: {found} ({watch})", patch.name);
    }
    Ok(format!("{} planted bugs, each found within {SEEDS} seeds", patches.len()))
}

#[derive(Debug)]
struct Patch {
    name: String,
    path: PathBuf,
    /// Its first line, in words.
    plants: String,
}

fn all(root: &Path) -> Result<Vec<Patch>> {
    let folder = root.join("tests/planted");
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut patches = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("cannot list {}", folder.display()))?.path();
        if path.extension().is_none_or(|extension| extension != "patch") {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let plants = text.lines().next().unwrap_or_default().to_owned();
        ensure!(
            plants.starts_with("Plants: "),
            "the first line of {} must say what it plants",
            path.display()
        );
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        patches.push(Patch { name, path, plants });
    }
    patches.sort_by(|one, two| one.name.cmp(&two.name));
    Ok(patches)
}

/// A copy of the working tree. It stays where it is, so that only what a patch changes is built anew.
#[derive(Debug)]
struct Tree {
    at: PathBuf,
}

impl Tree {
    /// Every file as it is in the working tree, committed or not. One that is the same already keeps its time.
    fn become_a_copy(&self, cargo: &Cargo) -> Result<()> {
        let root = cargo.root();
        let listed =
            output(git(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]))?;
        let listed = String::from_utf8(listed).context("git lists a file whose name is not UTF-8")?;
        let names: BTreeSet<&str> =
            listed.split('\0').filter(|name| !name.is_empty() && root.join(name).is_file()).collect();
        for name in &names {
            let (from, to) = (root.join(name), self.at.join(name));
            let mut content = fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
            if let Some((_, ours, theirs)) = RENAMED.iter().find(|(file, _, _)| file == name) {
                content =
                    renamed(content, ours, theirs).with_context(|| format!("cannot rename in {name}"))?;
            }
            if fs::read(&to).is_ok_and(|there| there == content) {
                continue;
            }
            if let Some(folder) = to.parent() {
                fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            }
            fs::write(&to, content).with_context(|| format!("cannot write {}", to.display()))?;
        }
        self.remove_others(&self.at, &names)?;
        // A repository of its own: `git apply` must not take it for a folder of ours.
        output(git(&self.at).args(["init", "--quiet"])).map(|_| ())
    }

    fn remove_others(&self, folder: &Path, names: &BTreeSet<&str>) -> Result<()> {
        for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let path = entry.with_context(|| format!("cannot list {}", folder.display()))?.path();
            let name = path.strip_prefix(&self.at).unwrap_or(&path).to_string_lossy().into_owned();
            if name == ".git" {
                continue;
            }
            if path.is_dir() {
                self.remove_others(&path, names)?;
            } else if !names.contains(name.as_str()) {
                fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
            }
        }
        Ok(())
    }

    fn plant(&self, patch: &Patch) -> Result<()> {
        output(git(&self.at).arg("apply").arg(&patch.path)).map(|_| ()).with_context(|| {
            format!("{} no longer applies: plant the same bug in the code as it is now", patch.path.display())
        })
    }
}

fn renamed(manifest: Vec<u8>, ours: &str, theirs: &str) -> Result<Vec<u8>> {
    let text = String::from_utf8(manifest).context("it is not UTF-8")?;
    ensure!(text.contains(ours), "it does not have {ours:?}");
    Ok(text.replacen(ours, theirs, 1).into_bytes())
}

/// Runs seeds up to the first that breaks an invariant. The answer is which, and after how many seeds.
fn hunt(cargo: &Cargo, simulator: &Path) -> Result<String> {
    let mut hunt = cargo.tool(simulator);
    hunt.args(["--seeds", &SEEDS.to_string()]);
    let ended = hunt.output().with_context(|| format!("cannot start {}", simulator.display()))?;
    let said = String::from_utf8_lossy(&ended.stdout);
    let verdict = said.lines().find(|line| line.contains(" is broken at ")).map(str::to_owned);
    match (ended.status.success(), verdict) {
        (false, Some(verdict)) => Ok(verdict),
        (true, _) => bail!("it is NOT found within {SEEDS} seeds"),
        (false, None) => bail!("the simulator ended with {} and no verdict:\n{said}", ended.status),
    }
}

fn git(at: &Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(at);
    git
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_planted_bug_still_applies_to_the_tree() -> Result<()> {
        let cargo = Cargo::find()?;
        let patches = all(cargo.root())?;
        assert!(patches.len() >= 6, "{patches:?}");
        for patch in patches {
            let checked = git(cargo.root()).arg("apply").arg("--check").arg(&patch.path).output()?;
            let said = String::from_utf8_lossy(&checked.stderr);
            assert!(checked.status.success(), "{} no longer applies: {said}", patch.name);
        }
        Ok(())
    }
}
