//! Reads the audit log.

use crate::caller::Caller;
use crate::control::Control;
use crate::error::Refused;
use crate::store::Page;
use motorpool_domain::record::Key;
use motorpool_domain::{CheckpointName, ClaimId, PoolName, RunnerId};
use motorpool_wire::api::AuditPage;

impl Control {
    /// `subject` is a claim's id (`c-…`), a runner's id, `pool:NAME` or `checkpoint:NAME`.
    pub async fn audit(&self, caller: &Caller, subject: &str, page: Page) -> Result<AuditPage, Refused> {
        caller.must_be_operator("read the audit log")?;
        let parsed = match subject.split_once(':') {
            Some(("pool", pool)) => Key::from(&PoolName::parse(pool)?),
            Some(("checkpoint", name)) => Key::from(&CheckpointName::parse(name)?),
            Some(_) | None => match ClaimId::parse(subject) {
                Ok(claim) => Key::from(&claim),
                Err(_) => Key::from(&RunnerId::parse(subject)?),
            },
        };
        let listed = self.store.audit(&parsed, page).await?;
        Ok(AuditPage { subject: subject.to_owned(), entries: listed.items, next: listed.next })
    }
}
