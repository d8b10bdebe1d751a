//! `motorpool serve`: the whole control plane in one process, on a ledger of its own or on one that it shares. Composes and runs;
//! decides nothing.

mod data_dir;
mod listener;
mod logging;
mod stores;
mod ticker;

use crate::args::ServeArgs;
use crate::errors::{Failure, chain};
use crate::pools_file::{self, PoolsFile};
use data_dir::DataDir;
use listener::Listener;
use motorpool_backend_local::{LocalBackend, LocalConfig};
use motorpool_control::ports::backend::{Backends, OwnedMachines};
use motorpool_control::ports::clock::SystemClock;
use motorpool_control::ports::entropy::SystemEntropy;
use motorpool_control::{Control, Parts, Settings};
use motorpool_domain::pool::BackendKind;
use motorpool_http::auth::sha256;
use motorpool_http::{Bells, Gate, HttpLimits, HttpState};
use secrecy::ExposeSecret;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use stores::{Place, Stores};

/// Runs until it is told to stop, by SIGTERM or SIGINT.
pub(crate) async fn run(args: ServeArgs) -> Result<(), Failure> {
    logging::start(args.log_format);
    data_dir::must_be_closed_to_writers(&args.pools)?;
    let file = pools_file::load(&args.pools).map_err(|error| {
        Failure::failed(chain(&error), "the README shows a pools file; correct it and start again")
    })?;
    let data = DataDir::open(&args.data_dir)?;
    let Stores { ledger, queue, secret, place } = stores::open(&args, &data, file.pools.keys()).await?;
    let listener = Listener::bind(&args).await?;

    let bells = Arc::new(Bells::default());
    let control = Arc::new(Control::new(Parts {
        ledger,
        queue,
        backends: backends(&args, &data, &listener)?,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        doorbell: Arc::clone(&bells) as _,
        secret,
        settings: settings(&file),
    }));
    control.define_pools(&file.pools).await.map_err(refused)?;
    control.begin_listening().await.map_err(refused)?;
    tracing::info!(pools = file.pools.len(), "the pools are defined");
    match &place {
        Place::InProcess(_) => {
            let announced = control.announce_all_idle().await.map_err(refused)?;
            tracing::info!(announced, "the idle runners are announced");
        }
        // Those queues are still what they were.
        Place::OnAws { .. } => {}
    }

    let gate = gate(&file, &data)?;
    let router = motorpool_http::router(HttpState {
        control: Arc::clone(&control),
        gate,
        bells: Arc::clone(&bells),
        limits: HttpLimits::default(),
    });
    let ticker = ticker::start(control, place, ticker::Every { refresh: file.refresh, sweep: file.sweep });
    let outcome = listener.serve(router, bells).await;
    ticker.stop().await;
    outcome
}

fn backends(args: &ServeArgs, data: &DataDir, listener: &Listener) -> Result<Backends, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::failed(format!("this program's own path can't be told: {error}"), ""))?;
    let local = LocalBackend::new(LocalConfig {
        site: data.site()?,
        program,
        args: vec![OsString::from("agent")],
        root: data.path().join("runners"),
        server_url: listener.url_for_agents(args),
        ca_file: args.tls_cert.as_deref().map(absolute).transpose()?,
    });
    Ok(Backends::default()
        .with(BackendKind::Local, Arc::new(local))
        .with(BackendKind::BareMetal, Arc::new(OwnedMachines)))
}

fn absolute(path: &Path) -> Result<std::path::PathBuf, Failure> {
    std::path::absolute(path)
        .map_err(|error| Failure::failed(format!("the path {} can't be told: {error}", path.display()), ""))
}

fn settings(file: &PoolsFile) -> Settings {
    Settings {
        refresh: file.refresh,
        sweep: file.sweep,
        resource_classes: file.resource_classes.clone(),
        host: pools_file::host_spec(),
    }
}

fn gate(file: &PoolsFile, data: &DataDir) -> Result<Gate, Failure> {
    let admin = data.admin_token()?;
    let teams = file
        .teams
        .iter()
        .flat_map(|(owner, hashes)| hashes.iter().map(|hash| (owner.clone(), *hash)))
        .collect();
    Ok(Gate { admin_sha256: sha256(admin.expose_secret()), teams })
}

fn refused(refused: motorpool_control::Refused) -> Failure {
    Failure::failed(refused.message, refused.hint)
}
