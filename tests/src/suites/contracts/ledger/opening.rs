//! A claim that is opened with what it gets at once: its key, its record and its runner are written together, or none is.

use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use motorpool_control::store::{
    ClaimGain, ClaimOpening, ClaimWrite, IntentsWrite, IntentsWritten, Opened, Taken,
};
use motorpool_domain::claim::{Claim, Member};
use motorpool_domain::record::Key;
use motorpool_domain::runner::Runner;
use tokio::task::JoinSet;

use super::fixtures::{
    POOL, Shared, at, claim_of, entry, idle, intent, launched, log, must_write_claim, open, open_taking,
    pool_name, read, read_claim, seen, taking, used,
};

pub async fn a_claim_is_opened_with_its_first_runner(ledger: Shared) -> Result<()> {
    let (runner, claim) = (idle(&ledger, "r-1").await?, of_one_key("c-1")?);
    assert_eq!(open_taking(&ledger, &claim, None, &runner).await?, Taken::Done);
    let (claim_after, runner_after) = taking(&claim, &runner);
    assert_eq!(read_claim(&ledger, &claim.id).await?, claim_after);
    assert_eq!(ledger.claim_by_key(&claim.key).await?, Some(claim_after));
    assert_eq!(read(&ledger, &runner.id).await?, runner_after);
    assert_eq!(log(&ledger, Key::from(&claim.id)).await?, ["took", "opened"]);
    Ok(())
}

pub async fn inv_03_of_16_that_open_one_key_with_a_runner_each_one_wins(ledger: Shared) -> Result<()> {
    let mut openers = JoinSet::new();
    let mut runners = Vec::new();
    for opener in 0..16 {
        let runner = idle(&ledger, &format!("r-{opener}")).await?;
        runners.push(runner.id.clone());
        let (ledger, claim) = (Arc::clone(&ledger), of_one_key(&format!("c-{opener}"))?);
        openers.spawn(async move {
            let taken = open_taking(&ledger, &claim, None, &runner).await?;
            Ok::<_, anyhow::Error>((taken, claim, runner))
        });
    }
    let mut won = Vec::new();
    while let Some(joined) = openers.join_next().await {
        match joined?? {
            (Taken::Done, claim, runner) => won.push((claim, runner)),
            (Taken::ClaimLost, _, _) => {}
            (other @ Taken::RunnerLost { .. }, _, _) => bail!("{other:?}"),
        }
    }
    assert_eq!(won.len(), 1);
    let (winner, taken) = won.first().context("nobody won")?;
    let holder = ledger.claim_by_key(&winner.key).await?.context("nobody has the key")?;
    assert_eq!((&holder.id, holder.members.len()), (&winner.id, 1));
    for runner in &runners {
        assert_eq!(read(&ledger, runner).await?.held_by(&winner.id), *runner == taken.id);
    }
    Ok(())
}

pub async fn a_key_that_is_taken_keeps_the_runner_idle(ledger: Shared) -> Result<()> {
    let (runner, first) = (idle(&ledger, "r-1").await?, opened_first(&ledger).await?);
    let second = of_one_key("c-2")?;
    assert_eq!(open_taking(&ledger, &second, None, &runner).await?, Taken::ClaimLost);
    assert_eq!(read(&ledger, &runner.id).await?, runner);
    assert_eq!(ledger.claim(&second.id).await?, None);
    assert_eq!(ledger.claim_by_key(&first.key).await?, Some(first));
    assert_eq!(log(&ledger, Key::from(&second.id)).await?, Vec::<String>::new());
    Ok(())
}

pub async fn an_ended_claims_key_is_taken_with_a_runner(ledger: Shared) -> Result<()> {
    let (runner, first) = (idle(&ledger, "r-1").await?, opened_first(&ledger).await?);
    must_write_claim(&ledger, &first, &first.released("done", at(1))).await?;
    let second = of_one_key("c-2")?;
    assert_eq!(open_taking(&ledger, &second, None, &runner).await?, Taken::ClaimLost);
    assert_eq!(open_taking(&ledger, &second, Some(&first.id), &runner).await?, Taken::Done);
    assert_eq!(ledger.claim_by_key(&first.key).await?.map(|claim| claim.id), Some(second.id));
    Ok(())
}

pub async fn inv_07_fault_15_opening_with_a_runner_again_is_done_and_changes_nothing(
    ledger: Shared,
) -> Result<()> {
    let (runner, claim) = (idle(&ledger, "r-1").await?, of_one_key("c-1")?);
    for _ in 0..2 {
        assert_eq!(open_taking(&ledger, &claim, None, &runner).await?, Taken::Done);
    }
    let (claim_after, runner_after) = taking(&claim, &runner);
    assert_eq!(read_claim(&ledger, &claim.id).await?, claim_after);
    assert_eq!(read(&ledger, &runner.id).await?, runner_after);
    assert_eq!(log(&ledger, Key::from(&claim.id)).await?, ["took", "opened"]);
    Ok(())
}

pub async fn a_claim_is_opened_with_its_intents_or_not_at_all(ledger: Shared) -> Result<()> {
    launched(&ledger, &[]).await?;
    let (first, second) = (of_one_key("c-1")?, of_one_key("c-2")?);
    for _ in 0..2 {
        assert_eq!(open_launching(&ledger, &first, &[intent("r-1")?]).await?, IntentsWritten::Done);
    }
    assert_eq!(log(&ledger, Key::from(&first.id)).await?, ["gained", "opened"]);
    assert_eq!(open_launching(&ledger, &second, &[intent("r-2")?]).await?, IntentsWritten::ClaimLost);
    assert_eq!(used(&ledger).await?, 1);
    assert_eq!(ledger.claim(&second.id).await?, None);
    assert_eq!(
        ledger.claim_by_key(&first.key).await?.map(|claim| (claim.id, claim.members.len())),
        Some((first.id, 1))
    );
    Ok(())
}

/// Whatever its id, it is the same workflow's on the same pool.
fn of_one_key(id: &str) -> Result<Claim> {
    claim_of(id, "gh-1", POOL)
}

async fn opened_first(ledger: &Shared) -> Result<Claim> {
    let claim = of_one_key("c-1")?;
    ensure!(open(ledger, &claim, None).await? == Opened::Done, "it could not be opened");
    Ok(claim)
}

async fn open_launching(ledger: &Shared, claim: &Claim, runners: &[Runner]) -> Result<IntentsWritten> {
    let member = |r: &Runner| Member { runner: r.id.clone(), epoch: r.epoch, warm: false };
    let after = claim.gaining(runners.iter().map(member));
    let (pool, opened, gained) = (pool_name(POOL)?, entry(0, "opened"), entry(1, "gained"));
    let write = IntentsWrite {
        pool: &pool,
        seen: seen(ledger, &pool).await?,
        max: 10,
        only_if_used: None,
        runners,
        look_at: None,
        claim: Some(ClaimGain {
            write: ClaimWrite { before: claim, after: &after, entry: &gained },
            opening: Some(ClaimOpening { replaces: None, entry: &opened }),
        }),
        entry: &gained,
    };
    Ok(ledger.write_launch_intents(write).await?)
}
