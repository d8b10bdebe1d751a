//! Checkpoints that wait: how long before a person hears of it, when a CI system is asked, and what is a proof that the wait is over.
#![expect(clippy::expect_used, reason = "what a test is made of is known to be right")]

mod samples;

use motorpool_domain::checkpoint::{
    Checkpoint, CheckpointState, FinalizeSource, Finalized, Finalizing, Job, JobOutcome, abandoned, ended,
    finalizing, forgotten, has_outlived_its_time, is_asked_sooner, is_stale, next_look,
};
use motorpool_domain::pool::{Clean, Dispatch, Rules};
use motorpool_domain::runner::{
    CleanStep, Decision, Runner, RunnerEvent, RunnerState, StateName, decide, is_held_up_by_ci,
};
use motorpool_domain::{Epoch, JobId, Timestamp};
use samples::{NOW, checkpoint_name, hold_of_job, hook_rules, in_state};
use std::time::Duration;

const JOB: &str = "7";

fn rules() -> Rules {
    hook_rules(Clean::Reset)
}

fn at(seconds: u64) -> Timestamp {
    NOW.after(Duration::from_secs(seconds))
}

/// A machine that the job's checkpoint holds, or whose clean step it promised.
fn runner(state: StateName) -> Runner {
    let mut runner = Runner { checkpoint: Some(checkpoint_name(JOB)), ..in_state(state, true) };
    runner.state = match state {
        StateName::Running => RunnerState::Running { hold: hold_of_job(JOB), leaving: false },
        StateName::Releasing => RunnerState::Releasing { hold: hold_of_job(JOB) },
        StateName::Created
        | StateName::Resetting
        | StateName::Idle
        | StateName::Claimed
        | StateName::Quarantined
        | StateName::Terminating
        | StateName::Terminated => runner.state,
    };
    runner
}

fn checkpoint() -> Checkpoint {
    let job =
        Job { id: JobId::parse(JOB).expect("an id"), project: None, attempt: None, caller: None, key: None };
    Checkpoint::open(checkpoint_name(JOB), &runner(StateName::Running), job, &rules().checkpoints, NOW)
}

fn finalized(status: JobOutcome, source: FinalizeSource) -> Checkpoint {
    let finalized = Some(Finalized { status, source, at: NOW });
    Checkpoint { state: CheckpointState::FinalizeQueued, finalized, ..checkpoint() }
}

#[test]
fn a_failure_overrides_a_success_until_the_machine_is_being_cleaned_and_while_a_person_must_look() {
    let queued = finalized(JobOutcome::Success, FinalizeSource::Hook);
    let is_worse = |runner: &Runner| {
        let word = finalizing(&queued, Some(runner), JobOutcome::Failure, FinalizeSource::Poller, at(1));
        matches!(word, Finalizing::Worse(_))
    };
    for (state, expected) in [
        (StateName::Running, true),
        (StateName::Releasing, true),
        (StateName::Resetting, true),
        (StateName::Quarantined, true),
        (StateName::Idle, false),
        (StateName::Terminating, false),
        (StateName::Terminated, false),
    ] {
        assert_eq!(is_worse(&runner(state)), expected, "{state}");
        let of_another = Runner { checkpoint: None, ..runner(state) };
        assert!(!is_worse(&of_another), "{state}, of another job by now");
    }

    // It could not be cleaned, and a person has looked: how it is cleaned then is settled anew.
    let failed = Runner {
        state: RunnerState::Resetting {
            attempt: 3,
            not_before: NOW,
            why: "it failed".to_owned(),
            step: Some(CleanStep::Cleanup),
        },
        ..runner(StateName::Resetting)
    };
    assert!(!is_worse(&failed), "it is being cleaned up");
    let failed = after(&failed, &RunnerEvent::CleanFailed { why: "it failed".to_owned() });
    assert_eq!(failed.state.name(), StateName::Quarantined);
    assert!(is_worse(&failed));
    let released = after(&failed, &RunnerEvent::OperatorRelease);
    assert!(matches!(released.state, RunnerState::Resetting { step: None, .. }) && is_worse(&released));
}

