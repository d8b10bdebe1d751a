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
    /// What was shown last.
    news: String,
}

impl Progress {
    pub(super) fn start() -> Self {
        Self { live: std::io::stderr().is_terminal(), news: String::new() }
    }

    pub(super) fn claim(&mut self, claim: &ClaimView, elapsed: Duration) {
        let ClaimView { claim: id, state, why, .. } = claim;
        let why = if why.is_empty() { String::new() } else { format!(": {why}") };
        // A live line is short; who reads a log later wants to know which claim it was.
        self.show(
            if self.live { format!("{state}{why}") } else { format!("claim {id} is {state}{why}") },
            elapsed,
        );
    }

    /// Something beside the claim's own news.
    pub(super) fn note(&mut self, text: &str, elapsed: Duration) {
        self.show(text.to_owned(), elapsed);
    }

    /// Keeps the elapsed time moving. It does not return; whoever waits for something else drops it.
    pub(super) async fn keep_showing(&self, watch: Stopwatch) {
        if !self.live {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(TICK).await;
            self.redraw(watch.elapsed());
        }
    }

    pub(super) fn end(&self) {
        if self.live {
            tell(CLEAR);
        }
    }

    fn show(&mut self, news: String, elapsed: Duration) {
        let changed = self.news != news;
        self.news = news;
        if self.live {
            self.redraw(elapsed);
        } else if changed {
            tell(&format!("{}\n", self.news));
        }
    }

    fn redraw(&self, elapsed: Duration) {
        let line = format!("{}  {}", span(elapsed), self.news);
        let width = usize::from(terminal::stderr_width().unwrap_or(80));
        tell(&format!("{CLEAR}{}", cut(&line, width.saturating_sub(1))));
    }
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
