//! The machine's rules, one table or story each.

use std::time::Duration;

use motorpool_domain::runner::{StateName, TaskOutcome, TaskResult};
use motorpool_domain::{Epoch, Label, RunnerId, TaskId};
use motorpool_wire::agent::{SyncAnswer, SyncRequest, TaskKind, TaskOrder};

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
        seed,
        first_contact_by: at(FIRST_CONTACT_MS),
    }
}

pub(super) fn answer(task: Option<TaskOrder>) -> SyncAnswer {
    SyncAnswer {
        epoch: Epoch(1),
        state: StateName::Running,
        task,
        end: false,
        kept: false,
        threshold_in_ms: Some(600_000),
        fence_in_ms: Some(700_000),
        next_sync_in_ms: 15_000,
    }
}

pub(super) fn label() -> Label {
    Label::parse("motorpool-c-1").unwrap()
}

pub(super) fn order(id: &str, kind: TaskKind) -> TaskOrder {
    TaskOrder { id: TaskId::parse(id).unwrap(), kind, timeout_ms: 60_000 }
}

fn prepare() -> TaskOrder {
    order("1-prepare-1", TaskKind::Prepare { script: Some("p".into()) })
}

fn register(script: Option<&str>, run: Option<&str>) -> TaskOrder {
    let (script, run) = (script.map(Into::into), run.map(Into::into));
    order("1-register-1", TaskKind::Register { label: label(), script, run })
}

fn deregister(script: Option<&str>) -> TaskOrder {
    order("1-deregister-1", TaskKind::Deregister { label: label(), script: script.map(Into::into) })
}

fn cleanup(script: Option<&str>) -> TaskOrder {
    order("1-cleanup-1", TaskKind::Cleanup { script: script.map(Into::into) })
}

/// A machine and its time.
struct Story {
    machine: Machine,
    now_ms: u64,
}

impl Story {
    /// In contact: the first sync is out.
    fn begun() -> Self {
        Self::begun_with(Memory::fresh(Epoch(1)))
    }

    fn begun_with(memory: Memory) -> Self {
        let mut story = Self { machine: Machine::new(settings(7), memory, at(1_000)), now_ms: 1_000 };
        let effects = story.timer();
        assert!(sync_of(&effects).is_some(), "{effects:?}");
        story
    }

    /// Registered by a program that runs.
    fn running() -> Self {
        let mut story = Self::begun();
        let effects = story.ordered(register(None, Some("run")));
        assert!(effects.iter().any(|effect| matches!(effect, Effect::StartRun(_))), "{effects:?}");
        story
    }

    fn wait(&mut self, ms: u64) {
        self.now_ms += ms;
    }

    fn step(&mut self, input: Input) -> Vec<Effect> {
        self.machine.step(input, at(self.now_ms))
    }

    fn timer(&mut self) -> Vec<Effect> {
        self.step(Input::TimerFired)
    }

    fn answered(&mut self, answer: SyncAnswer) -> Vec<Effect> {
        let sent_at = at(self.now_ms);
        self.step(Input::SyncAnswered { sent_at, answer })
    }

    fn ordered(&mut self, order: TaskOrder) -> Vec<Effect> {
        self.answered(answer(Some(order)))
    }

    fn ended(&mut self, id: &str, outcome: TaskOutcome) -> Vec<Effect> {
        self.step(Input::TaskEnded { task: TaskId::parse(id).unwrap(), outcome })
    }

    fn done(&mut self, id: &str) -> Vec<Effect> {
        self.ended(id, TaskOutcome::Done)
    }

    fn registered(&self) -> Option<&Label> {
        self.machine.memory.registered.as_ref().map(|registered| &registered.label)
    }

    fn results(&self) -> Vec<&str> {
        self.machine.memory.results.iter().map(|result| result.task.as_str()).collect()
    }
}

fn failed(why: &str) -> TaskOutcome {
    TaskOutcome::Failed { why: why.to_owned() }
}

fn sync_of(effects: &[Effect]) -> Option<&SyncRequest> {
    effects.iter().find_map(|effect| if let Effect::Sync(request) = effect { Some(request) } else { None })
}

fn started(effects: &[Effect]) -> Option<&TaskStart> {
    effects.iter().find_map(|effect| if let Effect::StartTask(start) = effect { Some(start) } else { None })
}

fn started_run(effects: &[Effect]) -> Option<&RunStart> {
    effects.iter().find_map(|effect| if let Effect::StartRun(start) = effect { Some(start) } else { None })
}

