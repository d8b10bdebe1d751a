//! Runners: what is written is read, a write needs the record that it was decided from, and heartbeats stand beside it.

use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use motorpool_control::store::Written;
use motorpool_domain::Epoch;
use motorpool_domain::runner::{CleanProof, Credential, ProofKind, Runner, RunnerState};

use super::fixtures::{
    Shared, at, at_once, claim, hold, idle, intent, launched, moved, must_write, read, reset, runner_id,
    terminated, write,
};

pub async fn a_runner_is_read_as_written(ledger: Shared) -> Result<()> {
    assert_eq!(ledger.runner(&runner_id("r-1")?).await?, None);
    let created = launched(&ledger, &["r-1"]).await?.remove(0);
    assert_eq!(read(&ledger, &created.id).await?, created);
    let hold = hold(&claim("c-1")?);
    let after = Runner {
        provider_id: Some("i-0123".to_owned()),
        credential: Some(Credential {
            token_sha256: "ab".repeat(32),
            machine_id: "m \"1\"".to_owned(),
            named: None,
            fixed: false,
        }),
        boot_id: Some("boot".to_owned()),
        proof: Some(CleanProof { how: ProofKind::NewMachine, at: at(3), task: None }),
        draining: true,
        ..moved(&created, RunnerState::Running { hold, leaving: true })
    };
    assert_eq!(must_write(&ledger, &created, &after).await?, after);
    Ok(())
}

/// More than one batch, an id twice, and ids that nobody has.
pub async fn many_runners_are_read_in_the_order_asked_for(ledger: Shared) -> Result<()> {
    let ids: Vec<String> = (0..120).map(|i| format!("r-{i:03}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    launched(&ledger, &ids).await?;
    let mut asked: Vec<&str> = ids.iter().rev().copied().collect();
    asked.insert(1, "nobody");
    asked.push("r-007");
    let wanted = asked.iter().map(|id| runner_id(*id)).collect::<Result<Vec<_>>>()?;
    let found = ledger.runners(&wanted).await?;
    let found: Vec<&str> = found.iter().map(|r| r.as_ref().map_or("nobody", |r| r.id.as_str())).collect();
    assert_eq!(found, asked);
    assert_eq!(ledger.runners(&[]).await?, []);
    Ok(())
}

pub async fn inv_02_a_write_from_a_stale_revision_state_or_epoch_is_lost(ledger: Shared) -> Result<()> {
    let found = idle(&ledger, "r-1").await?;
    let stale = [
        Runner { rev: found.rev - 1, ..found.clone() },
        Runner { rev: found.rev + 1, ..found.clone() },
        Runner { epoch: Epoch(found.epoch.0 + 1), ..found.clone() },
        Runner { state: RunnerState::Quarantined { why: String::new() }, ..found.clone() },
    ];
    for before in stale {
        let after = reset(&before);
        assert_eq!(
            write(&ledger, &before, &after).await?,
            Written::Lost { found: found.clone() },
            "{before:?}"
        );
        assert_eq!(read(&ledger, &found.id).await?, found);
    }
    must_write(&ledger, &found, &reset(&found)).await?;
    Ok(())
}

pub async fn inv_02_of_32_writers_from_one_record_one_wins(ledger: Shared) -> Result<()> {
    let before = idle(&ledger, "r-1").await?;
    let answers = at_once(&ledger, 32, |ledger, writer| {
        let after = moved(&before, RunnerState::Quarantined { why: format!("by {writer}") });
        let before = before.clone();
        async move { Ok((write(&ledger, &before, &after).await?, after)) }
    });
    let (mut won, mut lost) = (Vec::new(), Vec::new());
    for answer in answers.await? {
        match answer {
            (Written::Done, after) => won.push(after),
            (Written::Lost { found }, _) => lost.push(found),
            (Written::Missing, _) => bail!("the runner is missing"),
        }
    }
    assert_eq!(won, [read(&ledger, &before.id).await?]);
    let won = won.first().context("nobody won")?;
    assert!(lost.iter().all(|found| found == won), "{lost:?}");
    Ok(())
}

pub async fn a_write_to_a_missing_runner_says_so(ledger: Shared) -> Result<()> {
    let before = intent("r-1")?;
    assert_eq!(write(&ledger, &before, &moved(&before, RunnerState::Idle)).await?, Written::Missing);
    assert_eq!(ledger.runner(&before.id).await?, None);
    Ok(())
}

pub async fn inv_21_a_heartbeat_of_an_old_epoch_changes_nothing(ledger: Shared) -> Result<()> {
    let id = runner_id("r-1")?;
    ledger.heartbeat(&id, Epoch::FIRST, at(1)).await?;
    ledger.note_announced(&id, Epoch::FIRST, at(1)).await?;
    assert_eq!(ledger.runner(&id).await?, None, "a heartbeat makes no runner");

    let first = idle(&ledger, "r-1").await?;
    let second = must_write(&ledger, &first, &reset(&first)).await?;
    for epoch in [first.epoch, second.epoch.next()] {
        ledger.heartbeat(&id, epoch, at(2)).await?;
        ledger.note_announced(&id, epoch, at(2)).await?;
    }
    assert_eq!(read(&ledger, &id).await?, second);
    Ok(())
}

pub async fn fault_08_a_heartbeat_after_the_end_changes_nothing(ledger: Shared) -> Result<()> {
    let runner = idle(&ledger, "r-1").await?;
    let ended = must_write(&ledger, &runner, &terminated(&runner)).await?;
    ledger.heartbeat(&ended.id, ended.epoch, at(9)).await?;
    ledger.note_announced(&ended.id, ended.epoch, at(9)).await?;
    assert_eq!(read(&ledger, &ended.id).await?, ended);
    Ok(())
}

pub async fn heartbeats_and_announcements_survive_writes_and_epochs(ledger: Shared) -> Result<()> {
    let runner = idle(&ledger, "r-1").await?;
    ledger.heartbeat(&runner.id, runner.epoch, at(8)).await?;
    ledger.note_announced(&runner.id, runner.epoch, at(9)).await?;
    let beside = Runner { seen_at: Some(at(8)), announced_at: Some(at(9)), ..runner.clone() };
    assert_eq!(read(&ledger, &runner.id).await?, beside);
    // It was decided from a record that had not heard of them, and wins none the less: they are no change of it.
    let found = must_write(&ledger, &runner, &reset(&runner)).await?;
    assert_eq!((found.seen_at, found.announced_at), (Some(at(8)), Some(at(9))));
    let lost = write(&ledger, &runner, &terminated(&runner)).await?;
    assert_eq!(lost, Written::Lost { found });
    Ok(())
}

pub async fn heartbeats_are_not_lost_to_writes_at_the_same_time(ledger: Shared) -> Result<()> {
    const BEATS: u64 = 40;
    let start = idle(&ledger, "r-1").await?;
    let beats = {
        let (ledger, start) = (Arc::clone(&ledger), start.clone());
        tokio::spawn(async move {
            for beat in 1..=BEATS {
                ledger.heartbeat(&start.id, start.epoch, at(beat)).await?;
            }
            Ok::<_, anyhow::Error>(())
        })
    };
    let mut record = start;
    for _ in 0..BEATS {
        let seen_before = record.seen_at;
        record = must_write(&ledger, &record, &moved(&record, RunnerState::Idle)).await?;
        ensure!(record.seen_at >= seen_before, "a heartbeat was forgotten");
    }
    beats.await??;
    assert_eq!(read(&ledger, &record.id).await?.seen_at, Some(at(BEATS)));
    Ok(())
}
