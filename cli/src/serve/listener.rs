//! The listening socket: plain or TLS, with bounds on who is connected and for how long, and a graceful end.

mod connection;
mod crowd;
mod limits;
mod silence;
#[cfg(test)]
mod tests;
mod tls;

use crate::args::ServeArgs;
use crate::errors::Failure;
use crate::open_files;
use axum::Router;
use connection::{GRACE, Server};
use crowd::Crowd;
use limits::ConnectionLimits;
use motorpool_agent::cli::INSECURE_HTTP;
use motorpool_http::Notifier;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

pub(super) struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    limits: ConnectionLimits,
    /// How many files this process might have open before it asked for more.
    pub(super) open_files_before: Option<u64>,
}

/// So many who come at once are let in before whoever is in already has its turn.
const LET_IN_TOGETHER: usize = 8;

/// Where nobody can be let in, as with too many files open, it is tried again after this.
const TRY_AGAIN: Duration = Duration::from_millis(50);

/// Whoever is on the way would read the tokens of everybody: only the operator can know that nobody is.
pub(super) fn must_not_be_plain_beyond_loopback(args: &ServeArgs) -> Result<(), Failure> {
    if args.tls_cert.is_some() || args.insecure_http || is_loopback(args.listen) {
        return Ok(());
    }
    Err(Failure::usage(
        format!(
            "on {} every token would cross the network in the clear: serve has no TLS there",
            args.listen
        ),
        format!(
            "give --tls-cert and --tls-key (docs/ec2.md has the openssl line that makes them); or listen on 127.0.0.1, with a TLS proxy on \
             this host; or say --insecure-http ({INSECURE_HTTP}=1), if that network is safe"
        ),
    ))
}

fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

impl Listener {
    pub(super) async fn bind(args: &ServeArgs) -> Result<Self, Failure> {
        let tls = tls::acceptor(args)?;
        let cannot = |error: std::io::Error| {
            let hint = if error.kind() == std::io::ErrorKind::PermissionDenied {
                "a port below 1024 needs a privilege: choose another with --listen, such as 8443"
            } else {
                "another program may have the port: choose another with --listen"
            };
            Failure::failed(format!("cannot listen on {}: {error}", args.listen), hint)
        };
        let socket = TcpListener::bind(args.listen).await.map_err(cannot)?;
        let address = socket.local_addr().map_err(cannot)?;
        if tls.is_none() && !is_loopback(address) {
            tracing::warn!(%address, "tokens cross the network in the clear, as --insecure-http allows");
        }
        let open_files = open_files::raise();
        let limits = ConnectionLimits::within(open_files.most, args.connections_per_address);
        Ok(Self { socket, address, tls, limits, open_files_before: open_files.before })
    }

    fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// How an agent on this host reaches this server.
    pub(super) fn url_for_agents(&self, args: &ServeArgs) -> String {
        if let Some(url) = &args.public_url {
            return url.trim_end_matches('/').to_owned();
        }
        let ip = match self.address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
        };
        format!("{}://{}", self.scheme(), SocketAddr::new(ip, self.address.port()))
    }

    /// Serves until a signal comes; then long polls are answered, and what is under way may finish.
    pub(super) async fn serve(self, router: Router, notifier: Arc<Notifier>) {
        say_listening(&format!("{}://{}", self.scheme(), self.address));
        self.until(stop_signal(notifier), router).await;
    }

    async fn until(self, stop: impl Future<Output = ()>, router: Router) {
        let Self { socket, address: _, tls, limits, open_files_before: _ } = self;
        let (stopping, watched) = watch::channel(false);
        let server = Arc::new(Server::new(limits, router, tls));
        let crowd = Arc::new(Crowd::new(limits));
        tokio::select! {
            () = accept(&socket, &crowd, &server, &watched) => {}
            () = stop => {}
        }
        // Who comes now is refused by the host.
        drop((socket, watched));
        stopping.send_replace(true);
        // Each connection has its grace; nobody waits for more.
        let _ = timeout(GRACE, stopping.closed()).await;
    }
}

async fn accept(
    socket: &TcpListener,
    crowd: &Arc<Crowd>,
    server: &Arc<Server>,
    stopping: &watch::Receiver<bool>,
) {
    let mut let_in: usize = 0;
    loop {
        let_in = (let_in + 1) % LET_IN_TOGETHER;
        if let_in == 0 {
            yield_now().await;
        }
        let (stream, peer) = match socket.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "a connection was not accepted");
                sleep(TRY_AGAIN).await;
                continue;
            }
        };
        let Some(seat) = crowd.admit(peer.ip()) else { continue };
        let (server, stopping) = (Arc::clone(server), stopping.clone());
        tokio::spawn(async move {
            server.connection(stream, seat, stopping).await;
        });
    }
}

/// Ends when this process is told to stop. Whoever waits in a long poll is answered then.
async fn stop_signal(notifier: Arc<Notifier>) {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::error!("signals can't be heard; stop this process with SIGKILL, which loses nothing");
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!(
        "stopping: what is under way may finish; local runners stay, and go on with the next start"
    );
    notifier.close();
}

/// The one line on stdout: for whoever started this process, and waits for it to be ready.
#[expect(clippy::print_stdout, reason = "the line is part of the command's interface")]
fn say_listening(url: &str) {
    println!("listening on {url}");
    // Nobody may be reading; the server serves all the same.
    let _ = std::io::stdout().flush();
}
