//! Taking an idle runner: the claim and the runner change together, or neither does.

use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use motorpool_control::store::Taken;
use motorpool_domain::claim::Member;
use motorpool_domain::record::Key;
use motorpool_domain::runner::{Runner, RunnerState};
use tokio::task::JoinSet;

use super::fixtures::{
    Shared, at, hold, idle, intent, launched, log, moved, must_write, must_write_claim, opened, read,
    read_claim, reset, take, taking, terminated,
};

pub async fn a_runner_is_taken_and_listed(ledger: Shared) -> Result<()> {
    let (runner, claim) = (idle(&ledger, "r-1").await?, opened(&ledger, "c-1").await?);
    ledger.heartbeat(&runner.id, runner.epoch, at(3)).await?;
    assert_eq!(take(&ledger, &claim, &runner).await?, Taken::Done);
    let (claim_after, runner_after) = taking(&claim, &runner);
    assert_eq!(read_claim(&ledger, &claim.id).await?, claim_after);
    let seen = Runner { seen_at: Some(at(3)), ..runner_after };
    assert_eq!(read(&ledger, &runner.id).await?, seen);
    Ok(())
}

pub async fn inv_03_of_32_takers_of_one_runner_one_wins(ledger: Shared) -> Result<()> {
    for round in 0..3 {
        let runner = idle(&ledger, &format!("r-{round}")).await?;
        let mut takers = JoinSet::new();
        for taker in 0..32 {
            let claim = opened(&ledger, &format!("c-{round}x{taker}")).await?;
            let (ledger, runner) = (Arc::clone(&ledger), runner.clone());
            takers.spawn(async move {
                let taken = take(&ledger, &claim, &runner).await?;
                Ok::<_, anyhow::Error>((taken, read_claim(&ledger, &claim.id).await?))
            });
        }
        let (mut won, mut holders) = (Vec::new(), Vec::new());
        while let Some(joined) = takers.join_next().await {
            match joined?? {
                (Taken::Done, claim) => won.push(claim),
                (Taken::RunnerLost { found: Some(found) }, claim) => {
                    ensure!(claim.members.is_empty(), "{claim:?} lost, and lists the runner");
                    holders.push(found);
                }
                (other @ (Taken::RunnerLost { found: None } | Taken::ClaimLost), _) => bail!("{other:?}"),
            }
        }
        assert_eq!(won.len(), 1);
        let winner = won.first().context("nobody won")?;
        assert_eq!(winner.members, [Member { runner: runner.id.clone(), epoch: runner.epoch, warm: true }]);
        let found = read(&ledger, &runner.id).await?;
        assert!(found.held_by(&winner.id));
        assert!(holders.iter().all(|holder| **holder == found), "{holders:?}");
    }
    Ok(())
}

pub async fn inv_03_an_ended_claim_takes_nothing(ledger: Shared) -> Result<()> {
    let (runner, claim) = (idle(&ledger, "r-1").await?, opened(&ledger, "c-1").await?);
    let ended = claim.released("its workflow was cancelled", at(1));
    must_write_claim(&ledger, &claim, &ended).await?;
    assert_eq!(take(&ledger, &claim, &runner).await?, Taken::ClaimLost);
    assert_eq!(read(&ledger, &runner.id).await?, runner);
    assert_eq!(read_claim(&ledger, &claim.id).await?, ended);
    assert_eq!(log(&ledger, Key::from(&runner.id)).await?, ["moved", "launched"]);
    Ok(())
}

pub async fn inv_02_a_claim_that_gained_another_takes_nothing(ledger: Shared) -> Result<()> {
    let (one, other) = (idle(&ledger, "r-1").await?, idle(&ledger, "r-2").await?);
    let claim = opened(&ledger, "c-1").await?;
    assert_eq!(take(&ledger, &claim, &one).await?, Taken::Done);
    assert_eq!(take(&ledger, &claim, &other).await?, Taken::ClaimLost);
    assert_eq!(read(&ledger, &other.id).await?, other);

    let claim = read_claim(&ledger, &claim.id).await?;
    assert_eq!(take(&ledger, &claim, &other).await?, Taken::Done);
    assert_eq!(read_claim(&ledger, &claim.id).await?.members.len(), 2);
    Ok(())
}

pub async fn inv_03_a_runner_on_its_way_for_nobody_is_taken_once(ledger: Shared) -> Result<()> {
    let intent = launched(&ledger, &["r-1"]).await?.remove(0);
    let coming = RunnerState::Created { hold: None, launched_at: Some(at(1)), attempt: None };
    let created = must_write(&ledger, &intent, &moved(&intent, coming)).await?;
    let (first, second) = (opened(&ledger, "c-1").await?, opened(&ledger, "c-2").await?);
    for _ in 0..2 {
        assert_eq!(take(&ledger, &first, &created).await?, Taken::Done, "its answer may have been lost");
    }
    let (gained, held) = taking(&first, &created);
    assert_eq!(
        (read_claim(&ledger, &first.id).await?, read(&ledger, &created.id).await?),
        (gained.clone(), held.clone())
    );
    let lost = Taken::RunnerLost { found: Some(Box::new(held.clone())) };
    assert_eq!(take(&ledger, &second, &created).await?, lost, "it was seen free");
    assert_eq!(take(&ledger, &second, &held).await?, lost, "it was seen held");
    assert_eq!(take(&ledger, &gained, &created).await?, lost, "the claim had it already");
    assert_eq!(read_claim(&ledger, &second.id).await?, second);
    Ok(())
}

