//! What a VM is doing, as anybody may ask at any time: it takes no lock, and changes nothing.

use crate::error::Error;
use crate::host::Vm;
use crate::process;
use crate::qmp::{QmpError, RunState};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// There is no such VM.
    Gone,
    /// It has no process.
    Stopped,
    Running {
        generation: u64,
    },
    /// It stands still: just started, or halted.
    Paused {
        generation: u64,
    },
    /// It has a process that does not answer now: it begins, ends, or saves its memory.
    Busy,
    /// It has a process, and can't go on any more.
    Broken {
        state: String,
    },
}

impl Vm {
    pub async fn status(&self) -> Result<Status, Error> {
        if !process::is_alive(self.directory())? {
            let there = self.machine()?.is_some();
            return Ok(if there { Status::Stopped } else { Status::Gone });
        }
        match self.ask_status().await {
            Ok(status) => Ok(status),
            Err(error) if error.is_passing() => Ok(Status::Busy),
            Err(error) => Err(error.into()),
        }
    }

    /// None but ours has a session with QEMU for long; while one has, this waits, and is then told that the VM is busy.
    async fn ask_status(&self) -> Result<Status, QmpError> {
        let mut qmp = self.qmp().await?;
        let generation = qmp.generation().await?.unwrap_or_default();
        Ok(match qmp.run_state().await? {
            RunState::Running => Status::Running { generation },
            RunState::Paused => Status::Paused { generation },
            RunState::Busy => Status::Busy,
            RunState::Broken(state) => Status::Broken { state },
        })
    }
}
