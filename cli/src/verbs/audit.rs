//! `audit`: who did what to a runner, a claim, a pool or a checkpoint, why, and how it came out.

use motorpool_domain::{AuditEntry, Timestamp};

use crate::args::AuditArgs;
use crate::client::Client;
use crate::clock;
use crate::errors::Failure;
use crate::output::Report;
use crate::output::table::table;
use crate::output::words::{ago, span_ms};

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
    let AuditEntry { at, who, what, from, to, why, result, duration_ms } = entry;
    let change = match (from, to) {
        (Some(from), Some(to)) if from == to => what.clone(),
        (Some(from), Some(to)) => format!("{what} ({from} → {to})"),
        (None, Some(to)) => format!("{what} (→ {to})"),
        (Some(from), None) => format!("{what} ({from} →)"),
        (None, None) => what.clone(),
    };
    let outcome = match (result, duration_ms) {
        (Some(result), Some(took)) => format!(" ({result} after {})", span_ms(*took)),
        (Some(result), None) => format!(" ({result})"),
        (None, Some(took)) => format!(" (after {})", span_ms(*took)),
        (None, None) => String::new(),
    };
    vec![ago(*at, now), who.to_string(), change, format!("{why}{outcome}")]
}

#[cfg(test)]
mod tests {
    use super::*;
    use motorpool_domain::{Actor, AuditResult};
    use std::time::Duration;

    #[test]
    fn what_can_fail_tells_how_it_came_out_and_how_long_it_took() {
        let entry = |why: &str| AuditEntry::of(Timestamp::from_millis(1_000), Actor::Control, "noted", why);
        let told = entries(
            &[
                entry("it is so"),
                entry("it is clean").came_out(AuditResult::Ok, Duration::from_millis(3_200)),
                entry("cleaning again").came_out(AuditResult::Error, Duration::from_secs(60)),
            ],
            Timestamp::from_millis(13_000),
        );
        assert_eq!(
            told,
            "12 s ago  control  noted  it is so\n\
             12 s ago  control  noted  it is clean (ok after 3.2 s)\n\
             12 s ago  control  noted  cleaning again (error after 1 min)"
        );
    }
}
