//! Alerts: raised, told and resolved on what was read, due when something is to be done, and listed.

use anyhow::{Context, Result, ensure};
use motorpool_control::ports::ledger::LedgerError;
use motorpool_control::store::{AlertWrite, Page, WhichAlerts, Written};
use motorpool_domain::alert::{Alert, Incident};
use motorpool_domain::record::Record;
use tokio::task::JoinSet;

use super::fixtures::{Shared, at, runner_id};

fn quarantined(runner: &str) -> Result<Incident> {
    Ok(Incident::RunnerQuarantined { runner: runner_id(runner)? })
}

async fn raised(ledger: &Shared, runner: &str, when: u64) -> Result<Alert> {
    let alert = Alert::opened(quarantined(runner)?, "its cleanup failed", at(when));
    must_write(ledger, None, alert).await
}

async fn must_write(ledger: &Shared, before: Option<&Alert>, after: Alert) -> Result<Alert> {
    let written = ledger.write_alert(AlertWrite { before, after: &after }).await?;
    ensure!(written == Written::Done, "{written:?}");
    Ok(after)
}

async fn over(ledger: &Shared, alert: &Alert, when: u64) -> Result<Alert> {
    must_write(ledger, Some(alert), alert.over(at(when)).context("it is open")?).await
}

async fn told(ledger: &Shared, alert: &Alert, when: u64) -> Result<Alert> {
    let telling = alert.to_tell().context("something to tell")?;
    must_write(ledger, Some(alert), alert.heard(telling, at(when))).await
}

pub async fn an_alert_is_read_as_written(ledger: Shared) -> Result<()> {
    assert_eq!(ledger.alert(&quarantined("m-1")?).await?, None);
    let alert = raised(&ledger, "m-1", 0).await?;
    assert_eq!(ledger.alert(&alert.incident).await?, Some(alert.clone()));
    assert_eq!(ledger.alert(&quarantined("m-2")?).await?, None, "each runner has its own");
    let late = must_write(&ledger, None, Alert::opened(Incident::RefreshLate, "", at(1))).await?;
    assert_eq!(ledger.alert(&Incident::RefreshLate).await?, Some(late));
    let alert = over(&ledger, &told(&ledger, &alert, 1).await?, 2).await?;
    assert_eq!(ledger.alert(&alert.incident).await?, Some(alert));
    Ok(())
}

pub async fn inv_02_an_alert_is_written_only_as_it_was_read(ledger: Shared) -> Result<()> {
    let nobodys = Alert::opened(quarantined("m-0")?, "", at(0));
    let write = AlertWrite { before: Some(&nobodys), after: &nobodys.looked(at(1)) };
    assert_eq!(ledger.write_alert(write).await?, Written::Missing);

    let first = raised(&ledger, "m-1", 0).await?;
    let again = Alert::opened(first.incident.clone(), "by another", at(0));
    let lost = Written::Lost { found: first.clone() };
    assert_eq!(ledger.write_alert(AlertWrite { before: None, after: &again }).await?, lost);

    let second = told(&ledger, &first, 1).await?;
    let lost = Written::Lost { found: second.clone() };
    for stale in [first.looked(at(2)), first.over(at(2)).context("it is open")?] {
        assert_eq!(ledger.write_alert(AlertWrite { before: Some(&first), after: &stale }).await?, lost);
    }
    assert_eq!(ledger.alert(&first.incident).await?, Some(second));
    Ok(())
}

pub async fn inv_02_of_16_that_raise_one_incident_one_opens_it(ledger: Shared) -> Result<()> {
    let incident = quarantined("m-1")?;
    let opened: Vec<Alert> =
        (0..16).map(|number| Alert::opened(incident.clone(), &format!("by {number}"), at(number))).collect();
    let won = winners(&ledger, opened.into_iter().map(|after| (None, after)).collect()).await?;
    let [won] = won.as_slice() else { anyhow::bail!("{won:?}") };
    assert_eq!(ledger.alert(&incident).await?.as_ref(), Some(won));
    Ok(())
}

/// Also where all of them write the same to the letter: only who has won may tell.
pub async fn inv_02_of_16_that_would_tell_one_does(ledger: Shared) -> Result<()> {
    let alert = raised(&ledger, "m-1", 0).await?;
    let writes = (0..16).map(|_| (Some(alert.clone()), alert.tried(at(1)))).collect();
    assert_eq!(winners(&ledger, writes).await?, [alert.tried(at(1))]);
    Ok(())
}

