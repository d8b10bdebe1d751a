//! `cargo xtask planted`: plants known bugs, one at a time, into a copy of the tree, and demands that the simulator finds each, by an invariant
//! that the bug is known to break. The working tree itself is never touched, but for `--record`.

mod hunt;
mod patch;
mod tree;

use std::fs;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result, ensure};

use crate::cargo::Cargo;
use crate::clock::Stopwatch;
use crate::soak;
use hunt::{Found, Range, hunt};
use patch::Patch;
use tree::Tree;

/// Within so many seeds each must be found, from the first on.
const SEEDS: u64 = 1_000;
/// And within so many from the seed that its header names: what is drawn from a seed changes with the simulator, and a bug that is found often is
/// found near by.
const NEAR_BY: u64 = 50;

/// The quick run tries one bug of each file in here, of those that are found at once.
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
        // What sits in `domain` has tables and properties of its own, and has half of the tree built anew.
        patches.retain(|patch| patch.found_at == 1 && patch.file.starts_with(CONTROL));
        patches.dedup_by(|later, first| later.file == first.file);
    }
    let range = |patch: &Patch| match quick {
        true => Range { from: patch.found_at, seeds: NEAR_BY },
        false => Range { from: 1, seeds: SEEDS },
    };
    for_each_built(&cargo, &patches, |patch, simulator| {
        let watch = Stopwatch::start();
        let Found { seed, verdict } = hunt(&cargo, simulator, range(patch), &patch.breaks)
            .with_context(|| format!("{}: {}", patch.name, patch.plants))?;
        eprintln!("    {}: {verdict} ({watch})", patch.name);
        match (seed == patch.found_at, record) {
            (true, _) => Ok(()),
            (false, true) => patch.record(seed),
            (false, false) => {
                eprintln!("    {} names seed {}: `cargo xtask planted --record`", patch.name, patch.found_at);
                Ok(())
            }
        }
    })?;
    let within = if *quick { NEAR_BY } else { SEEDS };
    Ok(format!("{} planted bugs, each found by what it breaks, within {within} seeds", patches.len()))
}

/// Builds the simulator with each bug in turn; while the next is built, the last one is tried.
fn for_each_built(
    cargo: &Cargo,
    patches: &[Patch],
    mut tried: impl FnMut(&Patch, &PathBuf) -> Result<()>,
) -> Result<()> {
    let folder = cargo.target_directory().join("planted");
    let tree = Tree::new(folder.join("tree"));
    thread::scope(|scope| {
        let (built, take) = mpsc::sync_channel(1);
        let building = scope.spawn(move || -> Result<()> {
            for patch in patches {
                let watch = Stopwatch::start();
                let simulator = build(cargo, &tree, patch)?;
                eprintln!("    {}: built ({watch})", patch.name);
                // Its own place: the next build writes where this one did.
                let kept = folder.join(&patch.name);
                fs::copy(&simulator, &kept).with_context(|| format!("cannot write {}", kept.display()))?;
                if built.send((patch, kept)).is_err() {
                    break;
                }
            }
            Ok(())
        });
        for (patch, simulator) in take {
            tried(patch, &simulator)?;
            fs::remove_file(&simulator).with_context(|| format!("cannot remove {}", simulator.display()))?;
        }
        building.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn build(cargo: &Cargo, tree: &Tree, patch: &Patch) -> Result<PathBuf> {
    tree.become_a_copy(cargo)?;
    tree.plant(patch)?;
    soak::build(cargo, tree.at(), tree::SIMULATOR, false)
        .with_context(|| format!("the tree with {} can't be built", patch.name))
}
