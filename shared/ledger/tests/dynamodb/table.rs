//! The table: made once, by any number of processes, and refused if it is another.

use anyhow::{Context, Result};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
    ProjectionType, ScalarAttributeType, TimeToLiveSpecification, TimeToLiveStatus,
};
use motorpool_ledger::dynamodb::table::{create_table_request, ensure_table};

use crate::world::{client, fresh_table};

#[tokio::test]
async fn it_is_made_once_by_any_number_at_once() -> Result<()> {
    let (client, table) = (client().await?, fresh_table());
    tokio::try_join!(ensure_table(&client, &table), ensure_table(&client, &table))?;
    ensure_table(&client, &table).await?;
    let expiry = client.describe_time_to_live().table_name(&table).send().await?;
    let expiry = expiry.time_to_live_description.context("no time to live")?;
    assert_eq!(expiry.attribute_name(), Some("expires_at"));
    assert_eq!(expiry.time_to_live_status(), Some(&TimeToLiveStatus::Enabled));
    Ok(())
}

#[tokio::test]
async fn one_of_other_keys_is_refused() -> Result<()> {
    let (client, table) = (client().await?, fresh_table());
    let create = client.create_table().table_name(&table).billing_mode(BillingMode::PayPerRequest);
    let create = create.attribute_definitions(text("id")?).key_schema(key("id", KeyType::Hash)?);
    create.send().await?;
    differs(&client, &table, "its keys are not pk and sk").await
}

#[tokio::test]
async fn one_without_an_index_is_refused() -> Result<()> {
    let (client, table) = (client().await?, fresh_table());
    let create = client.create_table().table_name(&table).billing_mode(BillingMode::PayPerRequest);
    let create = create
        .attribute_definitions(text("pk")?)
        .attribute_definitions(text("sk")?)
        .key_schema(key("pk", KeyType::Hash)?)
        .key_schema(key("sk", KeyType::Range)?);
    create.send().await?;
    differs(&client, &table, "its attribute due_shard is not of type S").await
}

#[tokio::test]
async fn one_whose_index_gives_more_than_keys_is_refused() -> Result<()> {
    let (client, table) = (client().await?, fresh_table());
    let request = create_table_request(&table)?;
    let mut indexes = request.get_global_secondary_indexes().clone().unwrap_or_default();
    for index in &mut indexes {
        let all = Projection::builder().projection_type(ProjectionType::All).build();
        *index = GlobalSecondaryIndex::builder()
            .index_name(index.index_name())
            .set_key_schema(Some(index.key_schema().to_vec()))
            .projection(all)
            .build()?;
    }
    request.set_global_secondary_indexes(Some(indexes)).send_with(&client).await?;
    differs(&client, &table, "its index due does not project KEYS_ONLY").await
}

#[tokio::test]
async fn one_that_expires_by_another_attribute_is_refused() -> Result<()> {
    let (client, table) = (client().await?, fresh_table());
    create_table_request(&table)?.send_with(&client).await?;
    let other = TimeToLiveSpecification::builder().enabled(true).attribute_name("other").build()?;
    client.update_time_to_live().table_name(&table).time_to_live_specification(other).send().await?;
    differs(&client, &table, "its time to live is in the attribute other, not in expires_at").await
}

async fn differs(client: &Client, table: &str, what: &str) -> Result<()> {
    let error = ensure_table(client, table).await.err().context("it was taken")?.to_string();
    assert!(error.contains(table) && error.ends_with(what), "{error}");
    Ok(())
}

fn text(name: &str) -> Result<AttributeDefinition> {
    let attribute = AttributeDefinition::builder().attribute_name(name);
    Ok(attribute.attribute_type(ScalarAttributeType::S).build()?)
}

fn key(name: &str, kind: KeyType) -> Result<KeySchemaElement> {
    Ok(KeySchemaElement::builder().attribute_name(name).key_type(kind).build()?)
}
