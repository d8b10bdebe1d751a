//! What the ledger over DynamoDB does beyond the contract: it meets other transactions, loses answers, and says until when
//! items are kept. The engine is the embedded one, behind a connector that fails on demand.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use motorpool_control::ports::ledger::{
    ClaimGain, ClaimOpening, ClaimWrite, IntentsWrite, IntentsWritten, Ledger, Opened, PoolWrite,
    RunnerWrite, Taken, Written,
};
use motorpool_domain::claim::{Ask, Claim, ClaimKey, Member};
use motorpool_domain::pool::{BackendKind, Clean, Commands, Dispatch, Limits, Pool, Rules, Source};
use motorpool_domain::runner::{Hold, NewRunner, Runner, RunnerState};
use motorpool_domain::spec::{Offer, Spec, Usage, Want};
use motorpool_domain::{
    Actor, AuditEntry, ClaimId, Epoch, LaunchId, Owner, PoolName, RunnerId, Threshold, Timestamp, Workflow,
};
use motorpool_ledger::DynamoLedger;
use motorpool_ledger::embedded::EmbeddedEngine;
use motorpool_ledger::table::ensure_table;

const TABLE: &str = "motorpool";
const DAY: u64 = 24 * 3600;

#[tokio::test]
async fn fault_25_a_transaction_that_meets_another_is_tried_again() -> Result<()> {
    let world = World::new().await?;
    for reasons in
        [&["None", "TransactionConflict"][..], &["ThrottlingError"], &["ProvisionedThroughputExceeded"]]
    {
        let (before, after) = world.next_write().await?;
        world.faults.conflict(3, cancelled(reasons));
        assert_eq!(world.write(&before, &after).await?, Written::Done, "{reasons:?}");
        assert_eq!(world.faults.left(), 0, "every conflict was met");
    }
    // Beside a failed condition, it is asked again who was first.
    let (before, after) = world.next_write().await?;
    world.faults.conflict(1, cancelled(&["ConditionalCheckFailed", "TransactionConflict"]));
    assert_eq!(world.write(&before, &after).await?, Written::Done);
    Ok(())
}

#[tokio::test]
async fn fault_25_a_single_write_that_meets_a_transaction_is_tried_again() -> Result<()> {
    let world = World::new().await?;
    world.faults.conflict(3, refused("TransactionConflictException"));
    world.ledger.heartbeat(&world.runner.id, world.runner.epoch, at(5)).await?;
    assert_eq!(world.faults.left(), 0);
    assert_eq!(world.read().await?.seen_at, Some(at(5)));
    Ok(())
}

#[tokio::test]
async fn fault_25_who_only_meets_others_gives_up_with_an_error() -> Result<()> {
    let world = World::new().await?;
    let (before, after) = world.next_write().await?;
    world.faults.conflict(8, cancelled(&["TransactionConflict"]));
    let error = world.write(&before, &after).await.unwrap_err();
    assert!(error.to_string().contains("write runner r-1"), "{error:#}");
    assert_eq!(world.faults.left(), 0, "eight attempts, and no more");
    assert_eq!(world.read().await?, before);
    Ok(())
}

/// The SDK sends again what it got no answer to, and the ledger must not take its own write for somebody else's.
#[tokio::test]
async fn fault_15_an_answer_that_is_lost_is_no_lost_race() -> Result<()> {
    let world = World::new().await?;
    let claim = claim("c-1")?;
    world.faults.lose_answers(1);
    assert_eq!(world.ledger.open_claim(&claim, opening(&entry(0))).await?, Opened::Done);
    let created = intent("r-2")?;
    world.faults.lose_answers(1);
    assert_eq!(world.launch(&created).await?, IntentsWritten::Done);

    let (before, after) = (&created, moved(&created, RunnerState::Idle));
    world.faults.lose_answers(2);
    assert_eq!(world.write(before, &after).await?, Written::Done);
    world.faults.lose_answers(2);
    assert_eq!(world.take(&claim, &after).await?, Taken::Done);
    assert_eq!(world.faults.lost.load(Ordering::SeqCst), 6, "the fault has fired");
    let pool = world.ledger.pool(&pool()?.name).await?.context("no pool")?;
    assert_eq!(pool.used, 2, "each write was applied once");
    let found = world.ledger.claim(&claim.id).await?.context("no claim")?;
    assert_eq!((found.members.len(), found.rev), (1, claim.rev + 1));
    Ok(())
}

