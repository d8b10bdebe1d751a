//! A VM is switched on and off. Off is at once, as a plug is pulled: what the machine was doing is to be thrown away, or was ended by its
//! agent before.

use crate::error::Error;
use crate::ids::Vm;
use crate::proxmox::Proxmox;
use crate::transport::Call;
use crate::upid::Upid;

impl Proxmox {
    /// Where the VM is under high availability, the task ends before the VM runs. Needs VM.PowerMgmt.
    pub async fn start(&self, vm: &Vm) -> Result<Upid, Error> {
        self.begin(Call::post(vm.path("status/start"), format!("start {vm}"))).await
    }

    /// A VM that does not run is stopped already. Under high availability, as with the start. Needs VM.PowerMgmt.
    pub async fn stop(&self, vm: &Vm) -> Result<Upid, Error> {
        self.begin(Call::post(vm.path("status/stop"), format!("stop {vm}"))).await
    }
}
