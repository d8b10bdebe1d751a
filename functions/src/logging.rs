//! Log lines as JSON on stderr, which Lambda keeps. The runtime's span gives each line of an invocation its request id, as
//! `spans[0].requestId`. `RUST_LOG` says how much, by targets and levels.

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

/// At its finer levels the runtime writes events and answers out, tokens and all: those levels stay closed.
const CLOSED: &str = "lambda_runtime=info,lambda_http=info,lambda_runtime_api_client=info,hyper=info,h2=info";

pub(crate) fn start() {
    let lines = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_current_span(false)
        .with_span_list(true)
        .with_writer(std::io::stderr)
        .with_ansi(false);
    let filter = filter(&std::env::var("RUST_LOG").unwrap_or_default());
    // A second start in one process keeps the first.
    let _ = tracing_subscriber::registry().with(lines.with_filter(filter)).try_init();
}

/// A filter by target and level. The one that knows fields as well is not used: making its patterns is a good part of a start. A wish
/// that can't be read is as good as none.
fn filter(wished: &str) -> Targets {
    let read = match wished {
        "" => format!("info,{CLOSED}").parse(),
        _ => format!("{wished},{CLOSED}").parse(),
    };
    read.unwrap_or_else(|_| Targets::new().with_default(LevelFilter::INFO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn more_is_told_where_it_is_wished_but_never_what_the_runtime_would_tell() {
        for (wished, info, debug) in [
            ("", true, false),
            ("debug", true, true),
            ("error,motorpool_control=debug", true, true),
            ("warn", false, false),
        ] {
            let filter = filter(wished);
            assert_eq!(filter.would_enable("motorpool_control", &Level::INFO), info, "{wished}");
            assert_eq!(filter.would_enable("motorpool_control", &Level::DEBUG), debug, "{wished}");
            assert!(!filter.would_enable("lambda_runtime::layers", &Level::DEBUG), "{wished}");
        }
        assert!(filter("no such = thing = at all").would_enable("motorpool_control", &Level::INFO));
    }
}