async fn winners(ledger: &Shared, writes: Vec<(Option<Alert>, Alert)>) -> Result<Vec<Alert>> {
    let mut writing = JoinSet::new();
    for (before, after) in writes {
        let ledger = ledger.clone();
        writing.spawn(async move {
            let written = ledger.write_alert(AlertWrite { before: before.as_ref(), after: &after }).await;
            written.map(|written| (written == Written::Done).then_some(after))
        });
    }
    let all: Result<Vec<Option<Alert>>, LedgerError> = writing.join_all().await.into_iter().collect();
    Ok(all?.into_iter().flatten().collect())
}

pub async fn an_alert_is_due_when_something_is_to_be_told_or_looked_at(ledger: Shared) -> Result<()> {
    let alert = raised(&ledger, "m-1", 100).await?;
    let due = [alert.path()];
    assert_eq!(
        (ledger.due(at(99), 10).await?.as_slice(), ledger.due(at(100), 10).await?),
        (&[][..], due.to_vec())
    );
    let tried = must_write(&ledger, Some(&alert), alert.tried(at(100))).await?;
    assert_eq!(ledger.due(at(30_099), 10).await?, [], "not before the next try");
    assert_eq!(ledger.due(at(30_100), 10).await?, due);
    let heard = told(&ledger, &tried, 30_100).await?;
    assert_eq!(ledger.due(at(300_099), 10).await?, []);
    assert_eq!(ledger.due(at(300_100), 10).await?, due, "somebody looks whether it is over");
    let ended = over(&ledger, &heard, 300_100).await?;
    assert_eq!(ledger.due(at(300_100), 10).await?, due);
    let ended = told(&ledger, &ended, 300_101).await?;
    assert_eq!(ledger.due(at(u64::from(u32::MAX)), 10).await?, [], "nothing is left to do");
    let back = ended.raised("again", at(400_000)).context("it opens")?;
    must_write(&ledger, Some(&ended), back).await?;
    assert_eq!(ledger.due(at(400_000), 10).await?, due);
    Ok(())
}

pub async fn open_alerts_are_listed_by_age_and_those_that_are_over_behind_them(ledger: Shared) -> Result<()> {
    for (runner, when) in [("m-1", 30), ("m-2", 10), ("m-3", 20), ("m-4", 5), ("m-5", 6)] {
        raised(&ledger, runner, when).await?;
    }
    for (runner, when) in [("m-4", 50), ("m-5", 40)] {
        let alert = ledger.alert(&quarantined(runner)?).await?.context("it was raised")?;
        over(&ledger, &alert, when).await?;
    }
    assert_eq!(
        listed(&ledger, WhichAlerts::Open, 100).await?,
        [["m-2", "m-3", "m-1"].map(str::to_owned).to_vec()]
    );
    assert_eq!(listed(&ledger, WhichAlerts::Open, 2).await?.concat(), ["m-2", "m-3", "m-1"]);
    for at_most in [1, 2, 3, 4, 100] {
        let pages = listed(&ledger, WhichAlerts::All, at_most).await?;
        assert_eq!(pages.concat(), ["m-2", "m-3", "m-1", "m-5", "m-4"], "{at_most} a page");
    }
    for after in ["nonsense", "", "b3BlbiMx"] {
        let page = Page { at_most: 10, after: Some(after.to_owned()) };
        let refused = ledger.list_alerts(WhichAlerts::All, page).await;
        ensure!(matches!(refused, Err(LedgerError::BadPage { .. })), "{after:?}: {refused:?}");
    }
    Ok(())
}

/// The runners on each page, from the first to the last.
async fn listed(ledger: &Shared, which: WhichAlerts, at_most: u32) -> Result<Vec<Vec<String>>> {
    let (mut pages, mut page) = (Vec::new(), Page::first(at_most));
    loop {
        let listed = ledger.list_alerts(which, page).await?;
        let subjects = listed.items.iter().filter_map(|alert| alert.incident.subject());
        pages.push(subjects.map(str::to_owned).collect());
        let Some(next) = listed.next else { return Ok(pages) };
        page = Page { at_most, after: Some(next) };
    }
}
