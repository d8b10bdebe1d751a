//! What QEMU sends: a greeting, answers to what was asked (each with the id of its question), and events in between.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

/// QEMU's own, as it greets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
    pub micro: u32,
}

impl Version {
    /// The first with `snapshot-save` and `snapshot-delete`: before, only a person's monitor could do that.
    pub(super) const NEEDED: Self = Self { major: 6, minor: 0, micro: 0 };
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { major, minor, micro } = self;
        write!(f, "{major}.{minor}.{micro}")
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub name: String,
    pub data: Value,
}

#[derive(Debug, PartialEq)]
pub(super) enum Message {
    Greeting(Version),
    Event(Event),
    Answer {
        id: Option<u64>,
        answer: Result<Value, String>,
    },
    /// Of a QEMU that is newer than this: passed over.
    Unknown,
}

impl Message {
    pub(super) fn parse(line: &[u8]) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Line {
            #[serde(rename = "QMP")]
            greeting: Option<Greeting>,
            event: Option<String>,
            #[serde(default)]
            data: Value,
            id: Option<Value>,
            #[serde(rename = "return")]
            returned: Option<Value>,
            error: Option<Refusal>,
        }
        #[derive(Deserialize)]
        struct Greeting {
            version: Versions,
        }
        #[derive(Deserialize)]
        struct Versions {
            qemu: Version,
        }
        #[derive(Deserialize)]
        struct Refusal {
            desc: String,
        }

        let Line { greeting, event, data, id, returned, error } = serde_json::from_slice(line)?;
        let id = id.as_ref().and_then(Value::as_u64);
        Ok(match (greeting, event, returned, error) {
            (Some(Greeting { version: Versions { qemu } }), ..) => Self::Greeting(qemu),
            (None, Some(name), ..) => Self::Event(Event { name, data }),
            (None, None, _, Some(Refusal { desc })) => Self::Answer { id, answer: Err(desc) },
            (None, None, Some(value), None) => Self::Answer { id, answer: Ok(value) },
            (None, None, None, None) => Self::Unknown,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_qemu_7_2_says() {
        let answer = |id, answer| Message::Answer { id, answer };
        for (line, expected) in [
            (
                r#"{"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7}, "package": "Debian"}, "capabilities": ["oob"]}}"#,
                Message::Greeting(Version { major: 7, minor: 2, micro: 22 }),
            ),
            (
                r#"{"timestamp": {"seconds": 1, "microseconds": 2}, "event": "JOB_STATUS_CHANGE", "data": {"status": "created", "id": "a"}}"#,
                Message::Event(Event {
                    name: "JOB_STATUS_CHANGE".into(),
                    data: json!({"status": "created", "id": "a"}),
                }),
            ),
            (
                r#"{"timestamp": {"seconds": 1, "microseconds": 2}, "event": "STOP"}"#,
                Message::Event(Event { name: "STOP".into(), data: Value::Null }),
            ),
            (r#"{"return": {}, "id": 3}"#, answer(Some(3), Ok(json!({})))),
            (r#"{"return": [], "id": 4}"#, answer(Some(4), Ok(json!([])))),
            (
                r#"{"id": 5, "error": {"class": "GenericError", "desc": "Snapshot 'x' already exists"}}"#,
                answer(Some(5), Err("Snapshot 'x' already exists".into())),
            ),
            (
                r#"{"error": {"class": "GenericError", "desc": "JSON parse error"}}"#,
                answer(None, Err("JSON parse error".into())),
            ),
            (r#"{"something": "new"}"#, Message::Unknown),
        ] {
            assert_eq!(Message::parse(line.as_bytes()).unwrap(), expected, "{line}");
        }
        for line in ["", "{", "[]", "7"] {
            assert!(Message::parse(line.as_bytes()).is_err(), "{line}");
        }
    }

    #[test]
    fn versions_have_an_order() {
        let version = |major, minor, micro| Version { major, minor, micro };
        assert!(version(5, 2, 9) < Version::NEEDED && Version::NEEDED <= version(6, 0, 0));
        assert!(version(10, 0, 2) > version(7, 2, 22));
    }
}
