//! A job's end as a webhook tells it: perhaps twice, late, or in another order. Whether the webhook is true is for its receiver to say.

use super::finalize::JobWord;
use crate::control::Control;
use crate::error::Refused;
use motorpool_domain::DeliveryId;
use motorpool_domain::checkpoint::CompletedJob;
use motorpool_domain::ci::CiSystem;
use motorpool_domain::delivery::Delivery;

/// What a webhook's word about a job came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    Word(JobWord),
    /// The same delivery was done with before, and nothing was done now.
    Before,
}

impl Control {
    /// The delivery is noted after its effect is written: if that fails in between, the same one again is taken as if it were the first, and finalizing
    /// twice is finalizing once. One about a job that is not known here had no effect, and is not noted: the job's checkpoint may be about to show.
    pub async fn job_told(
        &self,
        system: CiSystem,
        delivery: Option<&DeliveryId>,
        job: &CompletedJob,
    ) -> Result<Told, Refused> {
        if let Some(id) = delivery
            && self.store.has_delivery(system, id).await?
        {
            return Ok(Told::Before);
        }
        let word = self.job_completed(system, job).await?;
        match (word, delivery) {
            (JobWord::Queued | JobWord::Already, Some(id)) => {
                let done = Delivery { system, id: id.clone(), done_at: self.now() };
                self.store.note_delivery(&done).await?;
            }
            (JobWord::Queued | JobWord::Already | JobWord::Unknown, _) => {}
        }
        Ok(Told::Word(word))
    }
}
