//! The embedded engine as the ledger's code sees it: through the SDK's own client, on the table of `table`.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{
    AttributeValue, Delete, Put, ReturnValuesOnConditionCheckFailure as OnFailure, TimeToLiveStatus,
    TransactWriteItem, Update,
};
use motorpool_ledger::embedded::{EmbeddedEngine, EmbeddedError};
use motorpool_ledger::table::{self, TableError, ensure_table};
use tokio::task::JoinSet;

const TABLE: &str = "ledger";
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_failed_condition_gives_the_old_item() -> Result<()> {
    let client = in_memory().await?;
    put(&client, "r-1").item("state", s("idle")).send().await?;

    let again = put(&client, "r-1")
        .item("state", s("created"))
        .condition_expression("attribute_not_exists(pk)")
        .return_values_on_condition_check_failure(OnFailure::AllOld);
    let error = again.send().await.unwrap_err().into_service_error();
    assert!(error.is_conditional_check_failed_exception(), "{error:?}");

    claim(&client, "r-1", "c-1").send().await?;
    let error = claim(&client, "r-1", "c-2").send().await.unwrap_err().into_service_error();
    let UpdateItemError::ConditionalCheckFailedException(failed) = error else { bail!("another: {error:?}") };
    let found = failed.item().context("no old item")?;
    assert_eq!(found["state"], s("claimed"));
    assert_eq!(found["claim"], s("c-1"));
    Ok(())
}

#[tokio::test]
async fn a_cancelled_transaction_says_why_and_leaves_nothing() -> Result<()> {
    let client = in_memory().await?;
    put(&client, "r-1").item("state", s("idle")).send().await?;
    put(&client, "r-2").item("state", s("running")).send().await?;

    let mut transaction = client.transact_write_items();
    transaction = transaction.transact_items(write_put("log-1")?);
    for runner in ["r-1", "r-2"] {
        let update = Update::builder()
            .table_name(TABLE)
            .set_key(Some(key(runner)))
            .update_expression("SET #state = :claimed")
            .condition_expression("#state = :idle")
            .expression_attribute_names("#state", "state")
            .expression_attribute_values(":idle", s("idle"))
            .expression_attribute_values(":claimed", s("claimed"))
            .return_values_on_condition_check_failure(OnFailure::AllOld)
            .build()?;
        transaction = transaction.transact_items(TransactWriteItem::builder().update(update).build());
    }
    let error = transaction.send().await.unwrap_err().into_service_error();
    let TransactWriteItemsError::TransactionCanceledException(cancelled) = error else {
        bail!("another: {error:?}")
    };
    let codes: Vec<_> = cancelled.cancellation_reasons().iter().map(|reason| reason.code()).collect();
    assert_eq!(codes, [Some("None"), Some("None"), Some("ConditionalCheckFailed")]);
    let found = cancelled.cancellation_reasons()[2].item().context("no old item")?;
    assert_eq!(found["state"], s("running"));

    assert_eq!(get(&client, "log-1").await?, None);
    assert_eq!(get(&client, "r-1").await?.context("r-1 is gone")?["state"], s("idle"));
    Ok(())
}

#[tokio::test]
async fn a_transaction_with_the_same_token_is_applied_once() -> Result<()> {
    let client = in_memory().await?;
    put(&client, "pool").item("used", n(0)).send().await?;
    for _ in 0..2 {
        let update = Update::builder()
            .table_name(TABLE)
            .set_key(Some(key("pool")))
            .update_expression("ADD used :one")
            .expression_attribute_values(":one", n(1))
            .build()?;
        let write = TransactWriteItem::builder().update(update).build();
        client.transact_write_items().client_request_token("token").transact_items(write).send().await?;
    }
    assert_eq!(get(&client, "pool").await?.context("the pool is gone")?["used"], n(1));
    Ok(())
}

#[tokio::test]
async fn an_item_without_the_attribute_leaves_a_sparse_index() -> Result<()> {
    let client = in_memory().await?;
    put(&client, "c-0").send().await?;
    for (pk, due) in [("c-3", 300), ("c-1", 100), ("c-2", 200)] {
        put(&client, pk)
            .item(table::DUE_SHARD, s("7"))
            .item(table::DUE_AT, n(due))
            .item("state", s("pending"))
            .send()
            .await?;
    }
    assert_eq!(due(&client, 250).await?, ["c-1", "c-2"]);

    update(&client, "c-1").update_expression("REMOVE due_shard, due_at").send().await?;
    assert_eq!(due(&client, 250).await?, ["c-2"]);
    assert!(get(&client, "c-1").await?.is_some());

    let delete = Delete::builder().table_name(TABLE).set_key(Some(key("c-2"))).build()?;
    let delete = TransactWriteItem::builder().delete(delete).build();
    client.transact_write_items().transact_items(delete).send().await?;
    assert_eq!(due(&client, 1000).await?, ["c-3"]);
    Ok(())
}

