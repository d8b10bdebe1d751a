//! The server: is it there, of which version, ready, and on time; and does the token open it.

use std::time::Duration;

use jiff::fmt::rfc2822;
use motorpool_domain::Timestamp;
use motorpool_domain::text::visible;
use motorpool_wire::error::ErrorEnvelope;
use serde_json::Value;

use super::Check;
use crate::client::{Client, TokenSource};
use crate::clock;
use crate::errors::Failure;
use crate::output::words::span;

const OURS: &str = env!("CARGO_PKG_VERSION");
/// The header has whole seconds, and the answer takes its time.
const TOLERATED: Duration = Duration::from_secs(5);

pub(super) struct ServerFindings {
    pub(super) checks: Vec<Check>,
    /// The server is there, and the token opens it.
    pub(super) open: bool,
}

/// Whether there must be a server, or it is looked at only if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Required,
    Optional,
}

pub(super) async fn look(client: &Client, presence: Presence) -> ServerFindings {
    let health = match client.plain("health").await {
        Ok(health) => health,
        Err(failure) => {
            let check = match presence {
                Presence::Required => Check::failed(&failure),
                Presence::Optional => Check::warn(
                    format!("no server was looked at: {}", failure.message),
                    "once `motorpool serve` runs, look again; another address goes with --server",
                ),
            };
            return ServerFindings { checks: vec![check], open: false };
        }
    };
    if !health.status.is_success() {
        let check = Check::fail(
            format!("{} answered {} to /health", client.server(), health.status),
            "is it motorpool's address, or that of something else?",
        );
        return ServerFindings { checks: vec![check], open: false };
    }
    let mut checks = vec![Check::ok(format!("{} is reachable", client.server()))];
    if !client.encrypted() && !client.here() {
        checks.push(Check::warn(
            "the connection is not encrypted: tokens can be read on the way",
            "give serve --tls-cert and --tls-key, or put a TLS proxy before it, and use https://",
        ));
    }
    if let Some(date) = &health.date {
        checks.extend(on_time(date, clock::now()));
    }
    checks.push(version(client).await);
    checks.push(ready(client).await);
    let (check, open) = token(client).await;
    checks.push(check);
    ServerFindings { checks, open }
}

/// No check, if the header can't be read.
fn on_time(date: &str, now: Timestamp) -> Option<Check> {
    let server = rfc2822::parse(date).ok()?.timestamp().as_millisecond();
    let server = Timestamp::from_millis(u64::try_from(server).ok()?);
    let apart = now.since(server).max(server.since(now));
    if apart <= TOLERATED {
        return Some(Check::ok("the clocks of the server and of this host agree"));
    }
    Some(Check::warn(
        format!("the clocks of the server and of this host are {} apart", span(apart)),
        "set them by NTP; only what is shown as \"… ago\" suffers, deadlines are the server's own",
    ))
}

async fn version(client: &Client) -> Check {
    let theirs = match client.plain("api/v1/openapi.json").await {
        Ok(answer) => serde_json::from_str(&answer.body)
            .ok()
            .and_then(|document: Value| document.pointer("/info/version")?.as_str().map(visible)),
        Err(failure) => return Check::failed(&failure),
    };
    match theirs {
        Some(theirs) if theirs == OURS => Check::ok(format!("server and command are of version {OURS}")),
        Some(theirs) => Check::warn(
            format!("the server is of version {theirs}, this command of {OURS}"),
            "use the command that came with the server",
        ),
        None => Check::warn("the server does not say its version", "is it motorpool's address?"),
    }
}

async fn ready(client: &Client) -> Check {
    match client.plain("ready").await {
        Ok(answer) if answer.status.is_success() => Check::ok("it is ready for work"),
        Ok(answer) => match serde_json::from_str(&answer.body) {
            Ok(ErrorEnvelope { error }) => {
                let Failure { message, hint, .. } = Failure::from(error);
                Check::fail(format!("it is not ready: {message}"), hint)
            }
            Err(_) => Check::fail(format!("it is not ready: {}", answer.status), "look at the server's log"),
        },
        Err(failure) => Check::failed(&failure),
    }
}

/// A route that only an operator may use, and that changes nothing, tells the operator from a team.
async fn token(client: &Client) -> (Check, bool) {
    let source = client.token_source();
    if let Err(failure) = client.pools().await {
        let check = match source {
            TokenSource::None => Check::fail("there is no token", failure.hint),
            TokenSource::File(_) | TokenSource::Environment(_) => {
                Check::fail(format!("the token from {source} does not do: {}", failure.message), failure.hint)
            }
        };
        return (check, false);
    }
    let check = match client.audit("pool:doctor").await {
        Err(failure) if failure.is_forbidden() => Check::ok(format!(
            "the token from {source} is a team's: it may provision, claim, release, and see pools and its own claims"
        )),
        Err(failure) => Check::failed(&failure),
        Ok(_) => Check::ok(format!("the token from {source} is the operator's: it may do everything")),
    };
    (check, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::ConnectArgs;
    use crate::doctor::Verdict;

    #[tokio::test]
    async fn a_server_that_nobody_asked_for_need_not_be_there() {
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let server = Some(format!("http://{nobody}"));
        let args =
            ConnectArgs { server, token_file: None, ca_file: None, data_dir: None, insecure_http: false };
        let client = Client::new(&args).unwrap();
        for (presence, verdict) in [(Presence::Required, Verdict::Fail), (Presence::Optional, Verdict::Warn)]
        {
            let ServerFindings { checks, open } = look(&client, presence).await;
            assert!(checks.len() == 1 && !open, "{checks:?}");
            assert_eq!(checks[0].verdict, verdict);
            assert!(checks[0].what.contains(&format!("cannot reach http://{nobody}")), "{checks:?}");
            assert!(!checks[0].hint.is_empty(), "{checks:?}");
        }
    }

    #[test]
    fn clocks_apart_are_noticed_either_way() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let at = |seconds: u64| Timestamp::from_millis((784_111_777 + seconds) * 1_000);
        assert_eq!(on_time(date, at(2)).unwrap().verdict, Verdict::Ok);
        assert_eq!(on_time(date, at(60)).unwrap().verdict, Verdict::Warn);
        assert_eq!(on_time("Sun, 06 Nov 1994 08:50:37 GMT", at(0)).unwrap().verdict, Verdict::Warn);
        assert_eq!(on_time("yesterday", at(0)), None);
    }
}
