//! Where this serve's machines come from: its own host, the operator's own, and EC2 where that is built in and wanted.

use super::data_dir::DataDir;
use super::listener::Listener;
use crate::args::ServeArgs;
use crate::errors::Failure;
use motorpool_agent::jobs::UidRange;
use motorpool_backend_local::{JobUsers, LocalBackend, LocalConfig};
use motorpool_control::ServerSecret;
use motorpool_control::ports::backend::{Backends, OwnedMachines};
use motorpool_domain::pool::BackendKind;
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the backends are made from.
pub(super) struct BackendContext<'a> {
    pub(super) args: &'a ServeArgs,
    pub(super) data: &'a DataDir,
    pub(super) listener: &'a Listener,
    #[cfg_attr(not(feature = "ec2"), expect(dead_code, reason = "only EC2 asks for it"))]
    pub(super) secret: &'a ServerSecret,
    pub(super) needed: HashSet<BackendKind>,
    /// There are callers beside the operator.
    pub(super) has_teams: bool,
}

pub(super) async fn open(context: &BackendContext<'_>) -> Result<Backends, Failure> {
    let mut backends = Backends::default().with(BackendKind::BareMetal, Arc::new(OwnedMachines));
    // Only on a host that asked for it: its commands are commands on this host, for whoever has the admin token.
    if context.needed.contains(&BackendKind::Local) {
        backends = backends.with(BackendKind::Local, Arc::new(local(context)?));
    }
    Ok(with_ec2(backends, context).await)
}

fn local(context: &BackendContext<'_>) -> Result<LocalBackend, Failure> {
    let BackendContext { args, data, listener, has_teams, .. } = context;
    let program = std::env::current_exe()
        .map_err(|error| Failure::failed(format!("this program's own path can't be told: {error}"), ""))?;
    Ok(LocalBackend::new(LocalConfig {
        site: data.site()?,
        program,
        args: agent_args(listener.open_files_before),
        root: data.path().join("runners"),
        server_url: listener.url_for_agents(args),
        ca_file: args.tls_cert.as_deref().map(absolute).transpose()?,
        insecure_http: args.insecure_http,
        users: job_users(args.work_as_root, args.job_uids, rustix::process::geteuid().is_root()),
        hidden: vec![data.path().to_owned()],
        has_teams: *has_teams,
    }))
}

/// As whom the jobs of local pools run.
pub(crate) fn job_users(work_as_root: bool, uids: UidRange, is_root: bool) -> JobUsers {
    match (is_root, work_as_root) {
        (false, _) => JobUsers::Same,
        (true, true) => JobUsers::Root,
        (true, false) => JobUsers::OneEach(uids.first..=uids.last),
    }
}

/// The command's own agent. It and its jobs get the limit of open files that this process was started with.
fn agent_args(open_files: Option<u64>) -> Vec<OsString> {
    let limit = open_files.map(|most| ["--open-files".to_owned(), most.to_string()]);
    limit.into_iter().flatten().chain(["agent".to_owned()]).map(OsString::from).collect()
}

/// With EC2 only if somebody may want it: looking for a region and credentials on a host that has none takes seconds.
#[cfg(feature = "ec2")]
async fn with_ec2(backends: Backends, context: &BackendContext<'_>) -> Backends {
    use super::reach::{self, Reach};
    use motorpool_backend_ec2::{Ec2Backend, Ec2Config};
    use motorpool_control::ports::clock::SystemClock;

    let BackendContext { args, listener, secret, needed, .. } = context;
    let is_needed = needed.contains(&BackendKind::Ec2);
    let has_region = ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().any(|name| std::env::var_os(name).is_some());
    if !is_needed && !has_region {
        return backends;
    }
    let listens_at = listener.url_for_agents(args);
    let reach = reach::from_elsewhere(args, &listens_at);
    let (server_url, ca_pem) = match &reach {
        Ok(Reach { url, ca_pem }) => (url.clone(), ca_pem.clone()),
        // Nobody is told of this address: below, the backend launches nothing.
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
async fn with_ec2(backends: Backends, _: &BackendContext<'_>) -> Backends {
    backends
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path)
        .map_err(|error| Failure::failed(format!("the path {} can't be told: {error}", path.display()), ""))
}
