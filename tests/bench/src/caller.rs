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
    address: String,
    token: String,
}

pub(crate) struct Answer {
    status: u16,
    body: Vec<u8>,
}

/// Only something that hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

impl Caller {
    pub(crate) fn connect(api: &Api) -> Result<Self> {
        let address = api.base().trim_start_matches("http://").to_owned();
        let stream = TcpStream::connect(&address).context("a connection to serve")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let token = api.token().unwrap_or_default().to_owned();
        Ok(Self { stream: BufReader::new(stream), address, token })
    }

    pub(crate) fn post(&mut self, path: &str, body: &Value) -> Result<Answer> {
        let body = body.to_string();
        let Self { stream: _, address, token } = self;
        let request = format!(
            "POST /api/v1/{path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes())?;
        self.answer()
    }

    /// Its next requests are another's.
    pub(crate) fn becomes(&mut self, token: String) {
        self.token = token;
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
