//! What agent and supervisor say to each other, one JSON object a line. The two are always the same executable, so
//! this is no stable format, and a line that is not understood is an error.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::confinement::RunAs;
use crate::clock::BootInstant;

/// One command to run. It travels over a pipe, so that nothing of it but the script shows in the process list.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Who runs this: a name that no other agent on this host has (the runner's id). See [`super::sweep`].
    pub owner: String,
    /// The operator's script, for `/bin/sh -c`. Values never go in here, they go in `env`.
    pub script: String,
    /// Added to what an allow-list lets through of the agent's own environment.
    pub env: BTreeMap<String, String>,
    pub cwd: PathBuf,
    pub run_as: RunAs,
    /// How long the command may take, from its start.
    pub timeout: Option<Duration>,
    /// When the work must be gone, unless the fence is renewed.
    pub fence_at: Option<BootInstant>,
    /// Where the output goes (mode 0600, replaced by each command, bounded).
    pub log_path: Option<PathBuf>,
}

impl fmt::Debug for Order {
    /// Without the values of the environment: they may be secrets, and this ends in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, script, env, cwd, run_as, timeout, fence_at, log_path } = self;
        f.debug_struct("Order")
            .field("owner", owner)
            .field("script", script)
            .field("env", &env.keys().collect::<Vec<_>>())
            .field("cwd", cwd)
            .field("run_as", run_as)
            .field("timeout", timeout)
            .field("fence_at", fence_at)
            .field("log_path", log_path)
            .finish()
    }
}

/// The first line to the supervisor.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Begin {
    pub(super) work_id: String,
    pub(super) order: Order,
}

/// Every later line to the supervisor.
///
/// The fence is an instant, not a duration: both sides read the same clock, and a duration would silently grow by
/// the time that the agent was frozen between computing it and writing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Message {
    FenceAtBootMs(BootInstant),
    Stop { grace_ms: u64 },
}

/// The one line from the supervisor, when the tree is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    pub end: End,
    pub output: OutputTail,
    /// Processes that could not be killed. Anything but zero means: this host is not clean.
    pub left_behind: usize,
}

impl Outcome {
    pub(super) fn without_output(end: End) -> Self {
        Self { end, output: OutputTail::default(), left_behind: 0 }
    }

    /// The command ended by itself with exit code 0, and nothing of it is left.
    pub fn succeeded(&self) -> bool {
        self.end == End::Exited { code: 0 } && self.left_behind == 0
    }
}

/// Why the work is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum End {
    /// The command ended by itself.
    Exited {
        code: i32,
    },
    /// The command was ended by a signal that was not ours.
    Signaled {
        signal: i32,
    },
    TimedOut,
    Fenced,
    /// The agent asked for it.
    Stopped,
    /// The agent went away.
    Abandoned,
    /// The supervisor was told by a signal to end.
    Interrupted {
        signal: i32,
    },
    CouldNotStart {
        message: String,
    },
    /// The supervisor ended, or hung, without a report. What carries the work's mark was killed.
    Lost {
        message: String,
    },
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited { code } => write!(f, "ended with exit code {code}"),
            Self::Signaled { signal } => write!(f, "was ended by signal {signal}"),
            Self::TimedOut => f.write_str("ran into its time-out"),
            Self::Fenced => f.write_str("was ended at its fence"),
            Self::Stopped => f.write_str("was stopped"),
            Self::Abandoned => f.write_str("was ended because its agent was gone"),
            Self::Interrupted { signal } => {
                write!(f, "was ended because its supervisor got signal {signal}")
            }
            Self::CouldNotStart { message } => write!(f, "could not start: {message}"),
            Self::Lost { message } => write!(f, "lost its supervisor: {message}"),
        }
    }
}

/// The end of what the command wrote, stdout and stderr as they came.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputTail {
    pub text: String,
    /// How many bytes came before `text` and are not in it.
    pub cut_bytes: u64,
}

impl fmt::Display for OutputTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.cut_bytes > 0 {
            writeln!(f, "[{} bytes of output cut]", self.cut_bytes)?;
        }
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_names_but_no_values_of_the_environment() {
        let order = Order {
            owner: "r-1".into(),
            script: "true".into(),
            env: BTreeMap::from([("TOKEN".to_owned(), "canary".to_owned())]),
            cwd: "/".into(),
            run_as: RunAs::Agent,
            timeout: None,
            fence_at: None,
            log_path: None,
        };
        let shown = format!("{order:?}");
        assert!(shown.contains("TOKEN") && !shown.contains("canary"), "{shown}");
    }

    #[test]
    fn messages_are_small_json_objects() {
        let fence = Message::FenceAtBootMs(BootInstant::from_boot_ms(7));
        assert_eq!(serde_json::to_string(&fence).unwrap(), r#"{"fence_at_boot_ms":7}"#);
        let stop = Message::Stop { grace_ms: 9 };
        assert_eq!(serde_json::to_string(&stop).unwrap(), r#"{"stop":{"grace_ms":9}}"#);
        assert!(serde_json::from_str::<Message>(r#"{"pause":1}"#).is_err());
    }
}
