//! Where this serve's machines come from: its own host, the operator's own, and EC2 where that is built in and wanted.

use super::data_dir::DataDir;
use super::listener::Listener;
use crate::args::ServeArgs;
use crate::errors::Failure;
use motorpool_backend_local::{LocalBackend, LocalConfig};
use motorpool_control::ServerSecret;
use motorpool_control::ports::backend::{Backends, OwnedMachines};
use motorpool_domain::PoolName;
use motorpool_domain::pool::{BackendKind, PoolRecord, Rules};
use std::collections::{BTreeMap, HashSet};
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
    pub(super) needed: HashSet<BackendKind>,
}

/// Those of the pools in the file; and of pools that left the file, or never stood there, as long as they have runners: somebody
/// must be able to see and end them.
pub(super) fn needed(file: &BTreeMap<PoolName, Rules>, known: &[PoolRecord]) -> HashSet<BackendKind> {
    let in_use = known.iter().filter(|record| record.used > 0).map(|record| record.pool.rules.backend);
    file.values().map(|rules| rules.backend).chain(in_use).collect()
}

pub(super) async fn open(place: &Place<'_>) -> Result<Backends, Failure> {
    let backends = Backends::default()
        .with(BackendKind::Local, Arc::new(local(place)?))
        .with(BackendKind::BareMetal, Arc::new(OwnedMachines));
    Ok(with_ec2(backends, place).await)
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
async fn with_ec2(backends: Backends, place: &Place<'_>) -> Backends {
    use super::reach::{self, Reach};
    use motorpool_backend_ec2::{Ec2Backend, Ec2Config};
    use motorpool_control::ports::clock::SystemClock;

    let Place { args, listener, secret, needed, .. } = place;
    let is_needed = needed.contains(&BackendKind::Ec2);
    let has_region = ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().any(|name| std::env::var_os(name).is_some());
    if !is_needed && !has_region {
        return backends;
    }
    let listens_at = listener.url_for_agents(args);
    let reach = reach::from_elsewhere(args, &listens_at);
    let (server_url, ca_pem) = match &reach {
        Ok(Reach { url, ca_pem }) => (url.clone(), ca_pem.clone()),
        // Nobody is told: see below.
        Err(_) => (listens_at, None),
    };
    let clock = Arc::new(SystemClock);
    let config = Ec2Config { installation: secret.installation(), server_url, ca_pem, clock };
    let backend = Ec2Backend::new(&motorpool_aws::load().await, config);
    // Without a pool on EC2 there is nothing wrong yet; and runners that are left from another start must be seen and ended.
    let backend = match reach {
        Ok(_) => backend,
        Err(unfit) => backend.without_launches(unfit),
    };
    backends.with(BackendKind::Ec2, Arc::new(backend))
}

#[cfg(not(feature = "ec2"))]
async fn with_ec2(backends: Backends, _: &Place<'_>) -> Backends {
    backends
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path)
        .map_err(|error| Failure::failed(format!("the path {} can't be told: {error}", path.display()), ""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pools_file;
    use motorpool_domain::pool::{Pool, Source};

    #[test]
    fn inv_16_a_pool_that_left_the_file_has_its_backend_while_it_has_runners() {
        let file = pools_file::parse("[pools.small]\nbackend = \"local\"\n", "p", Path::new("")).unwrap();
        let rules = file.pools.values().next().unwrap();
        let known = |used| {
            let rules = Rules { backend: BackendKind::Ec2, ..rules.clone() };
            let name = PoolName::parse("gone").unwrap();
            [PoolRecord { pool: Pool { name, source: Source::File, retired: true, rules }, rev: 1, used }]
        };
        assert_eq!(needed(&file.pools, &known(0)), HashSet::from([BackendKind::Local]));
        assert_eq!(needed(&file.pools, &known(1)), HashSet::from([BackendKind::Local, BackendKind::Ec2]));
    }
}
