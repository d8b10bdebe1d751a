//! Why a claim waits, or how it ended, in plain words.

use crate::claim::{Assessment, Claim, ClaimState};

pub fn why(claim: &Claim, seen: &Assessment) -> String {
    let count = claim.ask.count;
    match &claim.state {
        ClaimState::Released { why, .. } | ClaimState::Failed { why, .. } => why.clone(),
        ClaimState::Ready { .. } if claim.short() > 0 => {
            format!("{} of {count} runners are there; {}", count - claim.short(), cause(claim))
        }
        ClaimState::Ready { .. } => match count {
            1 => "its runner is ready".to_owned(),
            _ => format!("all {count} runners are ready"),
        },
        ClaimState::Pending => {
            let mut parts = vec![format!("{} of {count} ready", seen.running)];
            if seen.starting > 0 {
                parts.push(format!("{} on the way", seen.starting));
            }
            if let Some(rung) = &seen.looking {
                parts.push(format!("the provider had nothing to give so far, and is asked for {rung} now"));
            }
            if claim.short() > 0 {
                parts.push(cause(claim));
            } else if let Some(cause) = claim.waits_for.as_ref().filter(|_| claim.losses > 0) {
                parts.push(format!("before that, {cause}"));
            }
            parts.join("; ")
        }
    }
}

fn cause(claim: &Claim) -> String {
    claim.waits_for.clone().unwrap_or_else(|| format!("looking for {} more", claim.short()))
}
