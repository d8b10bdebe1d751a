//! Tasks: their ids of nine parts, when they end, and how they are shown.

use serde_json::{Value, json};

use crate::actions::Action;

#[derive(Debug, Clone)]
pub struct ModelTask {
    pub upid: String,
    pub node: String,
    pub vm: u32,
    pub kind: String,
    pub user: String,
    pub started_s: u64,
    pub ended_s: Option<u64>,
    pub exit_status: Option<String>,
    pub(crate) action: Option<Action>,
    pub(crate) ends: Ends,
    /// How it ends, if that was ordered.
    pub(crate) ordered_end: Option<String>,
    pub(crate) number: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    AtMs(u64),
    /// When whoever does it says so.
    WhenTold,
}

impl ModelTask {
    pub(crate) fn new(number: u64, now_ms: u64, node: &str, vm: u32, kind: &str, user: &str) -> Self {
        let (pid, pstart, started_s) = (0x1000 + number, 0x10_0000 + number, now_ms / 1_000);
        Self {
            upid: format!("UPID:{node}:{pid:08X}:{pstart:08X}:{started_s:08X}:{kind}:{vm}:{user}:"),
            node: node.to_owned(),
            vm,
            kind: kind.to_owned(),
            user: user.to_owned(),
            started_s,
            ended_s: None,
            exit_status: None,
            action: None,
            ends: Ends::WhenTold,
            ordered_end: None,
            number,
        }
    }

    pub fn running(&self) -> bool {
        self.exit_status.is_none()
    }

    /// Of itself.
    pub(crate) fn shown(&self) -> Value {
        let mut shown = self.base();
        match &self.exit_status {
            None => shown["status"] = json!("running"),
            Some(status) => {
                shown["status"] = json!("stopped");
                shown["exitstatus"] = json!(status);
            }
        }
        shown
    }

    /// In a list, where the status is that at its end.
    pub(crate) fn listed(&self) -> Value {
        let mut shown = self.base();
        match (&self.exit_status, self.ended_s) {
            (Some(status), Some(ended)) => {
                shown["status"] = json!(status);
                shown["endtime"] = json!(ended);
            }
            _ => shown["status"] = json!("RUNNING"),
        }
        shown
    }

    fn base(&self) -> Value {
        let (user, token) = match self.user.split_once('!') {
            Some((user, token)) => (user, Some(token)),
            None => (self.user.as_str(), None),
        };
        let mut shown = json!({
            "upid": self.upid, "node": self.node, "pid": 0x1000 + self.number, "pstart": 0x10_0000 + self.number,
            "starttime": self.started_s, "type": self.kind, "id": self.vm.to_string(), "user": user,
        });
        if let Some(token) = token {
            shown["tokenid"] = json!(token);
        }
        shown
    }
}
