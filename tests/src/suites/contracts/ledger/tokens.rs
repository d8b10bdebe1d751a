//! A runner found by its agent's token.

use anyhow::Result;
use motorpool_domain::runner::{Credential, Runner};

use super::fixtures::{Shared, launched, must_write, read, terminated};

fn with_token(runner: &Runner, token: Option<&str>) -> Runner {
    let credential = token.map(|token| Credential {
        token_sha256: token.to_owned(),
        machine_id: "machine-1".to_owned(),
        named: None,
    });
    Runner { credential, rev: runner.rev + 1, ..runner.clone() }
}

async fn found(ledger: &Shared, token: &str) -> Result<Option<String>> {
    Ok(ledger.runner_by_token(token).await?.map(|runner| runner.id.to_string()))
}

pub async fn a_runner_is_found_by_its_token_and_by_no_other(ledger: Shared) -> Result<()> {
    for runner in launched(&ledger, &["r-1", "r-2"]).await? {
        let token = format!("token of {}", runner.id);
        must_write(&ledger, &runner, &with_token(&runner, Some(&token))).await?;
    }
    for id in ["r-1", "r-2"] {
        assert_eq!(found(&ledger, &format!("token of {id}")).await?.as_deref(), Some(id));
    }
    assert_eq!(found(&ledger, "another").await?, None);
    Ok(())
}

pub async fn refuse_10_a_token_that_was_replaced_or_whose_runner_is_over_finds_nobody(
    ledger: Shared,
) -> Result<()> {
    for runner in launched(&ledger, &["r-1"]).await? {
        let first = must_write(&ledger, &runner, &with_token(&runner, Some("first"))).await?;
        let nobody = must_write(&ledger, &first, &with_token(&first, None)).await?;
        assert_eq!(found(&ledger, "first").await?, None);
        let second = must_write(&ledger, &nobody, &with_token(&nobody, Some("second"))).await?;
        assert_eq!(
            (found(&ledger, "first").await?, found(&ledger, "second").await?),
            (None, Some("r-1".to_owned()))
        );
        must_write(&ledger, &second, &terminated(&second)).await?;
        assert_eq!(found(&ledger, "second").await?, None);
        assert_eq!(read(&ledger, &runner.id).await?.state.name().as_str(), "terminated");
    }
    Ok(())
}
