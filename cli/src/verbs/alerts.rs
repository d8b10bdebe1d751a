//! `alerts`: the incidents that are open, and on demand those that are over.

use motorpool_wire::api::{AlertView, AlertsPage};

use crate::args::AlertsArgs;
use crate::client::Client;
use crate::errors::Failure;
use crate::output::Report;
use crate::output::table::table;
use crate::output::words::span_ms;

pub(crate) async fn run(args: AlertsArgs) -> Result<Report, Failure> {
    let AlertsArgs { connect, all } = args;
    Ok(Report::of(Client::new(&connect)?.alerts(all).await?, |page| in_words(page, all)))
}

fn in_words(page: &AlertsPage, all: bool) -> String {
    let AlertsPage { sent, alerts, next: _ } = page;
    let mut text = match (alerts.is_empty(), all) {
        (true, false) => "No incident is open.".to_owned(),
        (true, true) => "No incident is open, and none was in the last 30 days.".to_owned(),
        (false, _) => table(&["STATE", "OPENED", "OVER", "TOLD", "INCIDENT", "WHAT"], alerts.iter().map(row)),
    };
    if !sent {
        text.push_str("\nNobody is told: [alerts] in the pools file of `motorpool serve` names who is.");
    }
    text
}

fn row(alert: &AlertView) -> Vec<String> {
    let AlertView {
        incident,
        subject: _,
        state,
        text,
        details,
        opened_ms_ago,
        over_ms_ago,
        raised: _,
        told,
        attempts,
    } = alert;
    let ago = |millis: u64| format!("{} ago", span_ms(millis));
    let told = if *attempts > 0 { format!("{told}, tried {attempts} times since") } else { told.clone() };
    let what = if details.is_empty() { text.clone() } else { format!("{text} ({details})") };
    let over = over_ms_ago.map_or_else(|| "-".to_owned(), ago);
    vec![state.clone(), ago(*opened_ms_ago), over, told, incident.clone(), what]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alert() -> AlertView {
        AlertView {
            incident: "runner_quarantined".to_owned(),
            subject: Some("m-1".to_owned()),
            state: "open".to_owned(),
            text: "runner m-1 is quarantined: a person must look".to_owned(),
            details: "its cleanup failed".to_owned(),
            opened_ms_ago: 65_000,
            over_ms_ago: None,
            raised: 1,
            told: "nothing".to_owned(),
            attempts: 2,
        }
    }

    #[test]
    fn an_incident_is_one_line() {
        let over = AlertView {
            state: "over".to_owned(),
            text: "runner m-1 is no longer quarantined".to_owned(),
            over_ms_ago: Some(5_000),
            told: "over".to_owned(),
            attempts: 0,
            ..alert()
        };
        let page = AlertsPage { sent: true, alerts: vec![alert(), over], next: None };
        assert_eq!(
            in_words(&page, true),
            "STATE  OPENED         OVER       TOLD                          INCIDENT            WHAT\n\
             open   1 min 5 s ago  -          nothing, tried 2 times since  runner_quarantined  runner m-1 is quarantined: a person must look (its cleanup failed)\n\
             over   1 min 5 s ago  5.0 s ago  over                          runner_quarantined  runner m-1 is no longer quarantined (its cleanup failed)"
        );
    }

    #[test]
    fn where_nobody_is_told_that_is_said() {
        let page = AlertsPage { sent: false, alerts: Vec::new(), next: None };
        let text = in_words(&page, false);
        assert!(text.starts_with("No incident is open.\nNobody is told"), "{text}");
    }
}
