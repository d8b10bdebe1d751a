//! What is told to whom, over a real control plane: nothing of the next holder's work, and nothing that steers the terminal of who reads it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on ends here")]

mod seen;
mod site;

use motorpool_domain::text::steers;
use motorpool_http::HttpLimits;
use motorpool_wire::error::ErrorCode::InvalidRequest;
use seen::{Seen, call, send};
use serde_json::{Value, json};
use site::{ADMIN, RUNNER, Site, TEAM, site};
use std::io::Write;
use std::sync::{Arc, Mutex};

/// A whole screen cleared, a title set, a C1 control, DEL, and text that runs the other way.
const STEERING: &str = "\u{1b}[2J\u{1b}]0;x\u{7} \u{9b}31m \u{7f} \u{202e}ab\u{2066}";
const SHOWN: &str = "␛[2J␛]0;x␇ �31m ␡ �ab�";

async fn provisioned(site: &Site, token: &str, workflow: &str) -> String {
    let ask = json!({"workflow": workflow, "pool": "macs"});
    let claim = site.ask("POST", "/api/v1/provision", token, &ask).await.json(202);
    format!("/api/v1/claims/{}", claim["claim"].as_str().unwrap())
}

#[tokio::test]
async fn refuse_09_why_of_an_ended_claim_tells_nothing_of_the_next_holder() {
    let site = site(HttpLimits::default()).with_a_machine().await;
    site.work().await;
    let first = provisioned(&site, TEAM, "gh-1").await;
    assert_eq!(site.work().await["state"], "running");
    let why = site.ask("GET", &format!("{first}/why"), TEAM, &Value::Null).await.json(200);
    assert!(why["runners"][0].as_str().unwrap().starts_with("mac-01 is running"), "{why}");

    site.ask("POST", "/api/v1/release", TEAM, &json!({"workflow": "gh-1"})).await.json(202);
    assert_eq!(site.work().await["state"], "idle");
    provisioned(&site, ADMIN, "gh-2").await;
    assert_eq!(site.work().await["state"], "running");
    for path in [format!("{first}/why"), first] {
        let told = site.ask("GET", &path, TEAM, &Value::Null).await.json(200);
        assert_eq!((&told["state"], &told["runners"]), (&json!("released"), &json!([])), "{told}");
    }
}

/// Nothing that steers is in the answer, neither as it is nor as an escape of JSON.
#[track_caller]
fn assert_plain(seen: &Seen) {
    assert!(!seen.text.chars().any(steers) && !seen.text.contains("\\u00"), "{:?}", seen.text);
}

#[tokio::test]
async fn refuse_25_what_an_agent_reports_is_kept_without_what_steers_a_terminal() {
    let site = site(HttpLimits::default()).with_a_machine().await;
    let epoch = site.work().await["epoch"].clone();
    let claim = provisioned(&site, TEAM, "gh-1").await;
    let version = json!({"epoch": epoch, "program_version": format!("2.329.0{STEERING}")});
    let task = site.sync(&version, 0).await["task"]["id"].clone();
    let runner = site.as_admin("GET", "/api/v1/runners/mac-01", &Value::Null).await;
    assert_plain(&runner);
    assert_eq!(runner.json(200)["program_version"], format!("2.329.0{SHOWN}"));
    let noted = site.as_admin("GET", "/api/v1/audit?subject=mac-01", &Value::Null).await.json(200);
    site.sync(&version, 0).await;
    let again = site.as_admin("GET", "/api/v1/audit?subject=mac-01", &Value::Null).await.json(200);
    assert_eq!(noted, again, "the same version again is nothing new");

    let failed = json!([{"task": task, "outcome": {"failed": {"why": format!("it failed: {STEERING}")}}}]);
    site.sync(&json!({"epoch": epoch, "results": failed}), 0).await;
    let audit = site.as_admin("GET", "/api/v1/audit?subject=mac-01", &Value::Null).await;
    assert!(audit.text.contains(SHOWN), "{}", audit.text);
    assert_plain(&audit);
    for path in ["/api/v1/runners/mac-01", &claim, &format!("{claim}/why")] {
        assert_plain(&site.as_admin("GET", path, &Value::Null).await);
    }
}

#[tokio::test]
async fn refuse_25_ids_of_machines_and_boots_hold_nothing_that_steers_a_terminal() {
    let site = site(HttpLimits::default()).with_a_machine().await;
    for steering in ["\0", "\n", "\u{1b}[2J", "\u{7f}", "\u{9b}", "\u{202e}", "\u{2069}"] {
        let report = json!({"runner": "mac-01", "epoch": 1, "boot_id": format!("b{steering}"), "protocol": 3, "agent_version": "1"});
        let refused = site.ask("POST", "/api/v1/agent/sync", RUNNER, &report).await;
        assert!(refused.refused(400, InvalidRequest).message.contains("boot_id"), "{steering:?}");
        for field in ["machine_id", "boot_id"] {
            let mut redeem = json!({
                "runner": "mac-01", "secret": "s", "token_sha256": "a".repeat(64), "machine_id": "m", "boot_id": "b",
            });
            redeem[field] = json!(format!("x{steering}"));
            let request = call("POST", "/api/v1/agent/bootstrap", None, redeem.to_string());
            let refused = send(&site.router, request).await.refused(400, InvalidRequest);
            assert!(refused.message.contains(field), "{steering:?}: {refused:?}");
        }
    }
}

/// What a caller sends comes back to it in errors, and may reach somebody else's screen from there.
#[tokio::test]
async fn refuse_25_an_error_quotes_its_caller_without_what_steers_a_terminal() {
    let site = site(HttpLimits::default()).with_a_machine().await;
    let coded: String = STEERING.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let unknown = json!({"workflow": "gh-1", "pool": "macs", STEERING: 1});
    let globs = json!({"workflow": "gh-1", "pool": "macs", "allowed_instance_types": STEERING});
    for refused in [
        site.as_admin("POST", "/api/v1/provision", &unknown).await,
        site.as_admin("POST", "/api/v1/provision", &globs).await,
        site.as_admin("GET", &format!("/api/v1/runners?pool=macs&{coded}=1"), &Value::Null).await,
        site.as_admin("GET", &format!("/api/v1/runners?pool=macs&state={coded}"), &Value::Null).await,
    ] {
        refused.refused(400, InvalidRequest);
        assert_plain(&refused);
    }
}

/// A log that a test reads.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn refuse_25_a_log_line_is_one_line_and_steers_no_terminal() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    // The test has one thread, and so has its runtime.
    let _until_the_end = tracing::subscriber::set_default(subscriber);
    let site = site(HttpLimits::default()).with_a_machine().await;
    let epoch = site.work().await["epoch"].clone();
    provisioned(&site, TEAM, "gh-1").await;
    let task = site.sync(&json!({"epoch": epoch}), 0).await["task"]["id"].clone();
    let failed = json!([{"task": task, "outcome": {"failed": {"why": format!("it failed: {STEERING}")}}}]);
    site.sync(&json!({"epoch": epoch, "results": failed}), 0).await;

    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert!(text.contains(SHOWN), "the failure is logged: {text}");
    assert!(!text.lines().any(|line| line.chars().any(steers) || line.contains("\\u00")), "{text:?}");
}
