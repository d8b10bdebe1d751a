//! Litter: how the demo knows that a runner comes clean. Each use of a runner notes what it found in the work directory, and leaves
//! a file there for the next.

use super::host::Host;
use motorpool_domain::{ClaimId, RunnerId};
use std::path::PathBuf;

/// What a use notes of a work directory without litter.
pub(super) const NOTHING: &str = "nothing";

/// In place of the CI system's runner program. The note comes last: when it is there, so is the litter.
pub(super) const RUN_CMD: &str = r#"
found=$(cat litter 2>/dev/null || echo nothing)
echo "litter of $MOTORPOOL_CLAIM" > litter
echo "$found" > found.new
mv found.new "found-by-$MOTORPOOL_CLAIM"
exec sleep 3600
"#;

impl Host {
    /// What this claim's use of the runner found in the work directory, once it has looked.
    pub(super) fn found_by(&self, claim: &ClaimId, runner: &RunnerId) -> Option<String> {
        let note = self.work_dir(runner).join(format!("found-by-{claim}"));
        Some(std::fs::read_to_string(note).ok()?.trim().to_owned())
    }

    /// Whether the runner's work directory has litter at this moment.
    pub(super) fn has_litter(&self, runner: &RunnerId) -> bool {
        self.work_dir(runner).join("litter").exists()
    }

    /// Elsewhere than in the runner's directory where the host hides nothing from jobs: the agent says where.
    fn work_dir(&self, runner: &RunnerId) -> PathBuf {
        let dir = self.runner_dir(runner);
        let jobs_dir = std::fs::read_to_string(dir.join("jobs-dir")).map_or(dir, PathBuf::from);
        jobs_dir.join("work")
    }
}
