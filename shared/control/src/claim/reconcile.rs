//! `reconcile(claim)`: one idempotent use case that brings a claim as far as it gets now: drop what it lost, take what is idle or on its
//! way for nobody, launch the shortfall, notice readiness or the end. It never waits; no claim depends on any one call of it.

use super::{Draft, Filled, Waits};
use crate::control::Control;
use crate::error::Refused;
use crate::runner::{ABREAST, Applied};
use crate::store::{ClaimWrite, Found, Written};
use futures_util::StreamExt;
use motorpool_domain::audit::cut;
use motorpool_domain::claim::{Assessment, Claim, Member, MemberSeen, Progress, assess, progress};
use motorpool_domain::pool::{Pool, PoolRecord};
use motorpool_domain::record::Key;
use motorpool_domain::runner::{Runner, RunnerEvent, RunnerState};
use motorpool_domain::{Actor, AuditEntry, ClaimId, Owner, PoolName, Threshold, Timestamp};

/// A claim as it is now, with its members' records and its pool.
#[derive(Debug)]
pub(crate) struct ClaimNow {
    pub(crate) claim: Claim,
    pub(crate) members: Vec<Found<Runner>>,
    pub(crate) pool: Option<PoolRecord>,
}

impl ClaimNow {
    /// A member whose record can't be read is neither running nor lost: whoever can read it says what it is.
    pub(crate) fn assessment(&self) -> Assessment {
        let seen: Vec<MemberSeen<'_>> = self
            .claim
            .members
            .iter()
            .zip(&self.members)
            .filter_map(|(member, found)| match found {
                Found::Record(runner) => Some(MemberSeen { member, runner: Some(runner) }),
                Found::Missing => Some(MemberSeen { member, runner: None }),
                Found::Unreadable => None,
            })
            .collect();
        assess(&self.claim, &seen)
    }

    /// The members whose records this claim may show, whether it is open or ended.
    pub(super) fn shown_members(&self) -> impl Iterator<Item = (&Member, &Runner)> {
        let read = self.claim.members.iter().zip(&self.members);
        let read = read.filter_map(|(member, found)| Some((member, found.record()?)));
        read.filter(move |(member, runner)| self.claim.shows(member, runner))
    }
}

/// How often a claim that others change meanwhile is taken up anew.
const ATTEMPTS: usize = 16;
/// How many waiting claims are offered a runner that became free: the first may not fit it.
const OFFERED: usize = 3;

enum Step {
    /// It gets no further, and is so now.
    Done(Box<ClaimNow>),
    /// It is to be read and looked at again.
    Again,
}

impl Control {
    pub(crate) async fn reconcile(&self, id: &ClaimId, now: Timestamp) -> Result<ClaimNow, Refused> {
        let claim = self.claim_record(id).await?;
        self.reconcile_claim(claim, now).await
    }

    /// The same for a claim that was read just now.
    pub(crate) async fn reconcile_claim(&self, claim: Claim, now: Timestamp) -> Result<ClaimNow, Refused> {
        let id = claim.id.clone();
        let mut seen = self.members_of(claim).await?;
        for _ in 0..ATTEMPTS {
            // On the heap, as other long ways are: one within the other they would outgrow a thread's stack.
            match Box::pin(self.reconcile_once(seen, now)).await? {
                Step::Done(done) => return Ok(*done),
                Step::Again => seen = self.claim_with_members(&id).await?,
            }
        }
        // Others are at it, and will get it as far as it gets.
        Ok(seen)
    }

    pub(crate) async fn claim_with_members(&self, id: &ClaimId) -> Result<ClaimNow, Refused> {
        self.members_of(self.claim_record(id).await?).await
    }

    /// The claim's pool and its members, in one read.
    pub(super) async fn members_of(&self, claim: Claim) -> Result<ClaimNow, Refused> {
        let ids: Vec<_> = claim.members.iter().map(|member| member.runner.clone()).collect();
        let (pool, members) = self.store.pool_and_runners(&claim.key.pool, &ids).await?;
        Ok(ClaimNow { claim, members, pool })
    }

