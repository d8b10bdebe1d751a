//! What a pool says of checkpoints: how long a job may take, when its CI system is asked about it, and when a machine is reset although all went
//! well.

use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckpointRules {
    /// How long a checkpoint may stay open before it counts as forgotten.
    pub lasts: Duration,
    /// How often the CI system is asked about a job.
    pub poll: Duration,
    /// Not before the job had this time to end by itself.
    pub poll_after: Duration,
    /// After so many jobs that went well, and so long after the last one, a machine is reset and not only cleaned.
    pub reset_every_jobs: u32,
    pub reset_every: Duration,
    /// How long `reset_cmd` may take.
    pub reset_command: Duration,
    /// How long a machine that was cleaned may take to be ready.
    pub readiness: Duration,
}

impl Default for CheckpointRules {
    fn default() -> Self {
        let minutes = |n: u64| Duration::from_secs(n * 60);
        Self {
            lasts: minutes(30),
            poll: Duration::from_secs(20),
            poll_after: minutes(2),
            reset_every_jobs: 50,
            reset_every: minutes(24 * 60),
            reset_command: minutes(3),
            readiness: minutes(2),
        }
    }
}

impl CheckpointRules {
    pub(super) fn is_usual(&self) -> bool {
        *self == Self::default()
    }

    /// Each span by the name of its key in the pools file, without the unit.
    pub(super) fn named(&self) -> [(&'static str, Duration); 6] {
        let Self { lasts, poll, poll_after, reset_every_jobs: _, reset_every, reset_command, readiness } =
            self;
        [
            ("checkpoint", *lasts),
            ("poll", *poll),
            ("poll_after", *poll_after),
            ("reset_every", *reset_every),
            ("reset_command", *reset_command),
            ("readiness", *readiness),
        ]
    }
}