#[tokio::test]
async fn records_say_until_when_they_are_kept() -> Result<()> {
    let world = World::new().await?;
    let second = at(0).as_millis() / 1_000;
    assert_eq!(world.expires("runner#r-1", "record").await?, None, "while it lives, for ever");
    let (before, _) = world.next_write().await?;
    let ended = moved(&before, RunnerState::Terminated { why: String::new() });
    assert_eq!(world.write(&before, &ended).await?, Written::Done);
    assert_eq!(world.expires("runner#r-1", "record").await?, Some(second + 7 * DAY));
    let log = format!("log#{:015}#{:010}.{:010}", at(ended.rev).as_millis(), 1, ended.rev);
    assert_eq!(world.expires("runner#r-1", &log).await?, Some(second + 30 * DAY));

    let claim = claim("c-1")?;
    assert_eq!(world.ledger.open_claim(&claim, opening(&entry(0))).await?, Opened::Done);
    assert_eq!(world.expires("claim#c-1", "record").await?, None);
    assert_eq!(world.expires("workflow#operator#gh-1", "pool#small").await?, Some(second + 90 * DAY));
    let released = claim.released("done", at(1_000));
    let write = ClaimWrite { before: &claim, after: &released, entry: &entry(1) };
    assert_eq!(world.ledger.write_claim(write).await?, Written::Done);
    assert_eq!(world.expires("claim#c-1", "record").await?, Some(second + 1 + 30 * DAY));
    Ok(())
}

/// A new life after the end must not be deleted with the old one.
#[tokio::test]
async fn a_runner_that_is_replaced_is_kept_again() -> Result<()> {
    let world = World::new().await?;
    let (before, _) = world.next_write().await?;
    let ended = moved(&before, RunnerState::Terminated { why: String::new() });
    assert_eq!(world.write(&before, &ended).await?, Written::Done);
    let again = Runner { epoch: ended.epoch.next(), launch: LaunchId::parse("l-9")?, ..intent("r-1")? };
    assert_eq!(world.launch(&again).await?, IntentsWritten::Done);
    assert_eq!(world.expires("runner#r-1", "record").await?, None);
    assert_eq!(world.read().await?, again);
    Ok(())
}

#[tokio::test]
async fn a_key_whose_claim_has_expired_stands_in_nobodys_way() -> Result<()> {
    let world = World::new().await?;
    let (old, new) = (claim("c-1")?, claim("c-2")?);
    assert_eq!(world.ledger.open_claim(&old, opening(&entry(0))).await?, Opened::Done);
    let lost = Opened::Lost { found: Some(old.id.clone()) };
    assert_eq!(world.ledger.open_claim(&new, opening(&entry(1))).await?, lost);
    world.delete("claim#c-1", "record").await?;
    assert_eq!(world.ledger.claim_by_key(&old.key).await?, None);
    assert_eq!(world.ledger.claims_of(&old.key.owner, &old.key.workflow).await?, []);
    assert_eq!(world.ledger.open_claim(&new, opening(&entry(2))).await?, Opened::Done);
    assert_eq!(world.ledger.claim_by_key(&old.key).await?, Some(new));
    Ok(())
}

/// The same for a claim that is opened with its first runner.
#[tokio::test]
async fn a_key_whose_claim_has_expired_does_not_keep_a_runner_from_the_next() -> Result<()> {
    let world = World::new().await?;
    let (old, new) = (claim("c-1")?, claim("c-2")?);
    let created = intent("r-2")?;
    assert_eq!(world.launch(&created).await?, IntentsWritten::Done);
    let idle = moved(&created, RunnerState::Idle);
    assert_eq!(world.write(&created, &idle).await?, Written::Done);
    assert_eq!(world.ledger.open_claim(&old, opening(&entry(0))).await?, Opened::Done);
    assert_eq!(world.open_taking(&new, &idle).await?, Taken::ClaimLost);
    world.delete("claim#c-1", "record").await?;
    assert_eq!(world.open_taking(&new, &idle).await?, Taken::Done);
    assert_eq!(world.ledger.claim_by_key(&old.key).await?.map(|claim| claim.id), Some(new.id));
    Ok(())
}

#[tokio::test]
async fn a_machines_end_is_written_even_without_its_pool() -> Result<()> {
    let world = World::new().await?;
    world.delete("pool#small", "record").await?;
    let (before, _) = world.next_write().await?;
    let ended = moved(&before, RunnerState::Terminated { why: String::new() });
    assert_eq!(world.write(&before, &ended).await?, Written::Done);
    assert_eq!(world.read().await?, ended);
    assert_eq!(world.ledger.pool(&pool()?.name).await?, None, "no pool is made of it");
    let lost = world.write(&before, &ended).await?;
    assert_eq!(lost, Written::Lost { found: ended });
    Ok(())
}

