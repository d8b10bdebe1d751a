//! A table of its own for each test, on the emulator that all tests share; and rows to put there.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use anyhow::{Context, Result};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::types::AttributeValue;
use motorpool_control::ports::ledger::Ledger;
use motorpool_control::ports::tx::{Committed, Op, Row, Stored, Tx, When};
use motorpool_domain::Timestamp;
use motorpool_domain::record::{Beside, Key, Kind, Path, Place, Version};
use motorpool_ledger::DynamoLedger;
use motorpool_ledger::dynamodb::table::ensure_table;

use crate::emulator::config;
pub(crate) use crate::emulator::fresh_table;
use crate::faults::Faults;

pub(crate) type Item = HashMap<String, AttributeValue>;

pub(crate) struct World {
    /// Past the faults.
    pub(crate) client: Client,
    pub(crate) table: String,
    pub(crate) ledger: DynamoLedger,
    pub(crate) faults: Faults,
}

impl World {
    pub(crate) async fn new() -> Result<Self> {
        let (client, table) = (client().await?, fresh_table());
        ensure_table(&client, &table).await?;
        let inner = client.config().http_client().context("the client has no connector")?;
        let faults = Faults::new(inner);
        let retry =
            RetryConfig::standard().with_max_attempts(3).with_initial_backoff(Duration::from_millis(1));
        let config = client.config().to_builder().http_client(faults.clone()).retry_config(retry).build();
        let ledger = DynamoLedger::new(Client::from_conf(config), &table);
        Ok(Self { client, table, ledger, faults })
    }

    pub(crate) async fn commit(&self, op: Op) -> Result<Committed> {
        Ok(self.ledger.commit(&Tx::default().with(op)).await?)
    }

    /// Whatever was there.
    pub(crate) async fn put(&self, row: &Row) -> Result<()> {
        let put = Op::Put { row: row.clone(), when: When::Always };
        assert_eq!(self.commit(put).await?, Committed::Done);
        Ok(())
    }

    pub(crate) async fn read(&self, path: &Path) -> Result<Option<Stored>> {
        Ok(self.ledger.get(std::slice::from_ref(path)).await?.remove(0))
    }

    /// The item itself, by the table's keys.
    pub(crate) async fn item(&self, pk: &str, sk: &str) -> Result<Option<Item>> {
        let key = [("pk", pk), ("sk", sk)].map(|(name, value)| (name.to_owned(), s(value)));
        let get = self.client.get_item().table_name(&self.table).set_key(Some(key.into()));
        Ok(get.consistent_read(true).send().await?.item)
    }

    pub(crate) async fn put_item(&self, item: Item) -> Result<()> {
        self.client.put_item().table_name(&self.table).set_item(Some(item)).send().await?;
        Ok(())
    }

    /// The sort keys of everything under a partition key.
    pub(crate) async fn sort_keys(&self, pk: &str) -> Result<BTreeSet<String>> {
        let query = self.client.query().table_name(&self.table).key_condition_expression("pk = :pk");
        let found = query.expression_attribute_values(":pk", s(pk)).consistent_read(true).send().await?;
        let sort_key = |item: &Item| item.get("sk")?.as_s().ok().cloned();
        found.items().iter().map(|item| sort_key(item).context("an item without a sort key")).collect()
    }
}

pub(crate) async fn client() -> Result<Client> {
    Ok(Client::new(&config().await?))
}

pub(crate) fn s(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

pub(crate) fn n(number: u64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

/// Ahead of every clock: what is kept until then is not deleted in the midst of a test.
pub(crate) fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(4_000_000_000_000 + millis)
}

pub(crate) fn thing(id: &str) -> Path {
    Key::new(Kind::new("thing"), id).into()
}

pub(crate) fn version(rev: u64) -> Version {
    Version { state: "new".to_owned(), epoch: 1, rev }
}

/// In no list, and never due.
pub(crate) fn row(path: Path, rev: u64) -> Row {
    let doc = format!("{{\"rev\":{rev}}}");
    let (version, lists) = (version(rev), 0);
    Row { path, version, schema: 1, doc, due: None, places: Vec::new(), lists, kept_until: None }
}

/// In so many lists of three: `list-0`, `list-1`, `list-2`.
pub(crate) fn listed(path: Path, rev: u64, places: usize) -> Row {
    let place = |number| Place { list: format!("list-{number}"), sort: format!("{path}") };
    let places = (0..places).map(place).collect();
    Row { places, lists: 3, ..row(path, rev) }
}

pub(crate) fn stored(row: &Row) -> Stored {
    let Row { path, version, schema, doc, .. } = row.clone();
    Stored { path, schema, doc, beside: Beside { version, ..Beside::default() } }
}
