//! Those who flood, on a thread of their own, until they are told to stop. Each is bounded in number, and none goes on after its time.

use super::{FLOODERS, POOLS_BESIDE, SILENT, SLOW_BODIES, STREAM_CONNECTIONS};
use anyhow::{Context, Result, anyhow, ensure};
use motorpool_tests::harness::api::Api;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Whatever else happens, nobody floods for longer.
const AT_MOST: Duration = Duration::from_secs(60);
const BETWEEN_BYTES: Duration = Duration::from_millis(500);
/// As many as one connection may have under way.
const STREAMS: u32 = 64;

pub(super) struct Attack {
    over: watch::Sender<bool>,
    thread: JoinHandle<Result<()>>,
    counted: Arc<Counted>,
}

#[derive(Default)]
struct Counted {
    silent_open: AtomicUsize,
    silent_closed: AtomicUsize,
    bodies_answered: AtomicUsize,
    streams_answered: AtomicUsize,
    served: AtomicUsize,
    turned_away: AtomicUsize,
}

impl Attack {
    /// Returns once the silent connections are open, and all others are at work.
    pub(super) fn start(base: &str, token: &str) -> Result<Self> {
        let address = base.trim_start_matches("http://").to_owned();
        let api = Api::new(base, token)?;
        let (over, counted) = (watch::Sender::new(false), Arc::new(Counted::default()));
        let (ready, is_ready) = mpsc::channel();
        let thread = {
            let (until, counted) = (over.subscribe(), Arc::clone(&counted));
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(all(address, api, until, counted, ready))
            })
        };
        is_ready.recv_timeout(AT_MOST).context("the flood did not begin")?;
        Ok(Self { over, thread, counted })
    }

    /// What became of it.
    pub(super) fn end(self) -> Result<Value> {
        self.over.send_replace(true);
        self.thread.join().map_err(|_| anyhow!("the flood panicked"))??;
        let Counted { silent_open, silent_closed, bodies_answered, streams_answered, served, turned_away } =
            self.counted.as_ref();
        let of = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        Ok(json!({
            "silent_open": of(silent_open), "silent_closed": of(silent_closed),
            "bodies_answered": of(bodies_answered), "streams_answered": of(streams_answered),
            "served": of(served), "turned_away": of(turned_away),
        }))
    }
}

async fn all(
    address: String,
    api: Api,
    mut over: watch::Receiver<bool>,
    counted: Arc<Counted>,
    ready: mpsc::Sender<()>,
) -> Result<()> {
    let mut flood = JoinSet::new();
    for _ in 0..SILENT {
        let stream = TcpStream::connect(&address).await.context("a silent connection")?;
        counted.silent_open.fetch_add(1, Ordering::Relaxed);
        flood.spawn(silent(stream, Arc::clone(&counted)));
    }
    for _ in 0..SLOW_BODIES {
        flood.spawn(slow_bodies(address.clone(), api.clone(), Arc::clone(&counted)));
    }
    for _ in 0..STREAM_CONNECTIONS {
        flood.spawn(streams(address.clone(), Arc::clone(&counted)));
    }
    for number in 0..FLOODERS {
        flood.spawn(requests(api.clone(), number, Arc::clone(&counted)));
    }
    let _ = ready.send(());
    // Dropping the set ends them all.
    let _ = timeout(AT_MOST, over.wait_for(|over| *over)).await;
    ensure!(!flood.is_empty(), "nobody flooded");
    Ok(())
}

async fn silent(mut stream: TcpStream, counted: Arc<Counted>) {
    let _ = stream.read(&mut [0; 1]).await;
    counted.silent_closed.fetch_add(1, Ordering::Relaxed);
}

/// A body a byte at a time, and again when it is answered.
async fn slow_bodies(address: String, api: Api, counted: Arc<Counted>) {
    let token = api.token().unwrap_or_default();
    let head = format!(
        "POST /api/v1/provision HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: 1000\r\n\r\n"
    );
    loop {
        let Ok(mut stream) = TcpStream::connect(&address).await else {
            sleep(BETWEEN_BYTES).await;
            continue;
        };
        let (mut answers, mut body) = stream.split();
        let sends = async {
            body.write_all(head.as_bytes()).await?;
            loop {
                body.write_all(b" ").await?;
                sleep(BETWEEN_BYTES).await;
            }
        };
        let mut answer = [0; 1];
        let _: Result<(), std::io::Error> = tokio::select! {
            failed = sends => failed,
            _ = answers.read(&mut answer) => Ok(()),
        };
        counted.bodies_answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// As many streams as a connection may have, without a token, and again when they are answered.
async fn streams(address: String, counted: Arc<Counted>) {
    loop {
        let Ok(mut stream) = TcpStream::connect(&address).await else {
            sleep(BETWEEN_BYTES).await;
            continue;
        };
        // However it ends, it begins again.
        let _ = stream_rounds(&mut stream, &counted).await;
    }
}

async fn stream_rounds(stream: &mut TcpStream, counted: &Counted) -> std::io::Result<()> {
    // The preface, settings without any, and room for all answers that will come.
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x04\x08\0\0\0\0\0\x3f\xff\0\0")
        .await?;
    let (mut number, mut bytes) = (1_u32, Vec::new());
    loop {
        let mut round = Vec::new();
        for _ in 0..STREAMS {
            round.extend(headers(number));
            number += 2;
        }
        stream.write_all(&round).await?;
        let mut answered = 0;
        while answered < STREAMS {
            if stream.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
            let (frames, rest) = whole_frames(&bytes);
            let answers = frames.iter().filter(|kind| **kind == 1).count();
            answered += u32::try_from(answers).unwrap_or(STREAMS);
            counted.streams_answered.fetch_add(answers, Ordering::Relaxed);
            bytes = rest;
        }
    }
}

/// `GET /api/v1/pools` in HPACK's shortest words.
fn headers(stream: u32) -> Vec<u8> {
    const PATH: &[u8] = b"/api/v1/pools";
    let mut block = vec![0x82, 0x86, 0x41, 1, b'x', 0x04, PATH.len() as u8];
    block.extend_from_slice(PATH);
    let mut frame = vec![0, 0, block.len() as u8, 1, 0x05];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(&block);
    frame
}

/// The kinds of the frames that are whole, and the bytes after them.
fn whole_frames(mut bytes: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut kinds = Vec::new();
    while let [a, b, c, kind, _, _, _, _, _, rest @ ..] = bytes {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let Some((_, after)) = rest.split_at_checked(length) else { break };
        kinds.push(*kind);
        bytes = after;
    }
    (kinds, bytes.to_vec())
}

/// One of the team's own requests after the other, whatever the answer.
async fn requests(api: Api, number: usize, counted: Arc<Counted>) {
    let body = json!({"workflow": format!("flood-{number}"), "pool": crate::pools::name(POOLS_BESIDE)});
    loop {
        match api.post("provision", body.clone()).await {
            Ok(answer) if answer.status == 429 => counted.turned_away.fetch_add(1, Ordering::Relaxed),
            Ok(_) => counted.served.fetch_add(1, Ordering::Relaxed),
            Err(_) => 0,
        };
    }
}