#[tokio::test]
async fn a_record_that_is_no_record_is_an_error() -> Result<()> {
    let world = World::new().await?;
    let s = |text: &str| AttributeValue::S(text.to_owned());
    let put = world.client.put_item().table_name(TABLE).item("pk", s("runner#bad")).item("sk", s("record"));
    put.item("doc", s("{\"id\":\"bad\"}")).send().await?;
    let error = world.ledger.runner(&RunnerId::parse("bad")?).await.unwrap_err();
    assert!(error.to_string().contains("runner#bad"), "{error}");
    Ok(())
}

/// A pool with one created runner, behind a connector that fails on demand.
struct World {
    client: Client,
    ledger: DynamoLedger,
    faults: Faults,
    runner: Runner,
}

impl World {
    async fn new() -> Result<Self> {
        let engine = EmbeddedEngine::in_memory()?.client();
        ensure_table(&engine, TABLE).await?;
        let inner = engine.config().http_client().context("the engine has no connector")?;
        let faults = Faults::new(inner);
        let retry = aws_sdk_dynamodb::config::retry::RetryConfig::standard()
            .with_max_attempts(3)
            .with_initial_backoff(Duration::from_millis(1));
        let config = engine.config().to_builder().http_client(faults.clone()).retry_config(retry).build();
        let ledger = DynamoLedger::new(Client::from_conf(config), TABLE.to_owned());
        let write = PoolWrite { seen: 0, rev: 1, pool: &pool()?, only_unused: false };
        assert_eq!(ledger.write_pool(write).await?, Written::Done);
        let world = Self { client: engine, ledger, faults, runner: intent("r-1")? };
        assert_eq!(world.launch(&world.runner).await?, IntentsWritten::Done);
        Ok(world)
    }

    async fn read(&self) -> Result<Runner> {
        self.ledger.runner(&self.runner.id).await?.context("r-1 is missing")
    }

    async fn next_write(&self) -> Result<(Runner, Runner)> {
        let before = self.read().await?;
        let after =
            moved(&before, RunnerState::Created { hold: None, launched_at: Some(at(1)), attempt: None });
        Ok((before, after))
    }

    async fn write(&self, before: &Runner, after: &Runner) -> Result<Written<Runner>> {
        let write = RunnerWrite { before, after, look_at: None, entry: &entry(after.rev) };
        Ok(self.ledger.write_runner(write).await?)
    }

    async fn launch(&self, runner: &Runner) -> Result<IntentsWritten> {
        let write = IntentsWrite {
            pool: &runner.pool,
            max: 10,
            only_if_used: None,
            runners: std::slice::from_ref(runner),
            look_at: None,
            claim: None,
            entry: &entry(0),
        };
        Ok(self.ledger.write_launch_intents(write).await?)
    }

    async fn take(&self, claim: &Claim, runner: &Runner) -> Result<Taken> {
        self.taking(claim, None, runner).await
    }

    async fn open_taking(&self, claim: &Claim, runner: &Runner) -> Result<Taken> {
        self.taking(claim, Some(opening(&entry(0))), runner).await
    }

    async fn taking(
        &self,
        claim: &Claim,
        opening: Option<ClaimOpening<'_>>,
        runner: &Runner,
    ) -> Result<Taken> {
        let hold = Hold { claim: claim.id.clone(), warm: true, max_runtime: claim.ask.max_runtime };
        let after = moved(runner, RunnerState::Claimed { hold });
        let member = Member { runner: runner.id.clone(), epoch: runner.epoch, warm: true };
        let claim_after = claim.gaining([member]);
        let write = ClaimWrite { before: claim, after: &claim_after, entry: &entry(1) };
        let runner = RunnerWrite { before: runner, after: &after, look_at: None, entry: &entry(1) };
        Ok(self.ledger.take_idle(ClaimGain { write, opening }, runner).await?)
    }

    async fn expires(&self, pk: &str, sk: &str) -> Result<Option<u64>> {
        let item = self.client.get_item().table_name(TABLE).set_key(Some(key(pk, sk))).send().await?.item;
        let item = item.with_context(|| format!("no item {pk} {sk}"))?;
        let Some(expires) = item.get("expires_at") else { return Ok(None) };
        Ok(Some(expires.as_n().ok().context("no number")?.parse()?))
    }

    async fn delete(&self, pk: &str, sk: &str) -> Result<()> {
        self.client.delete_item().table_name(TABLE).set_key(Some(key(pk, sk))).send().await?;
        Ok(())
    }
}

/// Stands before the engine: answers the next writes with an error, or swallows the engine's answers to them.
#[derive(Debug, Clone)]
struct Faults {
    inner: SharedHttpClient,
    plan: Arc<Mutex<Plan>>,
    lost: Arc<AtomicU32>,
}

#[derive(Debug, Default)]
struct Plan {
    conflicts: u32,
    conflict: String,
    lose: u32,
}

