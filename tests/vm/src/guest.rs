//! A root shell in the machine, by the guest agent of QEMU: it is how the test looks around, and no part of what is tested.

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{sleep, timeout};

/// Until it counts as not there: it comes up in the middle of the boot.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
const ENDS_WITHIN: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(200);

/// No two sessions have the same.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

#[derive(Debug)]
pub(crate) struct Guest {
    socket: PathBuf,
}

impl Guest {
    pub(crate) fn behind(socket: &Path) -> Self {
        Self { socket: socket.to_owned() }
    }

    /// What a script says, whatever its exit code; nothing if there is no shell yet.
    pub(crate) async fn sh(&self, script: &str) -> Result<Option<String>> {
        let Ok(mut agent) = timeout(ANSWERS_WITHIN, Session::open(&self.socket)).await else {
            return Ok(None);
        };
        let Ok(agent) = &mut agent else { return Ok(None) };
        timeout(ENDS_WITHIN, agent.run(script)).await.context("a script in the machine hangs")?.map(Some)
    }
}

struct Session {
    answers: Lines<BufReader<OwnedReadHalf>>,
    orders: OwnedWriteHalf,
}

impl Session {
    /// What an earlier session left in the pipe is passed over.
    async fn open(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket).await.context("QEMU's socket")?;
        let (answers, orders) = stream.into_split();
        let mut session = Self { answers: BufReader::new(answers).lines(), orders };
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        session.send(&json!({"execute": "guest-sync", "arguments": {"id": id}})).await?;
        while session.answer().await? != id {}
        Ok(session)
    }

    async fn run(&mut self, script: &str) -> Result<String> {
        let arguments = json!({"path": "/bin/sh", "arg": ["-c", script], "capture-output": true});
        let pid = self.call("guest-exec", arguments).await?["pid"].clone();
        loop {
            let status = self.call("guest-exec-status", json!({"pid": pid})).await?;
            if status["exited"] == true {
                let part = |name: &str| STANDARD.decode(status[name].as_str().unwrap_or_default());
                let all = [part("out-data")?, part("err-data")?].concat();
                return Ok(String::from_utf8_lossy(&all).into_owned());
            }
            sleep(PAUSE).await;
        }
    }

    async fn call(&mut self, name: &str, arguments: Value) -> Result<Value> {
        self.send(&json!({"execute": name, "arguments": arguments})).await?;
        self.answer().await
    }

    async fn send(&mut self, order: &Value) -> Result<()> {
        self.orders.write_all(format!("{order}\n").as_bytes()).await.context("an order to the guest agent")
    }

    async fn answer(&mut self) -> Result<Value> {
        let line = self.answers.next_line().await?.context("the guest agent hung up")?;
        let mut answer: Value = serde_json::from_str(&line).with_context(|| format!("not JSON: {line}"))?;
        ensure!(answer["error"].is_null(), "the guest agent refused: {line}");
        Ok(answer["return"].take())
    }
}
