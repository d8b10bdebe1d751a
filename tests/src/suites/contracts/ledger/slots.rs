//! Launch intents and the pool's slots: never more than the maximum, all of a launch or nothing of it.

use anyhow::{Result, bail};
use motorpool_control::store::{ClaimWrite, IntentsWrite, IntentsWritten, Written};
use motorpool_domain::claim::{Claim, Member};
use motorpool_domain::record::Key;
use motorpool_domain::runner::{Runner, RunnerState};
use motorpool_domain::{Epoch, LaunchId};

use super::fixtures::{
    POOL, Shared, at, at_once, define, entry, hold, idle, intent, launch, launched, log, moved, must_write,
    must_write_claim, opened, pool, pool_name, read, read_claim, seen, terminated, used, write,
};

pub async fn inv_15_intents_are_written_with_their_claim(ledger: Shared) -> Result<()> {
    define(&ledger, &pool(POOL, 25)?).await?;
    let claim = opened(&ledger, "c-1").await?;
    let runners = of_one_launch(&claim, 25)?;
    assert_eq!(launch_for(&ledger, &claim, &runners, 25).await?, IntentsWritten::Done);
    for runner in &runners {
        assert_eq!(&read(&ledger, &runner.id).await?, runner);
        assert_eq!(log(&ledger, Key::from(&runner.id)).await?, ["launched"]);
    }
    assert_eq!(read_claim(&ledger, &claim.id).await?, gaining(&claim, &runners));
    assert_eq!(log(&ledger, Key::from(&claim.id)).await?, ["gained", "opened"]);
    assert_eq!(used(&ledger).await?, 25);
    Ok(())
}

pub async fn inv_17_intents_beyond_the_maximum_are_refused_whole(ledger: Shared) -> Result<()> {
    let (a, b) = (intent("r-a")?, intent("r-b")?);
    assert_eq!(launch(&ledger, 9, None, std::slice::from_ref(&a)).await?, IntentsWritten::NoPool);
    assert_eq!(ledger.runner(&a.id).await?, None);
    assert_eq!(ledger.pools().await?, [], "a launch makes no pool");

    launched(&ledger, &["r-1", "r-2"]).await?;
    let both = [a.clone(), b.clone()];
    for max in [3, 2, 1, 0] {
        assert_eq!(launch(&ledger, max, None, &both).await?, IntentsWritten::NoSlots { used: 2 }, "of {max}");
    }
    assert_eq!(ledger.runners(&[a.id, b.id]).await?, [None, None]);
    assert_eq!(used(&ledger).await?, 2);
    assert_eq!(launch(&ledger, 4, None, &both).await?, IntentsWritten::Done);
    assert_eq!(used(&ledger).await?, 4);
    Ok(())
}

/// Also where the maximum that it was decided on would allow it.
pub async fn inv_17_a_launch_is_written_on_the_definition_that_it_was_decided_on(
    ledger: Shared,
) -> Result<()> {
    define(&ledger, &pool(POOL, 9)?).await?;
    let (name, entry) = (pool_name(POOL)?, entry(0, "launched"));
    let decided_on = seen(&ledger, &name).await?;
    define(&ledger, &pool(POOL, 1)?).await?;
    let runners = [intent("r-1")?, intent("r-2")?];
    let write = |seen, runners| IntentsWrite {
        pool: &name,
        seen,
        max: 9,
        only_if_used: None,
        runners,
        look_at: None,
        claim: None,
        entry: &entry,
    };
    let answer = ledger.write_launch_intents(write(decided_on, &runners)).await?;
    let IntentsWritten::PoolChanged { found } = answer else { bail!("{answer:?}") };
    assert_eq!((found.pool.rules.max, found.used), (1, 0));
    assert_eq!(used(&ledger).await?, 0);
    assert!(ledger.runner(&runners[0].id).await?.is_none());
    let answer = ledger.write_launch_intents(write(found.rev, &runners)).await?;
    assert_eq!((answer, used(&ledger).await?), (IntentsWritten::Done, 2));
    // Its own repetition is known, whatever became of the pool since.
    define(&ledger, &pool(POOL, 3)?).await?;
    let answer = ledger.write_launch_intents(write(found.rev, &runners)).await?;
    assert_eq!((answer, used(&ledger).await?), (IntentsWritten::Done, 2));
    Ok(())
}

