//! A snapshot's name within Proxmox VE's bounds. Ours follow from an id of ours, so that whoever has the id knows which snapshot is meant.

use std::fmt::{self, Write};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::ids::InvalidId;

const PREFIX: &str = "mp-";
const LONGEST: usize = 40;
/// 128 bits of the hash.
const HASH_BYTES: usize = 16;
/// In the list of a VM's snapshots it stands for the VM as it is.
pub(crate) const CURRENT: &str = "current";

/// `^[a-z][a-z0-9_-]+$`, of at most 40 characters. Proxmox VE takes capitals too; those are somebody else's, and are not made here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SnapshotName(String);

impl SnapshotName {
    /// The name that belongs to a checkpoint's or a task's id, today and after every restart.
    pub fn of(id: &str) -> Self {
        let mut name = PREFIX.to_owned();
        for byte in Sha256::digest(id.as_bytes()).iter().take(HASH_BYTES) {
            // Writing to a String does not fail.
            let _written = write!(name, "{byte:02x}");
        }
        Self(name)
    }

    /// Whether it has the form of those that are made here: only such are ever removed as left over.
    pub fn is_ours(&self) -> bool {
        self.0.strip_prefix(PREFIX).is_some_and(|hash| {
            hash.len() == 2 * HASH_BYTES
                && hash.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        })
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SnapshotName {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let inside = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        let good = (2..=LONGEST).contains(&text.len())
            && text.bytes().all(inside)
            && text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text != CURRENT;
        let rule = "a letter, then letters, digits, - and _, at most 40 in all, and not \"current\"";
        if good {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidId { text: text.to_owned(), what: "snapshot", rule })
        }
    }
}

impl TryFrom<String> for SnapshotName {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl From<SnapshotName> for String {
    fn from(name: SnapshotName) -> Self {
        name.0
    }
}

impl fmt::Display for SnapshotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_id_gives_the_same_name_for_ever() {
        let name = SnapshotName::of("cp-01J8Z0");
        assert_eq!(name.as_str(), "mp-046e522abbc2b970bd3ad538a1fa7d01");
        assert_ne!(name, SnapshotName::of("cp-01J8Z1"));
    }

    #[test]
    fn refuse_13_whatever_an_id_holds_the_name_is_one_of_proxmox_ves() {
        for id in ["", "a/b", "../..", "x\0y\n", "ä", &"x".repeat(10_000)] {
            let name = SnapshotName::of(id);
            assert_eq!(name.as_str().parse(), Ok(name.clone()), "{id:?}");
            assert!(name.is_ours() && name.as_str().len() <= LONGEST, "{id:?}");
        }
    }

    #[test]
    fn names_of_others_are_read_and_are_not_ours() {
        for text in ["before-upgrade", "Vor_dem_Update", "mp-1", "mp-0123456789ABCDEF0123456789ABCDEF"] {
            assert!(!text.parse::<SnapshotName>().unwrap().is_ours(), "{text}");
        }
        for text in ["", "a", "current", "1a", "a.b", "a b", "a/b", &"a".repeat(41)] {
            assert!(text.parse::<SnapshotName>().is_err(), "{text:?}");
        }
    }
}
