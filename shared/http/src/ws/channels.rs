//! The agents that are connected to this process, and what they are asked to run. One connection a runner: a new one takes the place of the last, whose
//! peer may be gone without a word.

use crate::lane::Places;
use async_trait::async_trait;
use motorpool_control::ports::channels::{AgentChannels, ExecError};
use motorpool_domain::RunnerId;
use motorpool_wire::channel::{ExecAnswer, ExecOrder};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::timeout;

/// Commands of the operator on one machine at once.
const EXECS: usize = 8;
/// And the one of its pool's scripts that may run beside them.
const ORDERS: usize = EXECS + 1;
/// An agent ends what takes too long, and says so; for that it has so much longer.
const MARGIN: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(crate) struct Channels {
    lines: Mutex<HashMap<RunnerId, Arc<Line>>>,
}

/// The way to one connection, for whoever wants something of its agent.
#[derive(Debug)]
pub(super) struct Line {
    orders: mpsc::Sender<Order>,
    execs: Arc<Places>,
    /// Another connection took its place.
    pub(super) replaced: Notify,
}

/// Something to be run, and who waits for its end.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) exec: ExecOrder,
    pub(super) answer: oneshot::Sender<Result<ExecAnswer, ExecError>>,
}

/// A line that others find, until this is dropped.
#[derive(Debug)]
pub(super) struct Listed {
    channels: Arc<Channels>,
    runner: RunnerId,
    line: Arc<Line>,
}

impl Channels {
    pub(super) fn list(self: &Arc<Self>, runner: &RunnerId, line: &Arc<Line>) -> Listed {
        let before = self.lines().insert(runner.clone(), Arc::clone(line));
        if let Some(before) = before {
            before.replaced.notify_one();
        }
        Listed { channels: Arc::clone(self), runner: runner.clone(), line: Arc::clone(line) }
    }

    fn line(&self, runner: &RunnerId) -> Option<Arc<Line>> {
        self.lines().get(runner).cloned()
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<RunnerId, Arc<Line>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut lines = self.channels.lines();
        if lines.get(&self.runner).is_some_and(|listed| Arc::ptr_eq(listed, &self.line)) {
            lines.remove(&self.runner);
        }
    }
}

#[async_trait]
impl AgentChannels for Channels {
    fn is_connected(&self, runner: &RunnerId) -> bool {
        self.lines().contains_key(runner)
    }

    async fn exec(&self, runner: &RunnerId, cmd: &str, within: Duration) -> Result<ExecAnswer, ExecError> {
        let line = self.line(runner).ok_or(ExecError::NotConnected)?;
        let _place = line.execs.take().ok_or(ExecError::Busy)?;
        line.run(cmd, within).await
    }
}

impl Line {
    pub(super) fn new() -> (Arc<Self>, mpsc::Receiver<Order>) {
        let (orders, given) = mpsc::channel(ORDERS);
        let line = Self { orders, execs: Places::new(EXECS), replaced: Notify::new() };
        (Arc::new(line), given)
    }

    pub(super) async fn run(&self, cmd: &str, within: Duration) -> Result<ExecAnswer, ExecError> {
        let (answer, told) = oneshot::channel();
        let exec = ExecOrder { cmd: cmd.to_owned(), timeout: within.as_secs_f64() };
        self.orders.try_send(Order { exec, answer }).map_err(|error| match error {
            TrySendError::Full(_) => ExecError::Busy,
            TrySendError::Closed(_) => ExecError::NotConnected,
        })?;
        match timeout(within.saturating_add(MARGIN), told).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(ExecError::CutOff),
            Err(_) => Err(ExecError::TimedOut),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mac() -> RunnerId {
        RunnerId::parse("mac-01").unwrap()
    }

    #[tokio::test]
    async fn a_new_connection_takes_the_place_of_the_last_and_outlives_it() {
        let channels = Arc::new(Channels::default());
        assert!(!channels.is_connected(&mac()));
        let ((first, _), (second, _)) = (Line::new(), Line::new());
        let listed = channels.list(&mac(), &first);
        let anew = channels.list(&mac(), &second);
        first.replaced.notified().await;
        drop(listed);
        assert!(channels.is_connected(&mac()));
        drop(anew);
        assert!(!channels.is_connected(&mac()));
    }

    #[tokio::test]
    async fn who_is_cut_off_says_so_and_who_is_not_there_too() {
        let channels = Arc::new(Channels::default());
        let ran = channels.exec(&mac(), "true", Duration::from_secs(1)).await;
        assert_eq!(ran, Err(ExecError::NotConnected));
        let (line, mut orders) = Line::new();
        let _listed = channels.list(&mac(), &line);
        let runner = mac();
        let running = channels.exec(&runner, "true", Duration::from_secs(1));
        let ((), ran) = tokio::join!(async { drop(orders.recv().await) }, running);
        assert_eq!(ran, Err(ExecError::CutOff));
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_does_not_answer_is_not_waited_for() {
        let channels = Arc::new(Channels::default());
        let (line, _orders) = Line::new();
        let _listed = channels.list(&mac(), &line);
        let ran = channels.exec(&mac(), "sleep 1000", Duration::from_secs(600)).await;
        assert_eq!(ran, Err(ExecError::TimedOut));
    }

    #[tokio::test]
    async fn refuse_18_no_more_than_a_few_commands_run_at_once() {
        let channels = Arc::new(Channels::default());
        let (line, _orders) = Line::new();
        let _listed = channels.list(&mac(), &line);
        let taken: Vec<_> = std::iter::from_fn(|| line.execs.take()).collect();
        assert_eq!(taken.len(), EXECS);
        let ran = channels.exec(&mac(), "true", Duration::from_secs(1)).await;
        assert_eq!(ran, Err(ExecError::Busy));
    }
}
