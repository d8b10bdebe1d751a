//! What is due: everything that can get stuck, at its threshold or when a look was planned; nothing else.

use anyhow::Result;
use motorpool_control::store::{IntentsWrite, IntentsWritten, RunnerWrite, Written};
use motorpool_domain::Threshold;
use motorpool_domain::claim::Member;
use motorpool_domain::record::{Key, Path};
use motorpool_domain::runner::{Runner, RunnerState};

use super::fixtures::{
    LIMIT, POOL, Shared, at, claim, define, entry, idle, intent, launch, launched, moved, must_write,
    must_write_claim, open, opened, pool, pool_name, read, seen, terminated,
};

pub async fn what_is_due_comes_in_order_and_bounded(ledger: Shared) -> Result<()> {
    define(&ledger, &pool(POOL, 100)?).await?;
    let mut expected = Vec::new();
    // In an order that is neither that of the ids nor that of the shards.
    for step in 0..40_u64 {
        let (number, when) = ((step * 17) % 40, 100 + step);
        if step % 4 == 0 {
            let mut claim = claim(&format!("c-{number}"))?;
            claim.threshold = Some(Threshold(at(when)));
            open(&ledger, &claim, None).await?;
            expected.push(due(&claim.id));
        } else {
            let runner = Runner { threshold: Some(Threshold(at(when))), ..intent(&format!("r-{number}"))? };
            launch(&ledger, 100, None, std::slice::from_ref(&runner)).await?;
            expected.push(due(&runner.id));
        }
    }
    assert_eq!(ledger.due(at(99), 1_000).await?, []);
    assert_eq!(ledger.due(at(100), 1_000).await?, expected.get(..1).unwrap_or_default());
    assert_eq!(ledger.due(at(119), 1_000).await?, expected.get(..20).unwrap_or_default());
    assert_eq!(ledger.due(at(10_000), 1_000).await?, expected);
    assert_eq!(ledger.due(at(10_000), 7).await?, expected.get(..7).unwrap_or_default());
    assert_eq!(ledger.due(at(10_000), 0).await?, []);
    Ok(())
}

pub async fn what_is_terminal_or_a_persons_is_never_due(ledger: Shared) -> Result<()> {
    let (gone, stuck) = (idle(&ledger, "r-1").await?, idle(&ledger, "r-2").await?);
    assert_eq!(ledger.due(at(LIMIT), 10).await?.len(), 2);
    assert_eq!(ledger.due(at(LIMIT - 1), 10).await?, []);
    let gone = must_write(&ledger, &gone, &terminated(&gone)).await?;
    let after = moved(&stuck, RunnerState::Quarantined { why: "look".to_owned() });
    let stuck = must_write(&ledger, &stuck, &after).await?;
    for runner in [&gone, &stuck] {
        ledger.look_again(runner, at(1)).await?;
    }
    assert_eq!(ledger.due(at(LIMIT * 100), 10).await?, []);

    let state =
        RunnerState::Resetting { attempt: 1, not_before: at(2), why: "released".to_owned(), step: None };
    let free = Runner { threshold: Some(Threshold(at(50))), ..moved(&stuck, state) };
    must_write(&ledger, &stuck, &free).await?;
    assert_eq!(ledger.due(at(50), 10).await?, [due(&free.id)]);
    Ok(())
}

