//! Runs the simulator with a planted bug up to the first seed that breaks an invariant, and judges which.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::patch::{Broken, Spot, Worlds};
use crate::cargo::Cargo;

#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub(super) from: u64,
    pub(super) seeds: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) at: Spot,
    /// In the simulator's words.
    pub(super) verdict: String,
}

pub(super) fn hunt(
    cargo: &Cargo,
    simulator: &Path,
    range: Range,
    worlds: Worlds,
    breaks: &BTreeSet<Broken>,
) -> Result<Found> {
    let Range { from, seeds } = range;
    let mut hunt = cargo.tool(simulator);
    hunt.args(["--from", &from.to_string(), "--seeds", &seeds.to_string()]);
    hunt.args(worlds.option());
    let ended = hunt.output().with_context(|| format!("cannot start {}", simulator.display()))?;
    ensure!(!ended.status.success(), "it is NOT found from seed {from} on within {seeds} seeds");
    let said = String::from_utf8_lossy(&ended.stdout);
    let Some((seed, invariant, verdict)) = said.lines().find_map(verdict) else {
        bail!("the simulator ended with {} and no verdict:\n{said}", ended.status);
    };
    ensure!(
        breaks.contains(&Broken::Invariant(invariant)),
        "it is to break one of {breaks:?}, and what the simulator says is: {verdict}"
    );
    Ok(Found { at: Spot { seed, worlds }, verdict: verdict.to_owned() })
}

/// `seed 7 (after 7): invariant 3 is broken at 12:34: …`
fn verdict(line: &str) -> Option<(u64, u8, &str)> {
    let (seed, rest) = line.strip_prefix("seed ")?.split_once(' ')?;
    let (_, rest) = rest.split_once("invariant ")?;
    let (invariant, _) = rest.split_once(" is broken at ")?;
    Some((seed.parse().ok()?, invariant.parse().ok()?, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_names_its_seed_and_its_invariant() {
        let line = "seed 7 (after 3): invariant 17 is broken at 12:34: pool warm counts 3 slots";
        assert_eq!(verdict(line), Some((7, 17, line)));
        assert_eq!(verdict("seed 7: no invariant is broken"), None);
        assert_eq!(verdict("  fault 17  something"), None);
    }
}
