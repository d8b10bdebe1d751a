//! Who this serve tells of incidents, as the pools file says. It calls nobody.

use crate::errors::Failure;
use crate::pools_file::PoolsFile;
use motorpool_control::ports::alerts::AlertSender;
use std::sync::Arc;

pub(super) fn sender(file: &PoolsFile) -> Result<Option<Arc<dyn AlertSender>>, Failure> {
    let Some(settings) = &file.alerts else {
        tracing::info!("incidents are only logged: the pools file has no [alerts]");
        return Ok(None);
    };
    let sender = settings.sender().map_err(|error| {
        Failure::failed(error.to_string(), "correct [alerts] in the pools file, and start again")
    })?;
    Ok(Some(Arc::new(sender)))
}