#[tokio::test]
async fn a_listing_is_paged_and_shows_keys_alone() -> Result<()> {
    let client = in_memory().await?;
    let wanted: Vec<String> = (0..25).map(|i| format!("r-{i:02}")).collect();
    for id in &wanted {
        put(&client, id).item(table::LIST, s("runners")).item(table::LIST_SK, s(id)).send().await?;
    }
    let (mut listed, mut pages, mut start) = (Vec::new(), 0, None);
    loop {
        let page = client
            .query()
            .table_name(TABLE)
            .index_name(table::LISTING_INDEX)
            .key_condition_expression("#list = :list")
            .expression_attribute_names("#list", table::LIST)
            .expression_attribute_values(":list", s("runners"))
            .limit(10)
            .set_exclusive_start_key(start)
            .send()
            .await?;
        for item in page.items() {
            ensure!(!item.contains_key("note"), "an index of keys has a note: {item:?}");
            listed.push(text(item, table::PK)?);
        }
        pages += 1;
        start = page.last_evaluated_key;
        if start.is_none() {
            break;
        }
    }
    assert_eq!(listed, wanted);
    assert_eq!(pages, 3);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_64_tasks_that_claim_one_item_one_wins() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let client = on_file(dir.path()).await?;
    for round in 0..4 {
        let runner = format!("r-{round}");
        put(&client, &runner).item("state", s("idle")).send().await?;
        let mut claims = JoinSet::new();
        for task in 0..64 {
            let (client, runner) = (client.clone(), runner.clone());
            claims.spawn(async move { claim(&client, &runner, &format!("c-{task}")).send().await });
        }
        let mut won = 0;
        for outcome in tokio::time::timeout(LIMIT, claims.join_all()).await? {
            match outcome {
                Ok(_) => won += 1,
                Err(error) => {
                    let error = error.into_service_error();
                    let UpdateItemError::ConditionalCheckFailedException(lost) = error else {
                        bail!("not a lost race: {error:?}")
                    };
                    ensure!(lost.item().is_some_and(|found| found["state"] == s("claimed")));
                }
            }
        }
        assert_eq!(won, 1);
    }
    Ok(())
}

