//! Log lines on stderr, for people or for programs. `RUST_LOG` says how much.

use crate::args::LogFormat;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

pub(super) fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let lines = lines.with_ansi(std::io::stderr().is_terminal());
    // A second start in one process (never in the command itself) keeps the first.
    let _ = match format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
}
