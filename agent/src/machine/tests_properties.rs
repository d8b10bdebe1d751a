//! Whatever comes in, in whatever order: no work beyond its deadline, one task at a time, the same effects for the same inputs.

use std::time::Duration;

use motorpool_domain::ci::CiSystem;
use motorpool_domain::runner::{Notice, StateName, TaskOutcome};
use motorpool_domain::{Epoch, TaskId};
use motorpool_wire::agent::{RegistrationAnswer, SyncAnswer, TaskKind, TaskOrder};
use proptest::prelude::*;

use super::tests::{FIRST_CONTACT_MS, at, label, order, settings};
use super::*;

/// An input and how much later it comes. Those that need work or a sync under way are skipped if there is none.
#[derive(Debug, Clone)]
enum Happening {
    Answer { travel_ms: u64, answer: SyncAnswer },
    Failure(SyncFailure),
    TaskEnds { well: bool },
    Registered,
    RegistrationFails(RegistrationFailure),
    RunEnds { well: bool },
    Noticed(Notice),
    ProgramFound,
    TokenWritten { well: bool },
    StrangersTaskEnds,
    TimerFires,
    Stop,
}

fn happenings() -> impl Strategy<Value = Vec<(u64, Happening)>> {
    let pause_ms = prop_oneof![0..50_u64, 100..20_000_u64, 20_000..400_000_u64];
    let happening = prop_oneof![
        8 => (0..3_000_u64, answers())
            .prop_map(|(travel_ms, answer)| Happening::Answer { travel_ms, answer }),
        2 => failures().prop_map(Happening::Failure),
        4 => any::<bool>().prop_map(|well| Happening::TaskEnds { well }),
        4 => Just(Happening::Registered),
        2 => registration_failures().prop_map(Happening::RegistrationFails),
        3 => any::<bool>().prop_map(|well| Happening::RunEnds { well }),
        1 => prop_oneof![Just(Notice::Rebalance), Just(Notice::Interruption)].prop_map(Happening::Noticed),
        1 => Just(Happening::ProgramFound),
        2 => prop_oneof![4 => Just(true), 1 => Just(false)]
            .prop_map(|well| Happening::TokenWritten { well }),
        1 => Just(Happening::StrangersTaskEnds),
        6 => Just(Happening::TimerFires),
    ];
    // A stop ends the story, so it comes seldom.
    let happening = prop_oneof![60 => happening, 1 => Just(Happening::Stop)];
    proptest::collection::vec((pause_ms, happening), 1..80)
}

fn failures() -> impl Strategy<Value = SyncFailure> {
    prop_oneof![
        20 => Just(SyncFailure::Unreachable),
        5 => Just(SyncFailure::Unauthorized),
        1 => Just(SyncFailure::Gone { message: "over".to_owned() }),
    ]
}

fn registration_failures() -> impl Strategy<Value = RegistrationFailure> {
    prop_oneof![
        4 => proptest::option::of(0..2_000_u64)
            .prop_map(|wait_s| RegistrationFailure::Later { wait: wait_s.map(Duration::from_secs) }),
        2 => Just(RegistrationFailure::Outdated),
        1 => Just(RegistrationFailure::Refused { why: "no".to_owned() }),
    ]
}

fn answers() -> impl Strategy<Value = SyncAnswer> {
    let in_ms = || proptest::option::weighted(0.8, 0..500_000_u64);
    let end = prop_oneof![40 => Just(false), 1 => Just(true)];
    let next = prop_oneof![Just(0_u64), 500..60_000_u64, Just(u64::MAX)];
    let token = (any::<bool>(), any::<bool>());
    (1..4_u64, proptest::option::weighted(0.7, orders()), end, any::<bool>(), in_ms(), in_ms(), next, token)
        .prop_map(|(epoch, task, end, kept, threshold_in_ms, fence_in_ms, next_sync_in_ms, token)| {
            SyncAnswer {
                protocol: motorpool_wire::agent::Protocol::OURS,
                epoch: Epoch(epoch),
                state: StateName::Running,
                task,
                end,
                kept,
                threshold_in_ms,
                fence_in_ms,
                next_sync_in_ms,
                token_due: token.0,
                token_taken: token.1,
            }
        })
}

