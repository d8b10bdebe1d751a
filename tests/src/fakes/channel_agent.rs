//! An agent that speaks nothing but the WebSocket's protocol: it asks for checkpoints, and runs what it is told with `/bin/sh` in a directory of its
//! own. It knows neither bootstrap nor sync.

use crate::harness::api::Api;
use crate::harness::wait::PATIENCE;
use anyhow::{Context, Result, bail, ensure};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

pub type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// How an agent shows its token.
#[derive(Debug, Clone, Copy)]
pub enum Shows<'a> {
    InQuery { runner: &'a str, token: &'a str },
    InHeader { token: &'a str },
    Nothing,
}

/// A connected agent, until it is dropped.
#[derive(Debug)]
pub struct ChannelAgent {
    asks: mpsc::Sender<(Value, oneshot::Sender<Value>)>,
    connection: JoinHandle<Option<u16>>,
    asked: u64,
}

/// A WebSocket to the control plane behind `api`, with nobody who answers on it.
pub async fn dial(api: &Api, shows: Shows<'_>) -> Result<Socket> {
    let base = api.base().replacen("http", "ws", 1);
    let path = format!("{base}/api/v1/ws/agent");
    let request = match shows {
        Shows::InQuery { runner, token } => {
            format!("{path}?runner_id={runner}&token={token}").into_client_request()?
        }
        Shows::InHeader { token } => {
            let mut request = path.into_client_request()?;
            request.headers_mut().insert("authorization", format!("Bearer {token}").parse()?);
            request
        }
        Shows::Nothing => path.into_client_request()?,
    };
    let (socket, _) = timeout(PATIENCE, connect_async(request)).await.context("no upgrade")??;
    Ok(socket)
}

/// The next message of the other side that is one of the protocol's.
pub async fn next_text(socket: &mut Socket) -> Result<Value> {
    loop {
        match timeout(PATIENCE, socket.next()).await.context("no message comes")?.context("it is over")?? {
            Message::Text(text) => return Ok(serde_json::from_str(text.as_str())?),
            Message::Ping(_) | Message::Pong(_) => {}
            other @ (Message::Binary(_) | Message::Close(_) | Message::Frame(_)) => bail!("{other:?}"),
        }
    }
}

/// The code that the other side ends the connection with, which it must.
pub async fn close_code(socket: &mut Socket) -> Result<u16> {
    loop {
        match timeout(PATIENCE, socket.next()).await.context("the connection is kept")? {
            Some(Ok(Message::Close(frame))) => return Ok(frame.context("no reason is told")?.code.into()),
            Some(Ok(_)) => {}
            Some(Err(error)) => bail!("it ended without a word: {error}"),
            None => bail!("it ended without a word"),
        }
    }
}

impl ChannelAgent {
    /// Connects, and runs what it is told in `dir`.
    pub async fn connect(api: &Api, shows: Shows<'_>, dir: &Path) -> Result<Self> {
        let socket = dial(api, shows).await?;
        let (asks, asked) = mpsc::channel(8);
        let connection = tokio::spawn(live(socket, asked, dir.to_owned()));
        Ok(Self { asks, connection, asked: 0 })
    }

    /// The whole response.
    pub async fn ask(&mut self, kind: &str, payload: Value) -> Result<Value> {
        self.asked += 1;
        let id = format!("ask-{}", self.asked);
        let (answer, told) = oneshot::channel();
        self.asks
            .send((json!({"id": id, "type": kind, "payload": payload}), answer))
            .await
            .context("it is over")?;
        let response = timeout(PATIENCE, told).await.context("no response comes")?.context("it is over")?;
        ensure!(response["id"] == id, "{response}");
        Ok(response)
    }

    /// The response's data, if all went well.
    pub async fn ok(&mut self, kind: &str, payload: Value) -> Result<Value> {
        let response = self.ask(kind, payload).await?;
        ensure!(response["status"] == "ok" && response["error"].is_null(), "{kind}: {response}");
        Ok(response["data"].clone())
    }

    /// The response's error code and what it says.
    pub async fn refused(&mut self, kind: &str, payload: Value) -> Result<(u64, String)> {
        let response = self.ask(kind, payload).await?;
        ensure!(response["status"] == "error" && response["data"].is_null(), "{kind}: {response}");
        let code = response["error"]["code"].as_u64().with_context(|| response.to_string())?;
        Ok((code, response["error"]["detail"].as_str().unwrap_or_default().to_owned()))
    }

    /// Waits for the connection's end, and tells its code.
    pub async fn ended(mut self) -> Result<Option<u16>> {
        Ok(timeout(PATIENCE, &mut self.connection).await.context("the connection is kept")??)
    }
}

impl Drop for ChannelAgent {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

async fn live(
    mut socket: Socket,
    mut asks: mpsc::Receiver<(Value, oneshot::Sender<Value>)>,
    dir: PathBuf,
) -> Option<u16> {
    let (done, mut ran) = mpsc::channel::<Value>(8);
    let mut waiting: HashMap<String, oneshot::Sender<Value>> = HashMap::new();
    loop {
        tokio::select! {
            Some((ask, answer)) = asks.recv() => {
                waiting.insert(ask["id"].as_str().unwrap_or_default().to_owned(), answer);
                socket.send(Message::text(ask.to_string())).await.ok()?;
            }
            Some(response) = ran.recv() => socket.send(Message::text(response.to_string())).await.ok()?,
            message = socket.next() => match message?.ok()? {
                Message::Text(text) => {
                    let message: Value = serde_json::from_str(text.as_str()).ok()?;
                    let id = message["id"].as_str().unwrap_or_default().to_owned();
                    if message["type"] == "exec" {
                        let (done, dir) = (done.clone(), dir.clone());
                        tokio::spawn(async move { done.send(run(&dir, id, &message["payload"]).await).await });
                    } else if let Some(answer) = waiting.remove(&id) {
                        // Who asked may have given up.
                        let _ = answer.send(message);
                    }
                }
                Message::Close(frame) => return frame.map(|frame| frame.code.into()),
                Message::Ping(_) | Message::Pong(_) | Message::Binary(_) | Message::Frame(_) => {}
            },
        }
    }
}

async fn run(dir: &Path, id: String, payload: &Value) -> Value {
    let within = Duration::from_secs_f64(payload["timeout"].as_f64().unwrap_or(1.0));
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(payload["cmd"].as_str().unwrap_or_default()).current_dir(dir);
    let running = command.stdin(Stdio::null()).kill_on_drop(true).output();
    match timeout(within, running).await {
        Ok(Ok(output)) => {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let data = json!({
                "exit_code": output.status.code().unwrap_or(-1),
                "stdout": text(&output.stdout), "stderr": text(&output.stderr),
            });
            json!({"id": id, "status": "ok", "data": data})
        }
        Ok(Err(error)) => error_response(id, &error.to_string()),
        Err(_) => error_response(id, "it took too long"),
    }
}

fn error_response(id: String, detail: &str) -> Value {
    json!({"id": id, "status": "error", "error": {"code": 500, "detail": detail}})
}
