//! A VM made, started, stopped and removed. Each verb may be repeated, and goes on where one that was killed has left off. Snapshots and rollbacks
//! are in `restore`.

use std::time::Duration;

use crate::directory::MACHINE;
use crate::driver_lock::Held;
use crate::error::{Error, file};
use crate::generation::{Entry, Generation};
use crate::host::Vm;
use crate::machine::{Acceleration, Machine};
use crate::process;
use crate::qmp::{Qmp, QmpError, RunState};
use crate::wait::{Deadline, pause};

impl Vm {
    /// The VM is there, stopped, with a disk of its own. One that is there already has to be the same.
    pub async fn make(&self, machine: &Machine) -> Result<(), Error> {
        self.directory().make()?;
        let held = self.hold().await?;
        // Emulation is what becomes of a machine that was to have the best there is, on a host without KVM.
        let comparable = |machine: &Machine| Machine { acceleration: Acceleration::Best, ..machine.clone() };
        match self.machine()? {
            Some(found) if comparable(&found) == comparable(machine) => return Ok(()),
            Some(_another) => return Err(Error::AnotherMachine(self.name().clone())),
            None => {}
        }
        // What is left of a VM that was not wholly made, or not wholly removed, is no part of this one.
        self.cut_off(&held).await?;
        self.make_overlay(&held, machine).await?;
        self.directory().write(MACHINE, machine)
    }

    /// The VM runs, and in which generation. One that runs already is left as it is.
    pub async fn start(&self) -> Result<Generation, Error> {
        let held = self.hold().await?;
        if !process::is_alive(self.directory())? {
            self.launch(&held, None, Entry::Boot).await?;
        }
        let mut qmp = self.qmp().await?;
        if qmp.run_state().await? != RunState::Running {
            qmp.go_on().await?;
        }
        self.generation()
    }

    /// The VM has no process any more. Its guest is asked first, and has `grace` to end; then it ends as by a power cut.
    pub async fn stop(&self, grace: Duration) -> Result<(), Error> {
        let held = self.hold().await?;
        if !grace.is_zero() && process::is_alive(self.directory())? && self.presses_power().await? {
            if self.ends_within(grace).await? {
                return Ok(());
            }
            tracing::info!(vm = %self.name(), "the guest does not end by itself");
        }
        self.cut_off(&held).await
    }

    /// Nothing is left of it.
    pub async fn remove(&self) -> Result<(), Error> {
        if !self.directory().path().exists() {
            return Ok(());
        }
        let held = self.hold().await?;
        self.cut_off(&held).await?;
        // A removal that is cut off leaves no VM.
        self.directory().forget(MACHINE)?;
        let path = self.directory().path();
        tokio::fs::remove_dir_all(path).await.map_err(file(path, "removed"))
    }

    /// At once: QEMU is told, and killed if it does not hear.
    pub(crate) async fn cut_off(&self, _held: &Held) -> Result<(), Error> {
        if !process::is_alive(self.directory())? {
            return Ok(());
        }
        Self::unless_it_ended(self.quit().await)?;
        if self.ends_within(self.limits().quit).await? {
            return Ok(());
        }
        tracing::warn!(vm = %self.name(), "QEMU does not end when told, and is killed");
        process::kill(self.directory())?;
        if self.ends_within(self.limits().quit).await? {
            return Ok(());
        }
        Err(Error::DoesNotEnd { vm: self.name().clone() })
    }

    /// Whether there is a guest that can hear it. One that stands still is not set going for that.
    async fn presses_power(&self) -> Result<bool, Error> {
        let pressed = async {
            let mut qmp = self.qmp().await?;
            let runs = qmp.run_state().await? == RunState::Running;
            if runs {
                qmp.press_power().await?;
            }
            Ok(runs)
        };
        match pressed.await {
            Err(error) if QmpError::is_passing(&error) => Ok(false),
            Err(error) => Err(error.into()),
            Ok(pressed) => Ok(pressed),
        }
    }

    async fn quit(&self) -> Result<(), QmpError> {
        Qmp::connect(self.directory(), self.limits().quit).await?.quit().await
    }

    /// A QEMU that ended before it answered was not refusing.
    fn unless_it_ended(told: Result<(), QmpError>) -> Result<(), Error> {
        match told {
            Err(error) if !error.is_passing() => Err(error.into()),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    async fn ends_within(&self, limit: Duration) -> Result<bool, Error> {
        let mut deadline = Deadline::within(limit);
        while process::is_alive(self.directory())? {
            if deadline.passed().await {
                return Ok(false);
            }
            pause().await;
        }
        Ok(true)
    }
}
