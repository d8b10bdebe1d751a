//! Waiting for tasks to end: each wait is bounded, and looks more and more seldom. It has no thread of its own, and no clock but the
//! runtime's timers.

use std::time::Duration;

use crate::error::{Error, Problem};
use crate::proxmox::Proxmox;
use crate::task::{TaskEnd, TaskState};
use crate::upid::Upid;

/// How long each kind of task may take. The defaults suit disks on one node; a storage over the network is slower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    pub snapshot: Duration,
    /// Stopping, rolling back and starting, together.
    pub rollback: Duration,
    pub delete_snapshot: Duration,
    pub clone: Duration,
}

/// How often Proxmox VE is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pace {
    /// Before the second look; each pause after it is longer by half.
    pub first_pause: Duration,
    pub longest_pause: Duration,
    /// For how long a call that was not answered may still arrive: a node that hands it on to another gives up after 30 s.
    pub may_arrive_for: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            snapshot: Duration::from_secs(60),
            rollback: Duration::from_secs(180),
            delete_snapshot: Duration::from_secs(120),
            clone: Duration::from_secs(120),
        }
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            first_pause: Duration::from_millis(300),
            longest_pause: Duration::from_secs(5),
            may_arrive_for: Duration::from_secs(45),
        }
    }
}

impl Pace {
    pub(crate) fn pauses(&self) -> Pauses {
        Pauses { next: self.first_pause, longest: self.longest_pause }
    }
}

#[derive(Debug)]
pub(crate) struct Pauses {
    next: Duration,
    longest: Duration,
}

impl Pauses {
    pub(crate) async fn pause(&mut self) {
        let pause = self.next.min(self.longest);
        self.next = pause.saturating_add(pause / 2);
        tokio::time::sleep(pause).await;
    }
}

impl Proxmox {
    /// The end of a task. Where Proxmox VE can't be asked for a while, the task goes on all the same, and so does the wait. One that is not
    /// over in time still runs.
    pub async fn ended(&self, upid: &Upid, within: Duration, pace: &Pace) -> Result<TaskEnd, Error> {
        let looking = async {
            let mut pauses = pace.pauses();
            loop {
                match self.task(upid).await {
                    Ok(TaskState::Ended(end)) => return Ok(end),
                    Ok(TaskState::Running) => {}
                    Err(error) if error.is_passing() => {
                        tracing::debug!(%upid, %error, "the task can't be asked for");
                    }
                    Err(error) => return Err(error),
                }
                pauses.pause().await;
            }
        };
        tokio::time::timeout(within, looking).await.unwrap_or_else(|_elapsed| {
            Err(Error::new(&format!("wait for {upid}"), Problem::Unfinished { within }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_up_to_the_longest() {
        let pace = Pace {
            first_pause: Duration::from_millis(400),
            longest_pause: Duration::from_secs(1),
            ..Pace::default()
        };
        let mut pauses = pace.pauses();
        let mut slept = Vec::new();
        for _ in 0..5 {
            slept.push(pauses.next.min(pauses.longest).as_millis());
            pauses.pause().await;
        }
        assert_eq!(slept, [400, 600, 900, 1_000, 1_000]);
    }
}
