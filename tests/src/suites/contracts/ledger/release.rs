//! The end of a claim together with the release of its runners.

use anyhow::Result;
use motorpool_control::store::{AllWritten, ClaimWrite, RunnerWrite, Taken};
use motorpool_domain::claim::Claim;
use motorpool_domain::record::Key;
use motorpool_domain::runner::{Runner, RunnerState};

use super::fixtures::{
    Shared, at, at_once, entry, hold, idle, log, moved, must_write, must_write_claim, opened, read,
    read_claim, take, taking,
};

/// A claim in the ledger that has taken the one idle runner there is.
async fn holding(ledger: &Shared) -> Result<(Claim, Runner)> {
    let (runner, claim) = (idle(ledger, "r-1").await?, opened(ledger, "c-1").await?);
    assert_eq!(take(ledger, &claim, &runner).await?, Taken::Done);
    let (claim, runner) = taking(&claim, &runner);
    Ok((read_claim(ledger, &claim.id).await?, read(ledger, &runner.id).await?))
}

async fn release(ledger: &Shared, claim: &Claim, runner: &Runner) -> Result<(Claim, Runner, AllWritten)> {
    let ended = claim.released("released by a test", at(9)).settled_at_once();
    let freed = moved(runner, RunnerState::Releasing { hold: hold(claim) });
    let (of_claim, of_runner) = (entry(9, "released"), entry(9, "let go"));
    let write = RunnerWrite { before: runner, after: &freed, look_at: None, entry: &of_runner };
    let claim = ClaimWrite { before: claim, after: &ended, entry: &of_claim };
    let written = ledger.release(claim, &[write]).await?;
    Ok((ended, freed, written))
}

pub async fn a_claim_ends_and_lets_go_of_its_runners_in_one_write(ledger: Shared) -> Result<()> {
    let (claim, runner) = holding(&ledger).await?;
    let (ended, freed, written) = release(&ledger, &claim, &runner).await?;
    assert_eq!(written, AllWritten::Done);
    assert_eq!(read_claim(&ledger, &claim.id).await?, ended);
    assert_eq!(read(&ledger, &runner.id).await?.state, freed.state);
    assert_eq!(log(&ledger, Key::from(&runner.id)).await?.first().map(String::as_str), Some("let go"));
    assert_eq!(log(&ledger, Key::from(&claim.id)).await?.first().map(String::as_str), Some("released"));
    assert!(ledger.due(at(1_000_000), 10).await?.iter().all(|path| path.key != Key::from(&claim.id)));
    Ok(())
}

pub async fn inv_02_a_release_of_what_has_moved_on_is_lost_whole(ledger: Shared) -> Result<()> {
    let (claim, runner) = holding(&ledger).await?;
    let running = must_write(
        &ledger,
        &runner,
        &moved(&runner, RunnerState::Running { hold: hold(&claim), leaving: false }),
    )
    .await?;
    assert_eq!(release(&ledger, &claim, &runner).await?.2, AllWritten::Lost);
    assert_eq!(read_claim(&ledger, &claim.id).await?, claim, "its runner was another by then");
    must_write_claim(&ledger, &claim, &claim.waiting_for(Some("another".to_owned()), None)).await?;
    assert_eq!(release(&ledger, &claim, &running).await?.2, AllWritten::Lost);
    assert_eq!(read(&ledger, &runner.id).await?, running, "its claim was another by then");
    Ok(())
}

pub async fn inv_07_fault_15_releasing_again_is_done_and_changes_nothing(ledger: Shared) -> Result<()> {
    let (claim, runner) = holding(&ledger).await?;
    let (ended, freed, _) = release(&ledger, &claim, &runner).await?;
    assert_eq!(release(&ledger, &claim, &runner).await?.2, AllWritten::Done);
    assert_eq!(read_claim(&ledger, &claim.id).await?, ended);
    assert_eq!(read(&ledger, &runner.id).await?.rev, freed.rev);
    Ok(())
}

pub async fn inv_02_of_16_releases_at_once_all_mean_the_same_write(ledger: Shared) -> Result<()> {
    let (claim, runner) = holding(&ledger).await?;
    let answers = at_once(&ledger, 16, |ledger, _| {
        let (claim, runner) = (claim.clone(), runner.clone());
        async move { Ok(release(&ledger, &claim, &runner).await?.2) }
    });
    assert!(answers.await?.iter().all(|answer| *answer == AllWritten::Done));
    let after = read(&ledger, &runner.id).await?;
    assert_eq!((after.rev, read_claim(&ledger, &claim.id).await?.rev), (runner.rev + 1, claim.rev + 1));
    Ok(())
}
