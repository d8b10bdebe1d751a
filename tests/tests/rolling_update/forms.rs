//! What this version writes is in the fixtures, field by field; what the version before wrote means the same to it; and what the one after
//! may write it either reads, or would lose something of and leaves alone.

use crate::fixtures::{Kept, message, names};
use crate::{messages, records};
use anyhow::{Context, Result, ensure};
use motorpool_control::ports::ledger::{Children, Ledger, Order};
use motorpool_control::store::Store;
use motorpool_domain::alert::Alert;
use motorpool_domain::claim::{Claim, ClaimName};
use motorpool_domain::pool::{Pool, PoolRecord, PoolShortage, Rules};
use motorpool_domain::record::{Key, Record};
use motorpool_domain::refresh::RefreshMemory;
use motorpool_domain::runner::{Runner, RunnerState};
use motorpool_domain::{AuditEntry, Timestamp};
use motorpool_ledger::MemoryLedger;
use motorpool_wire::agent::{
    BootstrapAnswer, BootstrapRequest, Protocol, RegistrationAnswer, RegistrationRequest, SyncAnswer,
    SyncRequest,
};
use motorpool_wire::queue::IdleNotice;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, to_value};
use std::collections::BTreeSet;
use std::sync::Arc;

const OF_RECORDS: &str = "is no longer what this version writes. An older control plane that does not know a field would write the record \
    without it: raise the record's SCHEMA by one, so that it leaves the record alone; give a new field a default, so that this version reads \
    the older record; move the file as it was to tests/fixtures/records/older, let this one say what is written now, and raise the schema of \
    its kind in tests/fixtures/records/newer";

const OF_MESSAGES: &str = "is no longer what this version says. Give a new field a default, never rename or remove one that an agent of the \
    version before needs, and raise Protocol::OURS by one if the two sides must know of the change; then move the file as it was to the folder \
    `older` beside it, let this one say what is said now, and raise the protocol of the file in `newer`";

#[tokio::test]
async fn every_record_is_written_as_its_fixture_says() -> Result<()> {
    let mut written = Vec::new();
    for (name, row) in records::all()? {
        written.push((name, Kept::of(&row)?));
    }
    written.push(("log_entry", log_entry_as_written().await?));
    for (name, ours) in &written {
        let kept = Kept::read(name)?;
        ensure!(
            kept == *ours,
            "tests/fixtures/records/{name}.json {OF_RECORDS}.\nkept: {kept:#?}\nours: {ours:#?}"
        );
    }
    let known: BTreeSet<String> = written.into_iter().map(|(name, _)| name.to_owned()).collect();
    ensure!(names("records")? == known, "each file of tests/fixtures/records has a sample in records.rs");
    Ok(())
}

#[test]
fn every_message_is_written_as_its_fixture_says() -> Result<()> {
    for (name, ours) in messages::all()? {
        let kept: Value = message(name)?;
        ensure!(kept == ours, "tests/fixtures/{name}.json {OF_MESSAGES}.\nkept: {kept:#}\nours: {ours:#}");
    }
    Ok(())
}

#[test]
fn an_older_record_is_the_same_record_without_what_came_later() -> Result<()> {
    let before_ladders = |runner: Runner| Runner {
        index: 0,
        made_at: Timestamp::default(),
        zone: None,
        hourly: None,
        used: false,
        registration: None,
        program: None,
        ..runner
    };
    let (hold, leaving) = (records::hold(), false);
    let running = before_ladders(records::runner(RunnerState::Running { hold, leaving }));
    older("runner_running", &running)?;
    let launched_at = Some(Timestamp::from_millis(1_699_999_910_000));
    let created = RunnerState::Created { hold: Some(records::hold()), launched_at, attempt: None };
    older("runner_created", &before_ladders(records::runner(created)))?;
    older("claim_ready", &Claim { losses: 0, ..records::claim(records::ready()) })?;
    let Pool { rules, .. } = records::pool();
    let pool = Pool { rules: Rules { ec2: None, ci: None, ..rules }, ..records::pool() };
    older("pool", &PoolRecord { pool, rev: 0, used: 0 })?;
    let entry: AuditEntry = serde_json::from_value(Kept::read("older/log_entry")?.doc)?;
    let bare = AuditEntry { from: None, to: None, result: None, duration_ms: None, ..records::log_entry() };
    ensure!(entry == bare, "{entry:?}");
    Ok(())
}