pub async fn a_look_comes_before_the_threshold(ledger: Shared) -> Result<()> {
    define(&ledger, &pool(POOL, 100)?).await?;
    let (pool, launched) = (pool_name(POOL)?, entry(0, "launched"));
    let runner = intent("r-1")?;
    let write = IntentsWrite {
        pool: &pool,
        seen: seen(&ledger, &pool).await?,
        max: 100,
        only_if_used: None,
        runners: std::slice::from_ref(&runner),
        look_at: Some(at(10)),
        claim: None,
        entry: &launched,
    };
    assert_eq!(ledger.write_launch_intents(write).await?, IntentsWritten::Done);
    due_first_at(&ledger, &runner, 10).await?;

    ledger.look_again(&runner, at(20)).await?;
    due_first_at(&ledger, &runner, 20).await?;
    ledger.look_again(&runner, at(LIMIT * 2)).await?;
    due_first_at(&ledger, &runner, LIMIT).await?;

    let after = moved(&runner, RunnerState::Idle);
    for (look_at, when) in [(Some(at(30)), 30), (Some(at(LIMIT + 1)), LIMIT), (None, LIMIT)] {
        let before = read(&ledger, &runner.id).await?;
        let after = Runner { rev: before.rev + 1, ..after.clone() };
        let write = RunnerWrite { before: &before, after: &after, look_at, entry: &launched };
        assert_eq!(ledger.write_runner(write).await?, Written::Done);
        due_first_at(&ledger, &runner, when).await?;
    }
    Ok(())
}

pub async fn looking_again_from_a_stale_record_changes_nothing(ledger: Shared) -> Result<()> {
    ledger.look_again(&intent("r-0")?, at(1)).await?;
    assert_eq!(ledger.runner(&intent("r-0")?.id).await?, None);

    let created = launched(&ledger, &["r-1"]).await?.remove(0);
    let found = must_write(&ledger, &created, &moved(&created, RunnerState::Idle)).await?;
    ledger.look_again(&created, at(1)).await?;
    ledger.look_again(&Runner { epoch: found.epoch.next(), ..found.clone() }, at(1)).await?;
    due_first_at(&ledger, &found, LIMIT).await?;
    ledger.look_again(&found, at(1)).await?;
    due_first_at(&ledger, &found, 1).await?;
    assert_eq!(read(&ledger, &found.id).await?, found, "a look is no change of the record");
    Ok(())
}

pub async fn a_heartbeat_never_moves_what_is_due(ledger: Shared) -> Result<()> {
    let runner = idle(&ledger, "r-1").await?;
    ledger.look_again(&runner, at(40)).await?;
    ledger.heartbeat(&runner.id, runner.epoch, at(35)).await?;
    ledger.note_announced(&runner.id, runner.epoch, at(36)).await?;
    due_first_at(&ledger, &runner, 40).await?;
    let after = terminated(&runner);
    must_write(&ledger, &runner, &after).await?;
    ledger.heartbeat(&runner.id, runner.epoch, at(37)).await?;
    assert_eq!(ledger.due(at(LIMIT), 10).await?, []);
    Ok(())
}

pub async fn an_ended_claim_is_due_until_it_is_settled(ledger: Shared) -> Result<()> {
    let claim = opened(&ledger, "c-1").await?;
    let due = [due(&claim.id)];
    assert_eq!(ledger.due(at(LIMIT - 1), 10).await?, []);
    assert_eq!(ledger.due(at(LIMIT), 10).await?, due);

    let member = Member { runner: intent("r-1")?.id, epoch: intent("r-1")?.epoch, warm: false };
    let holding = claim.gaining([member]);
    must_write_claim(&ledger, &claim, &holding).await?;
    let ended = holding.released("done", at(7));
    must_write_claim(&ledger, &holding, &ended).await?;
    assert_eq!(ledger.due(at(6), 10).await?, []);
    assert_eq!(ledger.due(at(7), 10).await?, due);
    must_write_claim(&ledger, &ended, &ended.settled()).await?;
    assert_eq!(ledger.due(at(LIMIT * 100), 10).await?, []);

    let empty = opened(&ledger, "c-2").await?;
    must_write_claim(&ledger, &empty, &empty.failed("nobody came", at(9))).await?;
    assert_eq!(ledger.due(at(LIMIT * 100), 10).await?, [], "it held nothing");
    Ok(())
}

fn due<'a, Id>(id: &'a Id) -> Path
where
    Key: From<&'a Id>,
{
    Key::from(id).into()
}

async fn due_first_at(ledger: &Shared, runner: &Runner, when: u64) -> Result<()> {
    assert_eq!(ledger.due(at(when - 1), 10).await?, [], "just before {when}");
    assert_eq!(ledger.due(at(when), 10).await?, [due(&runner.id)], "at {when}");
    Ok(())
}
