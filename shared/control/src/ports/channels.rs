//! The port to the agents that are connected to this process, which can be asked to run something. A process that holds no connections, as a
//! function, has none.

use async_trait::async_trait;
use motorpool_domain::RunnerId;
use motorpool_wire::channel::ExecAnswer;
use std::time::Duration;

#[async_trait]
pub trait AgentChannels: Send + Sync + std::fmt::Debug {
    fn is_connected(&self, runner: &RunnerId) -> bool;

    /// Has the runner's agent run a command line.
    async fn exec(&self, runner: &RunnerId, cmd: &str, timeout: Duration) -> Result<ExecAnswer, ExecError>;
}

/// Why nobody knows how a command ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExecError {
    #[error("agent not connected")]
    NotConnected,
    #[error("too many commands are being run by this agent already")]
    Busy,
    /// It may be running still.
    #[error("the agent has not said in time how the command ended")]
    TimedOut,
    #[error("the agent was cut off while the command ran")]
    CutOff,
    #[error("the agent could not run it: {0}")]
    Failed(String),
}
