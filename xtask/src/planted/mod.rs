//! `cargo xtask planted`: plants known bugs, one at a time, into a copy of the tree, and demands that each is found, by the simulator or by tests that
//! its patch names, and by what the bug is known to break. The working tree itself is never touched, but for `--record`.

mod hunt;
mod named_tests;
mod patch;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result, ensure};

use crate::cargo::Cargo;
use crate::clock::Stopwatch;
use crate::soak;
use hunt::{Found, Range, hunt};
use named_tests::{NamedTests, Program};
use patch::{Finder, Patch, Spot};
use tree::Tree;

/// Within so many seeds each must be found, from the first on.
const SEEDS: u64 = 1_000;
/// And within so many from the seed that its header names: what is drawn from a seed changes with the simulator, and a bug that is found often is
/// found near by.
const NEAR_BY: u64 = 50;

/// The quick run tries one bug of each file in here, of those that the simulator finds at once.
const CONTROL: &str = "shared/control/src";

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Planted {
    /// Only this one: a file of tests/planted, without `.patch`
    name: Option<String>,
    /// A few of them only, from the seed on that each names, as `cargo xtask test` does
    #[arg(long)]
    quick: bool,
    /// Write the seed at which each is found into its patch
    #[arg(long, conflicts_with = "quick")]
    record: bool,
}

impl Planted {
    pub(crate) fn quick() -> Self {
        Self { quick: true, ..Self::default() }
    }
}

pub(crate) fn run(asked: &Planted) -> Result<String> {
    let Planted { name, quick, record } = asked;
    let cargo = Cargo::find()?;
    let mut patches = patch::all(cargo.root())?;
    patches.retain(|patch| name.as_ref().is_none_or(|name| patch.name == *name));
    ensure!(!patches.is_empty(), "there is no planted bug {}", name.as_deref().unwrap_or("at all"));
    // One after the other in the same file, so that the least is built anew from one to the next.
    patches.sort_by(|one, two| (&one.file, &one.name).cmp(&(&two.file, &two.name)));
    if *quick && name.is_none() {
        patches.retain(is_quick);
        patches.dedup_by(|later, first| {
            let simulated = |patch: &Patch| matches!(patch.finder, Finder::Simulator(_));
            later.file == first.file && simulated(later) && simulated(first)
        });
    }
    for_each_built(&cargo, &patches, |patch, built| {
        let watch = Stopwatch::start();
        let found = match built {
            Built::Simulator { path, spot } => {
                let range = match quick {
                    true => Range { from: spot.seed, seeds: NEAR_BY },
                    false => Range { from: 1, seeds: SEEDS },
                };
                let found = hunt(&cargo, path, range, spot.worlds, &patch.breaks);
                found.and_then(|found| noted(patch, *spot, found, *record))
            }
            Built::Tests { tests, program } => tests.must_fail(&cargo, program, &patch.breaks),
        };
        let found = found.with_context(|| format!("{}: {}", patch.name, patch.plants))?;
        eprintln!("    {}: {found} ({watch})", patch.name);
        Ok(())
    })?;
    let (many, within) = (patches.len(), if *quick { NEAR_BY } else { SEEDS });
    Ok(format!(
        "{many} planted bugs, each found by what it breaks, within {within} seeds or by the tests that it names"
    ))
}

/// What sits in `domain` has tables and properties of its own, and has half of the tree built anew.
fn is_quick(patch: &Patch) -> bool {
    match &patch.finder {
        Finder::Simulator(Spot { seed, worlds: _ }) => *seed == 1 && patch.file.starts_with(CONTROL),
        Finder::Tests(tests) => tests.build_quickly(),
    }
}

/// What the simulator says, once it is seen to that the patch names the seed.
fn noted(patch: &Patch, names: Spot, found: Found, record: bool) -> Result<String> {
    let Found { at, verdict } = found;
    match (at == names, record) {
        (true, _) => {}
        (false, true) => patch.record(names, at)?,
        (false, false) => {
            eprintln!("    {} names seed {names}: `cargo xtask planted --record`", patch.name);
        }
    }
    Ok(verdict)
}

/// What is to find a bug, built in the tree that has it, and copied to a place of its own: the next build writes where this one did.
#[derive(Debug)]
enum Built<'a> {
    Simulator { path: PathBuf, spot: Spot },
    Tests { tests: &'a NamedTests, program: Program },
}

impl Built<'_> {
    fn path(&self) -> &Path {
        match self {
            Self::Simulator { path, spot: _ } => path,
            Self::Tests { tests: _, program } => &program.path,
        }
    }
}

/// Builds what finds each bug in turn; while the next is built, the last one is tried.
fn for_each_built(
    cargo: &Cargo,
    patches: &[Patch],
    mut tried: impl FnMut(&Patch, &Built<'_>) -> Result<()>,
) -> Result<()> {
    let folder = cargo.target_directory().join("planted");
    let tree = Tree::new(folder.join("tree"));
    thread::scope(|scope| {
        let (built, take) = mpsc::sync_channel(1);
        let building = scope.spawn(move || -> Result<()> {
            for patch in patches {
                let watch = Stopwatch::start();
                let finder = build(cargo, &tree, patch, &folder.join(&patch.name))?;
                eprintln!("    {}: built ({watch})", patch.name);
                if built.send((patch, finder)).is_err() {
                    break;
                }
            }
            Ok(())
        });
        for (patch, finder) in take {
            tried(patch, &finder)?;
            let path = finder.path();
            fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        building.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn build<'a>(cargo: &Cargo, tree: &Tree, patch: &'a Patch, kept: &Path) -> Result<Built<'a>> {
    tree.become_a_copy(cargo)?;
    tree.plant(patch)?;
    let cannot = || format!("the tree with {} can't be built", patch.name);
    let keep = |path: &Path| {
        fs::copy(path, kept).with_context(|| format!("cannot write {}", kept.display()))?;
        Ok::<_, anyhow::Error>(kept.to_owned())
    };
    match &patch.finder {
        Finder::Simulator(spot) => {
            let path = soak::build(cargo, tree.at(), tree::SIMULATOR, false).with_context(cannot)?;
            Ok(Built::Simulator { path: keep(&path)?, spot: *spot })
        }
        Finder::Tests(tests) => {
            let Program { path, folder } = tests.build(cargo, tree.at()).with_context(cannot)?;
            Ok(Built::Tests { tests, program: Program { path: keep(&path)?, folder } })
        }
    }
}