#[tokio::test]
async fn one_process_owns_the_directory_and_nobody_else_reads_it() -> Result<()> {
    let parent = tempfile::tempdir()?;
    let dir = parent.path().join("data");
    let engine = EmbeddedEngine::open(&dir)?;
    let client = engine.client();
    ensure_table(&client, TABLE).await?;
    put(&client, "r-1").send().await?;

    let mode = |path: &Path| Ok::<_, anyhow::Error>(path.metadata()?.permissions().mode() & 0o777);
    assert_eq!(mode(&dir)?, 0o700);
    let mut names = Vec::new();
    for entry in dir.read_dir()? {
        let path = entry?.path();
        assert_eq!(mode(&path)?, 0o600, "{}", path.display());
        names.extend(path.file_name().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    assert_eq!(names, ["ledger.db", "ledger.db-shm", "ledger.db-wal", "ledger.lock"]);

    assert!(matches!(EmbeddedEngine::open(&dir), Err(EmbeddedError::Locked { .. })));
    drop(engine);
    // A client alone keeps the file.
    let Err(refused) = EmbeddedEngine::open(&dir) else { bail!("opened twice") };
    assert!(refused.to_string().contains("ledger.lock"), "{refused}");
    put(&client, "r-2").send().await?;
    drop(client);
    EmbeddedEngine::open(&dir)?;
    Ok(())
}

#[tokio::test]
async fn data_survives_a_reopen() -> Result<()> {
    let dir = tempfile::tempdir()?;
    {
        let client = on_file(dir.path()).await?;
        put(&client, "r-1").item(table::DUE_SHARD, s("7")).item(table::DUE_AT, n(5)).send().await?;
    }
    let client = on_file(dir.path()).await?;
    assert!(get(&client, "r-1").await?.is_some());
    assert_eq!(due(&client, 10).await?, ["r-1"]);
    Ok(())
}

#[tokio::test]
async fn an_operation_that_is_not_offered_is_an_error() -> Result<()> {
    let client = in_memory().await?;
    let scan = tokio::time::timeout(LIMIT, client.scan().table_name(TABLE).send()).await?;
    let error = scan.unwrap_err();
    assert_eq!(error.code(), Some("UnknownOperationException"), "{error:?}");
    assert!(error.message().is_some_and(|message| message.contains("Scan")), "{error:?}");
    Ok(())
}

#[tokio::test]
async fn a_wrong_request_is_refused_and_not_a_fault() -> Result<()> {
    let client = in_memory().await?;
    let no_key = client.put_item().table_name(TABLE).item("note", s("no key")).send().await.unwrap_err();
    assert_eq!(no_key.code(), Some("ValidationException"), "{no_key:?}");
    let no_table = client.get_item().table_name("other").set_key(Some(key("r-1"))).send().await.unwrap_err();
    assert_eq!(no_table.code(), Some("ResourceNotFoundException"), "{no_table:?}");
    let no_number = put(&client, "r-1").item("count", AttributeValue::N("many".to_owned()));
    let no_number = no_number.send().await.unwrap_err();
    assert_eq!(no_number.code(), Some("ValidationException"), "{no_number:?}");
    let reserved = update(&client, "r-1").update_expression("REMOVE list").send().await.unwrap_err();
    assert_eq!(reserved.code(), Some("ValidationException"), "{reserved:?}");
    Ok(())
}

#[tokio::test]
async fn the_sweep_deletes_what_has_expired() -> Result<()> {
    let engine = EmbeddedEngine::in_memory()?;
    let client = engine.client();
    ensure_table(&client, TABLE).await?;
    let now = now()?;
    put(&client, "old").item(table::EXPIRES_AT, n(now - 60)).send().await?;
    put(&client, "new").item(table::EXPIRES_AT, n(now + 3600)).send().await?;
    put(&client, "kept").send().await?;
    assert_eq!(engine.sweep_ttl().await?, 1);
    assert_eq!(get(&client, "old").await?, None);
    assert!(get(&client, "new").await?.is_some());
    assert!(get(&client, "kept").await?.is_some());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn any_number_may_ensure_the_table_at_once() -> Result<()> {
    let engine = EmbeddedEngine::in_memory()?;
    let mut ensured = JoinSet::new();
    for _ in 0..8 {
        let client = engine.client();
        ensured.spawn(async move { ensure_table(&client, TABLE).await });
    }
    for outcome in tokio::time::timeout(LIMIT, ensured.join_all()).await? {
        outcome?;
    }
    let answer = engine.client().describe_time_to_live().table_name(TABLE).send().await?;
    let ttl = answer.time_to_live_description.context("no time to live")?;
    assert_eq!(ttl.time_to_live_status, Some(TimeToLiveStatus::Enabled));
    assert_eq!(ttl.attribute_name.as_deref(), Some(table::EXPIRES_AT));
    Ok(())
}

#[tokio::test]
async fn a_table_of_another_shape_is_refused() -> Result<()> {
    let client = EmbeddedEngine::in_memory()?.client();
    let other = table::create_table_request(TABLE)?;
    let mut indexes = other.get_global_secondary_indexes().clone().context("no indexes")?;
    indexes.retain(|index| index.index_name() != table::LISTING_INDEX);
    let mut attributes = other.get_attribute_definitions().clone().context("no attributes")?;
    attributes.retain(|attribute| !attribute.attribute_name().starts_with("list"));
    other
        .set_global_secondary_indexes(Some(indexes))
        .set_attribute_definitions(Some(attributes))
        .send_with(&client)
        .await?;
    let refused = ensure_table(&client, TABLE).await.unwrap_err();
    assert!(matches!(&refused, TableError::Differs { what, .. } if what.contains("list")), "{refused}");
    Ok(())
}

/// A limit on the size of files stands for a full disk: it needs no rights, but holds for a whole process, hence
/// the child.
#[tokio::test]
async fn a_disk_that_takes_no_more_is_an_error_and_loses_nothing_acknowledged() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 1024; exec \"$0\" --exact --ignored --nocapture \"$1\""])
        .arg(std::env::current_exe()?)
        .arg("writes_until_the_disk_takes_no_more")
        .env("LEDGER_DIR", dir.path())
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let acknowledged =
        said.lines().find_map(|line| line.split_once("acknowledged=")).context("it said nothing")?;
    let acknowledged: usize = acknowledged.1.trim().parse()?;
    assert!(acknowledged > 0);

    let client = on_file(dir.path()).await?;
    for i in 0..acknowledged {
        for part in ["a", "b"] {
            ensure!(
                get(&client, &format!("{part}-{i}")).await?.is_some(),
                "{part}-{i} of {acknowledged} is lost"
            );
        }
    }
    assert_eq!(get(&client, &format!("a-{acknowledged}")).await?, None);
    assert_eq!(get(&client, &format!("b-{acknowledged}")).await?, None);
    Ok(())
}