fn timer_of(effects: &[Effect]) -> Option<u64> {
    effects
        .iter()
        .find_map(|effect| if let Effect::SetTimer(at) = effect { Some(at.boot_ms()) } else { None })
}

fn has(effects: &[Effect], effect: &Effect) -> bool {
    effects.contains(effect)
}

const KILL_TASK: Effect = Effect::StopTask { grace: Duration::ZERO };
const KILL_RUN: Effect = Effect::StopRun { grace: Duration::ZERO };

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
    let result = TaskResult { task: prepare().id, outcome: TaskOutcome::Done };
    let request = sync_of(&effects).unwrap();
    assert_eq!((&request.busy, &request.results), (&None, &vec![result]));
    let saved = effects.iter().position(|effect| matches!(effect, Effect::SaveState(_)));
    let sent = effects.iter().position(|effect| matches!(effect, Effect::Sync(_)));
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
    assert_eq!(started_run(&effects).unwrap().program, "run");
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
    assert_eq!(request.results, [TaskResult { task: register(None, None).id, outcome: failed("no") }]);
}

#[test]
fn a_program_that_took_its_job_and_ended_is_registered_again_when_ordered() {
    let mut story = Story::running();
    story.wait(60_000);
    let effects = story.step(Input::RunEnded);
    let request = sync_of(&effects).unwrap();
    assert_eq!((&request.registered, request.results.len()), (&None, 0));
    assert!(started_run(&story.ordered(register(None, Some("run")))).is_some());
}

#[test]
fn a_program_that_keeps_ending_at_once_is_slowed_down() {
    let mut story = Story::running();
    let mut pauses = Vec::new();
    for _ in 0..9 {
        let ended_ms = story.now_ms;
        let mut effects = story.step(Input::RunEnded);
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
    assert!(sync_of(&story.step(Input::RunEnded)).is_some(), "a program that did its job is forgiven");
}

#[test]
fn deregistering_first_stops_the_program_and_then_runs_the_script() {
    let mut story = Story::running();
    let effects = story.ordered(deregister(Some("d")));
    assert!(has(&effects, &Effect::StopRun { grace: Duration::from_secs(10) }), "{effects:?}");
    assert!(started(&effects).is_none());
    let effects = story.step(Input::RunEnded);
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
    story.step(Input::RunEnded);
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
    assert!(started(&story.step(Input::RunEnded)).is_some());
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
    old.remember(prepare().id, Kind::Prepare, TaskOutcome::Done);
    old.deadlines = Some(Deadlines { threshold: Some(at(1)), fence: Some(at(2)) });
    let mut story = Story::begun_with(old.after_restart(false));
    let order = order("4-cleanup-1", TaskKind::Cleanup { script: None });
    let effects = story.answered(SyncAnswer { epoch: Epoch(4), ..answer(Some(order)) });
    assert_eq!(started(&effects).unwrap().epoch, Epoch(4));
    assert_eq!(story.results(), Vec::<&str>::new());
}

#[test]
fn inv_19_deadlines_count_from_the_sending_and_work_is_killed_at_the_threshold() {
    let mut story = Story::begun();
    let sent_at = at(story.now_ms);
    story.wait(5_000);
    let effects =
        story.step(Input::SyncAnswered { sent_at, answer: answer(Some(register(None, Some("run")))) });
    assert_eq!(started_run(&effects).unwrap().fence_at, Some(at(601_000)));
    story.step(Input::SyncFailed(SyncFailure::Unreachable));
    story.now_ms = 600_999;
    assert!(!has(&story.timer(), &KILL_RUN));
    story.now_ms = 601_000;
    let effects = story.timer();
    assert!(has(&effects, &KILL_RUN), "{effects:?}");
    story.step(Input::RunEnded);
    assert_eq!(story.registered(), None);
}

#[test]
fn work_is_killed_at_the_threshold_though_the_control_plane_is_there() {
    let mut story = Story::begun();
    story.ordered(prepare());
    story.wait(1_000);
    let effects = story.answered(SyncAnswer { threshold_in_ms: Some(0), ..answer(None) });
    assert!(has(&effects, &KILL_TASK), "{effects:?}");
    story.ended("1-prepare-1", failed("fenced"));
    let late = SyncAnswer { threshold_in_ms: Some(0), ..answer(Some(cleanup(None))) };
    assert!(started(&story.answered(late)).is_none(), "no work begins beyond the threshold");
}

#[test]
fn fault_05_after_a_long_pause_any_input_finds_the_deadlines_overdue() {
    let late: [fn(&mut Story) -> Vec<Effect>; 3] = [
        |story| story.timer(),
        |story| story.step(Input::SyncFailed(SyncFailure::Unreachable)),
        |story| {
            let sent_at = at(story.now_ms - 650_000);
            story.step(Input::SyncAnswered { sent_at, answer: answer(Some(prepare())) })
        },
    ];
    for input in late {
        let mut story = Story::running();
        story.wait(650_000);
        let effects = input(&mut story);
        assert!(has(&effects, &KILL_RUN) && started(&effects).is_none(), "{effects:?}");
    }
}

#[test]
fn every_answer_renews_the_fence_of_what_runs() {
    let mut story = Story::begun();
    let renewed = |effects: &[Effect]| effects.iter().any(|effect| matches!(effect, Effect::RenewFence(_)));
    assert!(!renewed(&story.answered(answer(None))), "nothing runs");
    story.ordered(register(None, Some("run")));
    story.wait(10_000);
    let effects = story.answered(answer(None));
    assert!(has(&effects, &Effect::RenewFence(at(611_000))), "{effects:?}");
    let effects =
        story.answered(SyncAnswer { threshold_in_ms: None, fence_in_ms: Some(100_000), ..answer(None) });
    assert!(has(&effects, &Effect::RenewFence(at(111_000))), "{effects:?}");
    let effects = story.answered(SyncAnswer { threshold_in_ms: None, fence_in_ms: None, ..answer(None) });
    assert!(has(&effects, &Effect::RenewFence(at(u64::MAX))), "{effects:?}");
}

#[test]
fn inv_20_at_the_fence_the_host_ends_once_its_work_is_gone() {
    let mut story = Story::running();
    story.step(Input::SyncFailed(SyncFailure::Unreachable));
    story.now_ms = 701_000;
    let effects = story.timer();
    assert!(has(&effects, &KILL_RUN));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::EndHost { .. } | Effect::Sync(_))));
    let effects = story.step(Input::RunEnded);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::EndHost { .. })), "{effects:?}");
    assert_eq!(story.timer(), []);
}

