//! What a team has, and who waits at a pool.

use anyhow::{Result, ensure};
use motorpool_control::store::{Opened, Page};
use motorpool_domain::Owner;
use motorpool_domain::claim::{Claim, ClaimKey, Member, OverLimit};

use super::fixtures::{POOL, Shared, at, claim_of, intent, must_write_claim, open, pool_name};

fn owner(name: &str) -> Result<Owner> {
    Ok(Owner::parse(name)?)
}

/// A claim of `team` that is in the ledger, opened at so many milliseconds.
async fn opened(ledger: &Shared, team: &str, number: u64, pool: &str) -> Result<Claim> {
    let claim = claim_of(&format!("c-{}{number}", team.replace('-', "")), &format!("gh-{number}"), pool)?;
    let key = ClaimKey { owner: owner(team)?, ..claim.key };
    let claim = Claim { key, opened_at: at(number), ..claim };
    ensure!(open(ledger, &claim, None).await? == Opened::Done, "{} could not be opened", claim.id);
    Ok(claim)
}

fn member(name: &str) -> Result<Member> {
    let runner = intent(name)?;
    Ok(Member { runner: runner.id, epoch: runner.epoch, warm: false })
}

pub async fn whoever_waits_is_found_team_by_team(ledger: Shared) -> Result<()> {
    // More than a page of one team, and names of which one begins as the other does.
    for number in 100..145 {
        opened(&ledger, "web", number, POOL).await?;
    }
    for (team, number) in [("api", 1), ("api", 2), ("web-2", 3), ("zoo", 4), ("zoo", 5)] {
        opened(&ledger, team, number, POOL).await?;
    }
    opened(&ledger, "elsewhere", 1, "other").await?;
    let part = opened(&ledger, "yak", 7, POOL).await?;
    must_write_claim(&ledger, &part, &part.gaining([member("r-1")?])).await?;
    let whole = opened(&ledger, "whole", 8, POOL).await?;
    must_write_claim(&ledger, &whole, &whole.gaining([member("r-2")?, member("r-3")?])).await?;
    let over = opened(&ledger, "over", 9, POOL).await?;
    let limit = OverLimit::Slots { team: owner("over")?, used: 1, max: 1 };
    must_write_claim(&ledger, &over, &over.held_back(limit)).await?;

    let waiting = ledger.waiting_by_team(&pool_name(POOL)?).await?;
    let ids: Vec<&str> = waiting.iter().map(|claim| claim.id.as_str()).collect();
    let web: Vec<String> = (100..120).map(|number| format!("c-web{number}")).collect();
    let web = web.iter().map(String::as_str);
    let expected: Vec<&str> = ["c-yak7", "c-api1", "c-api2"]
        .into_iter()
        .chain(web)
        .chain(["c-web23", "c-zoo4", "c-zoo5"])
        .collect();
    assert_eq!(ids, expected);
    Ok(())
}

pub async fn a_teams_claims_are_listed_and_counted_apart(ledger: Shared) -> Result<()> {
    let (web, pool) = (owner("web")?, pool_name(POOL)?);
    let mut claims = Vec::new();
    for number in 1..=5 {
        claims.push(opened(&ledger, "web", number, POOL).await?);
        opened(&ledger, "web-2", number, POOL).await?;
    }
    opened(&ledger, "web", 9, "other").await?;
    let [first, _, third, fourth, _] = claims.as_slice() else { anyhow::bail!("five claims") };
    let gained = third.gaining([member("r-1")?, member("r-2")?]);
    must_write_claim(&ledger, third, &gained).await?;
    must_write_claim(&ledger, fourth, &fourth.gaining([member("r-3")?])).await?;
    must_write_claim(&ledger, first, &first.released("done", at(50))).await?;

    for at_most in [1, 2, 3, 100] {
        let (mut ids, mut page) = (Vec::new(), Page::first(at_most));
        loop {
            let listed = ledger.list_team_claims(&web, &pool, page).await?;
            ids.extend(listed.items.iter().map(|claim| claim.id.to_string()));
            let Some(next) = listed.next else { break };
            page = Page { at_most, after: Some(next) };
        }
        assert_eq!(ids, ["c-web2", "c-web3", "c-web4", "c-web5", "c-web1"], "{at_most} a page");
    }
    assert_eq!(ledger.count_open_claims(&web, 100).await?, 5, "those of the other pool included");
    assert_eq!(ledger.count_open_claims(&web, 2).await?, 2);
    assert_eq!(ledger.count_shares(&web, &pool, 100).await?, 2);
    assert_eq!(ledger.count_slots(&web, 100).await?, 3);
    assert_eq!(ledger.count_slots(&owner("nobody")?, 100).await?, 0);
    must_write_claim(&ledger, &gained, &gained.failed("no", at(60))).await?;
    assert_eq!(ledger.count_slots(&web, 100).await?, 1);
    assert_eq!(ledger.count_shares(&web, &pool, 100).await?, 1);
    Ok(())
}
