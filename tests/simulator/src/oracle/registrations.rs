//! What must hold of what the CI system lists: a runner that is over gets no jobs, for long at least.

use super::Oracle;
use crate::ci::{Entry, Registry};
use motorpool_domain::runner::{Runner, RunnerState};
use std::collections::BTreeMap;

/// How long a runner that is over may be listed, with faults all around.
const LONGEST_LISTED_MS: u64 = 30 * 60_000;

impl Oracle {
    pub(crate) fn no_ghost_stays_for_long(&mut self, now_ms: u64, ci: &Registry) {
        let mut since: BTreeMap<String, u64> = BTreeMap::new();
        for Entry { name, .. } in ci.listed().filter(|entry| self.is_ghost(entry)) {
            since.insert(name.clone(), self.ghosts.get(name).copied().unwrap_or(now_ms));
        }
        let long = since.iter().find(|(_, since_ms)| now_ms - **since_ms > LONGEST_LISTED_MS);
        if let Some((name, since_ms)) = long {
            let for_s = (now_ms - since_ms) / 1_000;
            let what = format!("the CI system lists {name}, whose runner has been over for {for_s} s");
            self.fails_at(now_ms, 23, &[name], what);
        }
        self.ghosts = since;
    }

    pub(crate) fn no_ghost_is_listed(&mut self, now_ms: u64, ci: &Registry) {
        let ghost = ci.listed().find(|entry| self.is_ghost(entry));
        if let Some(Entry { name, runner, .. }) = ghost {
            let what =
                format!("faults stopped long ago, and the CI system lists {name}, whose runner is over");
            self.fails_at(now_ms, 23, &[name, runner], what);
        }
    }

    /// Whether nobody holds its runner for the jobs that it would be given, nor is it there for whatever job its CI system brings it.
    fn is_ghost(&self, entry: &Entry) -> bool {
        let Entry { runner, epoch, label, .. } = entry;
        let record = self.runner(runner).filter(|record| record.epoch == *epoch);
        let waits = |record: &Runner| record.state == RunnerState::Idle && self.is_of_hooks(record);
        let wanted = record.and_then(|record| match waits(record) {
            true => Some(record.pool.label()),
            false => record.holder().map(|holder| holder.label(&record.pool)),
        });
        wanted.as_ref() != Some(label)
    }
}
