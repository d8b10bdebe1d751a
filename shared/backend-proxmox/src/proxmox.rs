//! The client: one cluster, one token. Each kind of call has a file of its own beside this one; here is what they share.

use serde::de::DeserializeOwned;

use crate::error::{Error, SetupError};
use crate::settings::{ProxmoxSettings, TokenId};
use crate::transport::{Call, Transport};
use crate::upid::Upid;

/// What changes a VM begins a task, and returns its id at once: that is no success. [`Proxmox::task`] says how it ended.
#[derive(Debug)]
pub struct Proxmox {
    transport: Transport,
}

impl Proxmox {
    pub fn new(settings: &ProxmoxSettings) -> Result<Self, SetupError> {
        Ok(Self { transport: Transport::new(settings)? })
    }

    /// Whose tasks are ours.
    pub fn token(&self) -> &TokenId {
        self.transport.token()
    }

    pub(crate) async fn read<T: DeserializeOwned>(&self, call: Call) -> Result<T, Error> {
        let attempted = call.attempted.clone();
        self.transport.ask(call).await?.read(&attempted)
    }

    pub(crate) async fn begin(&self, call: Call) -> Result<Upid, Error> {
        self.read(call).await
    }
}