    /// A runner or a slot became free: those whose turn is next are offered it.
    pub(crate) async fn offer_to_waiting(&self, pool: &PoolName, now: Timestamp) -> Result<(), Refused> {
        for claim in self.next_in_turn(pool, OFFERED).await? {
            self.reconcile(&claim, now).await?;
        }
        Ok(())
    }

    /// An owner holds fewer runners than before: claims of its own that waited for that, and for nothing else, are looked at.
    pub(super) async fn offer_to_held_back(&self, owner: &Owner, now: Timestamp) -> Result<(), Refused> {
        if self.limits_of(owner).and_then(|limits| limits.max_slots).is_none() {
            return Ok(());
        }
        for claim in self.store.held_back(owner).await?.into_iter().take(OFFERED) {
            self.reconcile_claim(claim, now).await?;
        }
        Ok(())
    }

    async fn reconcile_once(&self, seen: ClaimNow, now: Timestamp) -> Result<Step, Refused> {
        if !seen.claim.state.open() {
            let ended = self.release_members(seen, now).await?;
            return Ok(Step::Done(Box::new(ended.claim)));
        }
        let Some(record) = seen.pool.clone() else {
            let ended = seen.claim.without_pool(now);
            return self.end_by_itself(seen, ended, now).await;
        };
        let assessed = seen.assessment();
        match progress(&seen.claim, &assessed, now) {
            Progress::Ready(after) => return self.become_ready(&record.pool, seen, *after, now).await,
            Progress::Over(after) => return self.end_by_itself(seen, *after, now).await,
            Progress::Waits => {}
        }
        if !assessed.lost.is_empty() {
            return self.drop_lost(&seen.claim, &assessed, now).await;
        }
        let seen = self.begin_time(&record.pool, seen, now).await?;
        match seen.claim.short() {
            0 => Ok(Step::Done(Box::new(seen))),
            _ => self.fill(&record, seen, now).await,
        }
    }

    async fn become_ready(
        &self,
        pool: &Pool,
        seen: ClaimNow,
        after: Claim,
        now: Timestamp,
    ) -> Result<Step, Refused> {
        if !self.wrote_claim(&seen.claim, &after, "became ready", "all its runners run", now).await? {
            return Ok(Step::Again);
        }
        let ready = self.begin_time(pool, ClaimNow { claim: after, ..seen }, now).await?;
        Ok(Step::Done(Box::new(ready)))
    }

    async fn end_by_itself(&self, seen: ClaimNow, ended: Claim, now: Timestamp) -> Result<Step, Refused> {
        match self.end(seen, ended, Actor::Control, "ended", now).await? {
            Some(ended) => Ok(Step::Done(Box::new(ended.claim))),
            None => Ok(Step::Again),
        }
    }

    async fn drop_lost(&self, claim: &Claim, seen: &Assessment, now: Timestamp) -> Result<Step, Refused> {
        let why: Vec<String> =
            seen.lost.iter().map(|(member, why)| format!("{}: {why}", member.runner)).collect();
        let why = cut(why.join("; "));
        self.wrote_claim(claim, &claim.losing(&seen.lost, now), "lost runners", &why, now).await?;
        Ok(Step::Again)
    }

