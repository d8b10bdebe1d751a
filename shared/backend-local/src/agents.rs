//! The agents that this process started itself and that have not ended. It collects each when it ends, so that none stays
//! a zombie; agents of an earlier process are not known here, only by their lock.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use motorpool_domain::RunnerId;
use tokio::process::{Child, Command};
use tokio::sync::Notify;

#[derive(Debug, Clone, Default)]
pub(crate) struct Agents {
    /// Each with the signal that orders its kill.
    started: Arc<Mutex<HashMap<RunnerId, Arc<Notify>>>>,
}

impl Agents {
    pub(crate) fn alive(&self, runner: &RunnerId) -> bool {
        self.started().contains_key(runner)
    }

    /// Starts the runner's agent, of which none that was started here is alive. Blocks; needs the runtime's context.
    pub(crate) fn start(&self, runner: &RunnerId, mut command: Command) -> io::Result<()> {
        let child = command.spawn()?;
        tracing::info!(%runner, pid = child.id(), "an agent was started");
        let kill = Arc::new(Notify::new());
        self.started().insert(runner.clone(), Arc::clone(&kill));
        tokio::spawn(self.clone().collect(runner.clone(), child, kill));
        Ok(())
    }

    /// Kills the agent that was started here, if any. By its handle: its number may be another's by now.
    pub(crate) fn kill(&self, runner: &RunnerId) {
        if let Some(kill) = self.started().get(runner) {
            kill.notify_one();
        }
    }

    async fn collect(self, runner: RunnerId, mut child: Child, kill: Arc<Notify>) {
        let ended = loop {
            tokio::select! {
                ended = child.wait() => break ended,
                () = kill.notified() => {
                    // It can fail only if the agent ended meanwhile, and then the wait tells.
                    let _ended = child.start_kill();
                }
            }
        };
        self.started().remove(&runner);
        match ended {
            Ok(status) => tracing::info!(%runner, %status, "an agent ended"),
            Err(error) => tracing::warn!(%runner, %error, "an agent could not be waited for"),
        }
    }

    /// Never held across an await.
    fn started(&self) -> MutexGuard<'_, HashMap<RunnerId, Arc<Notify>>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
