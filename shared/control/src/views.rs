//! Records as the API shows them. Nothing is decided here.

use crate::advance::ClaimNow;
use crate::control::Control;
use crate::refused::Refused;
use motorpool_domain::ci::is_older;
use motorpool_domain::claim::why;
use motorpool_domain::ladder::Price;
use motorpool_domain::pool::PoolRecord;
use motorpool_domain::pool::{Clean, Rules, Source};
use motorpool_domain::runner::{ProofKind, Runner, RunnerState, StateName};
use motorpool_domain::{Threshold, Timestamp};
use motorpool_wire::api::{ClaimView, MemberView, PoolView, RunnerView};
use std::collections::BTreeMap;
use std::time::Duration;

/// Displayed counts stop here: they are read from an index, and never decide anything.
const COUNTED: u32 = 1_000;

impl Control {
    pub(crate) fn claim_view(&self, now: &ClaimNow) -> ClaimView {
        let ClaimNow { claim, members } = now;
        // A member that moved on to another life is no longer this claim's to show.
        let runners = claim
            .members
            .iter()
            .zip(members)
            .filter_map(|(member, runner)| {
                let runner = runner.as_ref().filter(|runner| runner.epoch == member.epoch)?;
                Some(MemberView {
                    runner: member.runner.clone(),
                    state: runner.state.name(),
                    epoch: member.epoch,
                    warm: member.warm,
                })
            })
            .collect();
        ClaimView {
            claim: claim.id.clone(),
            owner: claim.key.owner.clone(),
            workflow: claim.key.workflow.clone(),
            pool: claim.key.pool.clone(),
            label: claim.id.label(),
            count: claim.ask.count,
            state: claim.state.as_str().to_owned(),
            short: claim.short(),
            why: why(claim, &now.assessment()),
            runners,
            opened_at_ms: claim.opened_at.as_millis(),
            threshold_in_ms: left(claim.threshold, self.now()),
            also: Vec::new(),
        }
    }

    pub(crate) fn runner_view(&self, runner: &Runner, rules: &Rules) -> RunnerView {
        let now = self.now();
        RunnerView {
            runner: runner.id.clone(),
            pool: runner.pool.clone(),
            state: runner.state.name(),
            epoch: runner.epoch,
            claim: runner.state.hold().map(|hold| hold.claim.clone()),
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
            why: self.reason(runner),
            proof: runner.proof.as_ref().map(|proof| {
                match proof.how {
                    ProofKind::NewMachine => "a new machine",
                    ProofKind::Cleanup => "its cleanup succeeded",
                    ProofKind::Keep => "the pool asks for no proof",
                }
                .to_owned()
            }),
            in_state_ms: millis(now.since(runner.entered_at)),
            seen_ms_ago: runner.seen_at.map(|seen_at| millis(now.since(seen_at))),
            threshold_in_ms: left(runner.threshold, now),
        }
    }

    /// Why it is being cleaned, quarantined or terminated; or what the provider is asked for.
    pub(crate) fn reason(&self, runner: &Runner) -> Option<String> {
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

    pub(crate) async fn pool_view(&self, record: &PoolRecord) -> Result<PoolView, Refused> {
        let PoolRecord { pool, used, rev: _ } = record;
        let mut counts = BTreeMap::new();
        for state in StateName::ALL.into_iter().filter(|state| state.live()) {
            let count = self.store.count_runners(&pool.name, state, COUNTED).await?;
            counts.insert(state.to_string(), count);
        }
        Ok(PoolView {
            pool: pool.name.clone(),
            backend: pool.rules.backend.name().to_owned(),
            dispatch: pool.rules.dispatch.name().to_owned(),
            clean: match pool.rules.clean {
                Clean::Replace => "replace",
                Clean::Reset => "reset",
                Clean::Cleanup => "cleanup",
                Clean::Keep => "keep",
            }
            .to_owned(),
            max: pool.rules.max,
            min_idle: pool.rules.min_idle,
            used: *used,
            counts,
            waiting: self.count_waiting(&pool.name).await?,
            retired: pool.retired,
            ci: pool.rules.ci.as_ref().map(|binding| self.ci_view(binding)),
            source: match pool.source {
                Source::File => "file",
                Source::Api => "api",
            }
            .to_owned(),
            warnings: self.warnings(&pool.rules),
        })
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

fn left(threshold: Option<Threshold>, now: Timestamp) -> Option<u64> {
    threshold.map(|Threshold(at)| millis(now.until(at)))
}

pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
