//! AWS for tests: ministack, in a Python environment of its own in the target directory, installed once. It starts it, waits until it
//! answers and ends it; what is asked of it, it does not know.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::cargo::{Cargo, must_succeed};
use crate::clock::Stopwatch;

/// Where the tests look for the endpoint.
pub(crate) const ENDPOINT: &str = "MOTORPOOL_AWS_ENDPOINT";

const VERSION: &str = "1.5.33";

/// It is up within a second or two; beyond this it hangs.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);
/// Time to end its functions and itself.
const ENDS_WITHIN: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(50);

/// It ends with whoever started it, however that ends: then its stdin is closed. Its Lambda runtime sends the head and the body of an
/// event apart: without the switch each invocation waits 40 ms for an acknowledgement in between.
const LAUNCHER: &str = "
import os, signal, socketserver, sys, threading
socketserver.StreamRequestHandler.disable_nagle_algorithm = True
def end_with_parent():
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=end_with_parent, daemon=True).start()
sys.argv = ['ministack']
from ministack.app import main
main()
";

/// A server that runs as long as this value lives.
#[derive(Debug)]
pub(crate) struct Ministack {
    child: Child,
    /// Held, never written to.
    stdin: Option<ChildStdin>,
    address: SocketAddr,
    log: PathBuf,
}

impl Ministack {
    /// Installs it if need be, starts it on this port of loopback or on a free one, and waits until it answers.
    pub(crate) fn start(cargo: &Cargo, port: Option<u16>) -> Result<Self> {
        let home = cargo.target_directory().join("tools").join(format!("ministack-{VERSION}"));
        let python = install(cargo, &home)?;
        let address = address(port)?;
        let log = home.join(format!("port-{}.log", address.port()));
        let mut child = command(cargo, &python, address, &log)?
            .spawn()
            .with_context(|| format!("cannot start {}", python.display()))?;
        let stdin = child.stdin.take();
        let mut started = Self { child, stdin, address, log };
        started.wait_until_it_answers()?;
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
        self.child.wait().context("cannot wait for ministack")
    }

    fn wait_until_it_answers(&mut self) -> Result<()> {
        for _ in 0..ANSWERS_WITHIN.as_millis() / PAUSE.as_millis() {
            if let Some(status) = self.child.try_wait().context("cannot look after ministack")? {
                bail!("ministack ended at once with {status}; its log is {}", self.log.display());
            }
            if answers(self.address) {
                return Ok(());
            }
            thread::sleep(PAUSE);
        }
        bail!(
            "ministack did not answer within {} s; its log is {}",
            ANSWERS_WITHIN.as_secs(),
            self.log.display()
        )
    }
}

impl Drop for Ministack {
    fn drop(&mut self) {
        drop(self.stdin.take());
        for _ in 0..ENDS_WITHIN.as_millis() / PAUSE.as_millis() {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            thread::sleep(PAUSE);
        }
        eprintln!("    ministack did not end when told to, and is killed");
        // Neither can fail in a way that could be helped here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program of the environment that has ministack. Whoever else installs it at the same time is waited for.
fn install(cargo: &Cargo, home: &Path) -> Result<PathBuf> {
    fs::create_dir_all(home).with_context(|| format!("cannot make {}", home.display()))?;
    let lock = File::create(home.join("lock")).context("cannot make a lock file for ministack")?;
    lock.lock().context("cannot wait for another installation of ministack")?;
    let (environment, finished) = (home.join("venv"), home.join("installed"));
    let python = environment.join("bin/python");
    if finished.exists() && python.exists() {
        return Ok(python);
    }

    let watch = Stopwatch::start();
    eprintln!("    ministack is missing: installing ministack {VERSION}, once");
    if environment.exists() {
        fs::remove_dir_all(&environment).context("cannot remove what is left of an installation")?;
    }
    ensure_venv(cargo)?;
    must_succeed(cargo.tool("python3").args(["-m", "venv"]).arg(&environment)).context(
        "the tests over AWS need python3 (3.10 or later) with its modules venv and ensurepip; \
         on Debian and Ubuntu: apt-get install python3-venv",
    )?;
    let package = format!("ministack=={VERSION}");
    must_succeed(cargo.tool(&python).args(["-m", "pip", "install", "--quiet", &package])).context(
        "the tests over AWS need ministack, an AWS emulator, from the Python package index; pip could not install it",
    )?;
    fs::write(&finished, VERSION).context("cannot note that ministack is installed")?;
    eprintln!("    ministack {VERSION} is installed: {watch}");
    Ok(python)
}

/// Debian keeps what makes an environment in a package of its own. Who may install it has it installed; anybody else is told by the
/// next step's error.
fn ensure_venv(cargo: &Cargo) -> Result<()> {
    let succeeds = |program: &str, arguments: &[&str]| {
        let mut command = cargo.tool(program);
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let there = succeeds("python3", &["-c", "import ensurepip, venv"]);
    let may_install = succeeds("sh", &["-c", "test \"$(id -u)\" = 0 && command -v apt-get"]);
    if there || !may_install {
        return Ok(());
    }
    const INSTALL: [&str; 4] = ["install", "-y", "-q", "python3-venv"];
    eprintln!("    python3 has no venv: installing the package python3-venv");
    if !succeeds("apt-get", &INSTALL) {
        must_succeed(cargo.tool("apt-get").args(["update", "-q"]))?;
        must_succeed(cargo.tool("apt-get").args(INSTALL))?;
    }
    Ok(())
}

fn address(port: Option<u16>) -> Result<SocketAddr> {
    let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, port.unwrap_or(0)));
    // Bound for a moment only: it is ministack that is to listen.
    let free = TcpListener::bind(wanted).with_context(|| format!("{wanted} is not free for ministack"))?;
    free.local_addr().context("cannot tell which port is free")
}

fn command(cargo: &Cargo, python: &Path, address: SocketAddr, log: &Path) -> Result<Command> {
    let written = File::create(log).with_context(|| format!("cannot make {}", log.display()))?;
    let also = written.try_clone().with_context(|| format!("cannot open {} twice", log.display()))?;
    let mut command = cargo.tool(python);
    // Its functions get what it has: nothing in there may lead them to a real account, or to the other control planes of this host.
    for (name, _) in std::env::vars_os() {
        let name_is = |prefix: &[u8]| name.as_encoded_bytes().starts_with(prefix);
        if name_is(b"AWS_") || name_is(b"MOTORPOOL_") {
            command.env_remove(&name);
        }
    }
    command
        .args(["-c", LAUNCHER])
        .env("BIND_HOST", address.ip().to_string())
        .env("GATEWAY_PORT", address.port().to_string())
        .env("AWS_ENDPOINT_URL", format!("http://{address}"))
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .env("AWS_DEFAULT_REGION", "us-east-1")
        .env("LAMBDA_EXECUTOR", "local")
        .stdin(Stdio::piped())
        .stdout(written)
        .stderr(also);
    Ok(command)
}

fn answers(address: SocketAddr) -> bool {
    health(address).is_ok_and(|line| line.contains(" 200"))
}

/// The status line with which it answers. LocalStack has the same path.
fn health(address: SocketAddr) -> Result<String> {
    let within = Duration::from_secs(2);
    let mut stream = TcpStream::connect_timeout(&address, within)?;
    stream.set_read_timeout(Some(within))?;
    write!(stream, "GET /_localstack/health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
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
        let refused = address(Some(port)).unwrap_err();
        assert_eq!(refused.to_string(), format!("127.0.0.1:{port} is not free for ministack"));
        assert_ne!(address(None)?.port(), 0);
        Ok(())
    }
}
