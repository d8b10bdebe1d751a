//! `advance(claim)`: one idempotent use case that brings a claim as far as it gets now: drop what it lost, take what is idle or on its
//! way for nobody, launch the shortfall, notice readiness or the end. It never waits; no claim depends on any one call of it.

use crate::control::Control;
use crate::filling::Filling;
use crate::launch::LaunchedShort;
use crate::pick::Picked;
use crate::ports::queue::Received;
use crate::refused::Refused;
use crate::store::{ClaimWrite, Page, WhichClaims, Written};
use motorpool_domain::audit::cut;
use motorpool_domain::claim::{Assessment, Claim, ClaimState, MemberSeen, Progress, assess, progress};
use motorpool_domain::pool::Pool;
use motorpool_domain::pool::PoolRecord;
use motorpool_domain::record::Key;
use motorpool_domain::runner::{Runner, RunnerEvent, RunnerState};
use motorpool_domain::{Actor, AuditEntry, ClaimId, PoolName, RunnerId, Timestamp};

/// A claim as it is now, with its members' records.
#[derive(Debug)]
pub(crate) struct ClaimNow {
    pub(crate) claim: Claim,
    pub(crate) members: Vec<Option<Runner>>,
}

impl ClaimNow {
    pub(crate) fn assessment(&self) -> Assessment {
        let seen: Vec<MemberSeen<'_>> = self
            .claim
            .members
            .iter()
            .zip(&self.members)
            .map(|(member, runner)| MemberSeen { member, runner: runner.as_ref() })
            .collect();
        assess(&self.claim, &seen)
    }
}

/// How often a claim that others change meanwhile is taken up anew.
const ATTEMPTS: usize = 16;
/// How many waiting claims are offered a runner that became free: the oldest may not fit it.
const OFFERED: u32 = 3;

pub(crate) enum Step {
    /// Nothing was written.
    Nothing,
    Done,
    /// Somebody else wrote the claim meanwhile.
    Again,
}

impl Control {
    pub(crate) async fn advance(&self, id: &ClaimId) -> Result<ClaimNow, Refused> {
        for _ in 0..ATTEMPTS {
            let now = self.claim_now_record(id).await?;
            match self.advance_once(&now).await? {
                Step::Nothing => return Ok(now),
                Step::Done => return self.claim_now_record(id).await,
                Step::Again => {}
            }
        }
        // Others are at it, and will get it as far as it gets.
        self.claim_now_record(id).await
    }

    pub(crate) async fn claim_now_record(&self, id: &ClaimId) -> Result<ClaimNow, Refused> {
        let claim = self.claim_record(id).await?;
        let ids: Vec<RunnerId> = claim.members.iter().map(|member| member.runner.clone()).collect();
        let members = self.store.runners(&ids).await?;
        Ok(ClaimNow { claim, members })
    }

    /// A runner or a slot became free: the oldest claims that lack one are first.
    pub(crate) async fn offer_to_waiting(&self, pool: &PoolName) -> Result<(), Refused> {
        let short = self.store.list_claims(pool, WhichClaims::Short, Page::first(OFFERED)).await?;
        for claim in short.items {
            self.advance(&claim.id).await?;
        }
        Ok(())
    }

    async fn advance_once(&self, now: &ClaimNow) -> Result<Step, Refused> {
        if !now.claim.state.open() {
            self.settle(&now.claim).await?;
            return Ok(Step::Done);
        }
        let Some(record) = self.store.pool(&now.claim.key.pool).await? else {
            return self.end(&now.claim, &now.claim.without_pool(self.now())).await;
        };
        let pool = &record.pool;
        let seen = now.assessment();
        match progress(&now.claim, &seen, self.now()) {
            Progress::Ready(after) => return self.become_ready(pool, now, &after).await,
            Progress::Over(after) => return self.end(&now.claim, &after).await,
            Progress::Waits => {}
        }
        if !seen.lost.is_empty() {
            return self.drop_lost(&now.claim, &seen).await;
        }
        self.begin_time(pool, now).await?;
        if now.claim.short() == 0 {
            return Ok(Step::Done);
        }
        self.fill(&record, &now.claim).await
    }

    async fn become_ready(&self, pool: &Pool, now: &ClaimNow, after: &Claim) -> Result<Step, Refused> {
        if !self.wrote_claim(&now.claim, after, "became ready", "all its runners run").await? {
            return Ok(Step::Again);
        }
        let ready = ClaimNow { claim: after.clone(), members: now.members.clone() };
        self.begin_time(pool, &ready).await?;
        Ok(Step::Done)
    }

    async fn end(&self, before: &Claim, after: &Claim) -> Result<Step, Refused> {
        let why = match &after.state {
            ClaimState::Released { why, .. } | ClaimState::Failed { why, .. } => why.clone(),
            ClaimState::Pending | ClaimState::Ready { .. } => String::new(),
        };
        if !self.wrote_claim(before, after, "ended", &why).await? {
            return Ok(Step::Again);
        }
        self.settle(after).await?;
        Ok(Step::Done)
    }

    async fn drop_lost(&self, claim: &Claim, seen: &Assessment) -> Result<Step, Refused> {
        let why: Vec<String> =
            seen.lost.iter().map(|(member, why)| format!("{}: {why}", member.runner)).collect();
        let why = cut(why.join("; "));
        self.wrote_claim(claim, &claim.losing(&seen.lost, self.now()), "lost runners", &why).await?;
        Ok(Step::Again)
    }

