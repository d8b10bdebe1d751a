//! `release`: a workflow gives its runners back. Repeating it is harmless.

use super::end::Ended;
use crate::caller::Caller;
use crate::control::Control;
use crate::error::Refused;
use crate::tries::Tries;
use motorpool_domain::claim::Claim;
use motorpool_domain::{Owner, Timestamp, Workflow};
use motorpool_wire::api::{ClaimView, ReleaseRequest};
use std::collections::BTreeSet;

impl Control {
    pub async fn release(&self, caller: &Caller, request: ReleaseRequest) -> Result<ClaimView, Refused> {
        let ReleaseRequest { workflow, pool, owner } = request;
        let now = self.now();
        let owner = whose(caller, owner)?;
        let mut claims = self.store.claims_of(&owner, &workflow).await?;
        claims.retain(|claim| pool.as_ref().is_none_or(|pool| &claim.key.pool == pool));
        // What is still open comes first, then what was opened last.
        claims.sort_by_key(|claim| (!claim.state.open(), std::cmp::Reverse(claim.opened_at)));
        let (open, ended): (Vec<Claim>, Vec<Claim>) =
            claims.into_iter().partition(|claim| claim.state.open());
        let (mut released, mut offered) = (Vec::new(), BTreeSet::new());
        for claim in open {
            let (pool, waited) = (claim.key.pool.clone(), claim.waiting());
            let Ended { claim, frees_one } = self.release_one(caller, claim, now).await?;
            if frees_one || waited {
                offered.insert(pool);
            }
            released.push(claim);
        }
        for pool in &offered {
            // Who waited behind it may be next.
            self.offer_to_waiting(pool, now).await?;
        }
        if !released.is_empty() {
            self.offer_to_held_back(&owner, now).await?;
        }
        let also = released.iter().skip(1).map(|other| other.claim.id.clone()).collect();
        let first = match (released.into_iter().next(), ended.into_iter().next()) {
            (Some(first), _) => first,
            (None, Some(ended)) => self.reconcile_claim(ended, now).await?,
            (None, None) => return Err(no_such(&owner, &workflow)),
        };
        Ok(ClaimView { also, ..self.claim_view(&first, now) })
    }

    async fn release_one(&self, caller: &Caller, claim: Claim, now: Timestamp) -> Result<Ended, Refused> {
        let why = format!("released by {}", caller.owner());
        let id = claim.id.clone();
        let mut seen = self.members_of(claim).await?;
        let mut tries = Tries::new();
        while seen.claim.state.open() {
            tries.again(|| format!("claim {id}"))?;
            let released = seen.claim.released(&why, now);
            if let Some(ended) = self.end(seen, released, caller.actor(), "released", now).await? {
                return Ok(ended);
            }
            seen = self.claim_with_members(&id).await?;
        }
        self.release_members(seen, now).await
    }
}

fn whose(caller: &Caller, asked: Option<Owner>) -> Result<Owner, Refused> {
    match (caller, asked) {
        (_, None) => Ok(caller.owner()),
        (Caller::Operator, Some(owner)) => Ok(owner),
        (Caller::Team(own), Some(owner)) if *own == owner => Ok(owner),
        (Caller::Team(own), Some(owner)) => Err(Refused::forbidden(
            format!("team {own} may not release what is {owner}'s"),
            "leave `owner` out, or ask with the operator's token",
        )),
    }
}

fn no_such(owner: &Owner, workflow: &Workflow) -> Refused {
    Refused::not_found(
        format!("{owner} has no claim of workflow {workflow}"),
        "`motorpool claims` lists the claims; a team's own needs its `owner`, and a workflow's name includes its attempt",
    )
}
