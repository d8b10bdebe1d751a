//! A runner found by its agent's token.

use anyhow::Result;
use motorpool_control::store::IntentsWritten;
use motorpool_domain::runner::{Credential, Runner};
use motorpool_domain::{IdError, LaunchId};

use super::fixtures::{Shared, launch, launched, must_write, read, terminated};

fn with_token(runner: &Runner, token: Option<&str>) -> Runner {
    let credential = token.map(|token| Credential {
        token_sha256: token.to_owned(),
        machine_id: "machine-1".to_owned(),
        named: None,
        fixed: false,
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

/// One that is registered with a token is found by it from its first moment; coming back with another, by that alone.
pub async fn refuse_10_a_runner_born_with_a_token_is_found_by_it_in_that_life_alone(
    ledger: Shared,
) -> Result<()> {
    for earlier in launched(&ledger, &["r-1"]).await? {
        must_write(&ledger, &earlier, &terminated(&earlier)).await?;
        let life = |epoch, token: &str| {
            let credential = Some(Credential::fixed(&earlier.id, token.to_owned()));
            let launch = LaunchId::parse(format!("l-{token}"))?;
            Ok::<_, IdError>(Runner { epoch, credential, launch, ..earlier.clone() })
        };
        let first = life(earlier.epoch.next(), "first")?;
        assert_eq!(launch(&ledger, 10, None, std::slice::from_ref(&first)).await?, IntentsWritten::Done);
        assert_eq!(found(&ledger, "first").await?.as_deref(), Some("r-1"));
        // While it lives nobody takes its place.
        let second = life(first.epoch.next(), "second")?;
        assert_eq!(launch(&ledger, 10, None, std::slice::from_ref(&second)).await?, IntentsWritten::Exists);
        assert_eq!((found(&ledger, "second").await?, found(&ledger, "first").await?.is_some()), (None, true));
        must_write(&ledger, &first, &terminated(&first)).await?;
        assert_eq!(found(&ledger, "first").await?, None);
        assert_eq!(launch(&ledger, 10, None, std::slice::from_ref(&second)).await?, IntentsWritten::Done);
        assert_eq!(
            (found(&ledger, "first").await?, found(&ledger, "second").await?.as_deref()),
            (None, Some("r-1"))
        );
    }
    Ok(())
}