#[test]
fn an_older_message_is_the_same_message_without_what_came_later() -> Result<()> {
    let request: SyncRequest = message("agent/older/sync_request")?;
    let mut bare = SyncRequest { protocol: Protocol(Protocol::OURS.0 - 1), ..messages::sync_request() };
    bare.results.iter_mut().for_each(|result| result.took_ms = None);
    ensure!(request == bare, "{request:?}");
    let answer: SyncAnswer = message("agent/older/sync_answer")?;
    let bare = SyncAnswer { protocol: Protocol(Protocol::OURS.0 - 1), ..messages::sync_answer() };
    ensure!(answer == bare, "{answer:?}");
    means("agent/older/bootstrap_request", &messages::bootstrap_request())?;
    means("agent/older/bootstrap_answer", &messages::bootstrap_answer())?;
    let bare = RegistrationRequest { session: None, ..messages::registration_request() };
    means("agent/older/registration_request", &bare)?;
    means("agent/older/registration_answer", &messages::registration_answer())
}

#[test]
fn a_newer_message_is_the_same_message_and_more() -> Result<()> {
    let protocol = Protocol(Protocol::OURS.0 + 1);
    means("agent/newer/sync_request", &SyncRequest { protocol, ..messages::sync_request() })?;
    means("agent/newer/sync_answer", &SyncAnswer { protocol, ..messages::sync_answer() })?;
    means("agent/newer/bootstrap_request", &messages::bootstrap_request())?;
    means("agent/newer/bootstrap_answer", &messages::bootstrap_answer())?;
    means("agent/newer/registration_request", &messages::registration_request())?;
    means("agent/newer/registration_answer", &messages::registration_answer())?;
    means("queue/newer/idle_notice", &messages::idle_notice())?;
    has_more::<BootstrapRequest>("agent/newer/bootstrap_request")?;
    has_more::<BootstrapAnswer>("agent/newer/bootstrap_answer")?;
    has_more::<SyncRequest>("agent/newer/sync_request")?;
    has_more::<SyncAnswer>("agent/newer/sync_answer")?;
    has_more::<RegistrationRequest>("agent/newer/registration_request")?;
    has_more::<RegistrationAnswer>("agent/newer/registration_answer")?;
    has_more::<IdleNotice>("queue/newer/idle_notice")
}

/// Else nothing would be lost by writing them, and the stories of records that are left alone would show nothing.
#[test]
fn a_newer_record_is_of_the_next_schema_and_would_lose_a_field() -> Result<()> {
    newer::<Runner>("runner")?;
    newer::<Claim>("claim")?;
    newer::<ClaimName>("claim_name")?;
    newer::<PoolRecord>("pool")?;
    newer::<PoolShortage>("shortage")?;
    newer::<RefreshMemory>("refresh_memory")?;
    newer::<Alert>("alert")
}

/// The verbs alone know how an entry is kept.
async fn log_entry_as_written() -> Result<Kept> {
    let ledger: Arc<dyn Ledger> = Arc::new(MemoryLedger::default());
    let of = Key::from(&records::runner(RunnerState::Idle).id);
    Store::new(Arc::clone(&ledger)).note(&of, &records::log_entry()).await?;
    let (low, high) = ("log#".to_owned(), "log#~".to_owned());
    let entries = ledger.children(&Children { of, low, high, order: Order::Rising }, 2).await?;
    let entry = entries.first().context("the entry is there")?;
    Ok(Kept { schema: entry.schema, doc: serde_json::from_str(&entry.doc)? })
}

fn older<R: Record + PartialEq + std::fmt::Debug>(name: &str, expected: &R) -> Result<()> {
    let kept = Kept::read(&format!("older/{name}"))?;
    ensure!(kept.schema <= R::SCHEMA, "an older {name} has a schema of its own time");
    let record: R = kept.record()?;
    ensure!(record == *expected, "an older {name} is read as {record:?}");
    Ok(())
}

fn newer<R: Record>(name: &str) -> Result<()> {
    let kept = Kept::read(&format!("newer/{name}"))?;
    ensure!(kept.schema == R::SCHEMA + 1, "a newer {name} is one schema ahead, and not {}", kept.schema);
    let ours = to_value(kept.record::<R>()?)?;
    ensure!(ours != kept.doc, "a newer {name} has nothing that this version does not know");
    Ok(())
}

fn means<M: Serialize + DeserializeOwned>(name: &str, expected: &M) -> Result<()> {
    let (read, expected) = (to_value(message::<M>(name)?)?, to_value(expected)?);
    ensure!(read == expected, "{name} is read as {read:#}");
    Ok(())
}

fn has_more<M: Serialize + DeserializeOwned>(name: &str) -> Result<()> {
    let all: Value = message(name)?;
    ensure!(to_value(message::<M>(name)?)? != all, "{name} has nothing that this version does not know");
    Ok(())
}
