//! A runner as the API shows it. Nothing is decided here.

use crate::control::Control;
use motorpool_domain::ci::is_older;
use motorpool_domain::ladder::Price;
use motorpool_domain::pool::Rules;
use motorpool_domain::runner::{Holder, ProofKind, Runner, RunnerState};
use motorpool_domain::time::millis;
use motorpool_domain::{Threshold, Timestamp};
use motorpool_wire::api::RunnerView;
use std::time::Duration;

impl Control {
    pub(crate) fn runner_view(&self, runner: &Runner, rules: &Rules, now: Timestamp) -> RunnerView {
        RunnerView {
            runner: runner.id.clone(),
            pool: runner.pool.clone(),
            state: runner.state.name(),
            epoch: runner.epoch,
            claim: runner.holder().and_then(Holder::claim).cloned(),
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
            why: runner_reason(runner),
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
