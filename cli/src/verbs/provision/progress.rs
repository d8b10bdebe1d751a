//! What is shown on stderr while somebody waits: one live line on a terminal, else a plain line whenever something changed.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use motorpool_wire::api::ClaimView;

use crate::clock::Stopwatch;
use crate::output::terminal;
use crate::output::words::span;

const TICK: Duration = Duration::from_millis(250);
/// Clears the line that the cursor is in.
const CLEAR: &str = "\r\x1b[2K";

pub(super) struct Progress {
    live: bool,
    said: Option<String>,
}

impl Progress {
    pub(super) fn start() -> Self {
        Self { live: std::io::stderr().is_terminal(), said: None }
    }

    pub(super) fn show(&mut self, claim: &ClaimView, elapsed: Duration) {
        let news = news(claim);
        if self.live {
            let line = format!("{}  {news}", span(elapsed));
            let width = usize::from(terminal::stderr_width().unwrap_or(80));
            tell(&format!("{CLEAR}{}", cut(&line, width.saturating_sub(1))));
        } else if self.said.as_ref() != Some(&news) {
            tell(&format!("claim {} is {news}\n", claim.claim));
            self.said = Some(news);
        }
    }

    /// Keeps the elapsed time moving. It does not return; whoever waits for something else drops it.
    pub(super) async fn keep_showing(&mut self, claim: &ClaimView, watch: Stopwatch) {
        if !self.live {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(TICK).await;
            self.show(claim, watch.elapsed());
        }
    }

    /// Something beside the claim's own news.
    pub(super) fn note(&mut self, text: &str) {
        if self.live {
            tell(&format!("{CLEAR}{text}"));
        } else if self.said.as_deref() != Some(text) {
            tell(&format!("{text}\n"));
            self.said = Some(text.to_owned());
        }
    }

    pub(super) fn end(&self) {
        if self.live {
            tell(CLEAR);
        }
    }
}

fn news(claim: &ClaimView) -> String {
    if claim.why.is_empty() { claim.state.clone() } else { format!("{}: {}", claim.state, claim.why) }
}

fn cut(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    line.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Nobody may be reading: then there is nobody to tell.
fn tell(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_line_stays_one_line() {
        assert_eq!(cut("0.4 s  it waits", 80), "0.4 s  it waits");
        assert_eq!(cut("0.4 s  it waits", 8), "0.4 s  …");
        assert_eq!(cut("äöü", 2), "ä…");
    }
}