fn after(runner: &Runner, event: &RunnerEvent) -> Runner {
    match decide(runner, event, &rules(), NOW) {
        Decision::Change(change) => change.after,
        Decision::Stay | Decision::Refuse(_) => unreachable!("{event:?} changes {runner:?}"),
    }
}

#[test]
fn only_the_machine_that_had_the_job_proves_that_it_was_cleaned() {
    let queued = finalized(JobOutcome::Success, FinalizeSource::Hook);
    let name = |runner: Option<&Runner>| ended(&queued, runner, at(60)).map(|ended| ended.state.as_str());
    let next = |state| Runner { checkpoint: None, epoch: Epoch(4), ..in_state(state, true) };
    assert_eq!(name(Some(&runner(StateName::Resetting))), None, "it is being cleaned");
    assert_eq!(name(Some(&next(StateName::Idle))), Some("deleted"));
    assert_eq!(name(Some(&next(StateName::Running))), Some("deleted"), "another job has it already");
    assert_eq!(name(Some(&next(StateName::Terminated))), Some("reset"), "it is gone");
    assert_eq!(name(None), Some("reset"), "it is gone");

    // Registered again under its id before anybody looked.
    assert_eq!(name(Some(&next(StateName::Created))), Some("reset"), "nobody has cleaned it yet");
    for state in [StateName::Created, StateName::Resetting, StateName::Idle, StateName::Running] {
        let anew = Runner { made_at: at(30), ..next(state) };
        assert_eq!(name(Some(&anew)), Some("reset"), "{state}: what was cleaned is another life's");
    }
}

#[test]
fn a_checkpoint_is_stale_when_nobody_ended_it_or_its_ci_system_does_not_answer() {
    let (rules, queued) = (rules(), finalized(JobOutcome::Failure, FinalizeSource::Hook));
    let (lasts, releasing) = (rules.checkpoints.lasts, rules.limits.releasing);
    let late = NOW.after(lasts).after(releasing);
    let early = NOW.after(lasts);
    assert!(has_outlived_its_time(&queued, &rules, late) && !has_outlived_its_time(&queued, &rules, early));
    for (state, expected) in [
        (StateName::Releasing, true),
        (StateName::Resetting, true),
        // A person is told of that already, or it goes on by itself.
        (StateName::Quarantined, false),
        (StateName::Running, false),
    ] {
        let waits = runner(state);
        assert_eq!(is_stale(&queued, &waits, &rules, late), expected, "{state}");
        assert!(!is_stale(&queued, &waits, &rules, early), "{state}: it may be over soon");
        let paused = Runner { paused_at: Some(NOW), ..waits.clone() };
        assert!(!is_stale(&queued, &paused, &rules, late), "{state}: its CI system has answered");
        let without = Rules { ci: None, ..rules.clone() };
        assert!(!is_stale(&queued, &waits, &without, late), "{state}: nobody is waited for");
    }
    let collected = Some(Finalized { status: JobOutcome::Canceled, source: FinalizeSource::Gc, at: NOW });
    let forgotten = Checkpoint { finalized: collected, ..checkpoint() };
    assert!(is_stale(&forgotten, &runner(StateName::Quarantined), &rules, NOW), "as soon as it is forgotten");
    let over = CheckpointState::GcReset { at: NOW, why: String::new() };
    assert!(!is_stale(&Checkpoint { state: over, ..forgotten }, &runner(StateName::Idle), &rules, late));
}

#[test]
fn one_whose_machine_was_taken_from_it_is_not_forgotten() {
    assert!(abandoned(&checkpoint(), &runner(StateName::Quarantined)));
    let word = finalizing(&checkpoint(), None, JobOutcome::Canceled, FinalizeSource::Gc, NOW);
    let Finalizing::Queued(taken) = word else { unreachable!("it is the first word: {word:?}") };
    assert!(!taken.is_forgotten());
    assert!(!is_stale(&taken, &runner(StateName::Quarantined), &rules(), at(86_400)));
}

