//! The files of `tests/fixtures`: `records`, `agent` and `queue` hold what this version writes, their folders `older` and `newer` what the
//! version before wrote and the one after may write.

use anyhow::{Context, Result};
use motorpool_control::ports::tx::Row;
use motorpool_domain::record::Record;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A record as a file has it. All else that the ledger keeps of a record follows from the document.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Kept {
    pub(crate) schema: u32,
    pub(crate) doc: Value,
}

impl Kept {
    pub(crate) fn read(name: &str) -> Result<Self> {
        message(&format!("records/{name}"))
    }

    pub(crate) fn of(row: &Row) -> Result<Self> {
        Ok(Self { schema: row.schema, doc: serde_json::from_str(&row.doc)? })
    }

    pub(crate) fn record<R: Record>(&self) -> Result<R> {
        Ok(serde_json::from_value(self.doc.clone())?)
    }

    /// As the version that knows all its fields writes it: in the same place, due at the same time and in the same lists as `R` is.
    pub(crate) fn row<R: Record>(&self) -> Result<Row> {
        let row = Row::of(&self.record::<R>()?)?;
        Ok(Row { schema: self.schema, doc: self.doc.to_string(), ..row })
    }
}

pub(crate) fn message<T: DeserializeOwned>(name: &str) -> Result<T> {
    let file = folder().join(format!("{name}.json"));
    let text = fs::read_to_string(&file).with_context(|| format!("there is no fixture {name}"))?;
    serde_json::from_str(&text).with_context(|| format!("fixture {name} can't be read"))
}

/// The names of the files in a folder, without those of the folders in it.
pub(crate) fn names(of: &str) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder().join(of))? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).context("a file has a name")?;
        if path.is_file() {
            names.insert(name.to_owned());
        }
    }
    Ok(names)
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}