fn orders() -> impl Strategy<Value = TaskOrder> {
    let ci = proptest::option::of(prop_oneof![Just(CiSystem::GitHub), Just(CiSystem::GitLab)]);
    (0..4_u8, proptest::option::of(Just("script".to_owned())), any::<bool>(), ci, 1..4_u64).prop_map(
        |(kind, script, runs, ci, epoch)| {
            let run = runs.then(|| "run".to_owned());
            let (name, kind) = match kind {
                0 => ("prepare", TaskKind::Prepare { script }),
                1 => ("register", TaskKind::Register { label: label(), script, run, ci }),
                2 => ("deregister", TaskKind::Deregister { label: label(), script }),
                _ => ("cleanup", TaskKind::Cleanup { script }),
            };
            order(&format!("{epoch}-{name}-1"), kind)
        },
    )
}

/// The host and the server as the effects make them, with the rules that must hold there.
#[derive(Default)]
struct Model {
    now_ms: u64,
    task: Option<(TaskId, Told)>,
    run: Option<Told>,
    syncing: bool,
    /// What is asked for, until it is answered.
    fetch: Option<Fetch>,
    /// The last answer that came.
    fetched: Option<Fetch>,
    noticed: Option<Notice>,
    making_token: bool,
    /// The disk has another token beside the present one.
    two_tokens: bool,
    deadlines: Option<Deadlines>,
    timer: Option<BootInstant>,
    over: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Nothing,
    ToEnd,
    ToDie,
}

impl Model {
    fn input(&mut self, happening: Happening) -> Option<Input> {
        Some(match happening {
            Happening::Answer { travel_ms, answer } if self.syncing => {
                self.syncing = false;
                Input::SyncAnswered { sent_at: at(self.now_ms.saturating_sub(travel_ms)), answer }
            }
            Happening::Failure(failure) if self.syncing => {
                self.syncing = false;
                Input::SyncFailed(failure)
            }
            Happening::Answer { .. } | Happening::Failure(_) => return None,
            Happening::TaskEnds { well } => {
                let (task, _told) = self.task.take()?;
                let outcome = if well { TaskOutcome::Done } else { TaskOutcome::Failed { why: "no".into() } };
                Input::TaskEnded { task, outcome }
            }
            Happening::Registered => {
                let fetch = self.fetch.take()?;
                self.fetched = Some(fetch.clone());
                let (system, name, secret) = (CiSystem::GitHub, "r".to_owned(), "s".to_owned());
                Input::Registered { fetch, answer: RegistrationAnswer { system, name, url: None, secret } }
            }
            Happening::RegistrationFails(failure) => {
                Input::RegistrationFailed { fetch: self.fetch.take()?, failure }
            }
            Happening::RunEnds { well } => {
                self.run.take()?;
                Input::RunEnded(RunEnd { well, how: "it ended".to_owned() })
            }
            Happening::Noticed(notice) => {
                let worst = self.noticed == Some(Notice::Interruption);
                self.noticed = if worst { self.noticed } else { Some(notice) };
                Input::Noticed(notice)
            }
            Happening::ProgramFound => Input::ProgramFound { version: "1.2.3".to_owned() },
            Happening::TokenWritten { .. } if !std::mem::take(&mut self.making_token) => return None,
            Happening::TokenWritten { well: true } => {
                self.two_tokens = true;
                Input::TokenMade { sha256: "next".to_owned() }
            }
            Happening::TokenWritten { well: false } => Input::TokenNotMade,
            Happening::StrangersTaskEnds => {
                Input::TaskEnded { task: TaskId::parse("9-stranger-9").unwrap(), outcome: TaskOutcome::Done }
            }
            Happening::TimerFires => Input::TimerFired,
            Happening::Stop => Input::StopRequested,
        })
    }

