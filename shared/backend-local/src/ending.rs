//! Ends a runner's agent and whoever is left of its work: asks first, then kills, and waits a bounded time for each. The
//! directory goes last, since it is what an inventory finds.

use std::time::Duration;

use motorpool_domain::RunnerId;
use motorpool_domain::runner::Presence;
use rustix::process::Signal;
use tokio::time::{sleep, timeout};

use crate::agents::Agents;
use crate::directory::{Root, RunnerDir};
use crate::error::{Failure, blocking};
use crate::stragglers;

/// Time for an agent to end its work and itself.
const ASKED: Duration = Duration::from_secs(3);
/// Time for the kernel to end what was killed.
const KILLED: Duration = Duration::from_secs(5);
/// Time for the supervisors of an agent that is gone to end their work.
const ABANDONED: Duration = Duration::from_secs(5);

const PAUSE: Duration = Duration::from_millis(25);

/// `There`: something of it could not be ended in time. The same call again goes on from there.
pub(crate) async fn end(root: Root, agents: &Agents, runner: &RunnerId) -> Result<Presence, Failure> {
    let id = runner.clone();
    let Some(dir) = blocking(move || root.find(&id)).await?? else {
        agents.kill(runner);
        let ended = until(KILLED, agents_ended(agents, runner)).await?;
        return Ok(if ended { Presence::Gone } else { Presence::There });
    };
    if !signal(&dir, Signal::TERM).await? {
        // One without a lock has only just started: it has no work to end, and may not know how to end yet.
        agents.kill(runner);
    }
    if !until(ASKED, unlocked(&dir)).await? {
        tracing::warn!(%runner, "an agent did not end when asked to, and is killed");
        signal(&dir, Signal::KILL).await?;
        agents.kill(runner);
        until(KILLED, unlocked(&dir)).await?;
    }
    if !until(ABANDONED, no_stragglers(&dir)).await? {
        tracing::warn!(%runner, "the work of an agent that is gone did not end, and is killed");
        until(KILLED, stragglers_killed(&dir)).await?;
    }
    let gone = until(KILLED, agents_ended(agents, runner)).await?
        && until(Duration::ZERO, unlocked(&dir)).await?
        && until(Duration::ZERO, no_stragglers(&dir)).await?;
    if !gone {
        return Ok(Presence::There);
    }
    let runner = runner.clone();
    blocking(move || {
        if let Err(failure) = dir.remove() {
            // The machine is gone all the same. An inventory goes on to list it, and so the sweep tries again.
            tracing::warn!(%runner, error = %failure.in_full(), "the directory of an ended agent stays behind");
        }
    })
    .await?;
    Ok(Presence::Gone)
}

/// Whether there was anybody to be signalled: the lock was held.
async fn signal(dir: &RunnerDir, signal: Signal) -> Result<bool, Failure> {
    let lock = dir.lock();
    blocking(move || {
        let held = lock.held()?;
        lock.signal_holder(signal)?;
        Ok(held)
    })
    .await?
}

fn unlocked(dir: &RunnerDir) -> impl Fn() -> Result<bool, Failure> + Clone + Send + 'static {
    let lock = dir.lock();
    move || lock.held().map(|held| !held)
}

fn no_stragglers(dir: &RunnerDir) -> impl Fn() -> Result<bool, Failure> + Clone + Send + 'static {
    let path = dir.path().to_owned();
    move || Ok(!stragglers::any(&path))
}

fn stragglers_killed(dir: &RunnerDir) -> impl Fn() -> Result<bool, Failure> + Clone + Send + 'static {
    let path = dir.path().to_owned();
    move || Ok(stragglers::kill(&path) == 0)
}

fn agents_ended(
    agents: &Agents,
    runner: &RunnerId,
) -> impl Fn() -> Result<bool, Failure> + Clone + Send + 'static {
    let (agents, runner) = (agents.clone(), runner.clone());
    move || Ok(!agents.alive(&runner))
}

/// Whether `holds` came to hold within `limit`. It is asked at least once.
async fn until<F>(limit: Duration, holds: F) -> Result<bool, Failure>
where
    F: Fn() -> Result<bool, Failure> + Clone + Send + 'static,
{
    if blocking(holds.clone()).await?? {
        return Ok(true);
    }
    let ask_again = async {
        loop {
            sleep(PAUSE).await;
            if blocking(holds.clone()).await?? {
                return Ok(true);
            }
        }
    };
    timeout(limit, ask_again).await.unwrap_or(Ok(false))
}
