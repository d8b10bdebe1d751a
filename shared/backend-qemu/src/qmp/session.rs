//! One connection to a QEMU: greeted, and then asked. Each question has an id and its own time; an answer that comes after that is passed over.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::directory::{Directory, QMP_SOCKET};

use super::message::{Event, Message, Version};

/// QEMU's longest, its whole schema, has some 200 kB.
const LONGEST_LINE: usize = 4 << 20;
/// Of events that nobody took; the oldest go.
const MOST_EVENTS: usize = 256;

#[derive(Debug, thiserror::Error)]
pub enum QmpError {
    #[error("no connection to QEMU")]
    Connect(#[source] io::Error),
    #[error("the connection to QEMU broke")]
    Broken(#[source] io::Error),
    #[error("QEMU hung up")]
    HungUp,
    #[error("QEMU has not answered {asked} within {} s", .within.as_secs())]
    NotInTime { asked: &'static str, within: Duration },
    #[error("QEMU {found} is too old: its snapshots need {} or later", Version::NEEDED)]
    TooOld { found: Version },
    #[error("QEMU refused {asked}: {said}")]
    Refused { asked: &'static str, said: String },
    #[error("QEMU's answer to {asked} is none of this protocol's")]
    NotUnderstood { asked: &'static str, source: serde_json::Error },
    #[error("QEMU sent a line without an end")]
    TooLong,
}

impl QmpError {
    /// QEMU ended, or is busy: another look may find it otherwise.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Connect(_) | Self::Broken(_) | Self::HungUp | Self::NotInTime { .. } => true,
            Self::TooOld { .. } | Self::Refused { .. } | Self::NotUnderstood { .. } | Self::TooLong => false,
        }
    }
}

#[derive(Debug)]
pub struct Qmp {
    stream: UnixStream,
    version: Version,
    /// What was read, and not yet taken line by line.
    read: Vec<u8>,
    events: VecDeque<Event>,
    asked: u64,
    within: Duration,
}

impl Qmp {
    /// Greeted and ready, within that time; it is each answer's, too.
    pub(crate) async fn connect(directory: &Directory, within: Duration) -> Result<Self, QmpError> {
        let greeted = async {
            // A socket's path has at most 107 bytes, and the directory's may have more. Through its handle it is always short.
            let parent = std::fs::File::open(directory.path()).map_err(QmpError::Connect)?;
            let path = format!("/proc/self/fd/{}/{QMP_SOCKET}", parent.as_raw_fd());
            let stream = UnixStream::connect(path).await.map_err(QmpError::Connect)?;
            drop(parent);
            Self::over(stream, within).await
        };
        let asked = "for its greeting";
        tokio::time::timeout(within, greeted).await.unwrap_or(Err(QmpError::NotInTime { asked, within }))
    }

    pub(super) async fn over(stream: UnixStream, within: Duration) -> Result<Self, QmpError> {
        let unknown = Version { major: 0, minor: 0, micro: 0 };
        let mut qmp =
            Self { stream, version: unknown, read: Vec::new(), events: VecDeque::new(), asked: 0, within };
        loop {
            match qmp.message("for its greeting").await? {
                Message::Greeting(version) => {
                    qmp.version = version;
                    break;
                }
                Message::Event(_) | Message::Answer { .. } | Message::Unknown => {}
            }
        }
        if qmp.version < Version::NEEDED {
            return Err(QmpError::TooOld { found: qmp.version });
        }
        qmp.ask("qmp_capabilities", json!({})).await?;
        Ok(qmp)
    }

    pub fn version(&self) -> Version {
        self.version
    }

    /// The oldest that nobody took yet, of those that came with answers.
    pub fn take_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    pub(super) async fn ask(&mut self, asked: &'static str, arguments: Value) -> Result<Value, QmpError> {
        let within = self.within;
        tokio::time::timeout(within, self.answer_to(asked, arguments))
            .await
            .unwrap_or(Err(QmpError::NotInTime { asked, within }))
    }

    async fn answer_to(&mut self, asked: &'static str, arguments: Value) -> Result<Value, QmpError> {
        self.asked += 1;
        let question = self.asked;
        let line = format!("{}\n", json!({"execute": asked, "arguments": arguments, "id": question}));
        self.stream.write_all(line.as_bytes()).await.map_err(QmpError::Broken)?;
        loop {
            match self.message(asked).await? {
                Message::Answer { id, answer } if id == Some(question) => {
                    return answer.map_err(|said| QmpError::Refused { asked, said });
                }
                Message::Answer { id, answer: _ } => tracing::debug!(?id, "an answer came too late"),
                Message::Event(event) => {
                    if self.events.len() == MOST_EVENTS {
                        self.events.pop_front();
                    }
                    self.events.push_back(event);
                }
                Message::Greeting(_) | Message::Unknown => {}
            }
        }
    }

    /// Nothing is lost when this is given up in the middle: what was read stays.
    async fn message(&mut self, asked: &'static str) -> Result<Message, QmpError> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Message::parse(&line).map_err(|source| QmpError::NotUnderstood { asked, source });
            }
            if self.read.len() > LONGEST_LINE {
                return Err(QmpError::TooLong);
            }
            if self.stream.read_buf(&mut self.read).await.map_err(QmpError::Broken)? == 0 {
                return Err(QmpError::HungUp);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncBufReadExt, BufReader};

    const GREETING: &str = r#"{"QMP": {"version": {"qemu": {"micro": 0, "minor": 2, "major": 8}, "package": ""}, "capabilities": []}}"#;

    /// What it says to each line that it is sent, `ID` being that line's.
    fn qemu(greeting: &'static str, answers: &'static [&'static str]) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().unwrap();
        tokio::spawn(async move {
            let (read, mut write) = theirs.into_split();
            write.write_all(format!("{greeting}\n").as_bytes()).await.unwrap();
            let mut lines = BufReader::new(read).lines();
            for answer in answers {
                let Ok(Some(line)) = lines.next_line().await else { return };
                let id = serde_json::from_str::<Value>(&line).unwrap()["id"].to_string();
                write.write_all(answer.replace("ID", &id).as_bytes()).await.unwrap();
            }
            lines.next_line().await.ok();
        });
        ours
    }

    async fn session(answers: &'static [&'static str]) -> Qmp {
        Qmp::over(qemu(GREETING, answers), Duration::from_secs(5)).await.unwrap()
    }

    #[tokio::test]
    async fn events_come_between_and_are_kept() {
        let mut qmp = session(&[
            "{\"return\": {}, \"id\": ID}\n",
            "{\"event\": \"STOP\"}\n{\"event\": \"RESUME\"}\n{\"return\": 7, \"id\": ID}\n",
        ])
        .await;
        assert_eq!(qmp.version(), Version { major: 8, minor: 2, micro: 0 });
        assert_eq!(qmp.ask("query-x", json!({})).await.unwrap(), json!(7));
        let names = [qmp.take_event(), qmp.take_event(), qmp.take_event()].map(|event| Some(event?.name));
        assert_eq!(names, [Some("STOP".into()), Some("RESUME".into()), None]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_comes_too_late_answers_nothing_else() {
        let mut qmp = session(&[
            "{\"return\": {}, \"id\": ID}\n",
            "",
            "{\"return\": \"of the first\", \"id\": 2}\n{\"return\": \"of the second\", \"id\": ID}\n",
        ])
        .await;
        let first = qmp.ask("slow", json!({})).await;
        assert!(matches!(first, Err(QmpError::NotInTime { asked: "slow", .. })), "{first:?}");
        assert_eq!(qmp.ask("quick", json!({})).await.unwrap(), json!("of the second"));
    }

    #[tokio::test]
    async fn a_refusal_is_told_in_qemus_words() {
        let mut qmp = session(&[
            "{\"return\": {}, \"id\": ID}\n",
            "{\"error\": {\"class\": \"GenericError\", \"desc\": \"no\"}, \"id\": ID}\n",
        ])
        .await;
        let refused = qmp.ask("cont", json!({})).await.unwrap_err();
        assert_eq!(refused.to_string(), "QEMU refused cont: no");
        let gone = qmp.ask("cont", json!({})).await.unwrap_err();
        assert!(gone.is_passing() && !refused.is_passing(), "{gone}");
    }

    #[tokio::test]
    async fn one_without_snapshots_is_too_old() {
        let old = r#"{"QMP": {"version": {"qemu": {"micro": 0, "minor": 2, "major": 5}, "package": ""}, "capabilities": []}}"#;
        let error = Qmp::over(qemu(old, &[]), Duration::from_secs(5)).await.unwrap_err();
        assert_eq!(error.to_string(), "QEMU 5.2.0 is too old: its snapshots need 6.0.0 or later");
    }
}