#[test]
fn inv_20_at_the_fence_of_a_kept_machine_its_work_ends_and_the_agent_goes_on_trying() {
    let mut story = Story::begun();
    story.answered(SyncAnswer { kept: true, ..answer(Some(register(None, Some("run")))) });
    story.step(Input::SyncFailed(SyncFailure::Unreachable));
    story.now_ms = 701_000;
    let mut effects = story.timer();
    assert!(has(&effects, &KILL_RUN) && sync_of(&effects).is_some(), "{effects:?}");
    story.step(Input::RunEnded);
    for _ in 0..50 {
        effects = story.step(Input::SyncFailed(SyncFailure::Unreachable));
        let timer_ms = timer_of(&effects).unwrap();
        assert!(timer_ms > story.now_ms && timer_ms <= story.now_ms + 30_000, "{effects:?}");
        story.now_ms = timer_ms;
        assert!(sync_of(&story.timer()).is_some());
    }
    let effects = story.answered(SyncAnswer { kept: true, ..answer(Some(cleanup(None))) });
    assert!(started(&effects).is_some(), "contact is back");
}

#[test]
fn without_any_answer_the_host_ends_at_the_time_for_first_contact() {
    let mut story = Story::begun();
    let effects = story.step(Input::SyncFailed(SyncFailure::Unauthorized));
    assert!(timer_of(&effects).unwrap() <= story.now_ms + 500);
    story.now_ms = FIRST_CONTACT_MS;
    let effects = story.timer();
    assert!(matches!(effects[..], [Effect::EndHost { .. }]), "{effects:?}");
}

#[test]
fn deadlines_outlive_the_agents_process_but_not_the_boot() {
    let mut story = Story::running();
    story.answered(answer(None));
    let memory = story.machine.memory.clone();
    let restarted = memory.clone().after_restart(true);
    assert_eq!((&restarted.registered, restarted.results.len()), (&None, 0), "its program is gone");
    let mut machine = Machine::new(settings(7), restarted, at(701_000));
    let effects = machine.step(Input::TimerFired, at(701_000));
    assert!(matches!(effects[..], [Effect::EndHost { .. }]), "{effects:?}");
    assert_eq!(memory.after_restart(false).deadlines, None);
}

