//! Reads the audit log.

use crate::caller::Caller;
use crate::control::Control;
use crate::error::Refused;
use crate::store::Page;
use motorpool_domain::record::Key;
use motorpool_domain::{ClaimId, PoolName, RunnerId};
use motorpool_wire::api::AuditPage;

impl Control {
    /// `subject` is a claim's id (`c-…`), a runner's id, or `pool:NAME`.
    pub async fn audit(&self, caller: &Caller, subject: &str, page: Page) -> Result<AuditPage, Refused> {
        caller.must_be_operator("read the audit log")?;
        let parsed = match (subject.strip_prefix("pool:"), ClaimId::parse(subject)) {
            (Some(pool), _) => Key::from(&PoolName::parse(pool)?),
            (None, Ok(claim)) => Key::from(&claim),
            (None, Err(_)) => Key::from(&RunnerId::parse(subject)?),
        };
        let listed = self.store.audit(&parsed, page).await?;
        Ok(AuditPage { subject: subject.to_owned(), entries: listed.items, next: listed.next })
    }
}
