//! A claim's story. A workflow stands for its latest claim.

use motorpool_domain::{ClaimId, PoolName, Timestamp, Workflow};
use motorpool_wire::api::{ClaimView, WhyView};

use crate::client::{ApiResponse, Client};
use crate::errors::Failure;
use crate::verbs::{audit, claims, pools_asked};

/// Nothing if `subject` is no claim's id, or that of no claim here: then it may still be a workflow.
pub(super) async fn by_id(
    client: &Client,
    subject: &Workflow,
) -> Result<Option<ApiResponse<WhyView>>, Failure> {
    let Ok(claim) = ClaimId::parse(subject.as_str()) else { return Ok(None) };
    match client.why(&claim).await {
        Ok(answer) => Ok(Some(answer)),
        Err(failure) if failure.is_not_found() => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// The workflow's latest claim, an open one before any that ended; and its other open ones. Nothing if it has none.
pub(super) async fn by_workflow(
    client: &Client,
    workflow: &Workflow,
    pool: Option<&PoolName>,
) -> Result<Option<(ApiResponse<WhyView>, Vec<ClaimView>)>, Failure> {
    let mut found = Vec::new();
    for pool in pools_asked(client, pool).await? {
        let page = client.claims(&pool).await?.value;
        found.extend(page.claims.into_iter().filter(|claim| claim.workflow == *workflow));
    }
    found.sort_by_key(|claim| (claims::open(claim), claim.opened_at_ms));
    let Some(latest) = found.pop() else { return Ok(None) };
    found.retain(claims::open);
    Ok(Some((client.why(&latest.claim).await?, found)))
}

pub(super) fn in_words(why: &WhyView, others: &[ClaimView], now: Timestamp) -> String {
    let WhyView { claim, state, why, runners, history } = why;
    let mut text = format!("claim {claim} is {state}");
    if !why.is_empty() {
        text.push_str(&format!(": {why}"));
    }
    if !runners.is_empty() {
        text.push_str("\n\nIts runners:");
        for runner in runners {
            text.push_str(&format!("\n  {runner}"));
        }
    }
    if !history.is_empty() {
        text.push_str("\n\nWhat happened:\n");
        text.push_str(&audit::entries(history, now));
    }
    if !others.is_empty() {
        let others: Vec<String> =
            others.iter().map(|claim| format!("{} on pool {}", claim.claim, claim.pool)).collect();
        text.push_str(&format!("\n\nThe workflow also has {}", others.join(", ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use motorpool_domain::{Actor, AuditEntry, Owner};

    #[test]
    fn a_story_has_its_reason_its_runners_and_its_history() {
        let why = WhyView {
            claim: ClaimId::parse("c-abc").unwrap(),
            state: "pending".to_owned(),
            why: "1 of 2 runners is ready; pool small has no free slot".to_owned(),
            runners: vec!["r-1 is running, heard from 2 s ago".to_owned()],
            history: vec![AuditEntry::of_new(
                Timestamp::from_millis(1_000),
                Actor::Owner(Owner::operator()),
                "claim opened",
                "pending",
                "2 runners asked for",
            )],
        };
        let other = crate::verbs::claims::tests::claim("ready", 0);
        assert_eq!(
            in_words(&why, &[other], Timestamp::from_millis(13_000)),
            "claim c-abc is pending: 1 of 2 runners is ready; pool small has no free slot\n\n\
             Its runners:\n  r-1 is running, heard from 2 s ago\n\n\
             What happened:\n\
             12 s ago  operator  claim opened (→ pending)  2 runners asked for\n\n\
             The workflow also has c-abc on pool small"
        );
    }
}
