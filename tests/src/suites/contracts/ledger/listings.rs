//! Listings and counts, in order and in pages.

use anyhow::{Result, ensure};
use motorpool_control::store::{Page, WhichClaims};
use motorpool_domain::claim::{Claim, ClaimState, Member};
use motorpool_domain::record::Key;
use motorpool_domain::runner::{Runner, RunnerState, StateName};

use super::fixtures::{
    POOL, Shared, at, claim, claim_of, hold, intent, launched, moved, must_write, must_write_claim, open,
    pool_name, read, runner_id, terminated,
};

pub async fn runners_are_listed_by_state(ledger: Shared) -> Result<()> {
    in_some_states(&ledger).await?;
    assert_eq!(listed(&ledger, None, 100).await?, [["r-4", "r-5", "r-6", "r-2", "r-3", "r-1"].as_slice()]);
    assert_eq!(listed(&ledger, Some(StateName::Idle), 100).await?, [["r-2", "r-3"]]);
    assert_eq!(listed(&ledger, Some(StateName::Created), 100).await?, [["r-4", "r-5", "r-6"]]);
    assert_eq!(listed(&ledger, Some(StateName::Claimed), 100).await?, [Vec::<String>::new()]);
    // In the order in which they ended.
    assert_eq!(listed(&ledger, Some(StateName::Terminated), 100).await?, [["r-8", "r-7"]]);
    let elsewhere = ledger.list_runners(&pool_name("smal")?, None, Page::first(10)).await?;
    assert_eq!(elsewhere.items, []);

    let second = read(&ledger, &runner_id("r-2")?).await?;
    ledger.heartbeat(&second.id, second.epoch, at(77)).await?;
    let idle = ledger.list_runners(&pool_name(POOL)?, Some(StateName::Idle), Page::first(1)).await?;
    assert_eq!(idle.items, [read(&ledger, &second.id).await?], "a listing shows the whole record");
    Ok(())
}

pub async fn runners_are_listed_in_pages(ledger: Shared) -> Result<()> {
    in_some_states(&ledger).await?;
    assert_eq!(
        listed(&ledger, None, 2).await?,
        [["r-4", "r-5"], ["r-6", "r-2"], ["r-3", "r-1"]],
        "the last page is full, and none follows"
    );
    assert_eq!(listed(&ledger, None, 4).await?, [["r-4", "r-5", "r-6", "r-2"].as_slice(), &["r-3", "r-1"]]);
    assert_eq!(listed(&ledger, Some(StateName::Created), 1).await?, [["r-4"], ["r-5"], ["r-6"]]);
    assert_eq!(listed(&ledger, Some(StateName::Terminated), 1).await?, [["r-8"], ["r-7"]]);
    Ok(())
}

pub async fn runners_are_counted_up_to_a_bound(ledger: Shared) -> Result<()> {
    in_some_states(&ledger).await?;
    let pool = pool_name(POOL)?;
    for (state, at_most, count) in [
        (StateName::Created, 100, 3),
        (StateName::Created, 3, 3),
        (StateName::Created, 2, 2),
        (StateName::Created, 0, 0),
        (StateName::Claimed, 100, 0),
        (StateName::Terminated, 100, 2),
    ] {
        assert_eq!(ledger.count_runners(&pool, state, at_most).await?, count, "{state}, at most {at_most}");
    }
    Ok(())
}

pub async fn claims_are_listed_oldest_first(ledger: Shared) -> Result<()> {
    some_claims(&ledger).await?;
    assert_eq!(claims(&ledger, WhichClaims::Short, 100).await?, [["c-9", "c-4", "c-2"]]);
    assert_eq!(claims(&ledger, WhichClaims::Waiting, 100).await?, [["c-9", "c-4", "c-2"]]);
    assert_eq!(claims(&ledger, WhichClaims::Open, 100).await?, [["c-9", "c-8", "c-4", "c-3", "c-2"]]);
    assert_eq!(
        claims(&ledger, WhichClaims::All, 100).await?,
        [["c-9", "c-8", "c-4", "c-3", "c-2", "c-7", "c-5"]]
    );
    let elsewhere = ledger.list_claims(&pool_name("smal")?, WhichClaims::All, Page::first(10)).await?;
    assert_eq!(elsewhere.items, []);

    let fourth = Claim { opened_at: at(96), ..claim("c-4")? };
    let runner = intent("r-1")?;
    let member = Member { runner: runner.id, epoch: runner.epoch, warm: false };
    must_write_claim(&ledger, &fourth, &fourth.gaining([member.clone(), member])).await?;
    assert_eq!(
        claims(&ledger, WhichClaims::Short, 100).await?,
        [["c-9", "c-2"]],
        "one has all, and they start"
    );
    assert_eq!(claims(&ledger, WhichClaims::Waiting, 100).await?, [["c-9", "c-4", "c-2"]]);
    assert_eq!(claims(&ledger, WhichClaims::Open, 1).await?.concat(), ["c-9", "c-8", "c-4", "c-3", "c-2"]);
    Ok(())
}

pub async fn claims_are_listed_in_pages(ledger: Shared) -> Result<()> {
    some_claims(&ledger).await?;
    assert_eq!(claims(&ledger, WhichClaims::Waiting, 2).await?, [["c-9", "c-4"].as_slice(), &["c-2"]]);
    assert_eq!(
        claims(&ledger, WhichClaims::Open, 2).await?,
        [["c-9", "c-8"].as_slice(), &["c-4", "c-3"], &["c-2"]]
    );
    assert_eq!(
        claims(&ledger, WhichClaims::All, 3).await?,
        [["c-9", "c-8", "c-4"].as_slice(), &["c-3", "c-2", "c-7"], &["c-5"]]
    );
    let one_by_one: Vec<String> = claims(&ledger, WhichClaims::All, 1).await?.concat();
    assert_eq!(one_by_one, ["c-9", "c-8", "c-4", "c-3", "c-2", "c-7", "c-5"]);
    assert_eq!(claims(&ledger, WhichClaims::All, 5).await?.len(), 2, "it ends between open and ended");
    Ok(())
}

