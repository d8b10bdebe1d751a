//! What an agent sends, read strictly, and the use case that answers it.

use super::connection::Session;
use crate::detached::run_detached;
use crate::envelope::Refusal;
use motorpool_control::ports::channels::ExecError;
use motorpool_domain::checkpoint::FinalizeSource;
use motorpool_domain::text::{steers, visible};
use motorpool_wire::channel::{ExecAnswer, FromAgent, LONGEST_MESSAGE_ID, ResponseStatus, StatusPayload};
use motorpool_wire::checkpoint::{CreateCheckpoint, FinalizeCheckpoint};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// A message, with its id as far as it has one.
#[derive(Debug, PartialEq)]
pub(super) enum Heard {
    Asks {
        id: String,
        ask: Result<Ask, Refusal>,
    },
    /// How something ended that it was asked to run.
    Ran {
        id: String,
        outcome: Result<ExecAnswer, ExecError>,
    },
}

#[derive(Debug, PartialEq)]
pub(super) enum Ask {
    Create(CreateCheckpoint),
    Finalize(FinalizeCheckpoint),
    Status(StatusPayload),
    Ping,
}

/// What a caller is told to send.
const FORM: &str = r#"send {"id","type","payload"} as one JSON object"#;

pub(super) fn read(text: &str) -> Heard {
    let (id, fields) = match envelope(text) {
        Ok(read) => read,
        Err(refusal) => return Heard::Asks { id: String::new(), ask: Err(refusal) },
    };
    let message: FromAgent = match fit("the message", Value::Object(fields)) {
        Ok(message) => message,
        Err(refusal) => return Heard::Asks { id, ask: Err(refusal) },
    };
    let FromAgent { id, kind, payload, status, data, error } = message;
    match (kind, status) {
        (Some(kind), None) => Heard::Asks { ask: ask(&kind, payload.unwrap_or_default()), id },
        (None, Some(status)) => Heard::Ran { id, outcome: outcome(status, data, error) },
        (Some(_), Some(_)) | (None, None) => {
            let refusal = Refusal::invalid("the message must have either a type or a status", FORM);
            Heard::Asks { id, ask: Err(refusal) }
        }
    }
}

fn envelope(text: &str) -> Result<(String, Map<String, Value>), Refusal> {
    let wrong = |why: String| Refusal::invalid(format!("the message can't be read: {why}"), FORM);
    let fields: Map<String, Value> = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    let id = fields.get("id").and_then(Value::as_str).unwrap_or_default();
    if id.is_empty() || id.chars().count() > LONGEST_MESSAGE_ID || id.chars().any(steers) {
        return Err(wrong(format!(
            "id must be a text of 1 to {LONGEST_MESSAGE_ID} characters, and none of them a control"
        )));
    }
    Ok((id.to_owned(), fields))
}

fn ask(kind: &str, payload: Value) -> Result<Ask, Refusal> {
    match kind {
        "create" => fit("the payload", payload).map(Ask::Create),
        "finalize" => {
            let mut request: FinalizeCheckpoint = fit("the payload", payload)?;
            request.source.get_or_insert(FinalizeSource::Agent);
            Ok(Ask::Finalize(request))
        }
        "status" => fit("the payload", payload).map(Ask::Status),
        "ping" => Ok(Ask::Ping),
        other => Err(Refusal::invalid(
            format!("there is no message of type {other:?}"),
            "send create, finalize, status or ping",
        )),
    }
}

/// An object and nothing else: a list of the right values in the right order would be read as one too.
fn fit<T: DeserializeOwned>(what: &str, value: Value) -> Result<T, Refusal> {
    if !value.is_object() {
        return Err(Refusal::invalid(format!("{what} is not a JSON object"), FORM));
    }
    serde_path_to_error::deserialize(value).map_err(|error| {
        let (path, why) = (error.path().to_string(), error.inner());
        let at = if path == "." { String::new() } else { format!(" at {path}") };
        Refusal::invalid(format!("{what} does not fit{at}: {why}"), "leave out or correct what it names")
    })
}

fn outcome(
    status: ResponseStatus,
    data: Option<Value>,
    error: Option<Value>,
) -> Result<ExecAnswer, ExecError> {
    match status {
        ResponseStatus::Ok => serde_json::from_value(data.unwrap_or_default())
            .map_err(|error| ExecError::Failed(format!("its answer does not fit: {error}"))),
        ResponseStatus::Error => {
            let detail = error.as_ref().and_then(|error| error.get("detail")).and_then(Value::as_str);
            Err(ExecError::Failed(visible(detail.unwrap_or("it does not say why"))))
        }
    }
}

/// What the use case says, as the same call over HTTP would.
pub(super) async fn answer(session: &Session, ask: Ask) -> Result<Value, Refusal> {
    let (control, token) = (Arc::clone(&session.control), session.token().to_owned());
    match ask {
        Ask::Create(request) => {
            let creating = async move { control.create_checkpoint(&token, request).await };
            told(run_detached("the checkpoint", creating).await?)
        }
        Ask::Finalize(request) => {
            let finalizing = async move { control.finalize_checkpoint(&token, &request).await };
            told(run_detached("the end of a checkpoint", finalizing).await?)
        }
        Ask::Status(StatusPayload { checkpoint_name }) => {
            told(control.checkpoint_status(&token, &checkpoint_name).await?)
        }
        Ask::Ping => Ok(json!({"pong": true})),
    }
}

