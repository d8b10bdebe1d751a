//! Tasks: how one of them stands, and which there are of a VM. Only its end says whether what was begun has been done.

use serde::Deserialize;

use crate::answer::number;
use crate::error::{Error, Problem};
use crate::explain;
use crate::ids::Vm;
use crate::proxmox::Proxmox;
use crate::transport::Call;
use crate::upid::Upid;

/// Of one VM: many more than any operation of ours begins.
const LISTED: usize = 50;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    pub upid: Upid,
    pub state: TaskState,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskState {
    Running,
    Ended(TaskEnd),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskEnd {
    Ok,
    /// It was done; its log says what was odd.
    Warnings(u64),
    Failed {
        exit_status: String,
    },
}

#[derive(Deserialize)]
struct Status {
    status: String,
    exitstatus: Option<String>,
}

#[derive(Deserialize)]
struct Entry {
    upid: String,
    status: Option<String>,
    #[serde(default, deserialize_with = "number")]
    endtime: Option<u64>,
}

impl Proxmox {
    /// Needs nothing for tasks of the same token, and Sys.Audit on the node for others.
    pub async fn task(&self, upid: &Upid) -> Result<TaskState, Error> {
        let segment: String = form_urlencoded::byte_serialize(upid.as_str().as_bytes()).collect();
        let path = format!("nodes/{}/tasks/{segment}/status", upid.node());
        let Status { status, exitstatus } =
            self.read(Call::get(path, format!("see how {upid} stands"))).await?;
        if status != "stopped" {
            return Ok(TaskState::Running);
        }
        // A worker that was killed leaves no status of its own.
        Ok(TaskState::Ended(TaskEnd::parse(exitstatus.as_deref().unwrap_or("unexpected status"))))
    }

    /// Those of a VM that still run and those that ended lately, the newest first; of others than this token's only with Sys.Audit on the
    /// node. The list may call a task running that has ended: [`Proxmox::task`] knows better.
    pub async fn tasks(&self, vm: &Vm) -> Result<Vec<Task>, Error> {
        self.listed(vm, "all").await
    }

    /// Those that still run, as far as the list knows.
    pub async fn running_tasks(&self, vm: &Vm) -> Result<Vec<Task>, Error> {
        self.listed(vm, "active").await
    }

    async fn listed(&self, vm: &Vm, source: &str) -> Result<Vec<Task>, Error> {
        let call = Call::get(format!("nodes/{}/tasks", vm.node), format!("list the tasks of {vm}"))
            .with("vmid", vm.id.to_string())
            .with("source", source)
            .with("limit", LISTED.to_string());
        let entries: Vec<Entry> = self.read(call).await?;
        let task = |entry: Entry| Some(Task { upid: entry.upid.parse().ok()?, state: entry.state() });
        let mut tasks: Vec<Task> = entries.into_iter().filter_map(task).collect();
        tasks.sort_by(|a, b| match (a.upid.began_before(&b.upid), b.upid.began_before(&a.upid)) {
            (true, _) => std::cmp::Ordering::Greater,
            (_, true) => std::cmp::Ordering::Less,
            (false, false) => std::cmp::Ordering::Equal,
        });
        Ok(tasks)
    }
}

impl Entry {
    fn state(&self) -> TaskState {
        match self.status.as_deref() {
            None | Some("" | "RUNNING") if self.endtime.is_none() => TaskState::Running,
            status => TaskState::Ended(TaskEnd::parse(status.unwrap_or("unexpected status"))),
        }
    }
}

impl TaskEnd {
    pub fn parse(exit_status: &str) -> Self {
        let warnings = exit_status.strip_prefix("WARNINGS: ").and_then(|count| count.trim().parse().ok());
        match (exit_status, warnings) {
            ("OK", _) => Self::Ok,
            (_, Some(count)) => Self::Warnings(count),
            (text, None) => {
                let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
                Self::Failed { exit_status: clean.take(500).collect::<String>().trim().to_owned() }
            }
        }
    }

    /// What a failure comes to; nothing for a task that has done what it was to do.
    pub fn problem(&self) -> Option<Problem> {
        match self {
            Self::Ok | Self::Warnings(_) => None,
            Self::Failed { exit_status } => Some(explain::exit_status(exit_status)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_and_warnings_are_done_and_all_else_has_failed() {
        assert_eq!(TaskEnd::parse("OK"), TaskEnd::Ok);
        assert_eq!(TaskEnd::parse("WARNINGS: 2"), TaskEnd::Warnings(2));
        for text in ["", "ok", "OKAY", "WARNINGS: many", "unexpected status", "VM is locked (backup)"] {
            assert!(TaskEnd::parse(text).problem().is_some(), "{text:?}");
        }
    }

    #[test]
    fn a_listed_task_without_an_end_is_running() {
        for (entry, running) in [
            (r#"{"upid":"x","status":"RUNNING"}"#, true),
            (r#"{"upid":"x"}"#, true),
            (r#"{"upid":"x","status":"OK","endtime":1732900000}"#, false),
            (r#"{"upid":"x","endtime":1732900000}"#, false),
            (r#"{"upid":"x","status":"unexpected status","endtime":"1732900000"}"#, false),
        ] {
            let entry: Entry = serde_json::from_str(entry).unwrap();
            assert_eq!(entry.state() == TaskState::Running, running);
        }
    }
}
