//! The machine's rules about tasks and epochs, one table or story each; and what such stories are told with.

use std::time::Duration;

use motorpool_domain::ci::CiSystem;
use motorpool_domain::runner::{StateName, TaskOutcome, TaskResult};
use motorpool_domain::{Epoch, Label, RunnerId, TaskId};
use motorpool_wire::agent::{Protocol, SyncAnswer, SyncRequest, TaskKind, TaskOrder};

use super::*;

pub(super) const FIRST_CONTACT_MS: u64 = 900_000;

pub(super) fn at(boot_ms: u64) -> BootInstant {
    BootInstant::from_boot_ms(boot_ms)
}

pub(super) fn settings(seed: u64) -> Settings {
    Settings {
        runner: RunnerId::parse("r-1").unwrap(),
        boot_id: "boot".to_owned(),
        agent_version: "0".to_owned(),
        session: "session".to_owned(),
        next_token: None,
        seed,
        first_contact_by: at(FIRST_CONTACT_MS),
    }
}

pub(super) fn answer(task: Option<TaskOrder>) -> SyncAnswer {
    SyncAnswer {
        protocol: Protocol::OURS,
        epoch: Epoch(1),
        state: StateName::Running,
        task,
        end: false,
        kept: false,
        threshold_in_ms: Some(600_000),
        fence_in_ms: Some(700_000),
        next_sync_in_ms: 15_000,
        token_due: false,
        token_taken: false,
    }
}

pub(super) fn label() -> Label {
    Label::parse("motorpool-c-1").unwrap()
}

pub(super) fn order(id: &str, kind: TaskKind) -> TaskOrder {
    TaskOrder { id: TaskId::parse(id).unwrap(), kind, timeout_ms: 60_000, env: Default::default() }
}

pub(super) fn prepare() -> TaskOrder {
    order("1-prepare-1", TaskKind::Prepare { script: Some("p".into()) })
}

pub(super) fn register(script: Option<&str>, run: Option<&str>) -> TaskOrder {
    let (script, run) = (script.map(Into::into), run.map(Into::into));
    order("1-register-1", TaskKind::Register { label: label(), script, run, ci: None })
}

/// With a program that needs something from its CI system.
pub(super) fn register_ci(ci: CiSystem) -> TaskOrder {
    let kind = TaskKind::Register { label: label(), script: None, run: None, ci: Some(ci) };
    order("1-register-1", kind)
}

pub(super) fn deregister(script: Option<&str>) -> TaskOrder {
    order("1-deregister-1", TaskKind::Deregister { label: label(), script: script.map(Into::into) })
}

pub(super) fn cleanup(script: Option<&str>) -> TaskOrder {
    order("1-cleanup-1", TaskKind::Cleanup { script: script.map(Into::into) })
}

/// A machine and its time.
pub(super) struct Story {
    pub(super) machine: Machine,
    pub(super) now_ms: u64,
}

impl Story {
    /// In contact: the first sync is out.
    pub(super) fn begun() -> Self {
        Self::begun_with(Memory::fresh(Epoch(1)))
    }

    pub(super) fn begun_with(memory: Memory) -> Self {
        let mut story = Self { machine: Machine::new(settings(7), memory, at(1_000)), now_ms: 1_000 };
        let effects = story.timer();
        assert!(sync_of(&effects).is_some(), "{effects:?}");
        story
    }

    /// Registered by a program that runs.
    pub(super) fn running() -> Self {
        let mut story = Self::begun();
        let effects = story.ordered(register(None, Some("run")));
        assert!(effects.iter().any(|effect| matches!(effect, Effect::StartRun(_))), "{effects:?}");
        story
    }

    pub(super) fn wait(&mut self, ms: u64) {
        self.now_ms += ms;
    }

    pub(super) fn step(&mut self, input: Input) -> Vec<Effect> {
        self.machine.step(input, at(self.now_ms))
    }

    pub(super) fn timer(&mut self) -> Vec<Effect> {
        self.step(Input::TimerFired)
    }

    pub(super) fn answered(&mut self, answer: SyncAnswer) -> Vec<Effect> {
        let sent_at = at(self.now_ms);
        self.step(Input::SyncAnswered { sent_at, answer })
    }

    pub(super) fn ordered(&mut self, order: TaskOrder) -> Vec<Effect> {
        self.answered(answer(Some(order)))
    }

    pub(super) fn ended(&mut self, id: &str, outcome: TaskOutcome) -> Vec<Effect> {
        self.step(Input::TaskEnded { task: TaskId::parse(id).unwrap(), outcome })
    }

    pub(super) fn done(&mut self, id: &str) -> Vec<Effect> {
        self.ended(id, TaskOutcome::Done)
    }

    /// It did its job, or was told to end.
    pub(super) fn run_over(&mut self) -> Vec<Effect> {
        self.run_ends(true, "it ended with exit code 0")
    }

    pub(super) fn run_ends(&mut self, well: bool, how: &str) -> Vec<Effect> {
        self.step(Input::RunEnded(RunEnd { well, how: how.to_owned() }))
    }

