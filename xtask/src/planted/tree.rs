//! The copy of the tree that bugs are planted in.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::patch::Patch;
use crate::cargo::{Cargo, output};

/// The copy's packages have another version, and its simulator another name. Cargo tells the packages of two workspaces apart by
/// nothing else: in the target directory, which both share, a planted bug must never take the place of our own code.
pub(super) const SIMULATOR: &str = "motorpool-simulator-planted";
const RENAMED: [(&str, &str, &str); 2] = [
    ("Cargo.toml", "[workspace.package]\nversion = \"", "[workspace.package]\nversion = \"9"),
    (
        "tests/simulator/Cargo.toml",
        "[[bin]]\nname = \"motorpool-simulator\"",
        "[[bin]]\nname = \"motorpool-simulator-planted\"",
    ),
];

/// A copy of the working tree. It stays where it is, so that only what a patch changes is built anew.
#[derive(Debug)]
pub(super) struct Tree {
    at: PathBuf,
}

impl Tree {
    pub(super) fn new(at: PathBuf) -> Self {
        Self { at }
    }

    pub(super) fn at(&self) -> &Path {
        &self.at
    }

    /// Every file as it is in the working tree, committed or not. One that is the same already keeps its time.
    pub(super) fn become_a_copy(&self, cargo: &Cargo) -> Result<()> {
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

    pub(super) fn plant(&self, patch: &Patch) -> Result<()> {
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

fn git(at: &Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(at);
    git
}
