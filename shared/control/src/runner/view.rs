//! A runner as the API shows it. Nothing is decided here.

use crate::control::Control;
use motorpool_domain::ci::is_older;
use motorpool_domain::ladder::Price;
use motorpool_domain::pool::Rules;
use motorpool_domain::runner::{Holder, ProofKind, Runner, RunnerState, awaits_name, needs_hands};
use motorpool_domain::time::millis;
use motorpool_domain::{Threshold, Timestamp};
use motorpool_wire::api::RunnerView;
use motorpool_wire::registry::CredentialKind;
use std::time::Duration;

impl Control {
    pub(crate) fn runner_view(&self, runner: &Runner, rules: &Rules, now: Timestamp) -> RunnerView {
        RunnerView {
            runner: runner.id.clone(),
            pool: runner.pool.clone(),
            state: runner.state.name(),
            active: runner.state.name().live(),
            epoch: runner.epoch,
            claim: runner.holder().and_then(Holder::claim).cloned(),
            credential: match runner.has_fixed_token() {
                true => CredentialKind::Token,
                false => CredentialKind::Bootstrap,
            },
            cleanup_cmd: runner.commands.cleanup.clone(),
            reset_cmd: runner.commands.reset.clone(),
            readiness_cmd: runner.commands.readiness.clone(),
            ci_runner: runner.ci_runner.clone(),
            instance_type: runner.offer.instance_type.clone(),
            usage: runner.offer.usage.name().to_owned(),
            cpu: runner.offer.spec.cpu,
            memory_mb: runner.offer.spec.memory_mb,
            kept: runner.kept,
            draining: runner.draining,
            provider_id: runner.provider_id.clone(),
            zone: runner.zone.clone(),
            hourly_usd: runner.hourly.map(Price::dollars),
            cost_usd: runner.hourly.map(|hourly| hourly.over(cost_span(runner, now)).dollars()),
            age_ms: millis(now.since(runner.made_at)),
            program_version: runner.program.clone(),
            program_outdated: outdated(runner, rules),
            why: reason(runner, rules),
            proof: runner.proof.as_ref().map(|proof| {
                match proof.how {
                    ProofKind::NewMachine => "a new machine",
                    ProofKind::Reset => "its reset succeeded",
                    ProofKind::Cleanup => "its cleanup succeeded",
                    ProofKind::Keep => "the pool asks for no proof",
                }
                .to_owned()
            }),
            in_state_ms: millis(now.since(runner.entered_at)),
            seen_ms_ago: runner.seen_at.map(|seen_at| millis(now.since(seen_at))),
            threshold_in_ms: time_left(runner.threshold, now),
        }
    }
}

/// What a runner with a fixed token waits for, where somebody must have hands on its machine: only a connection of its agent's has.
pub(super) fn waits_for_hands(runner: &Runner, rules: &Rules) -> Option<&'static str> {
    let is_on_its_way = match &runner.state {
        RunnerState::Created { .. } | RunnerState::Releasing { .. } | RunnerState::Resetting { .. } => true,
        RunnerState::Idle
        | RunnerState::Claimed { .. }
        | RunnerState::Running { .. }
        | RunnerState::Quarantined { .. }
        | RunnerState::Terminating { .. }
        | RunnerState::Terminated { .. } => false,
    };
    let waits = is_on_its_way && runner.has_fixed_token() && needs_hands(runner, rules);
    waits.then_some("its machine waits for its agent's connection")
}

/// What only an operator can give it.
fn waits_for_name(runner: &Runner, rules: &Rules) -> Option<&'static str> {
    let waits = awaits_name(runner, rules);
    waits.then_some(
        "it can't be paused: nobody said what its CI system calls it (`motorpool runners set --ci-runner`)",
    )
}

fn reason(runner: &Runner, rules: &Rules) -> Option<String> {
    let waits = [waits_for_hands(runner, rules), waits_for_name(runner, rules)].into_iter().flatten();
    let reasons: Vec<String> = runner_reason(runner).into_iter().chain(waits.map(str::to_owned)).collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// Why it is being cleaned, quarantined or terminated; or what the provider is asked for.
pub(crate) fn runner_reason(runner: &Runner) -> Option<String> {
    match &runner.state {
        RunnerState::Resetting { why, .. }
        | RunnerState::Quarantined { why }
        | RunnerState::Terminating { why, .. }
        | RunnerState::Terminated { why } => Some(why.clone()),
        RunnerState::Running { leaving: true, .. } => {
            Some("the provider will take its machine away, or is likely to".to_owned())
        }
        RunnerState::Created { launched_at: None, attempt: Some(attempt), .. }
            if attempt.rung.zone.is_some() =>
        {
            Some(format!("the provider is asked for {}", attempt.rung.in_words()))
        }
        RunnerState::Created { .. }
        | RunnerState::Idle
        | RunnerState::Claimed { .. }
        | RunnerState::Running { leaving: false, .. }
        | RunnerState::Releasing { .. } => None,
    }
}

/// A machine that is gone costs no more.
fn cost_span(runner: &Runner, now: Timestamp) -> Duration {
    let until = if runner.state.name().live() { now } else { runner.entered_at };
    until.since(runner.made_at)
}

fn outdated(runner: &Runner, rules: &Rules) -> bool {
    let least = rules.ci.as_ref().and_then(|ci| ci.minimum_version.as_deref());
    runner.program.as_deref().zip(least).is_some_and(|(version, least)| is_older(version, least))
}

pub(crate) fn time_left(threshold: Option<Threshold>, now: Timestamp) -> Option<u64> {
    threshold.map(|Threshold(at)| millis(now.until(at)))
}