#[test]
fn a_claim_that_is_released_late_forgets_no_job() {
    let claims = Rules { dispatch: Dispatch::Claim, ..rules() };
    let late = at(24 * 3_600);
    for state in [StateName::Running, StateName::Releasing, StateName::Resetting] {
        let hooks = forgotten(&checkpoint(), &runner(state), &rules(), late);
        assert!(hooks.is_some_and(|forgotten| forgotten.is_forgotten()), "{state}");
        assert_eq!(forgotten(&checkpoint(), &runner(state), &claims, late), None, "{state}");
    }
    assert!(abandoned(&checkpoint(), &runner(StateName::Releasing)), "it was cancelled with its claim");
}

#[test]
fn a_ci_system_is_asked_in_its_time_or_when_another_job_comes_and_no_more_often_than_it_is_polled() {
    let (rules, runner) = (rules(), runner(StateName::Running));
    let created = checkpoint();
    assert_eq!(created.look_at, at(120));
    let look = |checkpoint: &Checkpoint, now| next_look(checkpoint, Some(&runner), &rules, true, now);
    let runner_time = Runner { threshold: None, ..runner.clone() };
    let unhurried =
        |checkpoint: &Checkpoint, now| next_look(checkpoint, Some(&runner_time), &rules, true, now);
    assert_eq!(look(&created, at(30)), at(60), "its runner's own threshold comes before");
    assert_eq!(unhurried(&created, at(30)), at(120), "who looks in between has the time stay");
    assert_eq!(unhurried(&created, at(120)), at(140));

    assert!(is_asked_sooner(&created, &rules, at(30)));
    let sooner = Checkpoint { look_at: at(30), ..created.clone() };
    let asked = Checkpoint { look_at: unhurried(&sooner, at(30)), ..created.clone() };
    assert_eq!(asked.look_at, at(50));
    for second in 30..=50 {
        assert!(!is_asked_sooner(&asked, &rules, at(second)), "somebody is about to ask, at {second}");
    }
    assert!(!is_asked_sooner(&created, &rules, at(100)), "the time has almost come");

    let ended = finalized(JobOutcome::Success, FinalizeSource::Hook);
    assert!(!is_asked_sooner(&Checkpoint { look_at: at(3_600), ..ended }, &rules, at(30)), "its job is over");
    assert!(!is_asked_sooner(&created, &Rules { ci: None, ..rules.clone() }, at(30)), "nobody can be asked");
    assert!(!is_asked_sooner(&created, &Rules { dispatch: Dispatch::Claim, ..rules }, at(30)));
}

#[test]
fn a_machine_without_a_job_that_waits_for_its_ci_system_is_told_of_after_a_while() {
    let rules = rules();
    let late = NOW.after(rules.resets_within());
    let early = Timestamp::from_millis(late.as_millis() - 1);
    let joins = Runner { checkpoint: None, ..runner(StateName::Resetting) };
    let clean = Runner { checkpoint: None, paused_at: Some(NOW), ..runner(StateName::Idle) };
    for waits in [&joins, &clean] {
        assert!(is_held_up_by_ci(waits, &rules, late) && !is_held_up_by_ci(waits, &rules, early));
        assert!(!is_held_up_by_ci(waits, &Rules { ci: None, ..rules.clone() }, late), "nobody is waited for");
    }
    assert!(
        !is_held_up_by_ci(&Runner { paused_at: Some(NOW), ..joins }, &rules, late),
        "it is being cleaned"
    );
    assert!(!is_held_up_by_ci(&Runner { paused_at: None, ..clean }, &rules, late), "it waits for jobs");
    let of_a_job = runner(StateName::Releasing);
    assert!(!is_held_up_by_ci(&of_a_job, &rules, late), "its checkpoint has a time of its own");
}