    pub(super) fn registered(&self) -> Option<&Label> {
        self.machine.memory.registered.as_ref().map(|registered| &registered.label)
    }

    pub(super) fn results(&self) -> Vec<&str> {
        self.machine.memory.results.iter().map(|result| result.task.as_str()).collect()
    }
}

pub(super) fn failed(why: &str) -> TaskOutcome {
    TaskOutcome::Failed { why: why.to_owned() }
}

pub(super) fn sync_of(effects: &[Effect]) -> Option<&SyncRequest> {
    effects.iter().find_map(|effect| if let Effect::Sync(request, _) = effect { Some(request) } else { None })
}

pub(super) fn started(effects: &[Effect]) -> Option<&TaskStart> {
    effects.iter().find_map(|effect| if let Effect::StartTask(start) = effect { Some(start) } else { None })
}

pub(super) fn started_run(effects: &[Effect]) -> Option<&RunStart> {
    effects.iter().find_map(|effect| if let Effect::StartRun(start) = effect { Some(start) } else { None })
}

pub(super) fn timer_of(effects: &[Effect]) -> Option<u64> {
    effects
        .iter()
        .find_map(|effect| if let Effect::SetTimer(at) = effect { Some(at.boot_ms()) } else { None })
}

pub(super) fn has(effects: &[Effect], effect: &Effect) -> bool {
    effects.contains(effect)
}

pub(super) const KILL_TASK: Effect = Effect::StopTask { grace: Duration::ZERO };
pub(super) const KILL_RUN: Effect = Effect::StopRun { grace: Duration::ZERO };

#[test]
fn a_task_is_run_reported_at_once_and_not_run_again_in_its_epoch() {
    let mut story = Story::begun();
    let effects = story.ordered(prepare());
    let start = started(&effects).unwrap();
    assert_eq!((start.kind, &start.act), (Kind::Prepare, &Act::Script("p".into())));
    assert_eq!(start.fence_at, Some(at(601_000)));
    story.wait(40);
    assert!(started(&story.ordered(prepare())).is_none(), "it is at it already");
    let effects = story.done("1-prepare-1");
    let result = TaskResult { task: prepare().id, outcome: TaskOutcome::Done, took_ms: Some(40) };
    let request = sync_of(&effects).unwrap();
    assert_eq!((&request.busy, &request.results), (&None, &vec![result]));
    let saved = effects.iter().position(|effect| matches!(effect, Effect::SaveState(_)));
    let sent = effects.iter().position(|effect| matches!(effect, Effect::Sync(..)));
    assert!(saved < sent, "what is reported is on disk before: {effects:?}");
    let effects = story.ordered(prepare());
    assert!(started(&effects).is_none(), "it is done: {effects:?}");
}

#[test]
fn an_order_for_another_task_waits_for_the_end_of_the_first() {
    let mut story = Story::begun();
    story.ordered(prepare());
    assert!(started(&story.ordered(cleanup(None))).is_none());
    assert!(sync_of(&story.done("1-prepare-1")).is_some());
    assert_eq!(started(&story.ordered(cleanup(None))).unwrap().act, Act::EmptyWorkDir);
}

#[test]
fn tasks_without_a_script_are_done_at_once_but_cleanup_empties_the_work_directory() {
    let nothing =
        [order("1-prepare-1", TaskKind::Prepare { script: None }), register(None, None), deregister(None)];
    for order in nothing {
        let mut story = Story::begun();
        let effects = story.ordered(order.clone());
        assert!(started(&effects).is_none());
        assert_eq!(sync_of(&effects).unwrap().results.len(), 1, "{order:?}");
    }
    assert_eq!(started(&Story::begun().ordered(cleanup(Some("c")))).unwrap().act, Act::Script("c".into()));
}

#[test]
fn registering_runs_the_script_then_the_program_and_only_then_is_registered() {
    let mut story = Story::begun();
    let effects = story.ordered(register(Some("r"), Some("run")));
    assert_eq!(started(&effects).unwrap().label, Some(label()));
    assert_eq!((started_run(&effects), story.registered()), (None, None));
    let effects = story.done("1-register-1");
    assert_eq!(started_run(&effects).unwrap().program.as_deref(), Some("run"));
    assert_eq!(sync_of(&effects).unwrap().registered, Some(label()));
}

#[test]
fn a_failed_registration_is_reported_and_starts_nothing() {
    let mut story = Story::begun();
    story.ordered(register(Some("r"), Some("run")));
    let effects = story.ended("1-register-1", failed("no"));
    assert_eq!(started_run(&effects), None);
    let request = sync_of(&effects).unwrap();
    assert_eq!(request.registered, None);
    assert_eq!(
        request.results,
        [TaskResult { task: register(None, None).id, outcome: failed("no"), took_ms: Some(0) }]
    );
}

