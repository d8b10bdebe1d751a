//! The log: written with its record in one transaction, newest first, in pages.

use anyhow::{Context, Result};
use motorpool_control::store::{Page, Taken, Written};
use motorpool_domain::AuditEntry;
use motorpool_domain::record::Key;
use motorpool_domain::runner::RunnerState;

use super::fixtures::{
    POOL, Shared, at, entry, idle, log, moved, must_write, opened, pool_name, runner_id, take, terminated,
    write, write_claim,
};

pub async fn the_log_is_newest_first_and_in_pages(ledger: Shared) -> Result<()> {
    let subject = Key::from(&runner_id("r-1")?);
    let first = ledger.audit(&subject, Page::first(10)).await?;
    assert_eq!((first.items, first.next), (vec![], None));
    let mut runner = idle(&ledger, "r-1").await?;
    for _ in 0..8 {
        runner = must_write(&ledger, &runner, &moved(&runner, RunnerState::Idle)).await?;
    }
    // Each write's entry is of the time of its revision.
    let expected: Vec<u64> = (0..=10).rev().filter(|rev| *rev != 1).collect();
    for at_most in [1, 3, 5, 10, 100] {
        let (mut seen, mut page) = (Vec::new(), Page::first(at_most));
        loop {
            let listed = ledger.audit(&subject, page).await?;
            assert!(listed.items.len() <= at_most as usize && !listed.items.is_empty());
            seen.extend(listed.items);
            let Some(next) = listed.next else { break };
            page = Page { at_most, after: Some(next) };
        }
        let times: Vec<u64> = seen.iter().map(|e| e.at.as_millis() - at(0).as_millis()).collect();
        assert_eq!(times, expected, "in pages of {at_most}");
        assert_eq!(seen.first(), Some(&entry(10, "moved")), "an entry is read as written");
    }
    Ok(())
}

pub async fn inv_02_a_lost_write_leaves_no_entry(ledger: Shared) -> Result<()> {
    let runner = idle(&ledger, "r-1").await?;
    let now = must_write(&ledger, &runner, &moved(&runner, RunnerState::Idle)).await?;
    let lost = write(&ledger, &runner, &terminated(&runner)).await?;
    assert_eq!(lost, Written::Lost { found: now });
    assert_eq!(log(&ledger, Key::from(&runner.id)).await?, ["moved", "moved", "launched"]);

    let claim = opened(&ledger, "c-1").await?;
    write_claim(&ledger, &claim.settled(), &claim.released("done", at(9))).await?;
    assert_eq!(log(&ledger, Key::from(&claim.id)).await?, ["opened"]);
    Ok(())
}

pub async fn a_transaction_logs_on_every_record_it_changes(ledger: Shared) -> Result<()> {
    let (runner, claim) = (idle(&ledger, "r-1").await?, opened(&ledger, "c-1").await?);
    assert_eq!(take(&ledger, &claim, &runner).await?, Taken::Done);
    assert_eq!(log(&ledger, Key::from(&runner.id)).await?, ["took", "moved", "launched"]);
    assert_eq!(log(&ledger, Key::from(&claim.id)).await?, ["took", "opened"]);
    Ok(())
}

pub async fn a_note_is_kept_once(ledger: Shared) -> Result<()> {
    let subject = Key::from(&pool_name(POOL)?);
    for what in ["defined", "changed", "changed", "braked"] {
        ledger.note(&subject, &entry(1, what)).await?;
    }
    let why = AuditEntry { why: "another reason".to_owned(), ..entry(1, "changed") };
    ledger.note(&subject, &why).await?;
    ledger.note(&subject, &entry(2, "changed")).await?;
    let mut said = log(&ledger, subject.clone()).await?;
    assert_eq!(said.first().context("the log is empty")?, "changed");
    said.sort();
    assert_eq!(said, ["braked", "changed", "changed", "changed", "defined"]);
    assert_eq!(ledger.pool(&pool_name(POOL)?).await?, None, "a note makes no pool");
    let runner = Key::from(&runner_id(POOL)?);
    assert!(log(&ledger, runner).await?.is_empty(), "names of different kinds are apart");
    Ok(())
}
