//! How records, keys and log entries are called inside the ledger, the same for every adapter. It stores nothing.

use motorpool_control::ports::ledger::Subject;
use motorpool_domain::claim::{Claim, ClaimKey};
use motorpool_domain::ladder::Lacking;
use motorpool_domain::runner::Runner;
use motorpool_domain::{AuditEntry, ClaimId, Owner, PoolName, RunnerId, Timestamp, Workflow};

pub(crate) const RUNNER: &str = "runner#";
pub(crate) const CLAIM: &str = "claim#";
/// What every key of a log entry begins with.
pub(crate) const LOG: &str = "log#";

/// What every key of a shortage begins with, beside its pool.
pub(crate) const SHORTAGE: &str = "shortage#";

pub(crate) fn shortage_sk(of: &Lacking) -> String {
    format!("{SHORTAGE}{}", of.key())
}

pub(crate) fn runner_pk(id: &RunnerId) -> String {
    format!("{RUNNER}{id}")
}

pub(crate) fn claim_pk(id: &ClaimId) -> String {
    format!("{CLAIM}{id}")
}

pub(crate) fn pool_pk(name: &PoolName) -> String {
    format!("pool#{name}")
}

/// No part of a name contains '#', so no two workflows share this.
pub(crate) fn workflow_pk(owner: &Owner, workflow: &Workflow) -> String {
    format!("workflow#{owner}#{workflow}")
}

pub(crate) fn claim_key_sk(key: &ClaimKey) -> String {
    format!("pool#{}", key.pool)
}

pub(crate) fn subject_pk(subject: &Subject) -> String {
    match subject {
        Subject::Runner(id) => runner_pk(id),
        Subject::Claim(id) => claim_pk(id),
        Subject::Pool(name) => pool_pk(name),
    }
}

/// The log entry of the write that made `runner` what it is.
pub(crate) fn runner_log_sk(runner: &Runner, entry: &AuditEntry) -> String {
    format!("{LOG}{}#{:010}.{:010}", padded(entry.at), runner.epoch.0, runner.rev)
}

/// The log entry of the write that made `claim` what it is.
pub(crate) fn claim_log_sk(claim: &Claim, entry: &AuditEntry) -> String {
    format!("{LOG}{}#{:010}", padded(entry.at), claim.rev)
}

/// An entry of no write is known by what it says: noted twice, by a retry, it is there once.
pub(crate) fn note_log_sk(entry: &AuditEntry) -> String {
    let AuditEntry { at, who, what, from, to, why } = entry;
    let said = format!("{who:?}\n{what:?}\n{from:?}\n{to:?}\n{why:?}");
    format!("{LOG}{}#note-{:016x}", padded(*at), stable_hash(&said))
}

/// Sorts as text in the order of time.
pub(crate) fn padded(at: Timestamp) -> String {
    format!("{:015}", at.as_millis())
}

/// FNV-1a: the same on every machine and in every version, unlike the standard library's.
pub(crate) fn stable_hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
