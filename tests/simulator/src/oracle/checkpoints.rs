//! What must hold of checkpoints, of the runners that they hold, and of what is done to their machines.

use super::{Oracle, Scene};
use crate::clocks::MOST_OFF_MS;
use crate::faults::Fault;
use crate::schedule::SimClock;
use motorpool_domain::checkpoint::{Checkpoint, CheckpointState, JobOutcome};
use motorpool_domain::pool::Dispatch;
use motorpool_domain::runner::{CleanStep, Holder, Runner, RunnerState, StateName};
use motorpool_domain::{CheckpointName, Epoch, JobId, RunnerId, TaskId, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    /// As they were last written.
    known: BTreeMap<CheckpointName, Checkpoint>,
    /// How often the runner of each was released for it.
    releases: BTreeMap<CheckpointName, u32>,
    /// How each job ended, as its CI system says.
    over: BTreeMap<Ended, JobOutcome>,
}

/// A job that is over: by its id, and where that is the id of a whole run, by the runner that had it, which has one job in an epoch.
type Ended = (JobId, Option<(RunnerId, Epoch)>);

impl Oracle {
    pub(crate) fn checkpoint(&self, name: &CheckpointName) -> Option<&Checkpoint> {
        self.checkpoints.known.get(name)
    }

    pub(crate) fn job_over(&mut self, job: &JobId, on: Option<(RunnerId, Epoch)>, outcome: JobOutcome) {
        self.checkpoints.over.insert((job.clone(), on), outcome);
    }

    fn truly_ended(&self, checkpoint: &Checkpoint) -> Option<JobOutcome> {
        let Checkpoint { job, runner, epoch, .. } = checkpoint;
        let by = |on| self.checkpoints.over.get(&(job.clone(), on)).copied();
        by(None).or_else(|| by(Some((runner.clone(), *epoch))))
    }

    pub(super) fn is_of_hooks(&self, runner: &Runner) -> bool {
        self.pools.get(&runner.pool).is_some_and(|pool| pool.rules.dispatch == Dispatch::Hook)
    }

    pub(super) fn checkpoint_changes(
        &mut self,
        scene: &Scene<'_>,
        before: Option<&Checkpoint>,
        after: &Checkpoint,
    ) {
        match before {
            None => self.checkpoint_opens(scene, after),
            Some(before) => {
                self.checkpoint_goes_on(scene, before, after);
                self.word_counts(scene, before, after);
                if before.state.is_active() && !after.state.is_active() {
                    self.promise_is_kept(scene, after);
                }
            }
        }
        self.checkpoints.known.insert(after.name.clone(), after.clone());
    }

    /// Invariant 12: at most one that is active a runner. One whose machine is clean has its end before it, and nothing else: whoever looks at it writes that.
    fn checkpoint_opens(&mut self, scene: &Scene<'_>, after: &Checkpoint) {
        let other = self.runner(&after.runner).and_then(|runner| runner.checkpoint.clone());
        let is_new =
            after.state == CheckpointState::Created && !self.checkpoints.known.contains_key(&after.name);
        if !is_new || other.is_some() {
            let what = format!("{} is opened as {:?} beside {other:?}", after.name, after.state);
            self.fails(scene, 12, &[&after.name, &after.runner], what);
        }
    }

    /// Invariant 12, and 2: it was decided from what is.
    fn checkpoint_goes_on(&mut self, scene: &Scene<'_>, before: &Checkpoint, after: &Checkpoint) {
        use CheckpointState::{Created, Deleted, FinalizeQueued, GcReset, Reset};
        let is_allowed = match (&before.state, &after.state) {
            (Created, Created | FinalizeQueued | GcReset { .. }) => true,
            (FinalizeQueued, FinalizeQueued | Reset { .. } | Deleted { .. }) => true,
            (_, _) => false,
        };
        let same = |known: &Checkpoint| (known.rev, &known.state) == (before.rev, &before.state);
        if !is_allowed || after.rev != before.rev + 1 || !self.checkpoint(&before.name).is_some_and(same) {
            let what = format!(
                "{} goes from {} rev {} to {} rev {}, and {:?} was known",
                before.name,
                before.state.as_str(),
                before.rev,
                after.state.as_str(),
                after.rev,
                self.checkpoint(&before.name).map(|known| (known.state.as_str(), known.rev))
            );
            self.fails(scene, 12, &[&before.name, &before.runner], what);
        }
    }

