//! A rolling update: control planes and agents of this version, the one before and the one after work on one ledger. Records and messages of
//! each are kept in `tests/fixtures`; all go on, and nothing is rewritten with fields lost.

#[path = "rolling_update/agent_side.rs"]
mod agent_side;
#[path = "rolling_update/fixtures.rs"]
mod fixtures;
#[path = "rolling_update/forms.rs"]
mod forms;
#[path = "rolling_update/left_alone.rs"]
mod left_alone;
#[path = "rolling_update/messages.rs"]
mod messages;
#[path = "rolling_update/protocols.rs"]
mod protocols;
#[path = "rolling_update/records.rs"]
mod records;
#[path = "rolling_update/shared.rs"]
mod shared;
#[path = "rolling_update/two_versions.rs"]
mod two_versions;