#[test]
fn fault_08_end_and_gone_end_the_host_or_the_agent_of_a_kept_machine() {
    for kept in [false, true] {
        for gone in [false, true] {
            let mut story = Story::begun();
            story.answered(SyncAnswer { kept, ..answer(Some(register(None, Some("run")))) });
            let effects = if gone {
                story.step(Input::SyncFailed(SyncFailure::Gone { message: "over".into() }))
            } else {
                story.answered(SyncAnswer { kept, end: true, ..answer(None) })
            };
            let grace = if kept { GRACE } else { Duration::ZERO };
            assert!(has(&effects, &Effect::StopRun { grace }), "{effects:?}");
            let effects = story.step(Input::RunEnded);
            let host = effects.iter().any(|effect| matches!(effect, Effect::EndHost { .. }));
            let agent = effects.iter().any(|effect| matches!(effect, Effect::EndAgent { .. }));
            assert_eq!((host, agent), (!kept, kept), "gone {gone}: {effects:?}");
        }
    }
}

#[test]
fn a_stop_gives_grace_and_a_second_one_kills() {
    let mut story = Story::begun();
    story.ordered(prepare());
    assert!(has(&story.step(Input::StopRequested), &Effect::StopTask { grace: GRACE }));
    assert!(has(&story.step(Input::StopRequested), &KILL_TASK));
    let effects = story.ended("1-prepare-1", failed("stopped"));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::EndAgent { .. })), "{effects:?}");
    assert_eq!(story.results(), Vec::<&str>::new(), "the next agent does it again");
}

#[test]
fn a_stop_with_nothing_to_stop_ends_at_once() {
    assert!(matches!(Story::begun().step(Input::StopRequested)[..], [Effect::EndAgent { .. }]));
}

#[test]
fn a_server_that_answers_at_once_is_asked_each_interval_and_one_that_holds_always_has_a_poll() {
    let mut story = Story::begun();
    let effects = story.answered(answer(None));
    let sent_ms = timer_of(&effects).unwrap();
    assert_eq!(sent_ms, story.now_ms + 100, "the first answer is news");
    story.now_ms = sent_ms;
    assert_eq!(sync_of(&story.timer()).unwrap().wait_ms, 15_000);
    let next_ms = timer_of(&story.answered(answer(None))).unwrap();
    assert!((13_500..=16_500).contains(&(next_ms - sent_ms)), "{next_ms}");
    story.now_ms = next_ms;
    story.timer();
    story.wait(15_000);
    let effects = story.step(Input::SyncAnswered { sent_at: at(next_ms), answer: answer(None) });
    assert!(sync_of(&effects).is_some(), "{effects:?}");
}

#[test]
fn heartbeats_go_on_while_a_task_is_long() {
    let mut story = Story::begun();
    let mut effects = story.ordered(prepare());
    for _ in 0..20 {
        let timer_ms = timer_of(&effects).unwrap();
        assert!(timer_ms - story.now_ms <= 16_500);
        story.now_ms = timer_ms;
        assert_eq!(sync_of(&story.timer()).unwrap().busy, Some(prepare().id));
        effects = story.ordered(prepare());
    }
}

#[test]
fn failures_back_off_up_to_half_a_minute_and_a_refused_token_of_a_kept_machine_longer() {
    let mut story = Story::begun();
    let mut pauses = Vec::new();
    for _ in 0..12 {
        let timer_ms = timer_of(&story.step(Input::SyncFailed(SyncFailure::Unreachable))).unwrap();
        pauses.push(timer_ms - story.now_ms);
        story.now_ms = timer_ms;
        story.timer();
    }
    assert!((250..=500).contains(&pauses[0]), "{pauses:?}");
    assert!((15_000..=30_000).contains(&pauses[11]), "{pauses:?}");
    let mut story = Story::begun();
    story.answered(SyncAnswer { kept: true, ..answer(None) });
    let timer_ms = timer_of(&story.step(Input::SyncFailed(SyncFailure::Unauthorized))).unwrap();
    assert!(timer_ms - story.now_ms > 50_000);
}

#[test]
fn a_task_that_ends_in_an_outage_does_not_shorten_the_backoff() {
    let mut story = Story::begun();
    story.ordered(prepare());
    story.step(Input::SyncFailed(SyncFailure::Unreachable));
    let effects = story.done("1-prepare-1");
    assert!(sync_of(&effects).is_none(), "{effects:?}");
}

#[test]
fn small_moves_of_the_deadlines_are_not_written_to_disk() {
    let mut story = Story::begun();
    let saves = |effects: &[Effect]| effects.iter().any(|effect| matches!(effect, Effect::SaveState(_)));
    assert!(saves(&story.answered(answer(None))));
    story.wait(4_000);
    assert!(!saves(&story.answered(answer(None))));
    story.wait(4_000);
    assert!(saves(&story.answered(answer(None))));
}
