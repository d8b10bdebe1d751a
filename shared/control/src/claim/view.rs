//! A claim as the API shows it. Nothing is decided here.

use super::ClaimNow;
use crate::control::Control;
use crate::runner::time_left;
use motorpool_domain::Timestamp;
use motorpool_domain::claim::why;
use motorpool_wire::api::{ClaimView, MemberView};

impl Control {
    pub(crate) fn claim_view(&self, seen: &ClaimNow, now: Timestamp) -> ClaimView {
        let claim = &seen.claim;
        let runners = seen
            .shown_members()
            .map(|(member, runner)| MemberView {
                runner: member.runner.clone(),
                state: runner.state.name(),
                epoch: member.epoch,
                warm: member.warm,
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
            why: why(claim, &seen.assessment()),
            runners,
            opened_at_ms: claim.opened_at.as_millis(),
            threshold_in_ms: time_left(claim.threshold, now),
            also: Vec::new(),
        }
    }
}