/// Two who fill the same claim: one sees the runner on its way still, one sees it idle.
pub async fn inv_02_one_taken_idle_is_lost_to_who_saw_it_on_its_way(ledger: Shared) -> Result<()> {
    let created = launched(&ledger, &["r-1"]).await?.remove(0);
    let idle = must_write(&ledger, &created, &moved(&created, RunnerState::Idle)).await?;
    let claim = opened(&ledger, "c-1").await?;
    assert_eq!(take(&ledger, &claim, &idle).await?, Taken::Done);
    let (gained, claimed) = taking(&claim, &idle);
    let lost = Taken::RunnerLost { found: Some(Box::new(claimed)) };
    assert_eq!(take(&ledger, &claim, &created).await?, lost, "that is another claim than it would write");
    assert_eq!(take(&ledger, &claim, &idle).await?, Taken::Done, "its answer was lost");
    assert_eq!(read_claim(&ledger, &claim.id).await?, gained);
    Ok(())
}

pub async fn inv_02_a_runner_that_is_not_free_is_not_taken(ledger: Shared) -> Result<()> {
    let claim = opened(&ledger, "c-1").await?;
    let missing = moved(&intent("r-0")?, RunnerState::Idle);
    assert_eq!(take(&ledger, &claim, &missing).await?, Taken::RunnerLost { found: None });

    let created = launched(&ledger, &["r-1"]).await?.remove(0);
    let running = RunnerState::Running { hold: hold(&claim), leaving: false };
    let running = must_write(&ledger, &created, &moved(&created, running)).await?;
    let lost = Taken::RunnerLost { found: Some(Box::new(running.clone())) };
    let other = opened(&ledger, "c-2").await?;
    assert_eq!(take(&ledger, &other, &running).await?, lost, "it was not even seen free");

    let idle = must_write(&ledger, &running, &moved(&running, RunnerState::Idle)).await?;
    let newer = must_write(&ledger, &idle, &moved(&idle, RunnerState::Idle)).await?;
    let lost = Taken::RunnerLost { found: Some(Box::new(newer.clone())) };
    assert_eq!(take(&ledger, &claim, &idle).await?, lost, "it was another revision");

    let ended = must_write(&ledger, &newer, &terminated(&newer)).await?;
    let lost = Taken::RunnerLost { found: Some(Box::new(ended)) };
    assert_eq!(take(&ledger, &claim, &newer).await?, lost);
    assert_eq!(read_claim(&ledger, &claim.id).await?, claim);
    Ok(())
}

pub async fn inv_07_fault_15_taking_again_is_done_and_changes_nothing(ledger: Shared) -> Result<()> {
    let (runner, claim) = (idle(&ledger, "r-1").await?, opened(&ledger, "c-1").await?);
    let other = opened(&ledger, "c-2").await?;
    for _ in 0..2 {
        assert_eq!(take(&ledger, &claim, &runner).await?, Taken::Done);
    }
    let (claim_now, runner_now) = (read_claim(&ledger, &claim.id).await?, read(&ledger, &runner.id).await?);
    assert_eq!((claim_now.members.len(), runner_now.rev), (1, runner.rev + 1));
    assert_eq!(log(&ledger, Key::from(&runner.id)).await?, ["took", "moved", "launched"]);

    // The agent was faster than the answer.
    let running = moved(&runner_now, RunnerState::Running { hold: hold(&claim), leaving: false });
    let running = must_write(&ledger, &runner_now, &running).await?;
    assert_eq!(take(&ledger, &claim, &runner).await?, Taken::Done);
    assert_eq!(read(&ledger, &runner.id).await?, running);
    assert_eq!(read_claim(&ledger, &claim.id).await?, claim_now);
    let lost = Taken::RunnerLost { found: Some(Box::new(running)) };
    assert_eq!(take(&ledger, &other, &runner).await?, lost, "for another claim it is lost");
    Ok(())
}

pub async fn inv_01_taking_again_after_a_reset_is_lost(ledger: Shared) -> Result<()> {
    let (runner, claim) = (idle(&ledger, "r-1").await?, opened(&ledger, "c-1").await?);
    assert_eq!(take(&ledger, &claim, &runner).await?, Taken::Done);
    let taken = read(&ledger, &runner.id).await?;
    let again = must_write(&ledger, &taken, &reset(&taken)).await?;
    let again = must_write(&ledger, &again, &moved(&again, RunnerState::Idle)).await?;
    let lost = Taken::RunnerLost { found: Some(Box::new(again.clone())) };
    assert_eq!(take(&ledger, &claim, &runner).await?, lost);
    assert_eq!(read(&ledger, &runner.id).await?, again);
    Ok(())
}
