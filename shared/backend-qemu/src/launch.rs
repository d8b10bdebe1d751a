//! A VM's QEMU is started, and answers. Whoever starts it may be killed anywhere: the process goes on, and is found by its lock.

use std::process::{ExitStatus, Stdio};

use tokio::process::{Child, Command};

use crate::accelerator::kvm_works;
use crate::command_line::{self, arguments};
use crate::directory::{CONSOLE_LOG, MACHINE, PID, QEMU_LOG, QMP_SOCKET, SERIAL_SOCKET};
use crate::driver_lock::Held;
use crate::error::{Error, file};
use crate::generation::{Entry, Generation};
use crate::host::Vm;
use crate::machine::{Acceleration, Machine};
use crate::names::OperationId;
use crate::process;
use crate::wait::{Deadline, pause};

impl Vm {
    /// A new generation, standing still: it is there, with the snapshot loaded if there is one to load, and waits to be told to go on.
    pub(crate) async fn launch(
        &self,
        _held: &Held,
        by: Option<OperationId>,
        entry: Entry,
    ) -> Result<Generation, Error> {
        let machine = self.machine()?.ok_or_else(|| Error::Missing(self.name().clone()))?;
        let kvm = self.kvm(machine.clone(), &entry).await?;
        let directory = self.directory();
        let Some(lock) = process::lock_for_a_new_one(directory).await? else {
            return Err(Error::Runs(self.name().clone()));
        };
        for left_over in [PID, QMP_SOCKET, SERIAL_SOCKET] {
            directory.forget(left_over)?;
        }
        let generation = Generation::begin(directory, by, entry)?;
        let load = match &generation.entry {
            Entry::Boot => None,
            Entry::Load(snapshot) => Some(snapshot.clone()),
        };
        let launch = command_line::Launch { generation: generation.number, load, kvm };
        let mut command = Command::new(&self.programs().setsid);
        command.arg(&self.programs().qemu).args(arguments(&machine, self.name(), &launch));
        // This process's environment holds secrets of ours, and QEMU's may be read by whoever reads its command line.
        command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command.current_dir(directory.path());
        let stderr = directory.open(QEMU_LOG, true)?;
        command.stdin(Stdio::from(lock)).stdout(Stdio::null()).stderr(Stdio::from(stderr));
        let child = command.spawn().map_err(|source| Error::Program {
            program: self.programs().setsid.display().to_string(),
            source,
        })?;
        // With it goes this process's part of the lock.
        drop(command);
        tracing::info!(vm = %self.name(), generation = generation.number, kvm, "QEMU was started");
        self.answers(child).await?;
        for made_by_qemu in [QMP_SOCKET, SERIAL_SOCKET, CONSOLE_LOG] {
            directory.close_file(made_by_qemu)?;
        }
        Ok(generation)
    }

    /// Its first answer: what it was to load is loaded.
    async fn answers(&self, mut child: Child) -> Result<(), Error> {
        let within = self.limits().launch;
        let mut deadline = Deadline::within(within);
        loop {
            if let Some(status) = child.try_wait().map_err(file(&self.directory().file(PID), "waited for"))? {
                return Err(self.ended(status));
            }
            if self.qmp().await.is_ok() {
                tokio::spawn(collect(self.clone(), child));
                return Ok(());
            }
            if deadline.passed().await {
                tokio::spawn(collect(self.clone(), child));
                return Err(Error::Silent { within });
            }
            pause().await;
        }
    }

    fn ended(&self, status: ExitStatus) -> Error {
        Error::Ended { status: status.to_string(), said: self.directory().last_words() }
    }

    /// Whether this start is under KVM. A machine that was made without it stays so, and one that loses it does for good: a snapshot's memory is
    /// of one or the other.
    async fn kvm(&self, machine: Machine, entry: &Entry) -> Result<bool, Error> {
        match machine.acceleration {
            Acceleration::Emulation => return Ok(false),
            Acceleration::Best if kvm_works(&self.programs().qemu, self.limits()).await => return Ok(true),
            Acceleration::Best => {}
        }
        if let Entry::Load(snapshot) = entry {
            return Err(Error::NoKvm { snapshot: snapshot.to_string() });
        }
        let machine = Machine { acceleration: Acceleration::Emulation, ..machine };
        self.directory().write(MACHINE, &machine)?;
        tracing::info!(vm = %self.name(), "there is no KVM that works: the VM is emulated from now on");
        Ok(false)
    }
}

/// So that it stays no zombie when it ends.
async fn collect(vm: Vm, mut child: Child) {
    match child.wait().await {
        Ok(status) => tracing::info!(vm = %vm.name(), %status, "QEMU ended"),
        Err(error) => tracing::warn!(vm = %vm.name(), %error, "QEMU could not be waited for"),
    }
}
