//! Real connections to a real listener with short limits. A test waits for what must happen, the end of a connection above all, and for
//! nothing else.

use super::*;
use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::routing::get;
use std::net::TcpListener as StdListener;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// Only something that hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(50);
const NEVER: Duration = Duration::from_secs(600);

/// What `/wait` does: it says that somebody is inside, and answers when somebody may leave.
#[derive(Clone)]
struct Inside {
    entered: Arc<Semaphore>,
    leave: Arc<Semaphore>,
}

/// Where nothing is ever too slow.
fn patient() -> ConnectionLimits {
    ConnectionLimits {
        tls_handshake: NEVER,
        first_byte: NEVER,
        head: NEVER,
        idle: NEVER,
        ping: NEVER,
        pong: NEVER,
        ..ConnectionLimits::within(20_000, 1_024)
    }
}

async fn start(limits: ConnectionLimits) -> (SocketAddr, Inside) {
    start_with(limits, None).await
}

async fn start_with(limits: ConnectionLimits, tls: Option<TlsAcceptor>) -> (SocketAddr, Inside) {
    let inside = Inside { entered: Arc::new(Semaphore::new(0)), leave: Arc::new(Semaphore::new(0)) };
    let wait = {
        let Inside { entered, leave } = inside.clone();
        async move || {
            entered.add_permits(1);
            leave.acquire().await.unwrap().forget();
            "waited"
        }
    };
    // Says what it hears first, and leaves.
    let echo = async |upgrade: WebSocketUpgrade| {
        upgrade.on_upgrade(async |mut socket: WebSocket| {
            if let Some(Ok(heard)) = socket.recv().await {
                drop(socket.send(heard).await);
            }
        })
    };
    let router =
        Router::new().route("/", get(async || "done")).route("/wait", get(wait)).route("/echo", get(echo));
    let socket = StdListener::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let address = socket.local_addr().unwrap();
    let listener = Listener {
        socket: TcpListener::from_std(socket).unwrap(),
        address,
        tls,
        limits,
        open_files_before: None,
    };
    tokio::spawn(listener.until(std::future::pending(), router));
    (address, inside)
}

async fn connect(address: SocketAddr, says: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(says.as_bytes()).await.unwrap();
    stream
}

fn ask(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")
}

/// All that comes until the server ends the connection, which it must.
async fn until_closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    // Whether it is closed or reset, it is over.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut all)).await.expect("the connection is kept");
    all
}

async fn is_answered(stream: &mut TcpStream, body: &str) -> bool {
    let reading = async {
        let mut all = Vec::new();
        while !all.ends_with(body.as_bytes()) {
            if stream.read_buf(&mut all).await.unwrap_or(0) == 0 {
                return false;
            }
        }
        all.starts_with(b"HTTP/1.1 200 ")
    };
    timeout(PATIENCE, reading).await.expect("no answer")
}

#[tokio::test]
async fn refuse_18_silent_connections_are_closed() {
    let (address, _) = start(ConnectionLimits { first_byte: SHORT, ..patient() }).await;
    for _ in 0..50 {
        let mut silent = connect(address, "").await;
        assert_eq!(until_closed(&mut silent).await, b"");
    }
}

#[tokio::test]
async fn refuse_18_slow_heads_are_closed() {
    let (address, _) = start(ConnectionLimits { head: SHORT, ..patient() }).await;
    for begun in ["G", "GET / HTTP/1.1\r\nx-slow: ", "PRI * HTTP/2.0\r\n"] {
        let mut slow = connect(address, begun).await;
        until_closed(&mut slow).await;
    }
    // The next head of a connection has no more time than its first.
    let mut second = connect(address, &ask("/")).await;
    assert!(is_answered(&mut second, "done").await);
    second.write_all(b"GET / HT").await.unwrap();
    until_closed(&mut second).await;
}

#[tokio::test]
async fn refuse_18_idle_connections_are_closed() {
    let (address, _) = start(ConnectionLimits { idle: SHORT, ..patient() }).await;
    let mut idle = connect(address, &ask("/")).await;
    let all = String::from_utf8(until_closed(&mut idle).await).unwrap();
    assert!(all.starts_with("HTTP/1.1 200 ") && all.ends_with("done"), "{all}");
}

#[tokio::test]
async fn a_request_under_way_is_no_silence() {
    let limits = ConnectionLimits { first_byte: SHORT, head: SHORT, idle: SHORT, ..patient() };
    let (address, Inside { entered, leave }) = start(limits).await;
    let mut waits = connect(address, &ask("/wait")).await;
    entered.acquire().await.unwrap().forget();
    // All limits are over once these are closed: one after the other.
    for says in ["", "GET", &ask("/")] {
        until_closed(&mut connect(address, says).await).await;
    }
    leave.add_permits(1);
    assert!(is_answered(&mut waits, "waited").await, "it was cut");
}

