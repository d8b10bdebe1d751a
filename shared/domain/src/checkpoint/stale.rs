//! Checkpoints that outlive their time, so that a person should hear of them.

use super::Checkpoint;
use crate::pool::Rules;
use crate::runner::{Runner, awaits_pause};
use crate::time::Timestamp;

/// Nobody said in time that its job has ended; or somebody did, and its machine waits for its CI system long after it should have been given back.
pub fn is_stale(checkpoint: &Checkpoint, runner: &Runner, rules: &Rules, now: Timestamp) -> bool {
    let is_its = runner.checkpoint.as_ref() == Some(&checkpoint.name);
    let waits = is_its && awaits_pause(runner, rules) && has_outlived_its_time(checkpoint, rules, now);
    checkpoint.state.is_active() && (checkpoint.is_forgotten() || waits)
}

/// Its time is over, and the time that its machine has to be given back.
pub fn has_outlived_its_time(checkpoint: &Checkpoint, rules: &Rules, now: Timestamp) -> bool {
    checkpoint.created_at.after(rules.checkpoints.lasts).after(rules.limits.releasing) <= now
}
