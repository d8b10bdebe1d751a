//! `refresh`: have the server look at everything that is due.

use motorpool_wire::api::RefreshReport;

use crate::args::RefreshArgs;
use crate::client::Client;
use crate::errors::Failure;
use crate::output::Report;
use crate::output::words::some;

pub(crate) async fn run(args: RefreshArgs) -> Result<Report, Failure> {
    let RefreshArgs { connect, sweep } = args;
    Ok(Report::of(Client::new(&connect)?.refresh(sweep).await?, in_words))
}

fn in_words(report: &RefreshReport) -> String {
    let RefreshReport { examined, reaped, announced, launched, swept, braked } = report;
    let mut text = format!(
        "{} examined, {} reaped, {} announced, {} launched{}",
        some(*examined, "record"),
        some(*reaped, "runner"),
        announced,
        launched,
        if *swept { "; swept" } else { "" }
    );
    if *braked {
        text.push_str(
            "\nthe brake is on: most heartbeats are missing at once, so nobody was reaped for silence; \
             look at the network between the runners and the server",
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_brake_is_not_overlooked() {
        let report =
            RefreshReport { examined: 1, reaped: 2, swept: true, braked: true, ..RefreshReport::default() };
        let text = in_words(&report);
        assert!(text.starts_with(
            "1 record examined, 2 runners reaped, 0 announced, 0 launched; swept\nthe brake is on"
        ));
    }
}
