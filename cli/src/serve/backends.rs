//! Where this serve's machines come from: its own host, the operator's own, and EC2 where that is built in and wanted.

use super::data_dir::DataDir;
use super::listener::Listener;
use crate::args::ServeArgs;
use crate::errors::Failure;
use motorpool_backend_local::{LocalBackend, LocalConfig};
use motorpool_control::ServerSecret;
use motorpool_control::ports::backend::{Backends, OwnedMachines};
use motorpool_domain::PoolName;
use motorpool_domain::pool::{BackendKind, Rules};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) struct Place<'a> {
    pub(super) args: &'a ServeArgs,
    pub(super) data: &'a DataDir,
    pub(super) listener: &'a Listener,
    #[cfg_attr(not(feature = "ec2"), expect(dead_code, reason = "only EC2 asks for it"))]
    pub(super) secret: &'a ServerSecret,
    #[cfg_attr(not(feature = "ec2"), expect(dead_code, reason = "only EC2 asks for it"))]
    pub(super) pools: &'a BTreeMap<PoolName, Rules>,
}

pub(super) async fn open(place: &Place<'_>) -> Result<Backends, Failure> {
    let backends = Backends::default()
        .with(BackendKind::Local, Arc::new(local(place)?))
        .with(BackendKind::BareMetal, Arc::new(OwnedMachines));
    with_ec2(backends, place).await
}

fn local(place: &Place<'_>) -> Result<LocalBackend, Failure> {
    let Place { args, data, listener, .. } = place;
    let program = std::env::current_exe()
        .map_err(|error| Failure::failed(format!("this program's own path can't be told: {error}"), ""))?;
    Ok(LocalBackend::new(LocalConfig {
        site: data.site()?,
        program,
        args: vec![OsString::from("agent")],
        root: data.path().join("runners"),
        server_url: listener.url_for_agents(args),
        ca_file: args.tls_cert.as_deref().map(absolute).transpose()?,
    }))
}

/// Only if somebody may want it: looking for a region and credentials on a host that has none takes seconds.
#[cfg(feature = "ec2")]
async fn with_ec2(backends: Backends, place: &Place<'_>) -> Result<Backends, Failure> {
    use motorpool_backend_ec2::{Ec2Backend, Ec2Config};
    use motorpool_control::ports::clock::SystemClock;

    let Place { args, listener, secret, pools, .. } = place;
    let in_file = pools.values().any(|rules| rules.backend == BackendKind::Ec2);
    let has_region = ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().any(|name| std::env::var_os(name).is_some());
    if !in_file && !has_region {
        return Ok(backends);
    }
    let ca_pem = match &args.tls_cert {
        Some(file) => Some(
            std::fs::read_to_string(file)
                .map_err(|error| Failure::failed(format!("{} can't be read: {error}", file.display()), ""))?,
        ),
        None => None,
    };
    let config = Ec2Config {
        installation: secret.installation(),
        server_url: listener.url_for_agents(args),
        ca_pem,
        clock: Arc::new(SystemClock),
    };
    if in_file && args.public_url.is_none() {
        tracing::warn!(
            url = config.server_url,
            "EC2 machines are told to reach this server at the address that it listens on; --public-url says another"
        );
    }
    let aws = motorpool_aws::load().await;
    Ok(backends.with(BackendKind::Ec2, Arc::new(Ec2Backend::new(&aws, config))))
}

#[cfg(not(feature = "ec2"))]
async fn with_ec2(backends: Backends, _: &Place<'_>) -> Result<Backends, Failure> {
    Ok(backends)
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path)
        .map_err(|error| Failure::failed(format!("the path {} can't be told: {error}", path.display()), ""))
}