impl Faults {
    fn new(inner: SharedHttpClient) -> Self {
        Self { inner, plan: Arc::default(), lost: Arc::default() }
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn conflict(&self, times: u32, body: String) {
        *self.plan() = Plan { conflicts: times, conflict: body, lose: 0 };
    }

    fn lose_answers(&self, times: u32) {
        self.plan().lose = times;
    }

    fn left(&self) -> u32 {
        self.plan().conflicts
    }

    fn next_conflict(&self) -> Option<String> {
        let mut plan = self.plan();
        plan.conflicts = plan.conflicts.checked_sub(1)?;
        Some(plan.conflict.clone())
    }

    fn loses_this(&self) -> bool {
        let mut plan = self.plan();
        let loses = plan.lose > 0;
        plan.lose = plan.lose.saturating_sub(1);
        loses
    }
}

impl HttpClient for Faults {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        parts: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let inner = self.inner.http_connector(settings, parts);
        SharedHttpConnector::new(FaultyConnector { faults: self.clone(), inner })
    }
}

#[derive(Debug)]
struct FaultyConnector {
    faults: Faults,
    inner: SharedHttpConnector,
}

impl HttpConnector for FaultyConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let writes = target.ends_with("TransactWriteItems") || target.ends_with("UpdateItem");
        if writes && let Some(body) = self.faults.next_conflict() {
            let status = StatusCode::from(http::StatusCode::BAD_REQUEST);
            return HttpConnectorFuture::ready(Ok(HttpResponse::new(status, SdkBody::from(body))));
        }
        if writes && self.faults.loses_this() {
            let (answer, lost) = (self.inner.call(request), Arc::clone(&self.faults.lost));
            return HttpConnectorFuture::new(async move {
                answer.await?;
                lost.fetch_add(1, Ordering::SeqCst);
                Err(ConnectorError::io("the connection was closed".into()))
            });
        }
        self.inner.call(request)
    }
}

fn cancelled(reasons: &[&str]) -> String {
    let reasons: Vec<_> = reasons.iter().map(|code| serde_json::json!({ "Code": code })).collect();
    serde_json::json!({
        "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
        "Message": "Transaction cancelled",
        "CancellationReasons": reasons,
    })
    .to_string()
}

fn refused(code: &str) -> String {
    serde_json::json!({ "__type": format!("com.amazonaws.dynamodb.v20120810#{code}"), "message": "busy" })
        .to_string()
}

fn key(pk: &str, sk: &str) -> HashMap<String, AttributeValue> {
    [("pk", pk), ("sk", sk)]
        .map(|(name, value)| (name.to_owned(), AttributeValue::S(value.to_owned())))
        .into()
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + millis)
}

fn entry(millis: u64) -> AuditEntry {
    let (what, why) = ("moved".to_owned(), "a test needs it".to_owned());
    AuditEntry { at: at(millis), who: Actor::Control, what, from: None, to: None, why }
}

fn offer() -> Offer {
    Offer { instance_type: "local".to_owned(), usage: Usage::OnDemand, spec: Spec { cpu: 1, memory_mb: 512 } }
}

fn pool() -> Result<Pool> {
    let rules = Rules {
        backend: BackendKind::Local,
        dispatch: Dispatch::Claim,
        clean: Clean::Cleanup,
        max: 10,
        min_idle: 0,
        limits: Limits::default(),
        offer: offer(),
        commands: Commands::default(),
        ec2: None,
        ci: None,
    };
    Ok(Pool { name: PoolName::parse("small")?, source: Source::Api, retired: false, rules })
}

fn intent(id: &str) -> Result<Runner> {
    let new = NewRunner {
        id: RunnerId::parse(id)?,
        pool: PoolName::parse("small")?,
        launch: LaunchId::parse(format!("l-{}", id.replace('-', "")))?,
        offer: offer(),
        index: 0,
        attempt: None,
        kept: false,
        hold: None,
        epoch: Epoch::FIRST,
        threshold: Threshold(at(60_000)),
    };
    Ok(Runner::intent(new, at(0)))
}

fn moved(runner: &Runner, state: RunnerState) -> Runner {
    Runner { state, rev: runner.rev + 1, ..runner.clone() }
}

fn claim(id: &str) -> Result<Claim> {
    let key = ClaimKey {
        owner: Owner::operator(),
        workflow: Workflow::parse("gh-1")?,
        pool: PoolName::parse("small")?,
    };
    let ask = Ask { count: 1, want: Want::default(), max_runtime: Duration::from_secs(60), idle_only: false };
    Ok(Claim::open(ClaimId::parse(id)?, key, ask, Duration::from_secs(60), at(0)))
}

/// Of a key that nobody had before.
fn opening(entry: &AuditEntry) -> ClaimOpening<'_> {
    ClaimOpening { replaces: None, entry }
}
