//! Reads the audit log.

use crate::caller::Caller;
use crate::control::Control;
use crate::ports::ledger::{Page, Subject};
use crate::refused::Refused;
use motorpool_domain::{ClaimId, PoolName, RunnerId};
use motorpool_wire::api::AuditPage;

impl Control {
    /// `subject` is a claim's id (`c-…`), a runner's id, or `pool:NAME`.
    pub async fn audit(&self, caller: &Caller, subject: &str, page: Page) -> Result<AuditPage, Refused> {
        caller.must_be_operator("read the audit log")?;
        let parsed = match (subject.strip_prefix("pool:"), ClaimId::parse(subject)) {
            (Some(pool), _) => Subject::Pool(PoolName::parse(pool)?),
            (None, Ok(claim)) => Subject::Claim(claim),
            (None, Err(_)) => Subject::Runner(RunnerId::parse(subject)?),
        };
        let listed = self.ledger.audit(&parsed, page).await?;
        Ok(AuditPage { subject: subject.to_owned(), entries: listed.items, next: listed.next })
    }
}