fn told(answer: impl Serialize) -> Result<Value, Refusal> {
    serde_json::to_value(answer)
        .map_err(|error| Refusal::internal(format!("the answer can't be written: {error}"), "report it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> (String, u16, String) {
        let Heard::Asks { id, ask: Err(refusal) } = read(text) else { panic!("{text}") };
        (id, refusal.status().as_u16(), refusal.message().to_owned())
    }

    #[test]
    fn refuse_18_what_is_no_message_is_told_so() {
        let deep = format!(r#"{{"id":"1","type":"ping","payload":{}1{}}}"#, "[".repeat(200), "]".repeat(200));
        let long_id = format!(r#"{{"id":"{}","type":"ping"}}"#, "x".repeat(129));
        for (text, id, told) in [
            ("", "", "can't be read"),
            ("{", "", "can't be read"),
            (r#"["1","ping",{}]"#, "", "can't be read"),
            (deep.as_str(), "", "can't be read"),
            (r#"{"type":"ping"}"#, "", "id must be"),
            (r#"{"id":7,"type":"ping"}"#, "", "id must be"),
            (r#"{"id":"a\nb","type":"ping"}"#, "", "id must be"),
            (long_id.as_str(), "", "id must be"),
            (r#"{"id":"1"}"#, "1", "a type or a status"),
            (r#"{"id":"1","type":"ping","status":"ok"}"#, "1", "a type or a status"),
            (r#"{"id":"1","type":"reboot"}"#, "1", "no message of type \"reboot\""),
            (r#"{"id":"1","type":"exec","payload":{"cmd":"x"}}"#, "1", "no message of type \"exec\""),
            (r#"{"id":"1","type":"ping","token":"x"}"#, "1", "unknown field `token`"),
            (r#"{"id":"1","status":"fine"}"#, "1", "unknown variant `fine`"),
            (r#"{"id":"1","type":"create"}"#, "1", "the payload is not a JSON object"),
            (r#"{"id":"1","type":"create","payload":["7"]}"#, "1", "the payload is not a JSON object"),
            (r#"{"id":"1","type":"status","payload":{"checkpoint_name":"x"}}"#, "1", "at checkpoint_name"),
        ] {
            let (found_id, code, message) = refused(text);
            assert_eq!((found_id.as_str(), code), (id, 400), "{text}");
            assert!(message.contains(told), "{text}: {message}");
        }
    }

    #[test]
    fn refuse_12_no_payload_sets_what_is_not_its_own() {
        for more in
            [r#""state":"deleted""#, r#""epoch":9"#, r#""owner":"red""#, r#""token":"x""#, r#""fixed":true"#]
        {
            for (kind, payload) in [
                ("create", r#""job_id":"1""#),
                ("finalize", r#""checkpoint_name":"job-1-1-a1b2c3d4","status":"success""#),
                ("status", r#""checkpoint_name":"job-1-1-a1b2c3d4""#),
            ] {
                let good = format!(r#"{{"id":"1","type":"{kind}","payload":{{{payload}}}}}"#);
                assert!(matches!(read(&good), Heard::Asks { ask: Ok(_), .. }), "{good}");
                let bad = format!(r#"{{"id":"1","type":"{kind}","payload":{{{payload},{more}}}}}"#);
                assert!(refused(&bad).2.contains("unknown field"), "{bad}");
            }
        }
    }

    #[test]
    fn who_finalizes_over_a_connection_is_an_agent_unless_it_says_otherwise() {
        for (said, expected) in [("", FinalizeSource::Agent), (r#","source":"hook""#, FinalizeSource::Hook)] {
            let text = format!(
                r#"{{"id":"1","type":"finalize","payload":{{"checkpoint_name":"job-1-1-a1b2c3d4","status":"failure"{said}}}}}"#
            );
            let Heard::Asks { ask: Ok(Ask::Finalize(request)), .. } = read(&text) else { panic!("{text}") };
            assert_eq!(request.source, Some(expected));
        }
    }

    #[test]
    fn how_a_command_ended_is_taken_as_the_agent_says_it() {
        let ran = |text: &str| {
            let Heard::Ran { outcome, .. } = read(text) else { panic!("{text}") };
            outcome
        };
        let answer = ExecAnswer { exit_code: -9, stdout: "o".to_owned(), stderr: String::new() };
        assert_eq!(
            ran(r#"{"id":"1","status":"ok","data":{"exit_code":-9,"stdout":"o"},"error":null}"#),
            Ok(answer)
        );
        let failed = ran(r#"{"id":"1","status":"error","error":{"code":500,"detail":"no\u001b[2J shell"}}"#);
        assert_eq!(failed, Err(ExecError::Failed("no␛[2J shell".to_owned())));
        assert!(matches!(ran(r#"{"id":"1","status":"ok","data":{}}"#), Err(ExecError::Failed(_))));
        assert!(matches!(ran(r#"{"id":"1","status":"error"}"#), Err(ExecError::Failed(_))));
    }
}
