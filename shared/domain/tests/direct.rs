//! Runners with a fixed token: on whose machines nobody needs hands, how far they get by themselves, and that silence says nothing of them.

#![expect(clippy::panic, reason = "a test fails by panicking, its helpers too")]

mod samples;

use motorpool_domain::Timestamp;
use motorpool_domain::ci::{CiBinding, CiSystem, Registration};
use motorpool_domain::pool::{Clean, Dispatch, Limits, Rules};
use motorpool_domain::runner::{
    Credential, Decision, DueFor, Look, NextToken, Presence, Refusal, Runner, RunnerEvent, RunnerState,
    StateName, ToPause, advance_unattended, awaits_name, decide, due_for, is_silent_while_idle, look,
    must_be_named, needs_hands, next_look, overdue, to_pause,
};
use samples::{NOW, hold_of_job, hook_rules, in_state, on_its_way};

/// Of a pool whose CI system hands out jobs, and need not be told to pause.
fn rules(clean: Clean) -> Rules {
    Rules { ci: None, ..hook_rules(clean) }
}

fn fixed(runner: Runner) -> Runner {
    Runner { credential: Some(Credential::fixed(&runner.id, "a hash".to_owned())), ..runner }
}

/// Each step that it takes by itself, until it rests.
fn goes(runner: Runner, rules: &Rules) -> Vec<StateName> {
    let mut current = runner;
    let mut states = vec![current.state.name()];
    while let Some(event) = advance_unattended(&current, rules) {
        match decide(&current, &event, rules, NOW) {
            Decision::Change(change) => current = change.after,
            refused @ (Decision::Stay | Decision::Refuse(_)) => panic!("{event:?}: {refused:?}"),
        }
        states.push(current.state.name());
        assert!(states.len() < 9, "{states:?}");
    }
    states
}

#[test]
fn nobody_needs_hands_where_nothing_is_proven_and_nothing_is_run() {
    let keep = rules(Clean::Keep);
    let runner = fixed(in_state(StateName::Idle, true));
    assert!(!needs_hands(&runner, &keep));
    let mut prepares = keep.clone();
    prepares.commands.pre_runner = Some("prepare".to_owned());
    for needs in [
        rules(Clean::Reset),
        rules(Clean::Cleanup),
        prepares,
        Rules { dispatch: Dispatch::Claim, ..keep.clone() },
    ] {
        assert!(needs_hands(&runner, &needs), "{needs:?}");
        assert_eq!(advance_unattended(&fixed(on_its_way(true)), &needs), None, "{needs:?}");
    }
    assert!(needs_hands(&in_state(StateName::Idle, true), &keep), "an agent says itself what it has done");
}

#[test]
fn it_goes_from_its_registration_to_idle_and_from_a_job_to_the_next() {
    use StateName::{Created, Idle, Quarantined, Releasing, Resetting, Running, Terminated, Terminating};
    let keep = rules(Clean::Keep);
    let hold = hold_of_job("1");
    let of = |state| Runner { state, checkpoint: None, ..in_state(Idle, true) };
    for (runner, expected) in [
        (on_its_way(true), vec![Created, Resetting, Idle]),
        (of(RunnerState::Releasing { hold: hold.clone() }), vec![Releasing, Resetting, Idle]),
        (in_state(Resetting, true), vec![Resetting, Idle]),
        (of(RunnerState::Running { hold, leaving: false }), vec![Running]),
        (in_state(Idle, true), vec![Idle]),
        (in_state(Quarantined, true), vec![Quarantined]),
        (in_state(Terminating, true), vec![Terminating]),
        (in_state(Terminated, true), vec![Terminated]),
    ] {
        let name = runner.state.name();
        assert_eq!(goes(fixed(runner), &keep), expected, "from {name}");
    }
    let unlaunched = Runner { provider_id: None, ..samples::intent(true) };
    assert_eq!(goes(fixed(unlaunched), &keep), [Created], "its launch is not noted yet");
}

#[test]
fn it_waits_for_its_ci_system_as_any_other() {
    let keep = hook_rules(Clean::Keep);
    let releasing = RunnerState::Releasing { hold: hold_of_job("1") };
    let runner = fixed(Runner { state: releasing, ..in_state(StateName::Idle, true) });
    assert_eq!(goes(runner.clone(), &keep), [StateName::Releasing]);
    let paused = Runner { paused_at: Some(NOW), ..runner };
    assert_eq!(goes(paused, &keep), [StateName::Releasing, StateName::Resetting, StateName::Idle]);
}

/// In a pool of this CI system.
fn rules_of(system: CiSystem) -> Rules {
    let mut rules = hook_rules(Clean::Keep);
    rules.ci = rules.ci.map(|binding| CiBinding { system, ..binding });
    rules
}

