//! Queue messages. Each is a hint: whoever gets one reloads the record before it acts.

use motorpool_domain::spec::Offer;
use motorpool_domain::{Epoch, RunnerId};
use serde::{Deserialize, Serialize};

/// "This runner is idle": enough to tell whether it fits, without reading its record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleNotice {
    pub runner: RunnerId,
    pub epoch: Epoch,
    pub offer: Offer,
}

/// "There is something to do about this runner that its agent does not do": its CI system is to be told, or its checkpoint has come further.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinalizeNotice {
    pub runner: RunnerId,
    pub epoch: Epoch,
}