    /// Invariant 29: of what was said, a failure stays; and nobody is forgotten before his time (18).
    fn word_counts(&mut self, scene: &Scene<'_>, before: &Checkpoint, after: &Checkpoint) {
        let status = |checkpoint: &Checkpoint| checkpoint.finalized.map(|finalized| finalized.status);
        let is_right = match (status(before), status(after)) {
            (None, _) => true,
            (Some(JobOutcome::Success), Some(JobOutcome::Failure | JobOutcome::Canceled)) => {
                self.fired.note(Fault::FailureOverrides);
                true
            }
            (Some(was), is) => is == Some(was),
        };
        if !is_right {
            let what = format!("{} ended {:?}, and now {:?}", after.name, status(before), status(after));
            self.fails(scene, 29, &[&after.name, &after.runner], what);
        }
        if after.is_forgotten() && !before.is_forgotten() {
            self.fired.note(Fault::JobForgotten);
            if !self.is_late(after, scene.now()) {
                let what = format!("{} is given up at {:?}, before its time", after.name, scene.now());
                self.fails(scene, 18, &[&after.name, &after.runner], what);
            }
        }
    }

    /// Invariant 13: a checkpoint ends when its machine is clean, or gone.
    fn promise_is_kept(&mut self, scene: &Scene<'_>, after: &Checkpoint) {
        let runner = self.runner(&after.runner).filter(|runner| runner.state.name().live());
        let is_gone = runner.is_none_or(|runner| runner.state.name() == StateName::Terminating);
        let is_clean = runner.is_some_and(|runner| {
            runner.checkpoint.as_ref() != Some(&after.name) && runner.epoch > after.epoch
        });
        let went_well = after.finalized.is_some_and(|finalized| finalized.status == JobOutcome::Success);
        let is_right = match &after.state {
            CheckpointState::Deleted { .. } => is_clean && went_well,
            CheckpointState::Reset { .. } | CheckpointState::GcReset { .. } => is_clean || is_gone,
            CheckpointState::Created | CheckpointState::FinalizeQueued => true,
        };
        if !is_right {
            let what = format!(
                "{} ends as {}, and its runner is {:?}",
                after.name,
                after.state.as_str(),
                runner.map(|runner| (runner.state.name(), runner.epoch, &runner.checkpoint))
            );
            self.fails(scene, 13, &[&after.name, &after.runner], what);
        }
    }

    pub(super) fn checkpoint_is_followed(&mut self, scene: &Scene<'_>, before: &Runner, after: &Runner) {
        let Some(name) = before.checkpoint.clone() else { return };
        let enters = |state: StateName| before.state.name() != state && after.state.name() == state;
        if enters(StateName::Releasing) {
            self.released_once(scene, after, &name);
        }
        match (&before.state, &after.state) {
            (
                RunnerState::Resetting { step: None, .. },
                RunnerState::Resetting { step: Some(CleanStep::Cleanup), .. },
            ) => {
                self.cleaned_as_it_ended(scene, after, &name);
            }
            (RunnerState::Resetting { step: None, .. }, RunnerState::Idle) => {
                let what = format!("{} is idle, and nobody settled how it is to be cleaned", after.id);
                self.fails(scene, 13, &[&after.id, &name], what);
            }
            (_, _) => {}
        }
    }

    /// Invariant 11.
    fn released_once(&mut self, scene: &Scene<'_>, runner: &Runner, name: &CheckpointName) {
        let releases = self.checkpoints.releases.entry(name.clone()).or_default();
        *releases += 1;
        if *releases > 1 {
            let what = format!("{} is released for {name} for the {releases}nd time", runner.id);
            self.fails(scene, 11, &[&runner.id, name], what);
        }
    }

    /// Invariant 29: only what is known to have gone well is cleaned as such, and known means by the CI system's own word, unless the time for that is
    /// over.
    fn cleaned_as_it_ended(&mut self, scene: &Scene<'_>, runner: &Runner, name: &CheckpointName) {
        let Some(checkpoint) = self.checkpoint(name) else { return };
        let said = checkpoint.finalized.map(|finalized| finalized.status);
        let truly = self.truly_ended(checkpoint);
        let waits = !self.is_late(checkpoint, scene.now());
        if said != Some(JobOutcome::Success) || (waits && truly != Some(JobOutcome::Success)) {
            let what = format!(
                "{} is to be cleaned up after job {}, which ended {truly:?}, and {said:?} by what was said",
                runner.id, checkpoint.job
            );
            self.fails(scene, 29, &[&runner.id, name], what);
        }
    }