/// It says nothing for longer than a connection of HTTP may, and has its seat all the same.
#[tokio::test]
async fn a_websocket_may_be_silent_and_keeps_its_seat() {
    const UPGRADE: &str = "GET /echo HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
        sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let (address, _) = start(ConnectionLimits { idle: SHORT, of_this_host: 2, ..patient() }).await;
    let mut socket = connect(address, UPGRADE).await;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        assert_ne!(timeout(PATIENCE, socket.read_buf(&mut head)).await.expect("no upgrade").unwrap(), 0);
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
    // One that is idle for as long is closed.
    until_closed(&mut connect(address, &ask("/")).await).await;
    let mut beside = connect(address, &ask("/wait")).await;
    until_closed(&mut connect(address, "").await).await;
    // A text of two letters, masked with nothing; and back without a mask.
    socket.write_all(&[0x81, 0x82, 0, 0, 0, 0, b'h', b'i']).await.unwrap();
    let mut echo = [0; 4];
    timeout(PATIENCE, socket.read_exact(&mut echo)).await.expect("it is silent").unwrap();
    assert_eq!(echo, [0x81, 2, b'h', b'i']);
    until_closed(&mut socket).await;
    drop(beside.shutdown().await);
}

#[tokio::test]
async fn refuse_18_a_tls_handshake_that_does_not_come_is_given_up() {
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (cert, private) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    std::fs::write(&cert, key.cert.pem()).unwrap();
    std::fs::write(&private, key.signing_key.serialize_pem()).unwrap();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let tls = TlsAcceptor::from(Arc::new(tls::config(&cert, &private).unwrap()));
    let (address, _) = start_with(ConnectionLimits { tls_handshake: SHORT, ..patient() }, Some(tls)).await;
    for says in ["", "\x16\x03\x01"] {
        until_closed(&mut connect(address, says).await).await;
    }
}

#[tokio::test]
async fn refuse_24_whoever_comes_beyond_the_cap_is_let_go_of_at_once() {
    let (address, _) = start(ConnectionLimits { of_this_host: 3, ..patient() }).await;
    let mut inside = Vec::new();
    for _ in 0..3 {
        let mut stream = connect(address, &ask("/")).await;
        assert!(is_answered(&mut stream, "done").await);
        inside.push(stream);
    }
    until_closed(&mut connect(address, "").await).await;
    // Who is inside goes on, and who leaves makes room.
    let mut first = inside.remove(0);
    first.write_all(ask("/").as_bytes()).await.unwrap();
    assert!(is_answered(&mut first, "done").await);
    drop(first);
    let comes_in = async {
        while !is_answered(&mut connect(address, &ask("/")).await, "done").await {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, comes_in).await.expect("there is no room");
}

/// HTTP/2, as far as a flood needs it.
mod frames {
    pub(super) const BEGIN: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    pub(super) const RESET: u8 = 3;
    pub(super) const GO_AWAY: u8 = 7;

    /// A request without a body: method, scheme, authority and path, in HPACK's shortest words.
    pub(super) fn request(stream: u32, path: &str) -> Vec<u8> {
        let mut block = vec![0x82, 0x86, 0x41, 1, b'x', 0x04, u8::try_from(path.len()).unwrap()];
        block.extend_from_slice(path.as_bytes());
        let mut frame = vec![0, 0, u8::try_from(block.len()).unwrap(), 1, 0x05];
        frame.extend_from_slice(&stream.to_be_bytes());
        frame.extend_from_slice(&block);
        frame
    }

    /// Each frame's kind, and the number that its payload ends with.
    pub(super) fn read(mut bytes: &[u8]) -> Vec<(u8, u32)> {
        let mut frames = Vec::new();
        while let [a, b, c, kind, _flags, _, _, _, _, rest @ ..] = bytes {
            let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            let Some((payload, after)) = rest.split_at_checked(length) else { break };
            let number = match *kind {
                GO_AWAY => payload.get(4..8),
                _ => payload.last_chunk::<4>().map(<[u8; 4]>::as_slice),
            };
            let number = number.and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes);
            frames.push((*kind, number));
            bytes = after;
        }
        frames
    }
}

#[tokio::test]
async fn refuse_24_streams_beyond_the_limit_are_refused_and_a_flood_of_them_ends_its_connection() {
    const REFUSED_STREAM: u32 = 7;
    const ENHANCE_YOUR_CALM: u32 = 11;
    let (address, Inside { entered, leave: _ }) = start(ConnectionLimits { streams: 4, ..patient() }).await;
    let mut flood = connect(address, "").await;
    let mut says = frames::BEGIN.to_vec();
    for number in 0..200 {
        says.extend(frames::request(2 * number + 1, "/wait"));
    }
    flood.write_all(&says).await.unwrap();
    let frames = frames::read(&until_closed(&mut flood).await);
    assert!(frames.contains(&(frames::RESET, REFUSED_STREAM)), "{frames:?}");
    assert!(frames.contains(&(frames::GO_AWAY, ENHANCE_YOUR_CALM)), "{frames:?}");
    assert!(entered.available_permits() <= 4, "{} were inside", entered.available_permits());
    assert!(is_answered(&mut connect(address, &ask("/")).await, "done").await);
}

#[tokio::test]
async fn refuse_18_a_connection_that_answers_no_ping_is_closed() {
    let (address, Inside { entered, leave: _ }) =
        start(ConnectionLimits { ping: SHORT, pong: SHORT, ..patient() }).await;
    let mut dead = connect(address, "").await;
    dead.write_all(&[frames::BEGIN, &frames::request(1, "/wait")].concat()).await.unwrap();
    entered.acquire().await.unwrap().forget();
    until_closed(&mut dead).await;
}
