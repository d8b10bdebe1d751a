//! The hands of an operation: looks at the VM, does what is next, waits. It decides nothing but for how long.

use std::time::Duration;

use crate::driver_lock::Held;
use crate::error::Error;
use crate::generation::Generation;
use crate::host::Vm;
use crate::process;
use crate::qmp::{QmpError, RunState};
use crate::wait::{Deadline, Limits, pause};

use super::operation::{Goal, Operation};
use super::seen::{Process, Responds, Seen, Snapshot, ThisDriver};
use super::step::{Ask, Done, Failure, Next, Waiting};

/// But for a failure, the operation is where it is, and may be gone on with.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    #[error(transparent)]
    Failed(#[from] Failure),
    #[error(transparent)]
    Call(#[from] Error),
    #[error("not done within {} s: {waiting}", .within.as_secs())]
    NotInTime { within: Duration, waiting: Waiting },
}

impl Limits {
    fn of(&self, goal: Goal) -> Duration {
        match goal {
            Goal::Snapshot(_) => self.snapshot,
            Goal::Rollback(..) => self.rollback,
            Goal::Delete => self.delete,
        }
    }
}

impl Vm {
    /// To the operation's end. It may be given up, or killed, anywhere: the same operation again goes on from there.
    pub async fn drive(&self, operation: &Operation) -> Result<Done, DriveError> {
        let held = self.hold().await?;
        let mut driver = Driver {
            vm: self,
            held,
            operation,
            done: ThisDriver::default(),
            silence: Deadline::within(self.limits().silence),
        };
        driver.drive().await
    }

    /// Ours, running or not.
    pub async fn snapshots(&self) -> Result<Vec<Snapshot>, Error> {
        let held = self.hold().await?;
        let listed = if process::is_alive(self.directory())? {
            self.qmp().await?.snapshots().await?
        } else {
            self.image_snapshots(&held).await?
        };
        Ok(listed.into_iter().filter_map(Snapshot::read).collect())
    }
}

struct Driver<'a> {
    vm: &'a Vm,
    held: Held,
    operation: &'a Operation,
    done: ThisDriver,
    /// Since QEMU said something.
    silence: Deadline,
}

impl Driver<'_> {
    async fn drive(&mut self) -> Result<Done, DriveError> {
        let within = self.vm.limits().of(self.operation.goal);
        let mut deadline = Deadline::within(within);
        loop {
            let seen = self.look().await?;
            let next = self.operation.step(&seen);
            tracing::debug!(operation = %self.operation.id, vm = %self.vm.name(), ?next, "what is next");
            let late = deadline.passed().await;
            match next {
                Next::End(end) => return Ok(end?),
                Next::LookAgain(waiting) if late => return Err(DriveError::NotInTime { within, waiting }),
                Next::Ask(_) if late => {
                    return Err(DriveError::NotInTime { within, waiting: Waiting::ToGoOn });
                }
                Next::LookAgain(_) => pause().await,
                Next::Ask(ask) => self.ask(ask).await?,
            }
        }
    }

    async fn look(&mut self) -> Result<Seen, Error> {
        let generation = self.vm.generation()?;
        let this_driver = self.done;
        if self.vm.machine()?.is_none() {
            return Err(Error::Missing(self.vm.name().clone()));
        }
        if !process::is_alive(self.vm.directory())? {
            let snapshots = self.vm.image_snapshots(&self.held).await?;
            let snapshots = snapshots.into_iter().filter_map(Snapshot::read).collect();
            return Ok(Seen { process: None, generation, snapshots, jobs: Vec::new(), this_driver });
        }
        let (process, snapshots, jobs) = match self.look_inside().await {
            Ok(answers) => {
                self.silence = Deadline::within(self.vm.limits().silence);
                let Inside { generation, state, snapshots, jobs } = answers;
                (Process { generation, responds: Responds::With(state) }, snapshots, jobs)
            }
            Err(error) if error.is_passing() => {
                let responds = if self.silence.passed().await { Responds::Never } else { Responds::NotYet };
                (Process { generation: None, responds }, Vec::new(), Vec::new())
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Seen { process: Some(process), generation, snapshots, jobs, this_driver })
    }

    /// The jobs first: what one has done by its end shows in what is read after it.
    async fn look_inside(&self) -> Result<Inside, QmpError> {
        let mut qmp = self.vm.qmp().await?;
        let generation = qmp.generation().await?;
        let jobs = qmp.jobs().await?;
        let state: RunState = qmp.run_state().await?;
        let snapshots = qmp.snapshots().await?.into_iter().filter_map(Snapshot::read).collect();
        Ok(Inside { generation, state, snapshots, jobs })
    }

    async fn ask(&mut self, ask: Ask) -> Result<(), Error> {
        let Operation { id, snapshot, goal: _ } = self.operation;
        let (vm, held) = (self.vm, &self.held);
        match ask {
            Ask::CutOff => vm.cut_off(held).await,
            Ask::RestoreDisk => {
                vm.restore_image(held, snapshot).await?;
                self.done.restored_disk = true;
                Ok(())
            }
            Ask::Launch(entry) => {
                let generation: Generation = vm.launch(held, Some(id.clone()), entry).await?;
                tracing::info!(vm = %vm.name(), generation = generation.number, "the VM was taken back");
                self.done.launched = true;
                Ok(())
            }
            Ask::SaveImage => vm.take_image_snapshot(held, snapshot).await,
            Ask::DeleteInImage => vm.delete_image_snapshot(held, snapshot).await,
            Ask::GoOn | Ask::SaveMemory | Ask::SaveDisk | Ask::Delete | Ask::Dismiss(_) => {
                match self.ask_qemu(ask).await {
                    // Whether QEMU has heard it shows at the next look.
                    Err(error) if error.is_passing() => {
                        tracing::debug!(operation = %id, %error, "nobody knows whether QEMU has heard it");
                        Ok(())
                    }
                    asked => Ok(asked?),
                }
            }
        }
    }

    async fn ask_qemu(&self, ask: Ask) -> Result<(), QmpError> {
        let mut qmp = self.vm.qmp().await?;
        let (operation, name) = (self.operation, &self.operation.snapshot);
        match ask {
            Ask::GoOn => qmp.go_on().await,
            Ask::SaveMemory => qmp.save_snapshot(&operation.save_job(), name).await,
            Ask::SaveDisk => qmp.save_disk_snapshot(name).await,
            Ask::Delete => qmp.delete_snapshot(&operation.delete_job(), name).await,
            Ask::Dismiss(job) => qmp.dismiss(&job).await,
            // No orders to QEMU.
            Ask::CutOff | Ask::RestoreDisk | Ask::Launch(_) | Ask::SaveImage | Ask::DeleteInImage => Ok(()),
        }
    }
}

struct Inside {
    generation: Option<u64>,
    state: RunState,
    snapshots: Vec<Snapshot>,
    jobs: Vec<crate::qmp::Job>,
}