pub async fn inv_17_of_20_launches_at_once_none_goes_beyond_the_maximum(ledger: Shared) -> Result<()> {
    const MAX: u32 = 7;
    define(&ledger, &pool(POOL, MAX)?).await?;
    let answers = at_once(&ledger, 20, |ledger, caller| async move {
        let runners = [intent(&format!("r-{caller}-a"))?, intent(&format!("r-{caller}-b"))?];
        launch(&ledger, MAX, None, &runners).await
    });
    let mut done = 0;
    for answer in answers.await? {
        match answer {
            IntentsWritten::Done => done += 1,
            IntentsWritten::NoSlots { used } => assert_eq!(used, 6),
            other @ (IntentsWritten::PoolChanged { .. }
            | IntentsWritten::ClaimLost
            | IntentsWritten::Exists
            | IntentsWritten::NoPool) => {
                bail!("{other:?}")
            }
        }
    }
    assert_eq!((done, used(&ledger).await?), (3, 6));
    let one = [intent("r-last")?];
    assert_eq!(launch(&ledger, MAX, None, &one).await?, IntentsWritten::Done);
    Ok(())
}

pub async fn inv_17_a_launch_decided_on_a_count_needs_that_count(ledger: Shared) -> Result<()> {
    define(&ledger, &pool(POOL, 100)?).await?;
    let mut answers = at_once(&ledger, 8, |ledger, caller| async move {
        launch(&ledger, 100, Some(0), &[intent(&format!("r-{caller}"))?]).await
    })
    .await?;
    answers.retain(|answer| *answer != IntentsWritten::NoSlots { used: 1 });
    assert_eq!(answers, [IntentsWritten::Done]);
    assert_eq!(launch(&ledger, 100, Some(1), &[intent("r-x")?]).await?, IntentsWritten::Done);
    assert_eq!(launch(&ledger, 2, Some(2), &[intent("r-y")?]).await?, IntentsWritten::NoSlots { used: 2 });
    Ok(())
}

pub async fn inv_17_a_terminated_runner_gives_its_slot_back_once(ledger: Shared) -> Result<()> {
    let runner = idle(&ledger, "r-1").await?;
    launched(&ledger, &["r-2", "r-3"]).await?;
    let state = RunnerState::Terminating { why: "it was idle".to_owned(), told: 1 };
    let runner = must_write(&ledger, &runner, &moved(&runner, state)).await?;
    assert_eq!(used(&ledger).await?, 3, "the intent to terminate gives nothing back");

    let answers = at_once(&ledger, 16, |ledger, _| {
        let runner = runner.clone();
        async move { write(&ledger, &runner, &terminated(&runner)).await }
    });
    let done = answers.await?.iter().filter(|answer| **answer == Written::Done).count();
    assert_eq!((done, used(&ledger).await?), (1, 2));
    let ended = read(&ledger, &runner.id).await?;
    must_write(&ledger, &ended, &terminated(&ended)).await?;
    assert_eq!(used(&ledger).await?, 2, "an ended runner has no slot");
    Ok(())
}

pub async fn inv_02_intents_of_a_claim_that_moved_on_are_refused_whole(ledger: Shared) -> Result<()> {
    define(&ledger, &pool(POOL, 100)?).await?;
    let claim = opened(&ledger, "c-1").await?;
    let ended = claim.released("its workflow was cancelled", at(1));
    must_write_claim(&ledger, &claim, &ended).await?;
    let runners = of_one_launch(&claim, 2)?;
    assert_eq!(launch_for(&ledger, &claim, &runners, 100).await?, IntentsWritten::ClaimLost);
    for runner in &runners {
        assert_eq!(ledger.runner(&runner.id).await?, None);
        assert!(log(&ledger, Key::from(&runner.id)).await?.is_empty());
    }
    assert_eq!((read_claim(&ledger, &claim.id).await?, used(&ledger).await?), (ended, 0));
    Ok(())
}

pub async fn inv_01_a_live_runner_is_not_replaced(ledger: Shared) -> Result<()> {
    let live = idle(&ledger, "mac-01").await?;
    for epoch in [live.epoch, live.epoch.next()] {
        let again = Runner { epoch, launch: LaunchId::parse("l-other")?, ..intent("mac-01")? };
        let with_another = [intent("mac-02")?, again];
        assert_eq!(launch(&ledger, 100, None, &with_another).await?, IntentsWritten::Exists);
    }
    assert_eq!(read(&ledger, &live.id).await?, live);
    assert_eq!(ledger.runner(&intent("mac-02")?.id).await?, None);
    assert_eq!(used(&ledger).await?, 1);
    Ok(())
}

