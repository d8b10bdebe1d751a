//! A caller of the API that costs next to nothing itself: one thread, one connection, one request after the other. As the floor's callers are
//! threads, so are ours; what an HTTP client of any comfort adds is not what is measured.

use anyhow::{Context, Result, ensure};
use motorpool_tests::harness::api::Api;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

pub(crate) struct Caller {
    stream: BufReader<TcpStream>,
    /// What every request of this caller begins with, after its path.
    head: String,
}

pub(crate) struct Answer {
    status: u16,
    body: Vec<u8>,
}

/// Only something that hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

impl Caller {
    pub(crate) fn connect(api: &Api) -> Result<Self> {
        let address = api.base().trim_start_matches("http://");
        let stream = TcpStream::connect(address).context("a connection to serve")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let token = api.token().unwrap_or_default();
        let head = format!(
            "HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n"
        );
        Ok(Self { stream: BufReader::new(stream), head })
    }

    pub(crate) fn post(&mut self, path: &str, body: &Value) -> Result<Answer> {
        let body = body.to_string();
        let request =
            format!("POST /api/v1/{path} {}content-length: {}\r\n\r\n{body}", self.head, body.len());
        self.stream.get_mut().write_all(request.as_bytes())?;
        self.answer()
    }

    fn answer(&mut self) -> Result<Answer> {
        let (mut line, mut length) = (String::new(), 0);
        self.stream.read_line(&mut line)?;
        let status = line.split(' ').nth(1).context("no answer")?.parse()?;
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            let Some((name, value)) = line.split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse()?;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok(Answer { status, body })
    }
}

impl Answer {
    pub(crate) fn expect(self, expected: u16) -> Result<Value> {
        let Self { status, body } = self;
        ensure!(status == expected, "expected {expected}, got {status}: {}", String::from_utf8_lossy(&body));
        Ok(serde_json::from_slice(&body)?)
    }
}
