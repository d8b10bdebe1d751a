//! `motorpool serve`: the whole control plane in one process, on a ledger of its own or on one that it shares. Composes and runs;
//! decides nothing.

mod alerts;
mod attendant;
mod backends;
#[cfg(feature = "ec2")]
mod certificate;
mod ci;
mod data_dir;
mod listener;
mod logging;
#[cfg(feature = "ec2")]
mod reach;
mod stores;
mod ticker;

use crate::args::ServeArgs;
use crate::errors::{Failure, chain};
use crate::pools_file::{self, PoolsFile};
use data_dir::DataDir;
use listener::Listener;
use motorpool_control::ports::clock::SystemClock;
use motorpool_control::ports::entropy::SystemEntropy;
use motorpool_control::store::Store;
use motorpool_control::{Control, Parts, Settings};
use motorpool_domain::claim::TeamLimits;
use motorpool_domain::pool::needed_backends;
use motorpool_http::auth::sha256;
use motorpool_http::{HttpLimits, HttpState, Notifier, Tokens};
use secrecy::ExposeSecret;
use std::sync::Arc;
use stores::{StoreLocation, Stores};

/// Runs until it is told to stop, by SIGTERM or SIGINT.
pub(crate) async fn run(args: ServeArgs) -> Result<(), Failure> {
    logging::start(args.log_format);
    listener::must_not_be_plain_beyond_loopback(&args)?;
    data_dir::must_be_closed_to_writers(&args.pools)?;
    let file = pools_file::load(&args.pools).map_err(|error| {
        Failure::failed(chain(&error), "the README shows a pools file; correct it and start again")
    })?;
    let data = DataDir::open(&args.data_dir)?;
    let Stores { ledger, queue, secret, location } = stores::open(&args, &data, file.pools.keys()).await?;
    let listener = Listener::bind(&args).await?;

    let known = Store::new(Arc::clone(&ledger))
        .pools()
        .await
        .map_err(|error| Failure::failed(chain(&error), "see the log above"))?;
    let context = backends::BackendContext {
        args: &args,
        data: &data,
        listener: &listener,
        secret: &secret,
        needed: needed_backends(file.pools.values(), &known),
        has_teams: !file.teams.is_empty(),
    };
    let backends = backends::open(&context).await?;
    let notifier = Arc::new(Notifier::default());
    let control = Arc::new(Control::new(Parts {
        ledger,
        queue,
        backends,
        ci: ci::systems(&file)?,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        doorbell: Arc::clone(&notifier) as _,
        alerts: alerts::sender(&file)?,
        secret,
        settings: settings(&file),
    }));
    control.define_pools(&file.pools).await.map_err(refused)?;
    control.begin_listening().await.map_err(refused)?;
    tracing::info!(pools = file.pools.len(), "the pools are defined");
    match &location {
        StoreLocation::InProcess(_) => {
            let announced = control.announce_all_idle().await.map_err(refused)?;
            tracing::info!(announced, "the idle runners are announced");
        }
        // The queues on AWS are still what they were.
        #[cfg(feature = "aws")]
        StoreLocation::OnAws { .. } => {}
    }

    let tokens = tokens(&file, &data)?;
    let router = motorpool_http::router(HttpState {
        control: Arc::clone(&control),
        tokens,
        webhooks: ci::webhooks(&file),
        notifier: Arc::clone(&notifier),
        limits: HttpLimits::default(),
    });
    let attendant = attendant::start(Arc::clone(&control));
    let ticker = ticker::start(control, location, ticker::Every { refresh: file.refresh, sweep: file.sweep });
    listener.serve(router, notifier).await;
    // Whatever it is at, the next start takes up.
    attendant.abort();
    ticker.stop().await;
    Ok(())
}

fn settings(file: &PoolsFile) -> Settings {
    Settings {
        refresh: file.refresh,
        sweep: file.sweep,
        resource_classes: file.resource_classes.clone(),
        host: pools_file::host_spec(),
        teams: file.team_limits.clone(),
    }
}

fn tokens(file: &PoolsFile, data: &DataDir) -> Result<Tokens, Failure> {
    let admin = data.admin_token()?;
    let teams = file
        .teams
        .iter()
        .flat_map(|(owner, hashes)| hashes.iter().map(|hash| (owner.clone(), *hash)))
        .collect();
    let places = |limits: &TeamLimits| usize::try_from(limits.max_requests_at_once).unwrap_or(usize::MAX);
    let at_once = file.team_limits.iter().map(|(team, limits)| (team.clone(), places(limits))).collect();
    Ok(Tokens { admin_sha256: sha256(admin.expose_secret()), teams, at_once })
}

fn refused(refused: motorpool_control::Refused) -> Failure {
    Failure::failed(refused.message, refused.hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use motorpool_domain::Owner;

    #[test]
    fn refuse_24_a_teams_limits_in_the_file_are_those_that_hold() {
        let dir = tempfile::tempdir().unwrap();
        let hash = "ab".repeat(32);
        let text = format!(
            "[teams.web]\ntoken_sha256 = [\"{hash}\"]\nmax_open_claims = 3\nmax_slots = 2\nmax_requests_at_once = 1\n\
             [pools.p]\nbackend = \"bare_metal\"\nclean = \"keep\"\n"
        );
        let file = pools_file::parse(&text, "p", dir.path()).unwrap();
        let web = Owner::parse("web").unwrap();
        let said = TeamLimits { max_open_claims: 3, max_slots: Some(2), max_requests_at_once: 1 };
        assert_eq!(settings(&file).teams.get(&web), Some(&said));
        let data = DataDir::open(&dir.path().join("data")).unwrap();
        assert_eq!(tokens(&file, &data).unwrap().at_once.get(&web), Some(&1));
    }
}
