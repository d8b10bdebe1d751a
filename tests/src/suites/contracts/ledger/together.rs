//! Writing several runners at once, and what the provider had none of.

use anyhow::{Result, ensure};
use motorpool_control::store::{AllWritten, RunnerWrite};
use motorpool_domain::ladder::{CapacityOption, Lacking, Shortage};
use motorpool_domain::record::Key;
use motorpool_domain::runner::Runner;
use motorpool_domain::spec::Usage;

use super::fixtures::{
    POOL, Shared, at, at_once, entry, intent, launched, log, must_write, pool_name, read, terminated,
};

/// Each with a detail of the provider's changed.
fn noted(runners: &[Runner], provider: &str) -> Vec<Runner> {
    let note = |runner: &Runner| Runner {
        provider_id: Some(provider.to_owned()),
        rev: runner.rev + 1,
        ..runner.clone()
    };
    runners.iter().map(note).collect()
}

async fn write(ledger: &Shared, before: &[Runner], after: &[Runner]) -> Result<AllWritten> {
    let entry = entry(10, "noted");
    let writes: Vec<RunnerWrite<'_>> = before
        .iter()
        .zip(after)
        .map(|(before, after)| RunnerWrite { before, after, look_at: None, entry: &entry })
        .collect();
    Ok(ledger.write_runners(&writes).await?)
}

pub async fn runners_are_written_together_each_with_its_log(ledger: Shared) -> Result<()> {
    let runners = launched(&ledger, &["r-1", "r-2", "r-3"]).await?;
    let after = noted(&runners, "i-1");
    assert_eq!(write(&ledger, &runners, &after).await?, AllWritten::Done);
    for runner in &after {
        assert_eq!(read(&ledger, &runner.id).await?, *runner);
        assert_eq!(log(&ledger, Key::from(&runner.id)).await?.len(), 2);
    }
    Ok(())
}

pub async fn inv_02_one_stale_record_keeps_all_from_being_written(ledger: Shared) -> Result<()> {
    let runners = launched(&ledger, &["r-1", "r-2", "r-3"]).await?;
    let [first, second, third] =
        <[Runner; 3]>::try_from(runners.clone()).map_err(|_| anyhow::anyhow!("three"))?;
    let other = noted(std::slice::from_ref(&second), "i-other");
    assert_eq!(write(&ledger, std::slice::from_ref(&second), &other).await?, AllWritten::Done);
    assert_eq!(write(&ledger, &runners, &noted(&runners, "i-1")).await?, AllWritten::Lost);
    for untouched in [&first, &third] {
        assert_eq!(read(&ledger, &untouched.id).await?, *untouched);
    }
    let missing = [first.clone(), intent("r-9")?];
    assert_eq!(write(&ledger, &missing, &noted(&missing, "i-1")).await?, AllWritten::Lost);
    Ok(())
}

pub async fn inv_02_of_16_that_write_the_same_runners_one_wins(ledger: Shared) -> Result<()> {
    let runners = launched(&ledger, &["r-1", "r-2"]).await?;
    let answers = at_once(&ledger, 16, |ledger, writer| {
        let runners = runners.clone();
        async move { write(&ledger, &runners, &noted(&runners, &format!("i-{writer}"))).await }
    });
    let won = answers.await?.iter().filter(|answer| **answer == AllWritten::Done).count();
    assert_eq!(won, 1);
    Ok(())
}

pub async fn inv_07_fault_15_writing_together_again_is_done_and_changes_nothing(
    ledger: Shared,
) -> Result<()> {
    let runners = launched(&ledger, &["r-1", "r-2"]).await?;
    let after = noted(&runners, "i-1");
    for _ in 0..2 {
        assert_eq!(write(&ledger, &runners, &after).await?, AllWritten::Done);
    }
    for runner in &after {
        assert_eq!(read(&ledger, &runner.id).await?, *runner);
        assert_eq!(log(&ledger, Key::from(&runner.id)).await?.len(), 2);
    }
    Ok(())
}

pub async fn what_can_not_be_written_together_is_an_error(ledger: Shared) -> Result<()> {
    let runners = launched(&ledger, &["r-1"]).await?;
    let twice = [runners.as_slice(), runners.as_slice()].concat();
    ensure!(write(&ledger, &twice, &noted(&twice, "i-1")).await.is_err(), "one twice");
    ensure!(write(&ledger, &[], &[]).await.is_err(), "none");
    let ended: Vec<Runner> = runners.iter().map(terminated).collect();
    ensure!(write(&ledger, &runners, &ended).await.is_err(), "one that gives its slot back");
    for runner in &runners {
        must_write(&ledger, runner, &terminated(runner)).await?;
    }
    Ok(())
}

pub async fn fault_22_a_shortage_is_remembered_until_it_is_over(ledger: Shared) -> Result<()> {
    let name = pool_name(POOL)?;
    let of_rung = Lacking::rung(&CapacityOption {
        offer: intent("r-1")?.offer,
        zone: Some("eu-west-1a".to_owned()),
        hourly: None,
    });
    let shortage =
        |of: &Lacking, until, why: &str| Shortage { of: of.clone(), until: at(until), why: why.to_owned() };
    let of_spot = Lacking::Usage { usage: Usage::Spot };
    ledger.note_shortage(&name, &shortage(&of_rung, 1_000, "none left")).await?;
    ledger.note_shortage(&name, &shortage(&of_spot, 3_000, "a quota")).await?;
    ledger.note_shortage(&pool_name("other")?, &shortage(&of_spot, 9_000, "not ours")).await?;
    // The same again takes the place of the last.
    ledger.note_shortage(&name, &shortage(&of_rung, 2_000, "still none")).await?;
    let mut known = ledger.shortages(&name, at(1_500)).await?;
    known.sort_by_key(|shortage| shortage.until);
    assert_eq!(known, [shortage(&of_rung, 2_000, "still none"), shortage(&of_spot, 3_000, "a quota")]);
    assert_eq!(ledger.shortages(&name, at(2_000)).await?, [shortage(&of_spot, 3_000, "a quota")]);
    assert_eq!(ledger.shortages(&name, at(3_000)).await?, []);
    Ok(())
}
