//! `release`: a workflow gives its runners back. Repeating it is harmless.

use crate::caller::Caller;
use crate::control::Control;
use crate::refused::Refused;
use motorpool_domain::claim::Claim;
use motorpool_domain::{Owner, Workflow};
use motorpool_wire::api::{ClaimView, ReleaseRequest};

impl Control {
    pub async fn release(&self, caller: &Caller, request: ReleaseRequest) -> Result<ClaimView, Refused> {
        let ReleaseRequest { workflow, pool, owner } = request;
        let owner = whose(caller, owner)?;
        let mut claims = self.store.claims_of(&owner, &workflow).await?;
        claims.retain(|claim| pool.as_ref().is_none_or(|pool| &claim.key.pool == pool));
        // What is still open comes first, then what was opened last.
        claims.sort_by_key(|claim| (!claim.state.open(), std::cmp::Reverse(claim.opened_at)));
        let Some(first) = claims.first() else { return Err(no_such(&owner, &workflow)) };
        let first_id = first.id.clone();
        let open: Vec<Claim> = claims.into_iter().filter(|claim| claim.state.open()).collect();
        let (mut also, mut offered) = (Vec::new(), Vec::new());
        for claim in open {
            let on_its_way = self.release_one(caller, &claim).await?;
            if on_its_way || claim.waiting() {
                offered.push(claim.key.pool.clone());
            }
            if claim.id != first_id {
                also.push(claim.id);
            }
        }
        for pool in offered {
            // Who waited behind it may be next.
            self.offer_to_waiting(&pool).await?;
        }
        let now = self.advance(&first_id).await?;
        Ok(ClaimView { also, ..self.claim_view(&now) })
    }

    /// Whether a machine is on its way for nobody now.
    async fn release_one(&self, caller: &Caller, claim: &Claim) -> Result<bool, Refused> {
        let why = format!("released by {}", caller.owner());
        let mut current = claim.clone();
        while current.state.open() {
            let after = current.released(&why, self.now());
            let entry = self.claim_entry(&current, &after, caller.actor(), "released", &why);
            if self.wrote_claim_as(&current, &after, &entry).await? {
                return self.settle(&after).await;
            }
            current = self.claim_record(&claim.id).await?;
        }
        Ok(false)
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