pub async fn a_bad_page_is_an_error(ledger: Shared) -> Result<()> {
    in_some_states(&ledger).await?;
    some_claims(&ledger).await?;
    let pool = pool_name(POOL)?;
    let runners = ledger.list_runners(&pool, Some(StateName::Created), Page::first(1)).await?.next;
    let ended = ledger.list_runners(&pool, Some(StateName::Terminated), Page::first(1)).await?.next;
    let claims = ledger.list_claims(&pool, WhichClaims::All, Page::first(6)).await?.next;
    ensure!(runners.is_some() && ended.is_some() && claims.is_some());
    let garbage =
        ["", "x", "💥", "%00", "b3BlbiM", "bG9nIw", "aWRsZSMuLi8"].map(|text| Some(text.to_owned()));
    for after in garbage.into_iter().chain([claims.clone()]) {
        for state in [None, Some(StateName::Idle), Some(StateName::Terminated)] {
            let page = Page { at_most: 3, after: after.clone() };
            assert!(ledger.list_runners(&pool, state, page).await.is_err(), "{after:?} of {state:?}");
        }
    }
    let page = |after: &Option<String>| Page { at_most: 3, after: after.clone() };
    assert!(ledger.list_runners(&pool, None, page(&ended)).await.is_err(), "of another list");
    assert!(
        ledger.list_runners(&pool, Some(StateName::Idle), page(&runners)).await.is_err(),
        "of another state"
    );
    assert!(
        ledger.list_claims(&pool, WhichClaims::Open, page(&claims)).await.is_err(),
        "behind the open ones"
    );
    for after in ["", "x", "💥", "b3BlbiM"] {
        let after = Some(after.to_owned());
        for which in [WhichClaims::Short, WhichClaims::Waiting, WhichClaims::Open, WhichClaims::All] {
            assert!(ledger.list_claims(&pool, which, page(&after)).await.is_err(), "{after:?}");
        }
        let subject = Key::from(&pool);
        assert!(ledger.audit(&subject, page(&after)).await.is_err(), "{after:?}");
    }
    Ok(())
}

/// One running, two idle, three created; two ended, the one with the higher id first. One elsewhere.
async fn in_some_states(ledger: &Shared) -> Result<()> {
    let ids = ["r-1", "r-2", "r-3", "r-4", "r-5", "r-6", "r-7", "r-8"];
    let created = launched(ledger, &ids).await?;
    let hold = hold(&claim("c-1")?);
    for runner in &created {
        let after = match runner.id.as_str() {
            "r-1" => moved(runner, RunnerState::Running { hold: hold.clone(), leaving: false }),
            "r-2" | "r-3" => moved(runner, RunnerState::Idle),
            "r-7" => Runner { entered_at: at(9), ..terminated(runner) },
            "r-8" => Runner { entered_at: at(8), ..terminated(runner) },
            _ => continue,
        };
        must_write(ledger, runner, &after).await?;
    }
    Ok(())
}

/// By age: 9 waits, 8 is ready, 7 is released, 5 has failed, 4 waits, 3 is ready, 2 is ready but short. 1 is elsewhere.
async fn some_claims(ledger: &Shared) -> Result<()> {
    for number in [3_u64, 9, 4, 7, 2, 5, 8] {
        let id = format!("c-{number}");
        let first = Claim { opened_at: at(100 - number), ..claim(&id)? };
        open(ledger, &first, None).await?;
        let runner = intent("r-1")?;
        let member = Member { runner: runner.id, epoch: runner.epoch, warm: false };
        let ready = |members| Claim {
            state: ClaimState::Ready { since: at(1) },
            ..first.gaining(std::iter::repeat_n(member.clone(), members))
        };
        let after = match number {
            8 | 3 => ready(2),
            2 => ready(1),
            7 => first.released("done", at(1)),
            5 => first.failed("nobody came", at(1)),
            _ => continue,
        };
        must_write_claim(ledger, &first, &after).await?;
    }
    open(ledger, &claim_of("c-1", "c-1", "other")?, None).await?;
    Ok(())
}

/// The ids on each page, from the first to the last.
async fn listed(ledger: &Shared, state: Option<StateName>, at_most: u32) -> Result<Vec<Vec<String>>> {
    let pool = pool_name(POOL)?;
    let (mut pages, mut page) = (Vec::new(), Page::first(at_most));
    loop {
        let listed = ledger.list_runners(&pool, state, page).await?;
        pages.push(listed.items.iter().map(|runner| runner.id.to_string()).collect());
        let Some(next) = listed.next else { return Ok(pages) };
        page = Page { at_most, after: Some(next) };
    }
}

async fn claims(ledger: &Shared, which: WhichClaims, at_most: u32) -> Result<Vec<Vec<String>>> {
    let pool = pool_name(POOL)?;
    let (mut pages, mut page) = (Vec::new(), Page::first(at_most));
    loop {
        let listed = ledger.list_claims(&pool, which, page).await?;
        pages.push(listed.items.iter().map(|claim| claim.id.to_string()).collect());
        let Some(next) = listed.next else { return Ok(pages) };
        page = Page { at_most, after: Some(next) };
    }
}
