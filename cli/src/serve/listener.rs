//! The listening socket: plain or TLS, with a graceful end.

use crate::args::ServeArgs;
use crate::errors::Failure;
use crate::private_file;
use axum::Router;
use axum_server::Handle;
use axum_server::tls_rustls::{RustlsConfig, from_tcp_rustls};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use motorpool_agent::cli::INSECURE_HTTP;
use motorpool_http::Notifier;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Debug)]
pub(super) struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    tls: Option<RustlsConfig>,
}

/// How long a caller may take to send its headers: whoever opens a connection and says nothing is not waited for.
const HEADERS_WITHIN: Duration = Duration::from_secs(15);
/// How long requests under way may take once a stop is asked for.
const GRACE: Duration = Duration::from_secs(10);

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
        let tls = tls(args).await?;
        let cannot = |error: std::io::Error| {
            let hint = if error.kind() == std::io::ErrorKind::PermissionDenied {
                "a port below 1024 needs a privilege: choose another with --listen, such as 8443"
            } else {
                "another program may have the port: choose another with --listen"
            };
            Failure::failed(format!("cannot listen on {}: {error}", args.listen), hint)
        };
        let socket = TcpListener::bind(args.listen).map_err(cannot)?;
        socket.set_nonblocking(true).map_err(cannot)?;
        let address = socket.local_addr().map_err(cannot)?;
        if tls.is_none() && !is_loopback(address) {
            tracing::warn!(%address, "tokens cross the network in the clear, as --insecure-http allows");
        }
        Ok(Self { socket, address, tls })
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
    pub(super) async fn serve(self, router: Router, notifier: Arc<Notifier>) -> Result<(), Failure> {
        let handle = Handle::new();
        tokio::spawn(stop_on_signal(handle.clone(), notifier));
        say_listening(&format!("{}://{}", self.scheme(), self.address));
        let served = self.until_stopped(router, handle).await;
        served.map_err(|error| Failure::failed(format!("the server failed: {error}"), "see the log above"))
    }

    async fn until_stopped(self, router: Router, handle: Handle<SocketAddr>) -> std::io::Result<()> {
        let service = router.into_make_service();
        match self.tls {
            Some(config) => {
                let mut server = from_tcp_rustls(self.socket, config)?.handle(handle);
                bound(server.http_builder());
                server.serve(service).await
            }
            None => {
                let mut server = axum_server::from_tcp(self.socket)?.handle(handle);
                bound(server.http_builder());
                server.serve(service).await
            }
        }
    }
}

fn bound(http: &mut Builder<TokioExecutor>) {
    http.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS_WITHIN);
}

async fn stop_on_signal(handle: Handle<SocketAddr>, notifier: Arc<Notifier>) {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::error!("signals can't be heard; stop this process with SIGKILL, which loses nothing");
        return;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!(
        "stopping: what is under way may finish; local runners stay, and go on with the next start"
    );
    notifier.close();
    handle.graceful_shutdown(Some(GRACE));
}

async fn tls(args: &ServeArgs) -> Result<Option<RustlsConfig>, Failure> {
    let (Some(cert), Some(key)) = (&args.tls_cert, &args.tls_key) else { return Ok(None) };
    private_file::must_be_closed(key)?;
    // Fails only if it is set already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = RustlsConfig::from_pem_file(cert, key).await.map_err(|error| {
        Failure::failed(
            format!("cannot use {} with {}: {error}", cert.display(), key.display()),
            "both must be PEM files, the key belonging to the certificate",
        )
    })?;
    Ok(Some(config))
}

/// The one line on stdout: for whoever started this process, and waits for it to be ready.
#[expect(clippy::print_stdout, reason = "the line is part of the command's interface")]
fn say_listening(url: &str) {
    println!("listening on {url}");
    // Nobody may be reading; the server serves all the same.
    let _ = std::io::stdout().flush();
}
