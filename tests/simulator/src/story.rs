//! The trace of a run, and the short story that is told of a failed one. A run that passes tells nothing, and costs nothing.

use super::verdict::Violation;
use std::fmt::Write as _;

#[derive(Debug, Default)]
pub(crate) struct Story {
    /// None: nobody listens.
    lines: Option<String>,
}

/// How much of a trace is told: what names the culprit, and what happened last.
const RELEVANT: usize = 45;
const LAST: usize = 15;
/// What happens all the time is left out, unless it is the last that happened.
const ROUTINE: [&str; 4] = ["begins: sync of", "ledger: heard", "ledger: look again", "begins: view"];

impl Story {
    pub(crate) fn listening() -> Self {
        Self { lines: Some(String::new()) }
    }

    pub(crate) fn tell(&mut self, now_ms: u64, who: impl FnOnce() -> String, what: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            let _never_fails = writeln!(lines, "{} {:<22} {}", time(now_ms), who(), what());
        }
    }

    pub(crate) fn into_trace(self) -> String {
        self.lines.unwrap_or_default()
    }
}

/// The violation first, then the lines that matter, then how to see it again.
pub(crate) fn short(violation: &Violation, trace: &str, replay: &str) -> String {
    let lines: Vec<&str> = trace.lines().collect();
    let tail = lines.len().saturating_sub(LAST);
    let mut relevant: Vec<&str> = lines
        .iter()
        .take(tail)
        .rev()
        .filter(|line| violation.about.iter().any(|subject| line.contains(subject.as_str())))
        .filter(|line| !ROUTINE.iter().any(|words| line.contains(words)))
        .take(RELEVANT)
        .copied()
        .collect();
    relevant.reverse();
    let mut story = format!("{violation}\n");
    for line in relevant {
        let _never_fails = writeln!(story, "  {line}");
    }
    let _never_fails = writeln!(story, "  … and last:");
    for line in lines.iter().skip(tail) {
        let _never_fails = writeln!(story, "  {line}");
    }
    let _never_fails = writeln!(story, "replay with: {replay}");
    story
}

fn time(now_ms: u64) -> String {
    let (minutes, seconds, millis) = (now_ms / 60_000, now_ms / 1_000 % 60, now_ms % 1_000);
    format!("{minutes:>3}:{seconds:02}.{millis:03}")
}
