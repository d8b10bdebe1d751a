//! The id of a task: `UPID:node:pid:pstart:starttime:type:id:user:`. It says what was begun, where, when and by whom, so a task that is found
//! in a list can be told from others without a further call.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{InvalidId, NodeName, VmId};

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Upid {
    text: String,
    node: NodeName,
    /// When it began, in seconds by the node's clock, and for those of one second in ticks since the node was booted.
    started: (u64, u64),
    kind: TaskKind,
    vm: Option<VmId>,
    user: String,
}

/// What a task does, as far as it matters to a VM that is snapshotted and rolled back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskKind {
    /// By Proxmox VE itself, or ordered from its high availability, which does it some time after the task.
    Start,
    Stop,
    Snapshot,
    Rollback,
    DeleteSnapshot,
    Clone,
    /// Somebody looks at the screen: it runs for as long as he does, and changes nothing.
    Console,
    Other,
}

impl Upid {
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn node(&self) -> &NodeName {
        &self.node
    }

    pub fn kind(&self) -> TaskKind {
        self.kind
    }

    pub fn vm(&self) -> Option<VmId> {
        self.vm
    }

    /// `user@realm`, with `!token` behind it if a token was used.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Of tasks of one node. Where its clock was set back in between, the later one counts as the earlier.
    pub fn began_before(&self, other: &Self) -> bool {
        self.started.cmp(&other.started) == Ordering::Less
    }
}

impl FromStr for Upid {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        parsed(text).ok_or_else(|| InvalidId {
            text: text.chars().take(200).collect(),
            what: "task",
            rule: "UPID:node:pid:pstart:starttime:type:id:user:, with three hexadecimal numbers",
        })
    }
}

fn parsed(text: &str) -> Option<Upid> {
    let parts: Vec<&str> = text.split(':').collect();
    let ["UPID", node, pid, pstart, started, kind, id, user, ""] = parts.as_slice() else { return None };
    // The digits alone: from_str_radix would take a sign.
    let number = |text: &str| {
        let digits = (8..=16).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
        digits.then(|| u64::from_str_radix(text, 16).ok()).flatten()
    };
    let word = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
    number(pid)?;
    if !word(kind) || !word(user) || !(id.is_empty() || word(id)) {
        return None;
    }
    Some(Upid {
        text: text.to_owned(),
        node: node.parse().ok()?,
        started: (number(started)?, number(pstart)?),
        kind: TaskKind::of(kind),
        vm: id.parse().ok().and_then(|id: u32| VmId::try_from(id).ok()),
        user: (*user).to_owned(),
    })
}

impl TaskKind {
    fn of(name: &str) -> Self {
        match name {
            "qmstart" | "hastart" => Self::Start,
            "qmstop" | "hastop" => Self::Stop,
            "qmsnapshot" => Self::Snapshot,
            "qmrollback" => Self::Rollback,
            "qmdelsnapshot" => Self::DeleteSnapshot,
            "qmclone" => Self::Clone,
            "vncproxy" | "spiceproxy" | "termproxy" => Self::Console,
            _ => Self::Other,
        }
    }
}

impl TryFrom<String> for Upid {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl From<Upid> for String {
    fn from(upid: Upid) -> Self {
        upid.text
    }
}

impl fmt::Display for Upid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLLBACK: &str = "UPID:pve1:0000C3A1:0012D687:674B1C2F:qmrollback:101:motorpool@pve!site:";

    #[test]
    fn a_task_is_told_from_others_by_its_id() {
        let upid: Upid = ROLLBACK.parse().unwrap();
        assert_eq!(upid.node().as_str(), "pve1");
        assert_eq!(upid.kind(), TaskKind::Rollback);
        assert_eq!(upid.vm().map(u32::from), Some(101));
        assert_eq!(upid.user(), "motorpool@pve!site");
        assert_eq!(upid.as_str(), ROLLBACK);
    }

    #[test]
    fn tasks_of_one_second_are_in_the_order_of_their_ticks() {
        let at = |pstart: &str, started: &str| -> Upid {
            format!("UPID:pve1:0000C3A1:{pstart}:{started}:qmstart:101:a@pve:").parse().unwrap()
        };
        let (first, second, third) =
            (at("0012D687", "674B1C2F"), at("0012D688", "674B1C2F"), at("00000001", "674B1C30"));
        assert!(first.began_before(&second) && second.began_before(&third));
        assert!(!second.began_before(&first) && !first.began_before(&first));
    }

    #[test]
    fn refuse_13_what_is_no_task_id_is_not_taken_for_one() {
        for text in [
            "",
            "UPID",
            "UPID:pve1:0000C3A1:0012D687:674B1C2F:qmrollback:101:a@pve",
            "UPID:pve1:0000C3A1:0012D687:674B1C2F:qmrollback:101:a@pve:x",
            "UPID:pve1:0000C3A1:0012D687:674B1C2F:qmrollback:101:a b:",
            "UPID:pve1/x:0000C3A1:0012D687:674B1C2F:qmrollback:101:a@pve:",
            "UPID:pve1:+000C3A1:0012D687:674B1C2F:qmrollback:101:a@pve:",
        ] {
            assert!(text.parse::<Upid>().is_err(), "{text:?}");
        }
    }
}
