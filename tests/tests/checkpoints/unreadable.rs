//! During a rolling update: a machine whose record this version can't read holds up the word about no other's job, and its notice is for who can.

use crate::workshop::{Workshop, in_ci};
use anyhow::{Result, ensure};
use motorpool_control::JobWord;
use motorpool_control::ports::tx::{Committed, Op, Row, Tx};
use motorpool_domain::checkpoint::{CompletedJob, JobOutcome};
use motorpool_domain::ci::CiSystem;
use motorpool_domain::record::Record;
use motorpool_domain::runner::Runner;
use serde_json::json;

/// All jobs of a run of GitHub's have its id.
fn over_on(machine: &str) -> Result<CompletedJob> {
    Ok(CompletedJob {
        id: "7".parse()?,
        projects: vec!["octo/app".to_owned()],
        attempt: None,
        runners: vec![in_ci(machine)],
        ended_at: None,
        status: JobOutcome::Success,
    })
}

#[tokio::test]
async fn inv_35_fault_29_a_jobs_end_is_heard_though_another_of_its_run_is_on_a_machine_of_a_newer_version()
-> Result<()> {
    let at = (CiSystem::GitHub, "octo/app");
    let shop = Workshop::open_at(at, json!({}), &["mac-1", "mac-2", "mac-3"]).await?;
    let mut names = Vec::new();
    for machine in ["mac-1", "mac-2", "mac-3"] {
        names.push(shop.create(machine, "7").await?.name);
    }
    for machine in ["mac-1", "mac-3"] {
        let record = shop.runner(machine).await?;
        let row = Row { schema: Runner::SCHEMA + 1, ..Row::of(&record)? };
        let op = Op::Replace { row, was: record.version(), counter: None };
        let committed = shop.world.ledger.commit(&Tx::default().with(op)).await?;
        ensure!(committed == Committed::Done, "{committed:?}");
    }
    let word = shop.control.job_completed(CiSystem::GitHub, &over_on("mac-2")?).await?;
    ensure!(word == JobWord::Queued, "{word:?}");
    let states: Vec<&str> = {
        let mut states = Vec::new();
        for name in &names {
            states.push(shop.checkpoint(name).await?.state.as_str());
        }
        states
    };
    ensure!(states == ["created", "finalize_queued", "created"], "{states:?}");
    // Whose it is can't be said, so that who sent it may send it again.
    shop.control.job_completed(CiSystem::GitHub, &over_on("mac-3")?).await.expect_err("it may be mac-3's");
    shop.control.attend_to(&"mac-1".parse()?).await?;
    Ok(())
}
