//! What the request holds, in each format.

use jiff::Timestamp as Instant;
use motorpool_domain::Timestamp;
use motorpool_domain::alert::{AlertMessage, Phase};
use serde::Serialize;

/// What a program of the operator's gets.
#[derive(Debug, Serialize)]
struct Json<'a> {
    /// The same for each attempt to send this message, and for no other.
    id: &'a str,
    incident: &'a str,
    subject: Option<&'a str>,
    /// `opened` or `over`.
    state: &'a str,
    text: &'a str,
    /// When it opened or was over, as RFC 3339 in UTC.
    at: String,
    installation: &'a str,
}

#[derive(Debug, Serialize)]
struct Slack {
    text: String,
}

pub(crate) fn json(message: &AlertMessage) -> Result<Vec<u8>, serde_json::Error> {
    let AlertMessage { id, incident, subject, phase, text, at, installation } = message;
    serde_json::to_vec(&Json {
        id,
        incident,
        subject: subject.as_deref(),
        state: phase.as_str(),
        text,
        at: rfc_3339(*at),
        installation,
    })
}

pub(crate) fn slack(message: &AlertMessage) -> Result<Vec<u8>, serde_json::Error> {
    let AlertMessage { id: _, incident: _, subject: _, phase, text, at: _, installation } = message;
    let mark = match phase {
        Phase::Opened => ":rotating_light:",
        Phase::Over => ":white_check_mark: over:",
    };
    serde_json::to_vec(&Slack { text: format!("{mark} {} (motorpool {installation})", escaped(text)) })
}

/// What an agent says of itself must not call a channel's members, or pose as a link.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn rfc_3339(at: Timestamp) -> String {
    let millis = i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
    Instant::from_millisecond(millis).unwrap_or(Instant::MAX).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn message() -> AlertMessage {
        AlertMessage {
            id: "runner_quarantined/m-1/1700000000123.1/opened".to_owned(),
            incident: "runner_quarantined",
            subject: Some("m-1".to_owned()),
            phase: Phase::Opened,
            text: "runner m-1 is quarantined (<!channel> & \"more\")".to_owned(),
            at: Timestamp::from_millis(1_700_000_000_123),
            installation: "ab12cd".to_owned(),
        }
    }

    #[test]
    fn a_program_gets_every_field() {
        let body: Value = serde_json::from_slice(&super::json(&message()).unwrap()).unwrap();
        assert_eq!(
            body,
            json!({
                "id": "runner_quarantined/m-1/1700000000123.1/opened",
                "incident": "runner_quarantined",
                "subject": "m-1",
                "state": "opened",
                "text": "runner m-1 is quarantined (<!channel> & \"more\")",
                "at": "2023-11-14T22:13:20.123Z",
                "installation": "ab12cd",
            })
        );
    }

    #[test]
    fn a_chat_gets_one_line_that_calls_nobody() {
        let body: Value = serde_json::from_slice(&slack(&message()).unwrap()).unwrap();
        let text =
            ":rotating_light: runner m-1 is quarantined (&lt;!channel&gt; &amp; \"more\") (motorpool ab12cd)";
        assert_eq!(body, json!({ "text": text }));
        let over = AlertMessage { phase: Phase::Over, text: "over".to_owned(), ..message() };
        let body: Value = serde_json::from_slice(&slack(&over).unwrap()).unwrap();
        assert_eq!(body, json!({ "text": ":white_check_mark: over: over (motorpool ab12cd)" }));
    }

    #[test]
    fn every_instant_can_be_told() {
        assert_eq!(rfc_3339(Timestamp::default()), "1970-01-01T00:00:00Z");
        assert!(rfc_3339(Timestamp::from_millis(u64::MAX)).starts_with("9999-"));
    }
}
