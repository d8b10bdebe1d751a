//! The one definition of the ledger's table: its keys, its indexes and its time to live. It does not know what the items mean.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::operation::create_table::builders::CreateTableInputBuilder;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
    ProjectionType, ScalarAttributeType, TableDescription, TableStatus, TimeToLiveDescription,
    TimeToLiveSpecification, TimeToLiveStatus,
};

pub const PK: &str = "pk";
pub const SK: &str = "sk";
/// Seconds since 1970; the item may be deleted from then on.
pub const EXPIRES_AT: &str = "expires_at";

/// Every row that somebody must look at, by the instant from when on. Gives keys only.
pub const DUE_INDEX: &str = "due";
pub const DUE_SHARD: &str = "due_shard";
pub const DUE_AT: &str = "due_at";

/// Which row, or pointer to one, stands where in which list. Keys only, too: a listing reads the rows themselves, so that a mark, which
/// changes what a list shows but not where, costs no second write.
pub const LISTING_INDEX: &str = "listing";
/// A reserved word: expressions need a name placeholder for it.
pub const LIST: &str = "list";
pub const LIST_SK: &str = "list_sk";

/// A table of one minute's making is usual on AWS; an emulator's is there at once.
const POLLS: u32 = 240;
const POLL_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error("could not {attempted} the table {table}")]
    Call { attempted: &'static str, table: String, source: Box<aws_sdk_dynamodb::Error> },
    #[error("the table {table} was not ready after {waited:?}")]
    NotReady { table: String, waited: Duration },
    #[error("the table {table} exists, but differs from what the ledger needs: {what}")]
    Differs { table: String, what: String },
}

/// Creates the table if it is missing, waits until it can be used, and checks that it is the one defined here.
/// Any number of processes may do so at once.
pub async fn ensure_table(client: &Client, table: &str) -> Result<(), TableError> {
    if describe(client, table).await?.is_none() {
        create(client, table).await?;
    }
    let description = wait_until_active(client, table).await?;
    if let Some(what) = difference(&description) {
        return Err(TableError::Differs { table: table.to_owned(), what });
    }
    ensure_time_to_live(client, table).await
}

/// The table as a request. Its time to live is not part of it: DynamoDB takes that apart.
pub fn create_table_request(table: &str) -> Result<CreateTableInputBuilder, BuildError> {
    let mut request =
        CreateTableInputBuilder::default().table_name(table).billing_mode(BillingMode::PayPerRequest);
    for (name, kind) in ATTRIBUTES {
        let attribute = AttributeDefinition::builder().attribute_name(name).attribute_type(kind).build()?;
        request = request.attribute_definitions(attribute);
    }
    request = request.set_key_schema(Some(key_schema(PK, SK)?));
    for Index { name, hash, range, projection } in INDEXES {
        let index = GlobalSecondaryIndex::builder()
            .index_name(name)
            .set_key_schema(Some(key_schema(hash, range)?))
            .projection(Projection::builder().projection_type(projection).build())
            .build()?;
        request = request.global_secondary_indexes(index);
    }
    Ok(request)
}

const ATTRIBUTES: [(&str, ScalarAttributeType); 6] = [
    (PK, ScalarAttributeType::S),
    (SK, ScalarAttributeType::S),
    (DUE_SHARD, ScalarAttributeType::S),
    (DUE_AT, ScalarAttributeType::N),
    (LIST, ScalarAttributeType::S),
    (LIST_SK, ScalarAttributeType::S),
];

/// Sparse, all of them: an item without the attributes is not in the index.
const INDEXES: [Index; 2] = [
    Index { name: DUE_INDEX, hash: DUE_SHARD, range: DUE_AT, projection: ProjectionType::KeysOnly },
    Index { name: LISTING_INDEX, hash: LIST, range: LIST_SK, projection: ProjectionType::KeysOnly },
];

struct Index {
    name: &'static str,
    hash: &'static str,
    range: &'static str,
    projection: ProjectionType,
}

fn key_schema(hash: &str, range: &str) -> Result<Vec<KeySchemaElement>, BuildError> {
    let key = |name, kind| KeySchemaElement::builder().attribute_name(name).key_type(kind).build();
    Ok(vec![key(hash, KeyType::Hash)?, key(range, KeyType::Range)?])
}

