//! Claims: one a key, found by id and by key, and a write needs the claim that it was decided from.

use anyhow::{Result, bail};
use motorpool_control::store::{Opened, Written};
use motorpool_domain::claim::{Claim, ClaimState};
use motorpool_domain::record::Key;
use motorpool_domain::{Owner, Workflow};

use super::fixtures::{
    POOL, Shared, at, at_once, claim, claim_id, claim_of, key, log, must_write_claim, open, opened,
    read_claim, write_claim,
};

pub async fn a_claim_is_opened_and_found(ledger: Shared) -> Result<()> {
    let claim = claim("c-1")?;
    assert_eq!(ledger.claim(&claim.id).await?, None);
    assert_eq!(ledger.claim_by_key(&claim.key).await?, None);
    assert_eq!(ledger.claims_of(&claim.key.owner, &claim.key.workflow).await?, []);

    assert_eq!(open(&ledger, &claim, None).await?, Opened::Done);
    assert_eq!(ledger.claim(&claim.id).await?, Some(claim.clone()));
    assert_eq!(ledger.claim_by_key(&claim.key).await?, Some(claim.clone()));
    assert_eq!(ledger.claims_of(&claim.key.owner, &claim.key.workflow).await?, vec![claim.clone()]);
    assert_eq!(log(&ledger, Key::from(&claim.id)).await?, ["opened"]);
    Ok(())
}

pub async fn the_latest_claim_on_each_pool_is_found(ledger: Shared) -> Result<()> {
    let (old, new) = (claim_of("c-1", "gh-1", "small")?, claim_of("c-2", "gh-1", "small")?);
    let large = claim_of("c-3", "gh-1", "large")?;
    for other in [claim_of("c-4", "gh-1.2", "small")?, claim_of("c-5", "gh-11", "large")?] {
        open(&ledger, &other, None).await?;
    }
    open(&ledger, &old, None).await?;
    must_write_claim(&ledger, &old, &old.released("done", at(1))).await?;
    assert_eq!(open(&ledger, &new, Some(&old.id)).await?, Opened::Done);
    assert_eq!(open(&ledger, &large, None).await?, Opened::Done);

    let workflow = Workflow::parse("gh-1")?;
    assert_eq!(ledger.claims_of(&Owner::operator(), &workflow).await?, [large, new]);
    assert_eq!(ledger.claims_of(&Owner::parse("somebody")?, &workflow).await?, []);
    Ok(())
}

pub async fn a_key_has_one_claim(ledger: Shared) -> Result<()> {
    let first = claim_of("c-1", "gh-1", POOL)?;
    open(&ledger, &first, None).await?;
    let second = claim_of("c-2", "gh-1", POOL)?;
    let lost = Opened::Lost { found: Some(first.id.clone()) };
    assert_eq!(open(&ledger, &second, None).await?, lost);
    assert_eq!(open(&ledger, &second, Some(&claim_id("c-9")?)).await?, lost);
    assert_eq!(ledger.claim(&second.id).await?, None);
    assert_eq!(ledger.claim_by_key(&first.key).await?, Some(first));
    assert!(log(&ledger, Key::from(&second.id)).await?.is_empty());
    Ok(())
}

pub async fn an_ended_claim_is_replaced_once(ledger: Shared) -> Result<()> {
    let first = claim_of("c-1", "gh-1", POOL)?;
    open(&ledger, &first, None).await?;
    let ended = first.failed("nobody came", at(1));
    must_write_claim(&ledger, &first, &ended).await?;
    let (second, third) = (claim_of("c-2", "gh-1", POOL)?, claim_of("c-3", "gh-1", POOL)?);
    assert_eq!(open(&ledger, &second, Some(&first.id)).await?, Opened::Done);
    let lost = Opened::Lost { found: Some(second.id.clone()) };
    assert_eq!(open(&ledger, &third, Some(&first.id)).await?, lost);
    assert_eq!(ledger.claim_by_key(&first.key).await?, Some(second));
    assert_eq!(ledger.claim(&first.id).await?, Some(ended), "the old record stays");
    Ok(())
}

pub async fn inv_03_of_16_that_open_one_key_one_wins(ledger: Shared) -> Result<()> {
    let answers = at_once(&ledger, 16, |ledger, caller| async move {
        let claim = claim_of(&format!("c-{caller}"), "gh-1", POOL)?;
        Ok((open(&ledger, &claim, None).await?, claim.id))
    });
    let (mut won, mut found) = (Vec::new(), Vec::new());
    for answer in answers.await? {
        match answer {
            (Opened::Done, id) => won.push(id),
            (Opened::Lost { found: Some(id) }, _) => found.push(id),
            (Opened::Lost { found: None }, _) => bail!("lost to nobody"),
        }
    }
    let latest = ledger.claim_by_key(&key("gh-1", POOL)?).await?.map(|claim| claim.id);
    assert_eq!(won, Vec::from_iter(latest));
    assert!(found.iter().all(|id| won.contains(id)), "{found:?}");
    Ok(())
}

pub async fn inv_07_fault_15_opening_again_is_done_and_changes_nothing(ledger: Shared) -> Result<()> {
    let first = opened(&ledger, "c-1").await?;
    assert_eq!(open(&ledger, &first, None).await?, Opened::Done);
    let moved = Claim { waits_for: Some("a runner".to_owned()), rev: first.rev + 1, ..first.clone() };
    must_write_claim(&ledger, &first, &moved).await?;
    assert_eq!(open(&ledger, &first, None).await?, Opened::Done);
    assert_eq!(read_claim(&ledger, &first.id).await?, moved);

    must_write_claim(&ledger, &moved, &moved.released("done", at(1))).await?;
    let second = claim_of("c-2", "c-1", POOL)?;
    for _ in 0..2 {
        assert_eq!(open(&ledger, &second, Some(&first.id)).await?, Opened::Done);
    }
    assert_eq!(log(&ledger, Key::from(&second.id)).await?, ["opened"]);
    // So late that another has the key by now: that is lost.
    assert_eq!(open(&ledger, &first, None).await?, Opened::Lost { found: Some(second.id) });
    Ok(())
}

pub async fn inv_02_a_write_from_a_stale_claim_is_lost(ledger: Shared) -> Result<()> {
    let missing = claim("c-0")?;
    assert_eq!(write_claim(&ledger, &missing, &missing.settled()).await?, Written::Missing);
    assert_eq!(ledger.claim(&missing.id).await?, None);

    let found = opened(&ledger, "c-1").await?;
    let stale = [
        Claim { rev: found.rev - 1, ..found.clone() },
        Claim { rev: found.rev + 1, ..found.clone() },
        Claim { state: ClaimState::Ready { since: at(0) }, ..found.clone() },
    ];
    for before in stale {
        let after = before.released("done", at(1));
        let written = write_claim(&ledger, &before, &after).await?;
        assert_eq!(written, Written::Lost { found: found.clone() }, "{before:?}");
        assert_eq!(read_claim(&ledger, &found.id).await?, found);
    }
    let after = found.released("done", at(1));
    must_write_claim(&ledger, &found, &after).await?;
    assert_eq!(read_claim(&ledger, &found.id).await?, after);
    assert_eq!(write_claim(&ledger, &found, &after).await?, Written::Lost { found: after });
    Ok(())
}
