//! Whether people are told of incidents, and whether there are any. Only the operator may see them; to a team nothing is said.

use motorpool_wire::api::AlertsPage;

use super::Check;
use crate::client::Client;
use crate::output::words::some;

pub(super) async fn look(client: &Client) -> Vec<Check> {
    match client.alerts(false).await {
        Ok(answer) => checks(&answer.value),
        Err(failure) if failure.is_forbidden() => Vec::new(),
        Err(failure) => vec![Check::failed(&failure)],
    }
}

fn checks(page: &AlertsPage) -> Vec<Check> {
    let AlertsPage { sent, alerts, next: _ } = page;
    let told = match sent {
        true => Check::ok("people are told of incidents"),
        false => only_logged(),
    };
    let open = u64::try_from(alerts.len()).unwrap_or(u64::MAX);
    let untold = alerts.iter().filter(|alert| alert.attempts > 0).count();
    let mut checks = vec![told];
    if open > 0 {
        let what = format!("{} open", some(open, "incident"));
        checks.push(Check::warn(what, "`motorpool alerts` lists them"));
    }
    if untold > 0 {
        checks.push(Check::warn(
            "the receiver of alerts does not take them",
            "`motorpool alerts` says how often it was tried, and the server's log why it failed",
        ));
    }
    checks
}

pub(super) fn only_logged() -> Check {
    Check::warn(
        "incidents are only logged: nobody is told",
        "name who is, in [alerts] of the pools file; the README shows how",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn it_is_said_when_nobody_is_told() {
        let page = AlertsPage { sent: false, alerts: Vec::new(), next: None };
        let [check] = checks(&page).try_into().unwrap();
        assert_eq!(
            (check.verdict, check.what.as_str()),
            (Verdict::Warn, "incidents are only logged: nobody is told")
        );
        let page = AlertsPage { sent: true, ..page };
        let [check] = checks(&page).try_into().unwrap();
        assert_eq!(check.verdict, Verdict::Ok);
    }
}