pub async fn inv_01_a_terminated_runner_is_replaced_by_a_higher_epoch(ledger: Shared) -> Result<()> {
    let live = idle(&ledger, "mac-01").await?;
    ledger.heartbeat(&live.id, live.epoch, at(4)).await?;
    ledger.note_announced(&live.id, live.epoch, at(4)).await?;
    let ended = must_write(&ledger, &live, &terminated(&live)).await?;
    let again = |epoch| {
        let launch = LaunchId::parse("l-other")?;
        Ok::<_, anyhow::Error>([Runner { epoch, launch, ..intent("mac-01")? }])
    };
    for epoch in [Epoch(0), ended.epoch] {
        assert_eq!(launch(&ledger, 100, None, &again(epoch)?).await?, IntentsWritten::Exists);
    }
    assert_eq!(read(&ledger, &live.id).await?, ended);

    let next = again(ended.epoch.next())?;
    assert_eq!(launch(&ledger, 100, None, &next).await?, IntentsWritten::Done);
    assert_eq!([read(&ledger, &live.id).await?], next, "nothing of the earlier life is left");
    assert_eq!(used(&ledger).await?, 1);
    assert_eq!(log(&ledger, Key::from(&live.id)).await?.len(), 4, "but its log is");
    Ok(())
}

pub async fn inv_07_fault_15_launching_again_is_done_and_changes_nothing(ledger: Shared) -> Result<()> {
    define(&ledger, &pool(POOL, 3)?).await?;
    let claim = opened(&ledger, "c-1").await?;
    let runners = of_one_launch(&claim, 3)?;
    for _ in 0..2 {
        // The second time neither slots nor claim are as the call wants them.
        assert_eq!(launch_for(&ledger, &claim, &runners, 3).await?, IntentsWritten::Done);
    }
    assert_eq!(used(&ledger).await?, 3);
    assert_eq!(read_claim(&ledger, &claim.id).await?, gaining(&claim, &runners));

    for runner in &runners {
        must_write(&ledger, runner, &terminated(runner)).await?;
    }
    assert_eq!(launch_for(&ledger, &claim, &runners, 3).await?, IntentsWritten::Done);
    assert_eq!(used(&ledger).await?, 0, "a late repetition launches nothing again");
    Ok(())
}

pub async fn a_launch_of_too_many_or_of_one_twice_is_an_error(ledger: Shared) -> Result<()> {
    define(&ledger, &pool(POOL, 100)?).await?;
    let claim = opened(&ledger, "c-1").await?;
    assert!(launch(&ledger, 100, None, &of_one_launch(&claim, 26)?).await.is_err());
    assert!(launch(&ledger, 100, None, &[intent("r-1")?, intent("r-1")?]).await.is_err());
    assert_eq!(used(&ledger).await?, 0);
    Ok(())
}

fn of_one_launch(claim: &Claim, count: u32) -> Result<Vec<Runner>> {
    let runner = |i| {
        let state = RunnerState::Created { hold: Some(hold(claim)), launched_at: None, attempt: None };
        Ok(Runner { launch: LaunchId::parse("l-1")?, state, ..intent(&format!("r-{i:02}"))? })
    };
    (0..count).map(runner).collect()
}

fn gaining(claim: &Claim, runners: &[Runner]) -> Claim {
    let member = |r: &Runner| Member { runner: r.id.clone(), epoch: r.epoch, warm: false };
    claim.gaining(runners.iter().map(member))
}

async fn launch_for(ledger: &Shared, claim: &Claim, runners: &[Runner], max: u32) -> Result<IntentsWritten> {
    let after = gaining(claim, runners);
    let (pool, launched, gained) = (pool_name(POOL)?, entry(0, "launched"), entry(1, "gained"));
    let write = IntentsWrite {
        pool: &pool,
        seen: seen(ledger, &pool).await?,
        max,
        only_if_used: None,
        runners,
        look_at: None,
        claim: Some(ClaimWrite { before: claim, after: &after, entry: &gained }.into()),
        entry: &launched,
    };
    Ok(ledger.write_launch_intents(write).await?)
}
