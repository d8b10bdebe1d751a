//! A planted bug: a patch, with a header that says what it plants, which invariants that breaks, and at which seed it is found.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

const PLANTS: &str = "Plants: ";
const BREAKS: &str = "Breaks: ";
const FOUND_AT: &str = "Found-At-Seed: ";

#[derive(Debug)]
pub(super) struct Patch {
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// In words.
    pub(super) plants: String,
    /// By PROOF.md's numbers. Any one of them is a find; another is not.
    pub(super) breaks: BTreeSet<u8>,
    pub(super) found_at: u64,
    /// The first file that it changes.
    pub(super) file: String,
}

pub(super) fn all(root: &Path) -> Result<Vec<Patch>> {
    let folder = root.join("tests/planted");
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut patches = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("cannot list {}", folder.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "patch") {
            let patch = Patch::read(&path);
            patches.push(patch.with_context(|| format!("cannot read {}", path.display()))?);
        }
    }
    patches.sort_by(|one, two| one.name.cmp(&two.name));
    Ok(patches)
}

impl Patch {
    fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Self::parse(&text, name, path.to_owned())
    }

    fn parse(text: &str, name: String, path: PathBuf) -> Result<Self> {
        let header = |line: usize, title: &'static str| {
            let said = text.lines().nth(line).and_then(|line| line.strip_prefix(title));
            said.with_context(|| format!("line {} must begin with `{title}`", line + 1))
        };
        let plants = header(0, PLANTS)?.to_owned();
        let numbers: Result<BTreeSet<u8>, _> = header(1, BREAKS)?.split(", ").map(str::parse).collect();
        let breaks = numbers.with_context(|| format!("after `{BREAKS}` come invariants: 3, 17"))?;
        let seed = header(2, FOUND_AT)?.parse();
        let found_at = seed.with_context(|| format!("after `{FOUND_AT}` comes a seed"))?;
        let file = text.lines().find_map(|line| line.strip_prefix("+++ b/")).unwrap_or_default().to_owned();
        ensure!(!file.is_empty(), "it changes no file");
        Ok(Self { name, path, plants, breaks, found_at, file })
    }

    /// Writes into its header that it is found at this seed.
    pub(super) fn record(&self, seed: u64) -> Result<()> {
        let text =
            fs::read_to_string(&self.path).with_context(|| format!("cannot read {}", self.path.display()))?;
        let (was, is) = (format!("{FOUND_AT}{}\n", self.found_at), format!("{FOUND_AT}{seed}\n"));
        fs::write(&self.path, text.replacen(&was, &is, 1))
            .with_context(|| format!("cannot write {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cargo::Cargo;
    use std::process::Command;

    /// How many there are: one that is lost on the way, by a rename or a merge, is missed.
    const PLANTED: usize = 21;

    #[test]
    fn every_planted_bug_is_there_and_still_applies_to_the_tree() -> Result<()> {
        let cargo = Cargo::find()?;
        let patches = all(cargo.root())?;
        assert_eq!(patches.len(), PLANTED);
        for patch in patches {
            let mut git = Command::new("git");
            git.current_dir(cargo.root()).arg("apply").arg("--check").arg(&patch.path);
            let checked = git.output()?;
            let said = String::from_utf8_lossy(&checked.stderr);
            assert!(checked.status.success(), "{} no longer applies: {said}", patch.name);
        }
        Ok(())
    }

    fn parsed(text: &str) -> Result<Patch> {
        Patch::parse(text, "a-bug".to_owned(), PathBuf::new())
    }

    #[test]
    fn a_header_says_what_is_planted_what_breaks_and_where_it_is_found() -> Result<()> {
        let patch =
            parsed("Plants: a bug.\nBreaks: 3, 17\nFound-At-Seed: 4\n\n--- a/one.rs\n+++ b/one.rs\n")?;
        assert_eq!((patch.plants.as_str(), patch.found_at, patch.file.as_str()), ("a bug.", 4, "one.rs"));
        assert_eq!(patch.breaks, BTreeSet::from([3, 17]));
        Ok(())
    }

    #[test]
    fn a_patch_without_its_header_is_refused() {
        let breaks_nothing = "Plants: a bug.\nBreaks: \nFound-At-Seed: 4\n+++ b/one.rs\n";
        let is_found_nowhere = "Plants: a bug.\nBreaks: 3\n\n+++ b/one.rs\n";
        let changes_nothing = "Plants: a bug.\nBreaks: 3\nFound-At-Seed: 4\n";
        for text in ["", breaks_nothing, is_found_nowhere, changes_nothing] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }
}
