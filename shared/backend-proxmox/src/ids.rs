//! What Proxmox VE calls its things: VMs by number, nodes and storages by name. Each is parsed once, and reaches no other path of the API.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {what} of Proxmox VE's: {rule}")]
pub struct InvalidId {
    pub(crate) text: String,
    pub(crate) what: &'static str,
    pub(crate) rule: &'static str,
}

/// 100 and more: Proxmox VE keeps those below for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct VmId(u32);

/// A host name without its domain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeName(String);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StorageName(String);

/// A VM, and the node on which it is: the API has no path to a VM that leaves the node out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Vm {
    pub node: NodeName,
    pub id: VmId,
}

impl Vm {
    pub(crate) fn path(&self, below: &str) -> String {
        format!("nodes/{}/qemu/{}/{below}", self.node, self.id)
    }
}

impl fmt::Display for Vm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VM {} on {}", self.id, self.node)
    }
}

impl TryFrom<u32> for VmId {
    type Error = InvalidId;

    fn try_from(number: u32) -> Result<Self, InvalidId> {
        if (100..1_000_000_000).contains(&number) {
            return Ok(Self(number));
        }
        let rule = "a number of 100 to 999999999";
        Err(InvalidId { text: number.to_string(), what: "VM", rule })
    }
}

impl From<VmId> for u32 {
    fn from(id: VmId) -> Self {
        id.0
    }
}

impl fmt::Display for VmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl NodeName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NodeName {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let inside = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        let good = !text.is_empty()
            && text.len() <= 63
            && text.bytes().all(inside)
            && !text.starts_with('-')
            && !text.ends_with('-');
        let rule = "letters, digits and hyphens, as in a host name without its domain";
        if good {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidId { text: text.to_owned(), what: "node", rule })
        }
    }
}

impl FromStr for StorageName {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let inside = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        let good = text.len() >= 2
            && text.len() <= 100
            && text.bytes().all(inside)
            && text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.ends_with(|c: char| c.is_ascii_alphanumeric());
        let rule = "a letter, then letters, digits, and -_. between them";
        if good {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidId { text: text.to_owned(), what: "storage", rule })
        }
    }
}

macro_rules! texts {
    ($($name:ident),*) => {$(
        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
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

texts!(NodeName, StorageName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuse_13_no_name_reaches_another_path() {
        for text in ["", "-a", "a-", "a/b", "..", "a b", "a\n", "a%2f", "ä", &"a".repeat(64)] {
            assert!(text.parse::<NodeName>().is_err(), "{text:?}");
        }
        for text in ["", "a", "1a", "a/b", "..", "a..", "a b", "a?"] {
            assert!(text.parse::<StorageName>().is_err(), "{text:?}");
        }
        for text in ["pve1", "PVE-2"] {
            assert!(text.parse::<NodeName>().is_ok(), "{text:?}");
        }
        for text in ["local-lvm", "rbd_1", "nfs.big"] {
            assert!(text.parse::<StorageName>().is_ok(), "{text:?}");
        }
    }

    #[test]
    fn the_numbers_that_proxmox_ve_keeps_for_itself_are_no_vms() {
        for (number, good) in
            [(0, false), (99, false), (100, true), (999_999_999, true), (1_000_000_000, false)]
        {
            assert_eq!(VmId::try_from(number).is_ok(), good, "{number}");
        }
    }
}