    /// A ready claim's runners have the claim's time; a pending one's has not begun. Repeated, so that a crash in between heals.
    async fn begin_time(&self, pool: &Pool, mut seen: ClaimNow, now: Timestamp) -> Result<ClaimNow, Refused> {
        let heard_within = pool.rules.limits.heard_within(self.settings.refresh);
        let later = |runner: &Runner| -> Option<Threshold> {
            let RunnerState::Running { .. } = &runner.state else { return None };
            seen.claim.put_off(runner.threshold?, heard_within, now)
        };
        let put_off: Vec<_> = seen
            .members
            .iter()
            .enumerate()
            .filter_map(|(index, runner)| {
                let runner = runner.record()?;
                Some((index, runner.clone(), later(runner)?))
            })
            .map(|(index, runner, until)| self.put_off(pool, index, runner, until, now))
            .collect();
        let mut put_off = futures_util::stream::iter(put_off).buffer_unordered(ABREAST);
        while let Some(written) = put_off.next().await {
            let (index, applied) = written?;
            if let (Some(after), Some(member)) = (applied.after(), seen.members.get_mut(index)) {
                *member = Found::Record(after.clone());
            }
        }
        drop(put_off);
        Ok(seen)
    }

    async fn put_off(
        &self,
        pool: &Pool,
        index: usize,
        runner: Runner,
        until: Threshold,
        now: Timestamp,
    ) -> Result<(usize, Applied), Refused> {
        let event = RunnerEvent::TimeBegins { until };
        Ok((index, self.transition(pool, &runner, &event, &Actor::Control, now).await?))
    }

    /// Gets what it lacks, if it is its turn, and writes down why something is still missing.
    async fn fill(&self, record: &PoolRecord, seen: ClaimNow, now: Timestamp) -> Result<Step, Refused> {
        let mut draft = Draft::of_ledger(seen.claim.clone());
        match self.gather_in_turn(record, &mut draft, None, now).await? {
            Filled::Whole => {
                self.claim_with_members(&seen.claim.id).await.map(|now| Step::Done(Box::new(now)))
            }
            Filled::ClaimLost | Filled::PoolGone => Ok(Step::Again),
            Filled::Short(waits) => {
                let noted = self.note_waiting(&draft.claim, &waits, now).await?;
                // What was launched just now and refused is lost again: without it the claim is listed among those that lack a runner.
                match noted.filter(|_| draft.claim.rev == seen.claim.rev) {
                    Some(claim) => Ok(Step::Done(Box::new(ClaimNow { claim, ..seen }))),
                    None => Ok(Step::Again),
                }
            }
        }
    }

    /// Writes down what a claim of the ledger waits for, unless it says so already. The answer is the claim as it is then; nothing, if somebody
    /// else wrote it meanwhile.
    pub(super) async fn note_waiting(
        &self,
        claim: &Claim,
        waits: &Waits,
        now: Timestamp,
    ) -> Result<Option<Claim>, Refused> {
        if waits.are_said_by(claim) {
            return Ok(Some(claim.clone()));
        }
        let after = waits.said_by(claim);
        let wrote = self.wrote_claim(claim, &after, "waits", &waits.reason, now).await?;
        Ok(wrote.then_some(after))
    }

    /// Writes a claim on the control plane's own behalf, and says whether it won.
    pub(super) async fn wrote_claim(
        &self,
        before: &Claim,
        after: &Claim,
        what: &str,
        why: &str,
        now: Timestamp,
    ) -> Result<bool, Refused> {
        let entry = AuditEntry::of_claim(now, Actor::Control, what, before, after, why);
        self.wrote_claim_as(before, after, &entry).await
    }

    pub(super) async fn wrote_claim_as(
        &self,
        before: &Claim,
        after: &Claim,
        entry: &AuditEntry,
    ) -> Result<bool, Refused> {
        match self.store.write_claim(ClaimWrite { before, after, entry }).await? {
            Written::Done => {
                self.tell_of_claim(after, entry);
                Ok(true)
            }
            Written::Lost { .. } | Written::Missing => Ok(false),
        }
    }

    /// What was written of a claim, for the log and for whoever waits for it.
    pub(super) fn tell_of_claim(&self, after: &Claim, entry: &AuditEntry) {
        tracing::info!(claim = %after.id, pool = %after.key.pool, workflow = %after.key.workflow, state = after.state.as_str(), short = after.short(), why = entry.why, "a claim {}", entry.what);
        self.wake(Key::from(&after.id));
    }
}