/// A pause that nobody was asked for counts as one only where nobody need be.
#[test]
fn inv_30_a_runner_that_its_ci_system_has_no_name_for_is_over_only_if_its_agent_alone_registers_it() {
    use ToPause::{Known, Nobody, Unnamed};
    let known = |name: &str| Known(name.to_owned());
    let runner = in_state(StateName::Releasing, true);
    let id = runner.id.as_str();
    for (system, agents, with_token) in [
        (CiSystem::GitLab, Nobody, Unnamed),
        (CiSystem::GitHub, Nobody, Nobody),
        (CiSystem::Jenkins, known(id), known(id)),
    ] {
        let rules = rules_of(system);
        let binding = rules.ci.as_ref().unwrap();
        let own = fixed(runner.clone());
        assert_eq!(to_pause(&runner, binding), agents, "{system:?}");
        assert_eq!(to_pause(&own, binding), with_token, "{system:?}");
        assert_eq!(must_be_named(&rules), with_token == Unnamed, "{system:?}");
        assert_eq!(awaits_name(&own, &rules), with_token == Unnamed, "{system:?}");
        assert!(!awaits_name(&runner, &rules), "{system:?}");
        let paused = Runner { paused_at: Some(NOW), ..own.clone() };
        assert!(!awaits_name(&paused, &rules), "{system:?}");
        let named = Runner { ci_runner: Some("42".to_owned()), ..own };
        assert_eq!(to_pause(&named, binding), known("42"), "{system:?}");
        assert!(!awaits_name(&named, &rules), "{system:?}");
    }
    let gitlab = rules_of(CiSystem::GitLab);
    let (scope, name) = ("instance".to_owned(), "mp-x".to_owned());
    let made = Registration { system: CiSystem::GitLab, scope, name, id: "7".to_owned() };
    let registered = Runner { registration: Some(made), ..runner };
    assert_eq!(to_pause(&registered, gitlab.ci.as_ref().unwrap()), known("7"));
    assert!(!must_be_named(&rules(Clean::Keep)), "nobody is paused where no CI system is bound");
    assert!(!must_be_named(&Rules { dispatch: Dispatch::Claim, ..gitlab }), "nor for a claim");
}

#[test]
fn silence_says_nothing_of_who_need_not_speak() {
    let (limits, long_ago) = (Limits::default(), Timestamp::from_millis(0));
    let late = NOW.after(limits.silence() * 100);
    for state in [StateName::Idle, StateName::Resetting, StateName::Running, StateName::Releasing] {
        let agents = Runner { seen_at: Some(NOW), threshold: None, ..in_state(state, true) };
        let own = fixed(agents.clone());
        assert_eq!(look(&agents, &limits, long_ago, late), Some(Look::Silent), "{state}");
        assert_eq!(look(&own, &limits, long_ago, late), Some(Look::Heard), "{state}");
        assert_eq!(overdue(&own, &limits, long_ago, late), None, "nor does it count for the brake: {state}");
        assert!(next_look(&own, &rules(Clean::Keep), late).is_some_and(|at| at > late), "{state}");
        let due = due_for(&own, &limits, long_ago, late);
        assert_eq!(due, DueFor::Look(Look::Heard), "{state}");
        assert!(!is_silent_while_idle(&own, due));
    }
}

/// A machine that nobody cleans is not idle, and does not wait forever.
#[test]
fn its_thresholds_hold_all_the_same() {
    let reset = rules(Clean::Reset);
    let late = NOW.after(reset.resets_within() * 4);
    let mut runner = fixed(in_state(StateName::Resetting, true));
    assert_eq!(goes(runner.clone(), &reset), [StateName::Resetting]);
    let mut now = late;
    for _ in 0..3 {
        let passed = RunnerEvent::ThresholdPassed { needed: false };
        let Decision::Change(change) = decide(&runner, &passed, &reset, now) else { panic!("it stays") };
        runner = change.after;
        now = now.after(reset.resets_within() * 4);
    }
    assert_eq!(runner.state.name(), StateName::Quarantined);
    let created = fixed(on_its_way(true));
    let passed = RunnerEvent::ThresholdPassed { needed: false };
    let Decision::Change(change) = decide(&created, &passed, &reset, late) else { panic!("it stays") };
    assert_eq!(change.after.state.name(), StateName::Terminating);
    let idle = fixed(in_state(StateName::Idle, true));
    let gone = decide(&idle, &RunnerEvent::Silent { presence: Presence::Gone }, &reset, NOW);
    assert!(matches!(gone, Decision::Change(_)), "that its machine is gone is certain");
}

#[test]
fn refuse_10_nobody_but_its_operator_changes_a_fixed_token() {
    let next = NextToken { token_sha256: "another".to_owned(), session: "s".to_owned() };
    let changed = RunnerEvent::TokenChanged { from: "a hash".to_owned(), next };
    let keep = rules(Clean::Keep);
    for state in [StateName::Idle, StateName::Resetting, StateName::Running] {
        let runner = fixed(in_state(state, true));
        assert_eq!(decide(&runner, &changed, &keep, NOW), Decision::Refuse(Refusal::NotNow), "{state}");
        let misused = decide(&runner, &RunnerEvent::TokenMisused, &keep, NOW);
        assert_eq!(misused, Decision::Stay, "a replaced token is one of an earlier life: {state}");
    }
}
