//! Picks up idle runners for a claim: walks the pool's queue, takes what fits, gives back what does not.

use crate::control::Control;
use crate::filling::Filling;
use crate::ports::queue::{MAX_RECEIVES, QueueName, Received};
use crate::refused::Refused;
use crate::take::Candidate;
use motorpool_domain::claim::Claim;
use motorpool_domain::pool::Pool;
use motorpool_domain::runner::{Announced, announced};
use motorpool_wire::queue::IdleNotice;
use std::time::Duration;

pub(crate) enum Picked {
    /// The claim has all that it asked for.
    All(Box<Filling>),
    Short {
        filling: Box<Filling>,
        reason: String,
    },
    ClaimLost,
}

/// Long enough to take ten runners; a crash in between hides a message no longer than this.
const VISIBILITY: Duration = Duration::from_secs(30);
/// The end of a walk through a queue full of runners that do not fit.
const LONGEST_WALK: usize = 1_000;

impl Control {
    /// Notices of idle runners, at most as many as the claim lacks. Who receives them has them to itself for a while.
    pub(crate) async fn receive_idle(&self, pool: &Pool, claim: &Claim) -> Result<Vec<Received>, Refused> {
        let queue = QueueName::Idle(pool.name.clone());
        let batch = usize::try_from(claim.short()).unwrap_or(10).clamp(1, 10);
        Ok(self.queue.receive(&queue, batch, Duration::ZERO, VISIBILITY).await?)
    }

    pub(crate) async fn give_back_all(&self, pool: &Pool, messages: Vec<Received>) -> Result<(), Refused> {
        let queue = QueueName::Idle(pool.name.clone());
        for message in messages {
            self.give_back(&queue, message).await?;
        }
        Ok(())
    }

    /// Begins with the notices in `hand`.
    pub(crate) async fn pick(
        &self,
        pool: &Pool,
        mut filling: Filling,
        hand: Vec<Received>,
    ) -> Result<Picked, Refused> {
        let queue = QueueName::Idle(pool.name.clone());
        let mut held: Vec<Received> = Vec::new();
        let mut reason = format!("no idle runner in pool {}", pool.name);
        let mut lost = false;
        let mut walked = 0;
        let mut messages = hand;
        while filling.claim.short() > 0 && !lost && walked < LONGEST_WALK {
            if messages.is_empty() {
                messages = self.receive_idle(pool, &filling.claim).await?;
            }
            if messages.is_empty() {
                break;
            }
            walked += messages.len();
            for message in std::mem::take(&mut messages) {
                if filling.claim.short() == 0 || lost {
                    held.push(message);
                    continue;
                }
                match self.consider(pool, &filling, &message).await? {
                    Candidate::Taken { claim, runner } => {
                        filling = filling.with(*claim, *runner);
                        self.queue.delete(&queue, &message.receipt).await?;
                    }
                    Candidate::Stale => self.queue.delete(&queue, &message.receipt).await?,
                    Candidate::Unfit(why) => {
                        reason = format!("no idle runner in pool {} fits: {why}", pool.name);
                        held.push(message);
                    }
                    Candidate::ClaimLost => {
                        lost = true;
                        held.push(message);
                    }
                }
            }
        }
        self.give_back_all(pool, held).await?;
        Ok(match (lost, filling.claim.short()) {
            (true, _) => Picked::ClaimLost,
            (false, 0) => Picked::All(Box::new(filling)),
            (false, _) => Picked::Short { filling: Box::new(filling), reason },
        })
    }

    /// A notice that many looked at is true all the same: it is sent anew before it would count as one that nobody can use.
    async fn give_back(&self, queue: &QueueName, message: Received) -> Result<(), Refused> {
        let Received { body, receipt, receives } = message;
        if receives + 1 < MAX_RECEIVES {
            return Ok(self.queue.give_back(queue, &receipt).await?);
        }
        self.queue.send(queue, body).await?;
        Ok(self.queue.delete(queue, &receipt).await?)
    }

    async fn consider(
        &self,
        pool: &Pool,
        filling: &Filling,
        message: &Received,
    ) -> Result<Candidate, Refused> {
        let notice: IdleNotice = match serde_json::from_str(&message.body) {
            Ok(notice) => notice,
            Err(error) => {
                tracing::warn!(target: "alert", pool = %pool.name, %error, "a message in the idle queue can't be read, and is dropped");
                return Ok(Candidate::Stale);
            }
        };
        if let Some(why) = filling.claim.ask.want.misfit(&notice.offer) {
            return Ok(Candidate::Unfit(why));
        }
        let Some(runner) = self.store.runner(&notice.runner).await? else { return Ok(Candidate::Stale) };
        let now = self.now();
        match announced(&runner, notice.epoch, &pool.rules.limits, now) {
            Announced::Takeable => self.take(pool, filling, &runner, now).await,
            Announced::NotNow(why) => Ok(Candidate::Unfit(why)),
            Announced::Stale => Ok(Candidate::Stale),
        }
    }
}
