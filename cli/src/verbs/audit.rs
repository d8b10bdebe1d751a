//! `audit`: who did what to a runner, a claim or a pool, and why.

use motorpool_domain::{AuditEntry, Timestamp};

use crate::args::AuditArgs;
use crate::client::Client;
use crate::clock;
use crate::errors::Failure;
use crate::output::Report;
use crate::output::table::table;
use crate::output::words::ago;

pub(crate) async fn run(args: AuditArgs) -> Result<Report, Failure> {
    let AuditArgs { connect, subject } = args;
    let answer = Client::new(&connect)?.audit(&subject).await?;
    Ok(Report::of(answer, |page| {
        if page.entries.is_empty() {
            return format!("Nothing is known of {}. Entries are kept for 30 days.", page.subject);
        }
        // The server tells the newest first; in a terminal the last line is the one that is read first.
        let oldest_first: Vec<AuditEntry> = page.entries.iter().rev().cloned().collect();
        entries(&oldest_first, clock::now())
    }))
}

pub(super) fn entries(entries: &[AuditEntry], now: Timestamp) -> String {
    table(&[], entries.iter().map(|entry| row(entry, now)))
}

fn row(entry: &AuditEntry, now: Timestamp) -> Vec<String> {
    let AuditEntry { at, who, what, from, to, why } = entry;
    let change = match (from, to) {
        (Some(from), Some(to)) if from == to => what.clone(),
        (Some(from), Some(to)) => format!("{what} ({from} → {to})"),
        (None, Some(to)) => format!("{what} (→ {to})"),
        (Some(from), None) => format!("{what} ({from} →)"),
        (None, None) => what.clone(),
    };
    vec![ago(*at, now), who.to_string(), change, why.clone()]
}
