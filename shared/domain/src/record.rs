//! What the ledger keeps, as the ledger sees it: a document under a key, the version that writes are conditional on, when it is due, in which
//! lists it stands and how long it is kept. A new kind of record is an implementation of [`Record`]; no adapter of the ledger knows its kind.

use crate::time::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

pub trait Record: Sized + Serialize + DeserializeOwned {
    /// Of the newest form of the document that this code knows. A record of a higher number is left alone: this code would lose what it does not
    /// know of it.
    const SCHEMA: u32 = 1;
    /// In how many lists a record of this kind stands at most.
    const LISTS: usize = 1;

    fn path(&self) -> Path;
    fn version(&self) -> Version;
    /// Of this document's form: the lowest that has all that it says. So an older version goes on with whatever it would not damage.
    fn schema(&self) -> u32 {
        Self::SCHEMA
    }
    /// When somebody must look at it; nothing where nothing can get stuck.
    fn due(&self) -> Option<Timestamp> {
        None
    }
    /// At most [`Record::LISTS`].
    fn places(&self) -> Vec<Place> {
        Vec::new()
    }
    /// From when on it may be deleted.
    fn kept_until(&self) -> Option<Timestamp> {
        None
    }
    /// The record with what stands beside its document.
    #[must_use]
    fn beside(self, _: &Beside) -> Self {
        self
    }
}

/// Of what kind a record is. It contains no `#`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(Cow<'static, str>);

impl Kind {
    pub const fn new(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a record is known by, whatever its kind: for what is due, for logs, for whoever waits for its next change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub kind: Kind,
    pub id: String,
}

impl Key {
    pub fn new(kind: Kind, id: impl Into<String>) -> Self {
        Self { kind, id: id.into() }
    }

    /// The key that is written so, if any is.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, id) = text.split_once('#')?;
        Some(Self { kind: Kind(Cow::Owned(kind.to_owned())), id: id.to_owned() })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.kind.0, self.id)
    }
}

/// Where a document stands: by itself under its key, or as a child under another's, where children are read in the order of their names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    pub key: Key,
    pub child: Option<String>,
}

impl Path {
    pub fn child(key: Key, name: impl Into<String>) -> Self {
        Self { key, child: Some(name.into()) }
    }
}

impl From<Key> for Path {
    fn from(key: Key) -> Self {
        Self { key, child: None }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.child {
            None => write!(f, "{}", self.key),
            Some(child) => write!(f, "{}/{child}", self.key),
        }
    }
}

/// What a conditional write compares. A record that has no state or epoch leaves them as they are by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    pub state: String,
    pub epoch: u64,
    pub rev: u64,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{} rev {}", self.state, self.epoch, self.rev)
    }
}

/// A place in a list: lists are read in the order of `sort`, byte by byte.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub list: String,
    pub sort: String,
}

/// Instants in milliseconds by name, noted beside a document without being a change of it.
pub type Marks = BTreeMap<String, u64>;

/// What stands beside a document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Beside {
    pub version: Version,
    /// The record's own counter, which only transactions that name a bound move.
    pub counter: u64,
    pub marks: Marks,
}

impl Beside {
    pub fn instant(&self, mark: &str) -> Option<Timestamp> {
        self.marks.get(mark).copied().map(Timestamp::from_millis)
    }
}

/// Sorts as text in the order of time.
pub fn padded(at: Timestamp) -> String {
    format!("{:015}", at.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_is_written() {
        for key in [Key::new(Kind::new("runner"), "r-1"), Key::new(Kind::new("workflow"), "team#gh-1")] {
            assert_eq!(Key::parse(&key.to_string()), Some(key));
        }
        assert_eq!(Key::parse("nothing"), None);
    }

    #[test]
    fn times_sort_as_text() {
        let [early, late] = [9, 1_700_000_000_000].map(|ms| padded(Timestamp::from_millis(ms)));
        assert!(early < late);
    }
}
