//! Takes idle runners for a claim: walks the pool's queue, takes what fits, gives back what does not.

use super::{Draft, Filled, Waits};
use crate::control::Control;
use crate::error::Refused;
use crate::ports::queue::{QueueName, Received};
use crate::store::{Found, Taken};
use motorpool_domain::Timestamp;
use motorpool_domain::claim::Claim;
use motorpool_domain::pool::Pool;
use motorpool_domain::runner::{Announced, Runner, announced};
use motorpool_wire::queue::IdleNotice;
use std::time::Duration;

/// Long enough to take ten runners; a crash in between hides a message no longer than this.
const VISIBILITY: Duration = Duration::from_secs(30);
/// The end of a walk through a queue full of runners that do not fit.
const LONGEST_WALK: usize = 1_000;

/// What becomes of a notice that was looked at.
enum Judged {
    /// It is done with: its runner was taken, or it says nothing true any more.
    Spent,
    /// True, but not for this claim now.
    Unfit(String),
    /// Somebody else wrote the claim meanwhile; the notice is as good as before.
    ClaimLost,
}

impl Control {
    /// Notices of idle runners, at most as many as the claim lacks. Who receives them has them to itself for a while.
    pub(super) async fn receive_idle(&self, pool: &Pool, claim: &Claim) -> Result<Vec<Received>, Refused> {
        let batch = usize::try_from(claim.short()).unwrap_or(10).clamp(1, 10);
        Ok(self.queue.receive(&idle_queue(pool), batch, Duration::ZERO, VISIBILITY).await?)
    }

    pub(super) async fn give_back_all(&self, pool: &Pool, messages: Vec<Received>) -> Result<(), Refused> {
        for message in messages {
            self.give_back(&idle_queue(pool), message).await?;
        }
        Ok(())
    }

    /// Begins with the notices in `hand`. The walk ends where the queue has none.
    pub(super) async fn take_idle(
        &self,
        pool: &Pool,
        draft: &mut Draft,
        mut hand: Option<Vec<Received>>,
        now: Timestamp,
    ) -> Result<Filled, Refused> {
        let mut held: Vec<Received> = Vec::new();
        let mut reason = format!("no idle runner in pool {}", pool.name);
        let (mut lost, mut walked) = (false, 0);
        while draft.claim.short() > 0 && !lost && walked < LONGEST_WALK {
            let batch = match hand.take() {
                Some(hand) => hand,
                None => self.receive_idle(pool, &draft.claim).await?,
            };
            if batch.is_empty() {
                break;
            }
            walked += batch.len();
            for (message, seen) in self.look_up(pool, batch).await? {
                if draft.claim.short() == 0 || lost {
                    held.push(message);
                    continue;
                }
                match self.take_announced(pool, draft, seen, now).await? {
                    Judged::Spent => self.queue.delete(&idle_queue(pool), &message.receipt).await?,
                    Judged::Unfit(why) => {
                        reason = format!("no idle runner in pool {} fits: {why}", pool.name);
                        held.push(message);
                    }
                    Judged::ClaimLost => {
                        lost = true;
                        held.push(message);
                    }
                }
            }
        }
        self.give_back_all(pool, held).await?;
        Ok(match (lost, draft.claim.short()) {
            (true, _) => Filled::ClaimLost,
            (false, 0) => Filled::Whole,
            (false, _) => Filled::Short(Waits::new(reason, draft.claim.launch_not_before)),
        })
    }

    /// Each message with what it says and the runner that it names, as that is now: all of them in one read.
    async fn look_up(
        &self,
        pool: &Pool,
        batch: Vec<Received>,
    ) -> Result<Vec<(Received, Option<(IdleNotice, Found<Runner>)>)>, Refused> {
        let notices: Vec<Option<IdleNotice>> = batch.iter().map(|message| read(pool, message)).collect();
        let ids: Vec<_> = notices.iter().flatten().map(|notice| notice.runner.clone()).collect();
        let mut runners = self.store.find_runners(&ids).await?.into_iter();
        let seen = notices.into_iter().map(|notice| Some((notice?, runners.next()?)));
        Ok(batch.into_iter().zip(seen).collect())
    }

    async fn take_announced(
        &self,
        pool: &Pool,
        draft: &mut Draft,
        seen: Option<(IdleNotice, Found<Runner>)>,
        now: Timestamp,
    ) -> Result<Judged, Refused> {
        let Some((notice, found)) = seen else { return Ok(Judged::Spent) };
        let runner = match found {
            Found::Record(runner) => runner,
            Found::Missing => return Ok(Judged::Spent),
            // The notice stays for whoever can read the record.
            Found::Unreadable => {
                return Ok(Judged::Unfit(format!("the record of {} can't be read", notice.runner)));
            }
        };
        if let Some(why) = draft.claim.ask.want.misfit(&notice.offer) {
            return Ok(Judged::Unfit(why));
        }
        let is_true = |runner: &Runner| announced(runner, notice.epoch, &pool.rules.limits, now);
        match is_true(&runner) {
            Announced::Takeable => {}
            Announced::NotNow(why) => return Ok(Judged::Unfit(why)),
            Announced::Stale => return Ok(Judged::Spent),
        }
        Ok(match self.take_one(pool, draft, &runner, now).await? {
            Taken::Done => Judged::Spent,
            Taken::ClaimLost => Judged::ClaimLost,
            Taken::RunnerLost { found } => match found.map(|found| is_true(&found)) {
                // Something else than its state was written meanwhile.
                Some(Announced::Takeable | Announced::NotNow(_)) => {
                    Judged::Unfit(format!("{} was changed at the same moment", runner.id))
                }
                Some(Announced::Stale) | None => Judged::Spent,
            },
        })
    }

    /// A notice that many looked at is true all the same: it is sent anew before it would count as one that nobody can use.
    async fn give_back(&self, queue: &QueueName, message: Received) -> Result<(), Refused> {
        let Received { body, receipt, receives } = message;
        if receives + 1 < queue.max_receives() {
            return Ok(self.queue.give_back(queue, &receipt).await?);
        }
        self.queue.send(queue, body).await?;
        Ok(self.queue.delete(queue, &receipt).await?)
    }
}

fn idle_queue(pool: &Pool) -> QueueName {
    QueueName::Idle(pool.name.clone())
}

fn read(pool: &Pool, message: &Received) -> Option<IdleNotice> {
    serde_json::from_str(&message.body)
        .inspect_err(|error| {
            tracing::warn!(target: "alert", pool = %pool.name, %error, "a message in the idle queue can't be read, and is dropped");
        })
        .ok()
}
