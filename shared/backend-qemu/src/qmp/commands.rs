//! The commands that we use, by what they are for, and their answers as far as we read them.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::command_line::{DISK, generation_of};
use crate::names::SnapshotName;

use super::session::{Qmp, QmpError};

/// What a QEMU does with its VM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunState {
    Running,
    /// It stands still, and may be told to go on: after a start, a load, or an order.
    Paused,
    /// A snapshot is being saved or loaded.
    Busy,
    /// It can't go on any more, and how QEMU calls that.
    Broken(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub id: String,
    pub state: JobState,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobState {
    Active,
    Done,
    Failed(String),
}

/// As a running QEMU or `qemu-img` lists it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct BlockSnapshot {
    pub name: String,
    /// Zero: it has the disk alone.
    #[serde(rename = "vm-state-size")]
    pub memory_bytes: u64,
}

impl RunState {
    fn parse(status: &str) -> Self {
        match status {
            "running" => Self::Running,
            // A QEMU that has loaded a snapshot and was not told to run it calls itself `prelaunch` up to 9, and `paused` after.
            "paused" | "prelaunch" | "suspended" => Self::Paused,
            "save-vm" | "restore-vm" | "inmigrate" | "finish-migrate" => Self::Busy,
            other => Self::Broken(other.to_owned()),
        }
    }
}

impl Qmp {
    pub async fn run_state(&mut self) -> Result<RunState, QmpError> {
        #[derive(Deserialize)]
        struct Status {
            status: String,
        }
        let Status { status } = self.read_answer("query-status").await?;
        Ok(RunState::parse(&status))
    }

    /// Of the VM, as the process was started for it. None: it is none of ours.
    pub async fn generation(&mut self) -> Result<Option<u64>, QmpError> {
        Ok(generation_of(&self.process_name().await?))
    }

    async fn process_name(&mut self) -> Result<String, QmpError> {
        #[derive(Deserialize)]
        struct Name {
            #[serde(default)]
            name: String,
        }
        let Name { name } = self.read_answer("query-name").await?;
        Ok(name)
    }

    /// What the guest's kernel is told, by which it knows that it was taken back.
    pub async fn generation_guid(&mut self) -> Result<String, QmpError> {
        #[derive(Deserialize)]
        struct Guid {
            guid: String,
        }
        let Guid { guid } = self.read_answer("query-vm-generation-id").await?;
        Ok(guid)
    }

    pub async fn jobs(&mut self) -> Result<Vec<Job>, QmpError> {
        let jobs: Vec<JobInfo> = self.read_answer("query-jobs").await?;
        Ok(jobs.into_iter().map(JobInfo::read).collect())
    }

    /// Of the VM's disk.
    pub async fn snapshots(&mut self) -> Result<Vec<BlockSnapshot>, QmpError> {
        #[derive(Deserialize)]
        struct Device {
            inserted: Option<Inserted>,
        }
        #[derive(Deserialize)]
        struct Inserted {
            #[serde(rename = "node-name")]
            node: Option<String>,
            image: Image,
        }
        #[derive(Deserialize)]
        struct Image {
            #[serde(default)]
            snapshots: Vec<BlockSnapshot>,
        }
        let devices: Vec<Device> = self.read_answer("query-block").await?;
        let disk = devices
            .into_iter()
            .filter_map(|device| device.inserted)
            .find(|inserted| inserted.node.as_deref() == Some(DISK));
        Ok(disk.map(|disk| disk.image.snapshots).unwrap_or_default())
    }

    /// Disk and memory. The VM stands still meanwhile, and then goes on by itself. It is done when the job says so.
    pub async fn save_snapshot(&mut self, job: &str, snapshot: &SnapshotName) -> Result<(), QmpError> {
        let arguments = json!({"job-id": job, "tag": snapshot.as_str(), "vmstate": DISK, "devices": [DISK]});
        self.order("snapshot-save", arguments).await
    }

    pub async fn delete_snapshot(&mut self, job: &str, snapshot: &SnapshotName) -> Result<(), QmpError> {
        let arguments = json!({"job-id": job, "tag": snapshot.as_str(), "devices": [DISK]});
        self.order("snapshot-delete", arguments).await
    }

    /// The disk alone, as after a power cut at this moment. It is done when this returns.
    pub async fn save_disk_snapshot(&mut self, snapshot: &SnapshotName) -> Result<(), QmpError> {
        let arguments = json!({"device": DISK, "name": snapshot.as_str()});
        self.order("blockdev-snapshot-internal-sync", arguments).await
    }

    /// Of a job that has ended: QEMU forgets it.
    pub async fn dismiss(&mut self, job: &str) -> Result<(), QmpError> {
        self.order("job-dismiss", json!({"id": job})).await
    }

    pub async fn go_on(&mut self) -> Result<(), QmpError> {
        self.order("cont", json!({})).await
    }

    pub async fn stand_still(&mut self) -> Result<(), QmpError> {
        self.order("stop", json!({})).await
    }

    /// As its power button: the guest may do what it likes.
    pub async fn press_power(&mut self) -> Result<(), QmpError> {
        self.order("system_powerdown", json!({})).await
    }

    /// The process ends at once, whatever its guest does; what it has acknowledged to the guest as written is written.
    pub async fn quit(&mut self) -> Result<(), QmpError> {
        self.order("quit", json!({})).await
    }

    async fn order(&mut self, command: &'static str, arguments: Value) -> Result<(), QmpError> {
        self.ask(command, arguments).await.map(|_empty| ())
    }

    async fn read_answer<T: for<'a> Deserialize<'a>>(&mut self, asked: &'static str) -> Result<T, QmpError> {
        let answer = self.ask(asked, json!({})).await?;
        serde_json::from_value(answer).map_err(|source| QmpError::NotUnderstood { asked, source })
    }
}

#[derive(Deserialize)]
struct JobInfo {
    id: String,
    status: String,
    error: Option<String>,
}

impl JobInfo {
    fn read(self) -> Job {
        let Self { id, status, error } = self;
        let state = match (status.as_str(), error) {
            ("concluded", None) => JobState::Done,
            ("concluded", Some(error)) => JobState::Failed(error),
            (_, _) => JobState::Active,
        };
        Job { id, state }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_states() {
        for (status, expected) in [
            ("running", RunState::Running),
            ("prelaunch", RunState::Paused),
            ("paused", RunState::Paused),
            ("save-vm", RunState::Busy),
            ("restore-vm", RunState::Busy),
            ("io-error", RunState::Broken("io-error".into())),
            ("guest-panicked", RunState::Broken("guest-panicked".into())),
        ] {
            assert_eq!(RunState::parse(status), expected);
        }
    }

    #[test]
    fn a_job_is_final_only_when_it_is_concluded() {
        for (status, error, expected) in [
            ("created", None, JobState::Active),
            ("running", None, JobState::Active),
            ("pending", None, JobState::Active),
            ("aborting", Some("no".to_owned()), JobState::Active),
            ("concluded", None, JobState::Done),
            ("concluded", Some("no".to_owned()), JobState::Failed("no".into())),
        ] {
            let job = JobInfo { id: "a".into(), status: status.into(), error };
            assert_eq!(job.read().state, expected, "{status}");
        }
    }
}
