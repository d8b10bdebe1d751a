//! What may stand behind the API instead of the model: real machines. The model goes on to keep the configuration, the list of snapshots,
//! locks and tasks; a task ends when its machine is done with it.

use async_trait::async_trait;

use crate::actions::Action;

#[async_trait]
pub trait Machines: std::fmt::Debug + Send + Sync {
    /// An error becomes the task's exit status.
    async fn perform(&self, vm: u32, action: &Action) -> Result<(), String>;

    /// Whether it runs at this moment, if that is known: a guest may have switched itself off.
    fn runs(&self, vm: u32) -> Option<bool>;
}
