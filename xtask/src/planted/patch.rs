//! A planted bug: a patch, with a header that says what it plants, what that breaks, and what finds it: the simulator at a seed, or tests.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::named_tests::NamedTests;

const PLANTS: &str = "Plants: ";
const BREAKS: &str = "Breaks: ";
const FOUND_AT: &str = "Found-At-Seed: ";
const FOUND_BY: &str = "Found-By: ";

#[derive(Debug)]
pub(super) struct Patch {
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// In words.
    pub(super) plants: String,
    /// Any one of them is a find; another is not.
    pub(super) breaks: BTreeSet<Broken>,
    pub(super) finder: Finder,
    /// The first file that it changes.
    pub(super) file: String,
}

/// By PROOF.md's numbers: `17` in a header, `fault 26`, or `refusal 24`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Broken {
    Invariant(u8),
    /// One that is not survived.
    Fault(u8),
    /// One that is not refused: its door is open.
    Refusal(u8),
}

/// What must find it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Finder {
    Simulator(Spot),
    Tests(NamedTests),
}

/// Where the simulator found a bug, when that was last recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) seed: u64,
    pub(super) worlds: Worlds,
}

/// What the simulator draws a seed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Worlds {
    Claims,
    Jobs,
}

impl Worlds {
    /// As the simulator is asked for them.
    pub(super) fn option(self) -> Option<&'static str> {
        match self {
            Self::Claims => None,
            Self::Jobs => Some("--jobs"),
        }
    }
}

impl Spot {
    /// `7`, or `7 --jobs`.
    fn parse(text: &str) -> Result<Self> {
        let (seed, worlds) = match text.split_once(' ') {
            None => (text, Worlds::Claims),
            Some((seed, option)) if Some(option) == Worlds::Jobs.option() => (seed, Worlds::Jobs),
            Some((_, option)) => bail!("no planted bug is hunted with {option:?}"),
        };
        Ok(Self { seed: seed.parse()?, worlds })
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, worlds } = self;
        match worlds.option() {
            None => write!(f, "{seed}"),
            Some(option) => write!(f, "{seed} {option}"),
        }
    }
}

impl Broken {
    fn parse(text: &str) -> Result<Self> {
        let (kind, number): (fn(u8) -> Self, &str) = match text.split_once(' ') {
            Some(("fault", number)) => (Self::Fault, number),
            Some(("refusal", number)) => (Self::Refusal, number),
            Some(_) | None => (Self::Invariant, text),
        };
        Ok(kind(number.parse()?))
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invariant(number) => write!(f, "invariant {number}"),
            Self::Fault(number) => write!(f, "fault {number}"),
            Self::Refusal(number) => write!(f, "refusal {number}"),
        }
    }
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
        let broken: Result<BTreeSet<Broken>> = header(1, BREAKS)?.split(", ").map(Broken::parse).collect();
        let breaks = broken.with_context(|| {
            format!("after `{BREAKS}` come invariants, faults and refusals: 3, 17, fault 26, refusal 24")
        })?;
        let finder = finder(text.lines().nth(2).unwrap_or_default())?;
        let by_simulator = matches!(finder, Finder::Simulator(_));
        ensure!(
            !by_simulator || breaks.iter().all(|broken| matches!(broken, Broken::Invariant(_))),
            "the simulator names the invariant that is broken, and nothing else"
        );
        let file = text.lines().find_map(|line| line.strip_prefix("+++ b/")).unwrap_or_default().to_owned();
        ensure!(!file.is_empty(), "it changes no file");
        Ok(Self { name, path, plants, breaks, finder, file })
    }

    /// Writes into its header that it is found at this spot, and no longer at that one.
    pub(super) fn record(&self, was: Spot, is: Spot) -> Result<()> {
        let text =
            fs::read_to_string(&self.path).with_context(|| format!("cannot read {}", self.path.display()))?;
        let (was, is) = (format!("{FOUND_AT}{was}\n"), format!("{FOUND_AT}{is}\n"));
        fs::write(&self.path, text.replacen(&was, &is, 1))
            .with_context(|| format!("cannot write {}", self.path.display()))
    }
}

fn finder(line: &str) -> Result<Finder> {
    if let Some(seed) = line.strip_prefix(FOUND_AT) {
        let spot = Spot::parse(seed);
        return Ok(Finder::Simulator(
            spot.with_context(|| format!("after `{FOUND_AT}` comes a seed: 7, or 7 --jobs"))?,
        ));
    }
    if let Some(tests) = line.strip_prefix(FOUND_BY) {
        let tests = NamedTests::parse(tests);
        let tests = tests.with_context(|| format!("after `{FOUND_BY}` come package, binary and filter"))?;
        return Ok(Finder::Tests(tests));
    }
    bail!("line 3 must begin with `{FOUND_AT}` or `{FOUND_BY}`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cargo::Cargo;
    use std::process::Command;

    /// How many there are: one that is lost on the way, by a rename or a merge, is missed.
    const PLANTED: usize = 79;

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
        assert_eq!((patch.plants.as_str(), patch.file.as_str()), ("a bug.", "one.rs"));
        assert_eq!(patch.finder, Finder::Simulator(Spot { seed: 4, worlds: Worlds::Claims }));
        assert_eq!(patch.breaks, BTreeSet::from([Broken::Invariant(3), Broken::Invariant(17)]));

        let patch = parsed("Plants: a bug.\nBreaks: 30\nFound-At-Seed: 4 --jobs\n\n+++ b/one.rs\n")?;
        let spot = Spot { seed: 4, worlds: Worlds::Jobs };
        assert_eq!((patch.finder, spot.to_string().as_str()), (Finder::Simulator(spot), "4 --jobs"));

        let patch = parsed("Plants: a bug.\nBreaks: 2, fault 26\nFound-By: a b c\n\n+++ b/one.rs\n")?;
        assert_eq!(patch.finder, Finder::Tests(NamedTests::parse("a b c")?));
        assert_eq!(patch.breaks, BTreeSet::from([Broken::Invariant(2), Broken::Fault(26)]));

        let patch = parsed("Plants: a bug.\nBreaks: refusal 24\nFound-By: a b c\n\n+++ b/one.rs\n")?;
        assert_eq!(patch.breaks, BTreeSet::from([Broken::Refusal(24)]));
        Ok(())
    }

    #[test]
    fn a_patch_without_its_header_is_refused() {
        for header in [
            "",
            "Plants: a bug.\nBreaks: \nFound-At-Seed: 4\n",
            "Plants: a bug.\nBreaks: 3\n\n",
            "Plants: a bug.\nBreaks: 3\nFound-At-Seed: late\n",
            "Plants: a bug.\nBreaks: 3\nFound-At-Seed: 4 --job\n",
            "Plants: a bug.\nBreaks: fault 26\nFound-At-Seed: 4\n",
            "Plants: a bug.\nBreaks: refusal 24\nFound-At-Seed: 4\n",
            "Plants: a bug.\nBreaks: fault\nFound-By: a b c\n",
            "Plants: a bug.\nBreaks: 3, mistake 4\nFound-By: a b c\n",
            "Plants: a bug.\nBreaks: 3\nFound-By: a b\n",
            "Plants: a bug.\nFound-By: a b c\nBreaks: 3\n",
        ] {
            assert!(parsed(&format!("{header}+++ b/one.rs\n")).is_err(), "{header}");
        }
        let changes_nothing = "Plants: a bug.\nBreaks: 3\nFound-At-Seed: 4\n";
        assert!(parsed(changes_nothing).is_err());
    }
}