#[test]
fn a_program_that_took_its_job_and_ended_is_registered_again_when_ordered() {
    let mut story = Story::running();
    story.wait(60_000);
    let effects = story.run_over();
    let request = sync_of(&effects).unwrap();
    assert_eq!((&request.registered, request.results.len()), (&None, 0));
    assert!(started_run(&story.ordered(register(None, Some("run")))).is_some());
}

#[test]
fn a_program_that_keeps_ending_soon_is_slowed_down() {
    let mut story = Story::running();
    let mut pauses = Vec::new();
    for _ in 0..9 {
        story.wait(2_000);
        let ended_ms = story.now_ms;
        let mut effects = story.run_over();
        assert_eq!(story.registered(), None);
        while sync_of(&effects).is_none() {
            story.now_ms = timer_of(&effects).unwrap();
            effects = story.timer();
        }
        pauses.push(story.now_ms - ended_ms);
        story.ordered(register(None, Some("run")));
    }
    assert_eq!(pauses[0], 0);
    assert!(pauses[1] >= 250 && pauses[8] >= 10_000, "{pauses:?}");
    story.wait(60_000);
    assert!(sync_of(&story.run_over()).is_some(), "a program that did its job is forgiven");
}

#[test]
fn deregistering_first_stops_the_program_and_then_runs_the_script() {
    let mut story = Story::running();
    let effects = story.ordered(deregister(Some("d")));
    assert!(has(&effects, &Effect::StopRun { grace: Duration::from_secs(10) }), "{effects:?}");
    assert!(started(&effects).is_none());
    let effects = story.run_over();
    assert_eq!(started(&effects).unwrap().kind, Kind::Deregister);
    assert_eq!(story.registered(), Some(&label()), "the CI system still knows it");
    let effects = story.done("1-deregister-1");
    assert_eq!(sync_of(&effects).unwrap().registered, None);
    assert_eq!(story.results(), ["1-deregister-1"], "so that it can register again");
}

#[test]
fn a_failed_deregistration_stays_registered_also_after_a_restart() {
    let mut story = Story::running();
    story.ordered(deregister(Some("d")));
    story.run_over();
    let effects = story.ended("1-deregister-1", failed("no"));
    assert_eq!(sync_of(&effects).unwrap().registered, Some(label()));
    let memory = story.machine.memory.clone().after_restart(true);
    assert_eq!(memory.registered.map(|registered| registered.label), Some(label()));
}

#[test]
fn registering_and_deregistering_may_alternate_in_one_epoch() {
    let mut story = Story::begun();
    for _ in 0..3 {
        story.ordered(register(None, None));
        assert_eq!((story.registered(), story.results()), (Some(&label()), vec!["1-register-1"]));
        story.ordered(deregister(None));
        assert_eq!((story.registered(), story.results()), (None, vec!["1-deregister-1"]));
    }
}

#[test]
fn cleaning_waits_until_the_program_is_gone() {
    let mut story = Story::running();
    let effects = story.ordered(cleanup(None));
    assert!(started(&effects).is_none());
    assert!(effects.iter().any(|effect| matches!(effect, Effect::StopRun { .. })));
    assert!(started(&story.run_over()).is_some());
    assert_eq!(story.registered(), None);
}

#[test]
fn a_newer_epoch_forgets_results_and_ends_old_tasks_but_keeps_the_registration() {
    let mut story = Story::begun();
    story.ordered(register(None, None));
    story.ordered(prepare());
    let effects = story.answered(SyncAnswer { epoch: Epoch(2), ..answer(None) });
    assert!(has(&effects, &Effect::StopTask { grace: GRACE }), "{effects:?}");
    let effects = story.ended("1-prepare-1", failed("stopped"));
    let request = sync_of(&effects).unwrap();
    assert_eq!((request.epoch, &request.registered), (Epoch(2), &Some(label())));
    assert_eq!(request.results, [], "a result of an old epoch is nobody's business");
}

#[test]
fn inv_21_an_older_epoch_changes_nothing() {
    let mut story = Story::begun_with(Memory::fresh(Epoch(5)));
    let before = story.machine.memory.clone();
    let old = SyncAnswer { epoch: Epoch(4), end: true, ..answer(Some(prepare())) };
    let effects = story.answered(old);
    assert!(matches!(effects[..], [Effect::SetTimer(_)]), "{effects:?}");
    assert_eq!(story.machine.memory, before);
}

#[test]
fn fault_17_an_agent_rolled_back_learns_the_present_epoch_and_goes_on() {
    let mut old = Memory::fresh(Epoch(3));
    let (task, kind) = (prepare().id, Kind::Prepare);
    old.remember(Remembered { task, kind, outcome: TaskOutcome::Done, took_ms: None });
    old.deadlines = Some(Deadlines { threshold: Some(at(1)), fence: Some(at(2)) });
    let mut story = Story::begun_with(old.after_restart(false));
    let order = order("4-cleanup-1", TaskKind::Cleanup { script: None });
    let effects = story.answered(SyncAnswer { epoch: Epoch(4), ..answer(Some(order)) });
    assert_eq!(started(&effects).unwrap().epoch, Epoch(4));
    assert_eq!(story.results(), Vec::<&str>::new());
}