    /// A ready claim's runners have the claim's time; a pending one's has not begun. Repeated, so that a crash in between heals.
    async fn begin_time(&self, pool: &Pool, now: &ClaimNow) -> Result<(), Refused> {
        let heard_within = pool.rules.limits.heard_within(self.settings.refresh);
        for runner in now.members.iter().flatten() {
            let (RunnerState::Running { .. }, Some(threshold)) = (&runner.state, runner.threshold) else {
                continue;
            };
            if let Some(until) = now.claim.put_off(threshold, heard_within, self.now()) {
                self.apply(pool, runner, &RunnerEvent::TimeBegins { until }, &Actor::Control).await?;
            }
        }
        Ok(())
    }

    /// Gets what it lacks, if it is its turn, and writes down why something is still missing.
    async fn fill(&self, record: &PoolRecord, before: &Claim) -> Result<Step, Refused> {
        let filling = Filling::of_ledger(before.clone());
        match self.gather_in_turn(record, filling, Vec::new()).await? {
            LaunchedShort::Enough(_) => Ok(Step::Done),
            LaunchedShort::ClaimLost | LaunchedShort::PoolGone(_) => Ok(Step::Again),
            LaunchedShort::Short { filling, reason, not_before } => {
                let step = self.note_waiting(&filling.claim, &reason, not_before).await?;
                // What was launched just now and refused is lost again: without it the claim is listed among those that lack a runner.
                Ok(if filling.claim.rev == before.rev { step } else { Step::Again })
            }
        }
    }

    /// Writes down what a claim of the ledger waits for.
    pub(crate) async fn note_waiting(
        &self,
        claim: &Claim,
        reason: &str,
        retry_at: Option<Timestamp>,
    ) -> Result<Step, Refused> {
        if claim.waits_for.as_deref() == Some(reason) && claim.launch_not_before == retry_at {
            return Ok(Step::Nothing);
        }
        let after = claim.waiting_for(Some(reason.to_owned()), retry_at);
        let wrote = self.wrote_claim(claim, &after, "waits", reason).await?;
        Ok(if wrote { Step::Done } else { Step::Again })
    }

    pub(crate) async fn gather_in_turn(
        &self,
        record: &PoolRecord,
        filling: Filling,
        hand: Vec<Received>,
    ) -> Result<LaunchedShort, Refused> {
        let Some(reason) = self.not_its_turn(record, &filling.claim).await? else {
            return self.gather(&record.pool, filling, hand).await;
        };
        self.give_back_all(&record.pool, hand).await?;
        let not_before = filling.claim.launch_not_before;
        Ok(LaunchedShort::Short { filling: Box::new(filling), reason, not_before })
    }

    /// Takes what is idle and fits, those in `hand` first, then what is on its way for nobody, and launches the rest.
    pub(crate) async fn gather(
        &self,
        pool: &Pool,
        filling: Filling,
        hand: Vec<Received>,
    ) -> Result<LaunchedShort, Refused> {
        match self.pick(pool, filling, hand).await? {
            Picked::All(filling) => Ok(LaunchedShort::Enough(filling)),
            Picked::Short { filling, reason } if filling.claim.ask.idle_only => {
                let not_before = filling.claim.launch_not_before;
                Ok(LaunchedShort::Short { filling, reason, not_before })
            }
            Picked::Short { filling, reason: _ } => match self.adopt(pool, *filling).await? {
                Some(filling) if filling.claim.short() == 0 => Ok(LaunchedShort::Enough(Box::new(filling))),
                // On the heap, as other long ways are: one within the other they would outgrow a thread's stack.
                Some(filling) => Box::pin(self.launch_shortfall(pool, filling)).await,
                None => Ok(LaunchedShort::ClaimLost),
            },
            Picked::ClaimLost => Ok(LaunchedShort::ClaimLost),
        }
    }

    /// Writes a claim on the control plane's own behalf, and says whether it won.
    pub(crate) async fn wrote_claim(
        &self,
        before: &Claim,
        after: &Claim,
        what: &str,
        why: &str,
    ) -> Result<bool, Refused> {
        let entry = self.claim_entry(before, after, Actor::Control, what, why);
        self.wrote_claim_as(before, after, &entry).await
    }

    pub(crate) async fn wrote_claim_as(
        &self,
        before: &Claim,
        after: &Claim,
        entry: &AuditEntry,
    ) -> Result<bool, Refused> {
        match self.store.write_claim(ClaimWrite { before, after, entry }).await? {
            Written::Done => {
                tracing::info!(claim = %after.id, pool = %after.key.pool, workflow = %after.key.workflow, state = after.state.as_str(), short = after.short(), why = entry.why, "a claim {}", entry.what);
                self.ring(Key::from(&after.id));
                Ok(true)
            }
            Written::Lost { .. } | Written::Missing => Ok(false),
        }
    }

    pub(crate) fn claim_entry(
        &self,
        before: &Claim,
        after: &Claim,
        who: Actor,
        what: &str,
        why: &str,
    ) -> AuditEntry {
        AuditEntry {
            at: self.now(),
            who,
            what: what.to_owned(),
            from: Some(before.state.as_str().to_owned()),
            to: Some(after.state.as_str().to_owned()),
            why: why.to_owned(),
        }
    }
}
