//! Signals the process group of a command, where there is no `/proc` and no subreaper. It does not reach processes that
//! left the group.

use rustix::process::{Pid, Signal, kill_process_group};

/// The group of one command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tree {
    group: Option<Pid>,
}

impl Tree {
    pub(super) fn of_command(command: Pid) -> Self {
        Self { group: Some(command) }
    }

    /// From outside, the group of a supervisor's command is not known.
    pub(super) fn under(_root: Pid) -> Self {
        Self { group: None }
    }

    pub(super) fn terminate(&self) {
        let _members = self.signal(Signal::TERM);
    }

    /// One pass; 1 as long as the group has members.
    pub(super) fn kill(&self) -> usize {
        self.signal(Signal::KILL)
    }

    fn signal(&self, signal: Signal) -> usize {
        usize::from(self.group.is_some_and(|group| kill_process_group(group, signal).is_ok()))
    }
}

/// Whose work to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mark {
    Work(String),
    AnyOf { owner: String },
}

/// Other processes' environments cannot be read here.
pub(super) fn kill_marked(mark: &Mark) -> usize {
    match mark {
        Mark::Work(_) | Mark::AnyOf { owner: _ } => 0,
    }
}