#[tokio::test]
#[ignore = "the child of the test above"]
#[expect(clippy::print_stdout, reason = "this is how the child reports to its parent")]
async fn writes_until_the_disk_takes_no_more() -> Result<()> {
    let Some(dir) = std::env::var_os("LEDGER_DIR") else { return Ok(()) };
    let client = on_file(Path::new(&dir)).await?;
    let mut acknowledged = 0;
    let refused = loop {
        let transaction = client.transact_write_items();
        let transaction = transaction.transact_items(write_put(&format!("a-{acknowledged}"))?);
        match transaction.transact_items(write_put(&format!("b-{acknowledged}"))?).send().await {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
        ensure!(acknowledged < 100_000, "the limit does not hold");
    };
    assert_eq!(refused.raw_response().map(|raw| raw.status().as_u16()), Some(500), "{refused:?}");
    assert_eq!(refused.code(), Some("InternalServerError"), "{refused:?}");
    // What was written can still be read.
    assert!(get(&client, "a-0").await?.is_some());
    println!("acknowledged={acknowledged}");
    Ok(())
}

async fn in_memory() -> Result<Client> {
    let client = EmbeddedEngine::in_memory()?.client();
    ensure_table(&client, TABLE).await?;
    Ok(client)
}

async fn on_file(dir: &Path) -> Result<Client> {
    let client = EmbeddedEngine::open(dir)?.client();
    ensure_table(&client, TABLE).await?;
    Ok(client)
}

fn s(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

fn n(number: i64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

fn key(pk: &str) -> HashMap<String, AttributeValue> {
    [(table::PK, s(pk)), (table::SK, s("-"))].map(|(name, value)| (name.to_owned(), value)).into()
}

fn text(item: &HashMap<String, AttributeValue>, name: &str) -> Result<String> {
    let value = item.get(name).and_then(|value| value.as_s().ok());
    value.cloned().with_context(|| format!("no text {name} in {item:?}"))
}

fn put(client: &Client, pk: &str) -> PutItemFluentBuilder {
    client.put_item().table_name(TABLE).set_item(Some(key(pk))).item("note", s("whole"))
}

fn write_put(pk: &str) -> Result<TransactWriteItem> {
    let put = Put::builder().table_name(TABLE).set_item(Some(key(pk))).item("note", s(&"x".repeat(300)));
    Ok(TransactWriteItem::builder().put(put.build()?).build())
}

fn update(client: &Client, pk: &str) -> UpdateItemFluentBuilder {
    client.update_item().table_name(TABLE).set_key(Some(key(pk)))
}

fn claim(client: &Client, runner: &str, claim: &str) -> UpdateItemFluentBuilder {
    update(client, runner)
        .update_expression("SET #state = :claimed, claim = :claim")
        .condition_expression("#state = :idle")
        .expression_attribute_names("#state", "state")
        .expression_attribute_values(":idle", s("idle"))
        .expression_attribute_values(":claimed", s("claimed"))
        .expression_attribute_values(":claim", s(claim))
        .return_values_on_condition_check_failure(OnFailure::AllOld)
}

async fn get(client: &Client, pk: &str) -> Result<Option<HashMap<String, AttributeValue>>> {
    Ok(client.get_item().table_name(TABLE).set_key(Some(key(pk))).consistent_read(true).send().await?.item)
}

async fn due(client: &Client, until: i64) -> Result<Vec<String>> {
    let page = client
        .query()
        .table_name(TABLE)
        .index_name(table::DUE_INDEX)
        .key_condition_expression("due_shard = :shard AND due_at <= :until")
        .expression_attribute_values(":shard", s("7"))
        .expression_attribute_values(":until", n(until))
        .send()
        .await?;
    for item in page.items() {
        ensure!(item.len() == 4, "an index of keys shows more than keys: {item:?}");
    }
    page.items().iter().map(|item| text(item, table::PK)).collect()
}

#[expect(clippy::disallowed_methods, reason = "the engine's sweep reads the real clock")]
fn now() -> Result<i64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs().try_into()?)
}
