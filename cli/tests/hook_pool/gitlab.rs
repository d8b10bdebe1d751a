//! As much of GitLab as is asked about one machine and its jobs, over real HTTP. It tells in which order it was asked, and what the machine had done by
//! then.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

pub(crate) struct GitLab {
    pub(crate) url: String,
    desk: Arc<Mutex<Desk>>,
}

#[derive(Default)]
struct Desk {
    /// How the jobs ended that are over, by their ids.
    over: BTreeMap<String, &'static str>,
    asked: Vec<Asked>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    /// `paused`, `unpaused` or `job`.
    pub(crate) what: &'static str,
    /// How often the machine had been cleaned by then.
    pub(crate) cleaned: usize,
}

impl GitLab {
    /// `did`: a file with a line for each time that the machine was cleaned.
    pub(crate) fn start(did: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let desk = Arc::new(Mutex::new(Desk::default()));
        let behind = Arc::clone(&desk);
        thread::spawn(move || {
            for caller in listener.incoming() {
                let (desk, did) = (Arc::clone(&behind), did.clone());
                thread::spawn(move || serve(&desk, &did, caller.unwrap()));
            }
        });
        Self { url, desk }
    }

    pub(crate) fn job_is_over(&self, job: &str, status: &'static str) {
        locked(&self.desk).over.insert(job.to_owned(), status);
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        locked(&self.desk).asked.clone()
    }
}

fn locked(desk: &Mutex<Desk>) -> MutexGuard<'_, Desk> {
    desk.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One request, and then the connection ends.
fn serve(desk: &Mutex<Desk>, did: &PathBuf, caller: TcpStream) {
    let mut reader = BufReader::new(caller);
    let (mut line, mut length) = (String::new(), 0);
    reader.read_line(&mut line).unwrap();
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header).unwrap() <= 2 {
            break;
        }
        if let Some((name, value)) = header.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let body = String::from_utf8(body).unwrap();
    let cleaned = fs::read_to_string(did).unwrap_or_default().lines().count();
    let (status, text) = answer(&mut locked(desk), line.trim(), &body, cleaned);
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close");
    write!(reader.into_inner(), "{head}\r\ncontent-length: {}\r\n\r\n{text}", text.len()).unwrap();
}

fn answer(desk: &mut Desk, line: &str, body: &str, cleaned: usize) -> (&'static str, String) {
    let path = line.split(' ').nth(1).unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default();
    if let Some(job) = path.strip_prefix("/api/v4/projects/7/jobs/") {
        desk.asked.push(Asked { what: "job", cleaned });
        let status = desk.over.get(job).copied().unwrap_or("running");
        return ("200 OK", format!("{{\"id\": {job}, \"status\": \"{status}\"}}"));
    }
    match (line.starts_with("PUT "), path) {
        (true, "/api/v4/runners/11") => {
            let paused = body.contains("true");
            desk.asked.push(Asked { what: if paused { "paused" } else { "unpaused" }, cleaned });
            ("200 OK", format!("{{\"id\": 11, \"paused\": {paused}, \"job_execution_status\": \"idle\"}}"))
        }
        (false, "/api/v4/runners/11/jobs") => ("200 OK", "[]".to_owned()),
        (_, _) => ("404 Not Found", "{\"message\": \"404 Not Found\"}".to_owned()),
    }
}