async fn create(client: &Client, table: &str) -> Result<(), TableError> {
    let failed = call_failed("create", table);
    let request = create_table_request(table).map_err(|error| failed(error.into()))?;
    match request.send_with(client).await {
        Ok(_) => Ok(()),
        // Somebody else was faster.
        Err(error) if error.as_service_error().is_some_and(|e| e.is_resource_in_use_exception()) => Ok(()),
        Err(error) => Err(failed(error.into())),
    }
}

async fn describe(client: &Client, table: &str) -> Result<Option<TableDescription>, TableError> {
    match client.describe_table().table_name(table).send().await {
        Ok(answer) => Ok(answer.table),
        Err(error) if error.as_service_error().is_some_and(|e| e.is_resource_not_found_exception()) => {
            Ok(None)
        }
        Err(error) => Err(call_failed("describe", table)(error.into())),
    }
}

async fn wait_until_active(client: &Client, table: &str) -> Result<TableDescription, TableError> {
    for _ in 0..POLLS {
        // A new table may be unknown for a moment.
        if let Some(description) = describe(client, table).await?
            && description.table_status == Some(TableStatus::Active)
        {
            return Ok(description);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Err(TableError::NotReady { table: table.to_owned(), waited: POLL_INTERVAL * POLLS })
}

/// Says what is missing or otherwise; what is there beyond the definition does no harm.
fn difference(found: &TableDescription) -> Option<String> {
    if !keys_are(found.key_schema(), PK, SK) {
        return Some(format!("its keys are not {PK} and {SK}"));
    }
    for (name, kind) in ATTRIBUTES {
        let typed = |a: &AttributeDefinition| a.attribute_name == name && a.attribute_type == kind;
        if !found.attribute_definitions().iter().any(typed) {
            return Some(format!("its attribute {name} is not of type {kind}"));
        }
    }
    for Index { name, hash, range, projection } in INDEXES {
        let indexes = found.global_secondary_indexes();
        let Some(index) = indexes.iter().find(|index| index.index_name() == Some(name)) else {
            return Some(format!("it has no index {name}"));
        };
        if !keys_are(index.key_schema(), hash, range) {
            return Some(format!("the keys of its index {name} are not {hash} and {range}"));
        }
        if index.projection().and_then(Projection::projection_type) != Some(&projection) {
            return Some(format!("its index {name} does not project {projection}"));
        }
    }
    None
}

fn keys_are(found: &[KeySchemaElement], hash: &str, range: &str) -> bool {
    let has =
        |name: &str, kind: KeyType| found.iter().any(|k| k.attribute_name == name && k.key_type == kind);
    found.len() == 2 && has(hash, KeyType::Hash) && has(range, KeyType::Range)
}

async fn ensure_time_to_live(client: &Client, table: &str) -> Result<(), TableError> {
    if time_to_live_is_on(client, table).await? {
        return Ok(());
    }
    let failed = call_failed("set the time to live of", table);
    let specification = TimeToLiveSpecification::builder()
        .enabled(true)
        .attribute_name(EXPIRES_AT)
        .build()
        .map_err(|error| failed(error.into()))?;
    let request = client.update_time_to_live().table_name(table).time_to_live_specification(specification);
    match request.send().await {
        Ok(_) => Ok(()),
        // DynamoDB refuses to switch on what is on: perhaps somebody else was faster.
        Err(_) if time_to_live_is_on(client, table).await? => Ok(()),
        Err(error) => Err(failed(error.into())),
    }
}

async fn time_to_live_is_on(client: &Client, table: &str) -> Result<bool, TableError> {
    let answer = client
        .describe_time_to_live()
        .table_name(table)
        .send()
        .await
        .map_err(|error| call_failed("describe the time to live of", table)(error.into()))?;
    let Some(TimeToLiveDescription { time_to_live_status, attribute_name, .. }) =
        answer.time_to_live_description
    else {
        return Ok(false);
    };
    let on = matches!(time_to_live_status, Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling));
    match attribute_name {
        Some(other) if on && other != EXPIRES_AT => {
            let what = format!("its time to live is in the attribute {other}, not in {EXPIRES_AT}");
            Err(TableError::Differs { table: table.to_owned(), what })
        }
        Some(_) | None => Ok(on),
    }
}

fn call_failed(attempted: &'static str, table: &str) -> impl Fn(aws_sdk_dynamodb::Error) -> TableError {
    move |error| TableError::Call { attempted, table: table.to_owned(), source: Box::new(error) }
}