    fn apply(&mut self, effect: &Effect, machine: &Machine) {
        assert!(!self.over, "after the end: {effect:?}");
        let work_ends_at = machine.deadlines().work_ends_at();
        let told = |grace: &Duration| if grace.is_zero() { Told::ToDie } else { Told::ToEnd };
        match effect {
            Effect::Sync(request, token) => {
                assert!(*token == Token::Present || self.two_tokens, "a token that is not on the disk");
                assert!(request.next_token_sha256.is_none() || self.two_tokens);
                assert_eq!(request.busy.as_ref(), machine.task.as_ref().map(Task::id));
                assert_eq!(request.notice, self.noticed, "what was noticed is told from then on");
                self.syncing = true;
            }
            Effect::StartTask(start) => {
                assert_eq!(self.task, None, "two tasks at once");
                assert_eq!(start.fence_at, work_ends_at);
                assert!(start.kind == Kind::Prepare || self.run.is_none(), "{:?} beside a run", start.kind);
                self.may_start();
                self.task = Some((start.id.clone(), Told::Nothing));
            }
            Effect::FetchRegistration(fetch) => {
                assert!(self.task.is_none() && self.run.is_none(), "it registers beside other work");
                assert_eq!((fetch.epoch, fetch.count), (machine.memory.epoch, machine.memory.programs));
                self.may_start();
                self.fetch = Some(fetch.clone());
            }
            Effect::StartRun(start) => {
                assert_eq!(self.run, None, "two programs at once");
                if start.registration.is_some() {
                    let fetched = self.fetched.take().unwrap();
                    assert_eq!((fetched.epoch, fetched.count), (start.epoch, machine.memory.programs));
                }
                assert_eq!(start.fence_at, work_ends_at);
                self.may_start();
                self.run = Some(Told::Nothing);
            }
            Effect::StopTask { grace } => self.task.as_mut().unwrap().1 = told(grace),
            Effect::StopRun { grace } => *self.run.as_mut().unwrap() = told(grace),
            Effect::RenewFence(at) => assert_eq!(*at, work_ends_at.unwrap_or(*at)),
            Effect::SaveState(_) => {}
            Effect::MakeToken => {
                assert!(!self.making_token && !self.two_tokens, "a third token");
                assert!(self.task.is_none() && self.run.is_none(), "made while work could read it");
                self.making_token = true;
            }
            Effect::AdoptToken => assert!(std::mem::take(&mut self.two_tokens), "nothing to adopt"),
            Effect::SetTimer(at) => self.timer = Some(*at),
            Effect::EndHost { .. } | Effect::EndAgent { .. } => {
                assert!(self.task.is_none() && self.run.is_none(), "work is left at the end");
                self.over = true;
            }
        }
    }

    fn may_start(&self) {
        assert!(!self.work_time_over(), "work begins beyond its deadline");
    }

    fn work_ends_at(&self) -> Option<BootInstant> {
        let first = Deadlines { threshold: None, fence: Some(at(FIRST_CONTACT_MS)) };
        self.deadlines.unwrap_or(first).work_ends_at()
    }

    fn work_time_over(&self) -> bool {
        self.work_ends_at().is_some_and(|end| end.passed(at(self.now_ms)))
    }

    fn check(&self, machine: &mut Machine) {
        let told: Vec<Told> = self.task.iter().map(|(_id, told)| *told).chain(self.run).collect();
        if self.work_time_over() {
            assert!(told.iter().all(|told| *told == Told::ToDie), "work lives beyond its deadline: {told:?}");
        } else if let Some(end) = self.work_ends_at().filter(|_| told.iter().any(|told| *told != Told::ToDie))
        {
            assert!(self.timer.is_some_and(|timer| timer <= end), "nothing will wake it at its deadline");
        }
        if let Some(again_at) = machine.fetch_again_at().filter(|_| !self.over) {
            assert!(self.timer.is_some_and(|timer| timer <= again_at), "it will never ask again");
        }
        if !self.over && told.is_empty() && !self.syncing {
            assert!(self.timer.is_some_and(|timer| timer > at(self.now_ms)), "it will never sync again");
        }
    }
}

/// Lives through it all, and gives back everything that was done.
fn live(seed: u64, happenings: &[(u64, Happening)]) -> Vec<Vec<Effect>> {
    let mut machine = Machine::new(settings(seed), Memory::fresh(Epoch(1)), at(0));
    let mut model = Model::default();
    let mut all = Vec::new();
    let begin = [(0, Happening::TimerFires)];
    for (pause_ms, happening) in begin.iter().chain(happenings) {
        model.now_ms += pause_ms;
        let Some(input) = model.input(happening.clone()) else { continue };
        if let Input::SyncAnswered { sent_at, answer } = &input
            && answer.epoch >= machine.memory.epoch
            && machine.phase == Phase::Working
        {
            model.deadlines = Some(Deadlines::of_answer(*sent_at, answer));
        }
        if input == Input::TimerFired {
            model.timer = None;
        }
        let effects = machine.step(input, at(model.now_ms));
        for effect in &effects {
            model.apply(effect, &machine);
        }
        model.check(&mut machine);
        all.push(effects);
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn inv_19_inv_22_no_work_beyond_its_deadline_and_the_same_effects_for_the_same_inputs(
        seed in any::<u64>(),
        happenings in happenings(),
    ) {
        prop_assert_eq!(live(seed, &happenings), live(seed, &happenings));
    }
}
