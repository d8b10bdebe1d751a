//! The names that reach a directory, QEMU's command line or an image: each is parsed once, and can be nothing but a name there.

use std::fmt::{self, Write};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

const LONGEST: usize = 64;
/// 128 bits of the hash.
const HASH_BYTES: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no name of {what}: a letter, then letters, digits, - and _, at most {LONGEST} in all")]
pub struct InvalidName {
    text: String,
    what: &'static str,
}

/// Of a VM, and of its directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VmName(String);

/// Of a snapshot in the VM's image. It begins with a letter: QEMU takes digits for the number of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SnapshotName(String);

/// Of whoever ordered an operation. QEMU's jobs carry it, so that a driver finds its own again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OperationId(String);

impl SnapshotName {
    /// The name that belongs to a checkpoint's or a task's id, today and after every restart.
    pub fn of(id: &str) -> Self {
        let mut name = "mp-".to_owned();
        for byte in Sha256::digest(id.as_bytes()).iter().take(HASH_BYTES) {
            // Writing to a String does not fail.
            let _written = write!(name, "{byte:02x}");
        }
        Self(name)
    }
}

impl VmName {
    /// The VM's network address: the same after every start, and another for every VM on a bridge. The prefix is QEMU's own.
    pub(crate) fn mac(&self) -> String {
        let hash = Sha256::digest(self.0.as_bytes());
        let mut mac = "52:54:00".to_owned();
        for byte in hash.iter().take(3) {
            let _written = write!(mac, ":{byte:02x}");
        }
        mac
    }
}

macro_rules! names {
    ($($name:ident of $what:literal),*) => {$(
        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidName;

            fn from_str(text: &str) -> Result<Self, InvalidName> {
                if is_name(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(InvalidName { text: text.to_owned(), what: $what })
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidName;

            fn try_from(text: String) -> Result<Self, InvalidName> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

names!(VmName of "a VM", SnapshotName of "a snapshot", OperationId of "an operation");

fn is_name(text: &str) -> bool {
    text.len() <= LONGEST
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuse_13_a_name_reaches_no_other_directory_and_no_other_option() {
        for text in ["", ".", "..", "a/b", "a,b", "a b", "a\n", "a\0", "-a", "1", "ä", &"a".repeat(65)] {
            assert!(text.parse::<VmName>().is_err(), "{text:?}");
            assert!(text.parse::<SnapshotName>().is_err(), "{text:?}");
            assert!(text.parse::<OperationId>().is_err(), "{text:?}");
        }
        for text in ["a", "r-01J8Z0", "Mac_01", &"a".repeat(64)] {
            assert!(text.parse::<VmName>().is_ok(), "{text:?}");
        }
    }

    #[test]
    fn the_same_id_gives_the_same_snapshot_for_ever() {
        assert_eq!(SnapshotName::of("cp-01J8Z0").as_str(), "mp-046e522abbc2b970bd3ad538a1fa7d01");
    }

    #[test]
    fn each_vm_has_an_address_of_its_own() {
        let mac = |name: &str| name.parse::<VmName>().unwrap().mac();
        assert_eq!(mac("r-1"), mac("r-1"));
        assert_ne!(mac("r-1"), mac("r-2"));
        assert_eq!(mac("r-1").len(), "52:54:00:00:00:00".len());
    }
}
