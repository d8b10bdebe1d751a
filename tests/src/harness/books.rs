//! The books of one pool as the API tells them: its claims, its runners, its slots; and whether they agree. A list is read page by
//! page and is no snapshot: what is asked of all books together holds when nobody provisions or releases.

use crate::harness::api::Api;
use crate::harness::story::text;
use crate::harness::wait::until;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;

/// All claims of the pool, ended ones as well. Listing moves none of them on; one that moves on meanwhile may be told twice,
/// and counts as it was told last.
pub async fn claims(api: &Api, pool: &str) -> Result<Vec<Value>> {
    let mut all = BTreeMap::new();
    let mut after = String::new();
    loop {
        let page = api.get(&format!("claims?pool={pool}&limit=200{after}")).await?.expect(200)?;
        for claim in page["claims"].as_array().context("no list of claims")? {
            all.insert(text(claim, "claim")?, claim.clone());
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return Ok(all.into_values().collect()),
        }
    }
}

/// The live runners of a pool of at most 500, in one read: none is missed or told twice because it moved on meanwhile.
pub async fn live(api: &Api, pool: &str) -> Result<Vec<Value>> {
    let page = api.get(&format!("runners?pool={pool}&limit=500")).await?.expect(200)?;
    ensure!(page["next"].is_null(), "the pool has more runners than one read tells");
    page["runners"].as_array().cloned().context("no list of runners")
}

pub fn is_open(claim: &Value) -> bool {
    claim["state"] == "pending" || claim["state"] == "ready"
}

/// The runners that a claim shows.
pub fn members(claim: &Value) -> Result<Vec<String>> {
    claim["runners"]
        .as_array()
        .context("no list of runners")?
        .iter()
        .map(|member| text(member, "runner"))
        .collect()
}

/// Which open claim has each runner. No runner is in two.
pub fn holders(claims: &[Value]) -> Result<BTreeMap<String, String>> {
    let mut holders = BTreeMap::new();
    for claim in claims.iter().filter(|claim| is_open(claim)) {
        let id = text(claim, "claim")?;
        let members = members(claim)?;
        let count = claim["count"].as_u64().context("no count")?;
        ensure!(members.len() as u64 <= count, "more runners than were asked for: {claim}");
        for runner in members {
            if let Some(other) = holders.insert(runner.clone(), id.clone()) {
                anyhow::bail!("{runner} is held twice, by {other} and by {id}");
            }
        }
    }
    Ok(holders)
}

/// Waits until the books agree: each open claim has its runners' word for it, each held runner its claim's, and the slot counter
/// is the number of live runners. Nobody may be in two claims, not even for a moment.
pub async fn agree(api: &Api, pool: &str) -> Result<()> {
    until("the books agree", async || {
        let by_claims = holders(&claims(api, pool).await?)?;
        let live = live(api, pool).await?;
        let mut by_runners = BTreeMap::new();
        for runner in live.iter().filter(|runner| runner["state"] != "releasing") {
            if let Some(claim) = runner["claim"].as_str() {
                by_runners.insert(text(runner, "runner")?, claim.to_owned());
            }
        }
        let used = api.pool(pool).await?["used"].as_u64().context("no count of slots")?;
        Ok((by_claims == by_runners && used == live.len() as u64).then_some(()))
    })
    .await
}

/// Watches while something else goes on: there are never more slots in use or runners alive than `max`. Ends with the first
/// that are, or never.
pub async fn never_more_than(api: Api, pool: String, max: u64) -> Result<()> {
    loop {
        let used = api.pool(&pool).await?["used"].as_u64().context("no count of slots")?;
        ensure!(used <= max, "{used} slots are in use, and {max} are all");
        let live = live(&api, &pool).await?.len();
        ensure!(live as u64 <= max, "{live} runners are alive, and {max} are all");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}
