//! Another network on this host, whose cable a test can cut.

use anyhow::{Context, Result, bail};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Set, it says that tests with a network of their own are not wanted here.
const LEAVE_OUT: &str = "MOTORPOOL_LEAVE_OUT_NETWORK";

/// With one cable to this host's own. Needs root.
#[derive(Debug)]
pub struct Network {
    name: String,
    cable: String,
    here: Ipv4Addr,
}

impl Network {
    /// None only where the environment asks for it, and then it says what is not tested. Where it can't be made, it is an error: a test
    /// that is left out in silence proves nothing.
    pub fn make(untested: &str) -> Result<Option<Self>> {
        if std::env::var_os(LEAVE_OUT).is_some_and(|value| !value.is_empty()) {
            eprintln!("LEFT OUT, as {LEAVE_OUT} asks; NOT tested: {untested}");
            return Ok(None);
        }
        let id = std::process::id();
        let [_, _, high, low] = id.to_be_bytes();
        let (here, there) =
            (Ipv4Addr::new(10, 213, high, low & !3 | 1), Ipv4Addr::new(10, 213, high, low & !3 | 2));
        let network = Self { name: format!("motorpool-{id}"), cable: format!("mp{id}"), here };
        let Self { name, cable, .. } = &network;
        ip(&format!("netns add {name}")).with_context(|| {
            format!(
                "a network of one's own needs root and the command `ip`; {LEAVE_OUT}=1 leaves this test out"
            )
        })?;
        ip(&format!("link add {cable} type veth peer name uplink netns {name}"))?;
        ip(&format!("addr add {here}/30 dev {cable}"))?;
        ip(&format!("-n {name} addr add {there}/30 dev uplink"))?;
        ip(&format!("-n {name} link set uplink up"))?;
        network.join()?;
        Ok(Some(network))
    }

    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    pub fn cut(&self) -> Result<()> {
        ip(&format!("link set {} down", self.cable))
    }

    pub fn join(&self) -> Result<()> {
        ip(&format!("link set {} up", self.cable))
    }

    /// An address in reach of the other network, where what comes is passed on to the loopback address of `server`.
    pub async fn relay_to(&self, server: &str) -> Result<(String, Relay)> {
        let to = server.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind((self.here, 0)).await.context("a place for the relay")?;
        let address = format!("http://{}", listener.local_addr()?);
        let task = tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let to = to.clone();
                tokio::spawn(async move {
                    if let Ok(mut far) = TcpStream::connect(to).await {
                        let _ended = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                    }
                });
            }
        });
        Ok((address, Relay(task)))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // The cable goes with the network.
        let _ = ip(&format!("netns del {}", self.name));
    }
}

/// It passes on what comes as long as this value lives.
#[derive(Debug)]
pub struct Relay(JoinHandle<()>);

impl Drop for Relay {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn ip(arguments: &str) -> Result<()> {
    let done = Command::new("ip").args(arguments.split(' ')).output().context("ip")?;
    if !done.status.success() {
        bail!("ip {arguments}: {}", String::from_utf8_lossy(&done.stderr));
    }
    Ok(())
}
