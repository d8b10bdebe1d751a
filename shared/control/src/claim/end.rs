//! Ends a claim and lets go of its runners: in one write, where all are as they were read. If not, the end is written first and the runners after
//! it, which can be repeated, and refresh does.

use super::ClaimNow;
use crate::control::Control;
use crate::error::Refused;
use crate::runner::{ABREAST, Applied};
use crate::store::{AllWritten, ClaimWrite, Found, RunnerWrite, Store};
use futures_util::StreamExt;
use motorpool_domain::claim::{Claim, ClaimState, Member};
use motorpool_domain::pool::Pool;
use motorpool_domain::runner::{Change, Decision, Runner, RunnerEvent, decide};
use motorpool_domain::{Actor, AuditEntry, Timestamp};

/// A claim after its end.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) claim: ClaimNow,
    /// A machine that was for this claim is on its way for nobody now.
    pub(super) frees_one: bool,
}

impl Control {
    /// Nothing, if somebody else wrote the claim meanwhile.
    pub(super) async fn end(
        &self,
        seen: ClaimNow,
        ended: Claim,
        who: Actor,
        what: &str,
        now: Timestamp,
    ) -> Result<Option<Ended>, Refused> {
        let why = ended.state.why().unwrap_or_default().to_owned();
        let entry = AuditEntry::of_claim(now, who, what, &seen.claim, &ended, why);
        let seen = match self.end_together(seen, &ended, &entry, now).await? {
            Together::Done(done) => return Ok(Some(*done)),
            Together::Lost(seen) => *seen,
        };
        if !self.wrote_claim_as(&seen.claim, &ended, &entry).await? {
            return Ok(None);
        }
        self.release_members(ClaimNow { claim: ended, ..seen }, now).await.map(Some)
    }

    /// One transaction over the claim and every runner that it holds.
    async fn end_together(
        &self,
        mut seen: ClaimNow,
        ended: &Claim,
        entry: &AuditEntry,
        now: Timestamp,
    ) -> Result<Together, Refused> {
        let (Some(record), Some(why)) = (&seen.pool, why_released(ended)) else {
            return Ok(Together::Lost(Box::new(seen)));
        };
        let pool = record.pool.clone();
        let (event, who) = (RunnerEvent::Release { why }, Actor::Control);
        let mut released: Vec<(usize, Runner, Change, AuditEntry)> = Vec::new();
        for (index, runner) in held(&seen) {
            if let Decision::Change(change) = decide(&runner, &event, &pool.rules, now) {
                let entry = AuditEntry::of_runner(now, who.clone(), &runner, &change.after, &change.why);
                released.push((index, runner, *change, entry));
            }
        }
        if has_unreadable(&seen)
            || u32::try_from(released.len()).map_or(true, |count| count > Store::MOST_TOGETHER)
        {
            return Ok(Together::Lost(Box::new(seen)));
        }
        let after = ended.settled_at_once();
        let writes: Vec<RunnerWrite<'_>> = released
            .iter()
            .map(|(_, before, change, entry)| RunnerWrite::of(before, &change.after, &pool.rules, entry))
            .collect();
        let claim = ClaimWrite { before: &seen.claim, after: &after, entry };
        match self.store.release(claim, &writes).await? {
            AllWritten::Done => {}
            AllWritten::Lost => return Ok(Together::Lost(Box::new(seen))),
        }
        self.tell_of_claim(&after, entry);
        // Side by side, since each may have to tell a CI system.
        let follow_ups: Vec<_> = released
            .iter()
            .map(|(_, before, Change { after, why }, _)| self.follow_up(&pool, before, after, &who, why, now))
            .collect();
        let mut follow_ups = futures_util::stream::iter(follow_ups).buffer_unordered(ABREAST);
        while let Some(followed_up) = follow_ups.next().await {
            followed_up?;
        }
        drop(follow_ups);
        let mut frees_one = false;
        for (index, _, Change { after, .. }, _) in released {
            frees_one |= after.state.is_free();
            if let Some(member) = seen.members.get_mut(index) {
                *member = Found::Record(after);
            }
        }
        Ok(Together::Done(Box::new(Ended { claim: ClaimNow { claim: after, ..seen }, frees_one })))
    }

