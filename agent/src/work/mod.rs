//! Runs the operator's commands so that no process of them is left behind. It knows nothing of pools, claims or HTTP.
//!
//! The agent never runs a command itself. It starts its own executable again as a *supervisor* ([`supervise`]),
//! which runs one command and outlives the agent just long enough to kill the command's whole tree:
//!
//! - the agent dies: the supervisor's stdin ends, the tree is killed;
//! - the agent is frozen, or the host was suspended: the supervisor has the deadlines too, on the boot clock;
//! - the work daemonizes: the supervisor is the subreaper, so orphans stay in its tree;
//! - the supervisor is killed or frozen: the agent notices, and kills what carries the work's mark in its environment;
//! - both are killed: the next agent does the same with [`sweep`].
//!
//! Where the agent is root, a job is another user's ([`RunAs::Job`]): then a third process stands between, `init`, the first of the
//! job's own namespaces, with which all of them die.
//!
//! What this cannot reach: processes of another user where the agent is not root (a command that became root through `sudo`), and
//! containers, which are children of their daemon. The first are counted in [`Outcome::left_behind`].

mod command;
mod confinement;
mod environment;
#[cfg(target_os = "linux")]
mod init;
mod order;
mod output;
mod running;
#[cfg(target_os = "linux")]
mod sandbox;
mod supervisor;
#[cfg_attr(not(target_os = "linux"), path = "tree_by_group.rs")]
mod tree;

pub use confinement::{Confinement, RunAs, Sandbox};
#[cfg(target_os = "linux")]
pub use init::enter;
pub use order::{End, Order, Outcome, OutputTail};
pub use running::{RunningWork, StartError, SupervisorCommand, sweep};
#[cfg(target_os = "linux")]
pub(crate) use sandbox::try_namespaces;
pub use supervisor::supervise;
