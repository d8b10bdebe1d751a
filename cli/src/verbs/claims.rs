//! `claims`: all claims in a table, or one in full. Other verbs show a claim in the same words.

use motorpool_domain::Timestamp;
use motorpool_wire::api::ClaimView;

use super::{joined, pools_asked};
use crate::args::{ClaimsArgs, ClaimsVerb};
use crate::client::Client;
use crate::clock;
use crate::errors::Failure;
use crate::output::Report;
use crate::output::table::{facts, table};
use crate::output::words::{ago, some, span_ms};
use std::time::Duration;

pub(crate) async fn run(args: ClaimsArgs) -> Result<Report, Failure> {
    let ClaimsArgs { connect, pool, all, verb } = args;
    if verb.is_some() && (pool.is_some() || all) {
        return Err(Failure::usage("--pool and --all are for the list", "leave them out"));
    }
    let client = Client::new(&connect)?;
    if let Some(ClaimsVerb::Show { claim }) = verb {
        return Ok(Report::of(client.claim(&claim, Duration::ZERO).await?, in_words));
    }
    let mut claims = Vec::new();
    let mut documents = Vec::new();
    for pool in pools_asked(&client, pool.as_ref()).await? {
        let answer = client.claims(&pool).await?;
        claims.extend(answer.value.claims);
        documents.push(answer.json);
    }
    Ok(Report::new(joined("claims", documents), list(&claims, all, clock::now())))
}

/// A claim that has not ended.
pub(super) fn open(claim: &ClaimView) -> bool {
    ["pending", "ready"].contains(&claim.state.as_str())
}

/// A claim in full.
pub(super) fn in_words(claim: &ClaimView) -> String {
    let runners: Vec<String> = claim
        .runners
        .iter()
        .map(|member| {
            let origin = if member.warm { "warm" } else { "new" };
            format!("{}  {}, {origin}", member.runner, member.state)
        })
        .collect();
    let left = claim.threshold_in_ms.map(span_ms);
    let (fails, ends) = if claim.state == "pending" { (left, None) } else { (None, left) };
    facts([
        ("claim", Some(claim.claim.to_string())),
        ("workflow", Some(format!("{} of {}", claim.workflow, claim.owner))),
        ("pool", Some(claim.pool.to_string())),
        ("state", Some(state(claim))),
        ("why", Some(claim.why.clone()).filter(|why| !why.is_empty())),
        ("label", Some(claim.label.to_string())),
        ("runners", Some(runners.join("\n")).filter(|text| !text.is_empty())),
        ("fails in", fails.map(|left| format!("{left}, if it is still pending"))),
        ("ends in", ends.map(|left| format!("{left}, if it is not released before"))),
    ])
}

/// How to give a claim's runners back.
pub(super) fn release_command(claim: &ClaimView) -> String {
    format!("motorpool release --workflow {} --pool {}", claim.workflow, claim.pool)
}

fn state(claim: &ClaimView) -> String {
    if claim.short > 0 {
        format!("{}, short of {}", claim.state, some(claim.short, "runner"))
    } else {
        claim.state.clone()
    }
}

fn list(claims: &[ClaimView], all: bool, now: Timestamp) -> String {
    let shown: Vec<&ClaimView> = claims.iter().filter(|claim| all || open(claim)).collect();
    let hidden = u64::try_from(claims.len() - shown.len()).unwrap_or(u64::MAX);
    let note = if hidden > 0 {
        format!("{} that ended: --all shows them too", some(hidden, "claim"))
    } else {
        String::new()
    };
    if shown.is_empty() {
        return ["There are no such claims.", &note].join("\n");
    }
    let rows = shown.iter().map(|claim| {
        vec![
            claim.claim.to_string(),
            claim.workflow.to_string(),
            claim.owner.to_string(),
            claim.pool.to_string(),
            claim.state.clone(),
            format!("{}/{}", claim.runners.len(), claim.count),
            ago(Timestamp::from_millis(claim.opened_at_ms), now),
        ]
    });
    let mut lines = vec![table(&["CLAIM", "WORKFLOW", "OWNER", "POOL", "STATE", "RUNNERS", "OPENED"], rows)];
    // A reason is too long for a column, and most claims need none.
    let odd =
        shown.iter().filter(|claim| claim.short > 0 || ["pending", "failed"].contains(&claim.state.as_str()));
    lines.extend(odd.map(|claim| format!("{} {}: {}", claim.claim, claim.state, claim.why)));
    lines.push(note);
    lines.join("\n")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use motorpool_domain::runner::StateName;
    use motorpool_domain::{ClaimId, Epoch, Owner, PoolName, RunnerId, Workflow};
    use motorpool_wire::api::MemberView;

    pub(in crate::verbs) fn claim(state: &str, opened_at_ms: u64) -> ClaimView {
        let claim = ClaimId::parse("c-abc").unwrap();
        let runner = |id: &str, state, warm| MemberView {
            runner: RunnerId::parse(id).unwrap(),
            state,
            epoch: Epoch(1),
            warm,
        };
        ClaimView {
            label: claim.label(),
            claim,
            owner: Owner::operator(),
            workflow: Workflow::parse("gh-1").unwrap(),
            pool: PoolName::parse("small").unwrap(),
            count: 3,
            state: state.to_owned(),
            short: 1,
            why: "it waits for a slot".to_owned(),
            runners: vec![runner("r-1", StateName::Running, true), runner("r-2", StateName::Created, false)],
            opened_at_ms,
            threshold_in_ms: Some(90_000),
            also: Vec::new(),
        }
    }

    #[test]
    fn a_claim_is_told_in_full() {
        assert_eq!(
            in_words(&claim("pending", 0)),
            "claim     c-abc\n\
             workflow  gh-1 of operator\n\
             pool      small\n\
             state     pending, short of 1 runner\n\
             why       it waits for a slot\n\
             label     motorpool-c-abc\n\
             runners   r-1  running, warm\n          r-2  created, new\n\
             fails in  1 min 30 s, if it is still pending"
        );
    }

    #[test]
    fn ended_claims_are_counted_and_shown_on_request() {
        let claims = [claim("ready", 0), claim("failed", 0)];
        let now = Timestamp::from_millis(30_000);
        assert_eq!(
            list(&claims, false, now),
            "CLAIM  WORKFLOW  OWNER     POOL   STATE  RUNNERS  OPENED\n\
             c-abc  gh-1      operator  small  ready  2/3      30 s ago\n\
             c-abc ready: it waits for a slot\n\
             1 claim that ended: --all shows them too"
        );
        assert_eq!(list(&claims, true, now).trim_end().lines().count(), 5);
    }
}
