//! `doctor`: looks at the server, the token, the pools and the data directory, and says what to do. It changes nothing.

mod alerts;
mod file;
mod host;
mod local_jobs;
mod pools;
mod server;

use std::path::Path;

use serde::Serialize;
use serde_json::json;

use crate::args::{ConnectArgs, DoctorArgs};
use crate::client::{Client, data_dir};
use crate::errors::Failure;
use crate::output::Report;
use crate::output::style::{self, Style};
use server::{Presence, ServerFindings};

pub(crate) async fn run(args: DoctorArgs) -> Result<Report, Failure> {
    let DoctorArgs { connect, pools } = args;
    let client = Client::new(&connect)?;
    let mut checks = match data_dir(&connect, client.here()) {
        Some(dir) => host::look(&dir),
        None => Vec::new(),
    };
    checks.extend(pools.iter().flat_map(|file| file::look(file)));
    let presence = presence(pools.as_deref(), &connect);
    let ServerFindings { checks: of_server, open } = server::look(&client, presence).await;
    checks.extend(of_server);
    if open {
        checks.extend(pools::look(&client).await);
        checks.extend(alerts::look(&client).await);
    }
    Ok(told(&checks, client.server()))
}

/// A file may be looked at before there is a server for it. Whoever says how to reach a server has one.
fn presence(pools: Option<&Path>, connect: &ConnectArgs) -> Presence {
    let ConnectArgs { server, token_file, ca_file, data_dir, insecure_http: _ } = connect;
    let is_named = server.is_some() || token_file.is_some() || ca_file.is_some() || data_dir.is_some();
    if pools.is_some() && !is_named { Presence::Optional } else { Presence::Required }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Ok,
    Warn,
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Check {
    verdict: Verdict,
    what: String,
    /// What to do; empty if there is nothing.
    hint: String,
}

impl Check {
    fn ok(what: impl Into<String>) -> Self {
        Self { verdict: Verdict::Ok, what: what.into(), hint: String::new() }
    }

    fn warn(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { verdict: Verdict::Warn, what: what.into(), hint: hint.into() }
    }

    fn fail(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { verdict: Verdict::Fail, what: what.into(), hint: hint.into() }
    }

    fn failed(failure: &Failure) -> Self {
        Self::fail(&failure.message, &failure.hint)
    }

    fn in_words(&self, style: Style) -> String {
        let mark = match self.verdict {
            Verdict::Ok => style.good("ok  "),
            Verdict::Warn => style.doubtful("warn"),
            Verdict::Fail => style.bad("FAIL"),
        };
        if self.hint.is_empty() {
            format!("{mark}  {}", self.what)
        } else {
            format!("{mark}  {}\n      → {}", self.what, self.hint)
        }
    }
}

fn told(checks: &[Check], server: &str) -> Report {
    let style = style::of_stdout();
    let lines: Vec<String> = checks.iter().map(|check| check.in_words(style)).collect();
    let failed = checks.iter().filter(|check| check.verdict == Verdict::Fail).count();
    let failure = (failed > 0)
        .then(|| Failure::failed(format!("{failed} of {} checks of {server} failed", checks.len()), ""));
    Report::new(json!({ "checks": checks }), lines.join("\n")).failing(failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_required_unless_only_a_file_is_asked_about() {
        let file = Some(Path::new("pools.toml"));
        let nothing = ConnectArgs {
            server: None,
            token_file: None,
            ca_file: None,
            data_dir: None,
            insecure_http: false,
        };
        let server = ConnectArgs { server: Some("http://127.0.0.1:8080".to_owned()), ..nothing.clone() };
        let data = ConnectArgs { data_dir: Some("motorpool-data".into()), ..nothing.clone() };
        for (pools, connect, expected) in [
            (None, &nothing, Presence::Required),
            (None, &server, Presence::Required),
            (file, &server, Presence::Required),
            (file, &data, Presence::Required),
            (file, &nothing, Presence::Optional),
        ] {
            assert_eq!(presence(pools, connect), expected, "{pools:?} {connect:?}");
        }
    }

    #[test]
    fn only_a_failed_check_fails_the_doctor() {
        let ok = Check::ok("fine");
        let warn = Check::warn("odd", "look at it");
        let fail = Check::fail("broken", "mend it");
        assert!(told(&[ok.clone(), warn.clone()], "x").failure.is_none());
        let report = told(&[ok, warn, fail], "x");
        assert_eq!(report.failure.unwrap().message, "1 of 3 checks of x failed");
        assert_eq!(report.words, "ok    fine\nwarn  odd\n      → look at it\nFAIL  broken\n      → mend it");
        assert_eq!(report.json["checks"][1]["verdict"], "warn");
    }
}