    /// Lets go of what an ended claim still holds. Safe to repeat.
    pub(super) async fn release_members(&self, seen: ClaimNow, now: Timestamp) -> Result<Ended, Refused> {
        let Some(why) = why_released(&seen.claim).filter(|_| seen.claim.settling) else {
            return Ok(Ended { claim: seen, frees_one: false });
        };
        let Some(record) = seen.pool.clone() else {
            // A pool is deleted only when no slot of it is used: all its runners are over.
            let claim =
                self.let_go(&seen.claim, "its pool was deleted, and with it no runner was left", now).await?;
            return Ok(Ended { claim: ClaimNow { claim, ..seen }, frees_one: false });
        };
        let event = RunnerEvent::Release { why };
        let releases: Vec<_> = held(&seen)
            .map(|(index, runner)| self.release_member(&record.pool, &seen.claim, index, runner, &event, now))
            .collect();
        let mut releases = futures_util::stream::iter(releases).buffer_unordered(ABREAST);
        // Whoever can read a member's record lets go of it: until then the claim stays unsettled.
        let (mut afters, mut has_one) = (Vec::new(), has_unreadable(&seen));
        while let Some(released) = releases.next().await {
            let (index, after, still) = released?;
            has_one |= still;
            afters.extend(after.map(|after| (index, after)));
        }
        drop(releases);
        let mut seen = seen;
        let mut frees_one = false;
        for (index, after) in afters {
            frees_one |= after.state.is_free();
            if let Some(member) = seen.members.get_mut(index) {
                *member = Found::Record(after);
            }
        }
        if !has_one {
            seen.claim = self.let_go(&seen.claim, "it has ended", now).await?;
        }
        Ok(Ended { claim: seen, frees_one })
    }

    /// The runner after its release, and whether the claim holds it still: then the claim stays unsettled, and the next pass looks again.
    async fn release_member(
        &self,
        pool: &Pool,
        claim: &Claim,
        index: usize,
        runner: Runner,
        event: &RunnerEvent,
        now: Timestamp,
    ) -> Result<(usize, Option<Runner>, bool), Refused> {
        match self.transition(pool, &runner, event, &Actor::Control, now).await? {
            Applied::Changed { after, .. } => Ok((index, Some(*after), false)),
            Applied::Stayed | Applied::Refused(_) => Ok((index, None, false)),
            Applied::Overtaken => {
                let found = self.store.runner(&runner.id).await?;
                let still = found.as_ref().is_some_and(|found| is_its(claim, &runner, found));
                Ok((index, found, still))
            }
        }
    }

    async fn let_go(&self, claim: &Claim, why: &str, now: Timestamp) -> Result<Claim, Refused> {
        let settled = claim.settled();
        let wrote = self.wrote_claim(claim, &settled, "let go of its runners", why, now).await?;
        Ok(if wrote { settled } else { claim.clone() })
    }
}

enum Together {
    Done(Box<Ended>),
    /// Nothing was written.
    Lost(Box<ClaimNow>),
}

/// The members that the claim holds in the epoch that it took them in, each with its place.
fn held(seen: &ClaimNow) -> impl Iterator<Item = (usize, Runner)> {
    let ClaimNow { claim, members, pool: _ } = seen;
    claim.members.iter().zip(members).enumerate().filter_map(|(index, (Member { epoch, .. }, runner))| {
        let runner = runner.record().filter(|runner| runner.epoch == *epoch && runner.held_by(&claim.id))?;
        Some((index, runner.clone()))
    })
}

fn has_unreadable(seen: &ClaimNow) -> bool {
    seen.members.contains(&Found::Unreadable)
}

fn is_its(claim: &Claim, read: &Runner, found: &Runner) -> bool {
    found.epoch == read.epoch && found.held_by(&claim.id)
}

/// What the log of its runners says; nothing of a claim that is open.
fn why_released(claim: &Claim) -> Option<String> {
    match &claim.state {
        ClaimState::Released { why, .. } => Some(format!("{} was released: {why}", claim.id)),
        ClaimState::Failed { why, .. } => Some(format!("{} failed: {why}", claim.id)),
        ClaimState::Pending | ClaimState::Ready { .. } => None,
    }
}
