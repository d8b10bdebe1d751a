//! The WebSocket of an agent, over real connections with limits of the test's own: who is let go of, what is bounded, and what is never logged.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends here"
)]

mod lines;
mod seen;
mod site;

use futures_util::{SinkExt, StreamExt};
use lines::Lines;
use motorpool_http::HttpLimits;
use seen::{call, get, send};
use serde_json::{Value, json};
use site::{ADMIN, RUNNER, Site, site};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Only something that hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(60);
const OFTEN: Duration = Duration::from_millis(20);

async fn listen(limits: HttpLimits) -> (Site, SocketAddr) {
    let site = site(limits).with_a_machine().await;
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let router = site.router.clone();
    tokio::spawn(async move { axum::serve(socket, router).await });
    (site, address)
}

async fn dial(address: SocketAddr, query: &str) -> Result<Socket, tungstenite::Error> {
    let request = format!("ws://{address}/api/v1/ws/agent?{query}").into_client_request()?;
    Ok(timeout(PATIENCE, connect_async(request)).await.expect("no upgrade")?.0)
}

fn own() -> String {
    format!("runner_id=mac-01&token={RUNNER}")
}

async fn next(socket: &mut Socket) -> Option<Result<Message, tungstenite::Error>> {
    timeout(PATIENCE, socket.next()).await.expect("nothing comes")
}

/// The code of its end; what comes before that is answered by whoever has the socket, and not looked at.
async fn close_code(socket: &mut Socket) -> Option<u16> {
    loop {
        if let Message::Close(frame) = next(socket).await?.ok()? {
            return frame.map(|frame| frame.code.into());
        }
    }
}

async fn is_connected(site: &Site) -> bool {
    let shown = site.as_admin("GET", "/api/v1/internal/agent/mac-01/connected", &Value::Null).await;
    shown.json(200)["connected"].as_bool().unwrap()
}

async fn until_connected(site: &Site, is: bool) {
    let looking = async {
        while is_connected(site).await != is {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, looking).await.expect("it stays as it is");
}

#[tokio::test]
async fn refuse_17_a_token_in_the_query_is_in_no_line_of_the_log() {
    let lines = Lines::default();
    let _until_the_end = tracing::subscriber::set_default(lines.subscriber());
    let (_site, address) = listen(HttpLimits::default()).await;
    let mut socket = dial(address, &own()).await.unwrap();
    socket.send(Message::text(r#"{"id":"1","type":"ping","payload":{"x":"canary-body"}}"#)).await.unwrap();
    next(&mut socket).await.unwrap().unwrap();
    let mut wrong = dial(address, "runner_id=mac-01&token=canary-token&more=canary-query").await.unwrap();
    assert_eq!(close_code(&mut wrong).await, Some(4401));
    let answered = lines.answered();
    let of_channel = answered.iter().filter(|line| line["route"] == "/api/v1/ws/agent");
    let told: Vec<_> = of_channel.map(|line| (line["status"].clone(), line["caller"].clone())).collect();
    assert_eq!(told, [(json!(101), json!("agent")), (json!(101), json!("nobody"))]);
    let text = lines.text();
    for secret in [RUNNER, ADMIN, "canary"] {
        assert!(!text.contains(secret), "{secret} is in the log");
    }
}

/// Whoever asks for something else than a WebSocket is told so if it could have one.
#[tokio::test]
async fn what_is_no_upgrade_is_refused() {
    let site = site(HttpLimits::default()).with_a_machine().await;
    for (token, status) in [(Some(RUNNER), 400), (Some(ADMIN), 401), (None, 401)] {
        let seen = send(&site.router, call("GET", "/api/v1/ws/agent", token, "")).await;
        assert_eq!(seen.status, status, "{token:?}: {}", seen.text);
    }
    let seen = send(&site.router, get(&format!("/api/v1/ws/agent?token={RUNNER}"))).await;
    assert_eq!(seen.header("upgrade"), Some("websocket"));
    assert!(!seen.text.contains(RUNNER));
}

#[tokio::test]
async fn who_answers_pings_stays_and_who_does_not_is_let_go_of() {
    let (site, address) = listen(HttpLimits { channel_ping: OFTEN, ..HttpLimits::default() }).await;
    let mut socket = dial(address, &own()).await.unwrap();
    // To read a ping is to answer it.
    for _ in 0..5 {
        assert!(matches!(next(&mut socket).await, Some(Ok(Message::Ping(_)))));
    }
    socket.send(Message::text(r#"{"id":"1","type":"ping"}"#)).await.unwrap();
    let pong = loop {
        if let Message::Text(text) = next(&mut socket).await.unwrap().unwrap() {
            break serde_json::from_str::<Value>(text.as_str()).unwrap();
        }
    };
    assert_eq!(pong, json!({"id": "1", "status": "ok", "data": {"pong": true}, "error": null}));
    // From here on it reads nothing.
    until_connected(&site, false).await;
}

#[tokio::test]
async fn refuse_10_a_connection_that_says_nothing_ends_with_its_token_too() {
    let (site, address) = listen(HttpLimits { channel_ping: OFTEN, ..HttpLimits::default() }).await;
    let mut socket = dial(address, &own()).await.unwrap();
    assert!(matches!(next(&mut socket).await, Some(Ok(Message::Ping(_)))));
    site.as_admin("POST", "/api/v1/runners/mac-01/token", &Value::Null).await.json(200);
    assert_eq!(close_code(&mut socket).await, Some(4401));
    until_connected(&site, false).await;
}

#[tokio::test]
async fn refuse_24_what_an_agent_asks_takes_places_of_its_own() {
    let limits = HttpLimits { agent_at_once: 0, ..HttpLimits::default() };
    let (_site, address) = listen(limits).await;
    let mut socket = dial(address, &own()).await.unwrap();
    socket.send(Message::text(r#"{"id":"7","type":"ping"}"#)).await.unwrap();
    let Message::Text(text) = next(&mut socket).await.unwrap().unwrap() else { panic!("no answer") };
    let told: Value = serde_json::from_str(text.as_str()).unwrap();
    assert_eq!((&told["id"], &told["error"]["code"]), (&json!("7"), &json!(429)), "{told}");
}

#[tokio::test]
async fn refuse_24_connections_are_bounded_and_strangers_take_no_agents_place() {
    let (site, address) = listen(HttpLimits { channels_at_once: 1, ..HttpLimits::default() }).await;
    let mut stranger = dial(address, "token=x").await.unwrap();
    let mut socket = dial(address, &own()).await.unwrap();
    until_connected(&site, true).await;
    let Err(tungstenite::Error::Http(refused)) = dial(address, &own()).await else { panic!("it came in") };
    assert_eq!(refused.status(), 429);
    assert_eq!(close_code(&mut stranger).await, Some(4401));
    socket.close(None).await.unwrap();
    until_connected(&site, false).await;
}

/// Its leave is answered.
#[tokio::test]
async fn who_leaves_is_heard() {
    let (site, address) = listen(HttpLimits::default()).await;
    let mut socket = dial(address, &own()).await.unwrap();
    until_connected(&site, true).await;
    socket.close(None).await.unwrap();
    while let Some(message) = next(&mut socket).await {
        message.expect("it was cut off");
    }
    until_connected(&site, false).await;
}

#[tokio::test]
async fn a_server_that_stops_says_so() {
    let (site, address) = listen(HttpLimits::default()).await;
    let mut socket = dial(address, &own()).await.unwrap();
    until_connected(&site, true).await;
    site.notifier.close();
    assert_eq!(close_code(&mut socket).await, Some(1001));
}