    /// A use case that was told how a job ended is over: if it was not a success, then that stands, or the cleaning had begun.
    pub(crate) fn word_was_taken(&mut self, now_ms: u64, name: &CheckpointName, said: Option<JobOutcome>) {
        let is_bad = said.is_some_and(|said| said != JobOutcome::Success);
        let Some(checkpoint) = self.checkpoint(name).filter(|_| is_bad) else { return };
        let stands = checkpoint.finalized.map(|finalized| finalized.status) != Some(JobOutcome::Success);
        let is_to_come = self.runner(&checkpoint.runner).is_some_and(|runner| {
            let waits = match &runner.state {
                RunnerState::Running { .. } | RunnerState::Releasing { .. } => true,
                RunnerState::Resetting { step, .. } => step.is_none(),
                _ => false,
            };
            waits && runner.checkpoint.as_ref() == Some(name)
        });
        if !stands && is_to_come {
            let runner = checkpoint.runner.clone();
            let what =
                format!("{name} was told {said:?}, and counts as a success that is still to be cleaned up");
            self.fails_at(now_ms, 29, &[name, &runner], what);
        }
    }

    /// Invariant 27: what is cleaned now, nobody has or may be given.
    pub(crate) fn may_be_emptied(&mut self, now_ms: u64, id: &RunnerId, task: &TaskId) {
        let epoch = task.as_str().split('-').next().and_then(|number| number.parse().ok()).map(Epoch);
        let Some(runner) = self.runner(id) else { return };
        let is_cleaned = match runner.state.name() {
            StateName::Idle | StateName::Claimed | StateName::Running | StateName::Releasing => false,
            StateName::Created => runner.epoch > epoch.unwrap_or(runner.epoch),
            StateName::Resetting
            | StateName::Quarantined
            | StateName::Terminating
            | StateName::Terminated => true,
        };
        if !is_cleaned || epoch.is_none_or(|epoch| epoch > runner.epoch) {
            let what =
                format!("{id}@{} is {}, and its agent begins {task}", runner.epoch, runner.state.name());
            self.fails_at(now_ms, 27, &[id], what);
        }
    }

    /// Whether nobody waits any longer for the job that its checkpoint is of.
    pub(crate) fn time_is_over(&self, now_ms: u64, id: &RunnerId) -> bool {
        // By the clock of whoever looked.
        let now = SimClock::timestamp(now_ms).after(Duration::from_millis(2 * MOST_OFF_MS));
        let name = self.runner(id).and_then(|runner| runner.checkpoint.as_ref());
        name.and_then(|name| self.checkpoint(name)).is_some_and(|checkpoint| self.is_late(checkpoint, now))
    }

    /// The job after which a runner is cleaned, or about to be, and when it was given that: unless nobody waits for that job any longer.
    pub(crate) fn is_cleaned_after(&self, now_ms: u64, id: &RunnerId) -> Option<(JobId, Epoch)> {
        let runner = self.runner(id)?;
        let is_cleaned = matches!(runner.state.name(), StateName::Releasing | StateName::Resetting);
        let checkpoint = self.checkpoint(runner.checkpoint.as_ref()?)?;
        let waits = is_cleaned && !self.time_is_over(now_ms, id);
        waits.then(|| (checkpoint.job.clone(), checkpoint.epoch))
    }

    fn is_late(&self, checkpoint: &Checkpoint, now: Timestamp) -> bool {
        let lasts = self.pools.get(&checkpoint.pool).map(|pool| pool.rules.checkpoints.lasts);
        lasts.is_some_and(|lasts| checkpoint.created_at.after(lasts) <= now)
    }

    /// Invariant 3: the checkpoint that holds a runner is its own, and is not at its end.
    pub(super) fn held_by_its_checkpoint(&mut self, scene: &Scene<'_>, after: &Runner) {
        let Some(Holder::Checkpoint(name)) = after.holder() else { return };
        let holds = self.checkpoint(name).is_some_and(|checkpoint| {
            checkpoint.state.is_active() && (&checkpoint.runner, checkpoint.epoch) == (&after.id, after.epoch)
        });
        if !holds {
            let what = format!(
                "{}@{} is held by {name}, which is {:?}",
                after.id,
                after.epoch,
                self.checkpoint(name)
            );
            self.fails(scene, 3, &[&after.id, name], what);
        }
    }

    /// Those that are active though their machines are clean, or gone.
    pub(super) fn done_and_not_ended(&self) -> impl Iterator<Item = &CheckpointName> {
        let active = self.checkpoints.known.values().filter(|checkpoint| checkpoint.state.is_active());
        active
            .filter(|checkpoint| {
                let runner = self.runner(&checkpoint.runner);
                runner.is_none_or(|runner| runner.checkpoint.as_ref() != Some(&checkpoint.name))
            })
            .map(|checkpoint| &checkpoint.name)
    }

    /// After the calm.
    pub(super) fn checkpoints_have_ended(&mut self, scene: &Scene<'_>) {
        let open = self.checkpoints.known.values().find(|checkpoint| checkpoint.state.is_active());
        if let Some(Checkpoint { name, state, .. }) = open.cloned() {
            let what = format!("faults stopped long ago, and {name} is still {}", state.as_str());
            self.fails(scene, 23, &[&name], what);
        }
    }
}
