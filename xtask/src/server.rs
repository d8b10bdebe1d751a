//! A server that somebody else wrote, run on loopback for the tests: started, waited for until it answers, and ended with whoever started
//! it. What is asked of it, it does not know.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// They are up within a few seconds; beyond this one hangs.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);
/// Time to end what it started, and itself.
const ENDS_WITHIN: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(50);

/// It runs as long as this value lives.
#[derive(Debug)]
pub(crate) struct Server {
    name: &'static str,
    child: Child,
    /// Held, never written to. Closed, it tells the server to end: so it ends however we do.
    stdin: Option<ChildStdin>,
    address: SocketAddr,
    log: PathBuf,
}

impl Server {
    /// Starts it on this port of loopback or on a free one, and waits until it answers 200 at `health`. It must end when its stdin is closed.
    pub(crate) fn start(
        name: &'static str,
        home: &Path,
        port: Option<u16>,
        health: &str,
        command: impl FnOnce(SocketAddr) -> Command,
    ) -> Result<Self> {
        let address = address(name, port)?;
        let log = home.join(format!("port-{}.log", address.port()));
        let written = File::create(&log).with_context(|| format!("cannot make {}", log.display()))?;
        let also = written.try_clone().with_context(|| format!("cannot open {} twice", log.display()))?;
        let mut child = command(address)
            .stdin(Stdio::piped())
            .stdout(written)
            .stderr(also)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let stdin = child.stdin.take();
        let mut started = Self { name, child, stdin, address, log };
        started.wait_until_it_answers(health)?;
        Ok(started)
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it has to say for itself.
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// Waits until somebody ends it.
    pub(crate) fn wait(mut self) -> Result<ExitStatus> {
        self.child.wait().with_context(|| format!("cannot wait for {}", self.name))
    }

    fn wait_until_it_answers(&mut self, health: &str) -> Result<()> {
        let name = self.name;
        for _ in 0..ANSWERS_WITHIN.as_millis() / PAUSE.as_millis() {
            if let Some(status) =
                self.child.try_wait().with_context(|| format!("cannot look after {name}"))?
            {
                bail!("{name} ended at once with {status}; its log is {}", self.log.display());
            }
            if status_line(self.address, health).is_ok_and(|line| line.contains(" 200")) {
                return Ok(());
            }
            thread::sleep(PAUSE);
        }
        bail!(
            "{name} did not answer within {} s; its log is {}",
            ANSWERS_WITHIN.as_secs(),
            self.log.display()
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stdin.take());
        for _ in 0..ENDS_WITHIN.as_millis() / PAUSE.as_millis() {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            thread::sleep(PAUSE);
        }
        eprintln!("    {} did not end when told to, and is killed", self.name);
        // Neither can fail in a way that could be helped here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn address(name: &str, port: Option<u16>) -> Result<SocketAddr> {
    let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, port.unwrap_or(0)));
    // Bound for a moment only: it is the server that is to listen.
    let free = TcpListener::bind(wanted).with_context(|| format!("{wanted} is not free for {name}"))?;
    free.local_addr().context("cannot tell which port is free")
}

/// With which it answers.
fn status_line(address: SocketAddr, path: &str) -> Result<String> {
    let within = Duration::from_secs(2);
    let mut stream = TcpStream::connect_timeout(&address, within)?;
    stream.set_read_timeout(Some(within))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    ensure!(!line.is_empty(), "it hung up");
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_taken_is_refused_and_a_free_one_is_found() -> Result<()> {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = taken.local_addr()?.port();
        let refused = address("ministack", Some(port)).unwrap_err();
        assert_eq!(refused.to_string(), format!("127.0.0.1:{port} is not free for ministack"));
        assert_ne!(address("ministack", None)?.port(), 0);
        Ok(())
    }
}
