//! Between QEMU and a server of this host: QEMU starts a program for each connection that the guest makes to the metadata address, and speaks
//! through its stdin and stdout. So the metadata service needs no port of its own on this host, let alone port 80.

use anyhow::{Context, Result};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

/// The first argument that makes this program a pipe; the second is where to.
pub(crate) const NAME: &str = "pipe";

/// Until the server hangs up. The guest may close its half before.
pub(crate) fn run(address: &str) -> Result<()> {
    let mut server = TcpStream::connect(address).with_context(|| format!("cannot reach {address}"))?;
    let mut requests = server.try_clone().context("the server's connection")?;
    std::thread::spawn(move || {
        // Whatever breaks, the answer's end tells.
        let _ = io::copy(&mut io::stdin().lock(), &mut requests);
        let _ = requests.shutdown(Shutdown::Write);
    });
    let (mut answer, mut out) = ([0; 8_192], io::stdout().lock());
    loop {
        let length = server.read(&mut answer).context("the answer")?;
        if length == 0 {
            return Ok(());
        }
        out.write_all(&answer[..length]).and_then(|()| out.flush()).context("the guest")?;
    }
}
