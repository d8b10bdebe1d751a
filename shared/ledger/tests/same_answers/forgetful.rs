//! A ledger that is wrong, to show that the comparison finds it: it forgets the places of what its logs write, which no answer to a
//! transaction tells.

use crate::adapters::Shared;
use crate::calls::Call;
use crate::tally::Tally;
use crate::{Run, What, adapters};
use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use motorpool_control::ports::ledger::{Children, Ledger, LedgerError, Placed, Span, Touch};
use motorpool_control::ports::tx::{Committed, Stored, Tx};
use motorpool_domain::Timestamp;
use motorpool_domain::record::Path;
use std::sync::Arc;

#[tokio::test]
async fn a_difference_is_found_at_the_call_that_made_it() -> Result<()> {
    let open = async || {
        let mut opened = adapters::memory().await?;
        opened.ledger = Arc::new(Forgetful(opened.ledger));
        Ok(opened)
    };
    for seed in 0..20 {
        let run = Run { seed, transactions: 500 };
        let differs = run.first_difference(&open, &mut Tally::default()).await?.context("it went unseen")?;
        assert_eq!(differs.what, What::Records);
        let Call::Commit(tx) = &differs.call else { bail!("{:?} is blamed", differs.call) };
        assert!(tx.log.iter().any(|row| !row.places.is_empty()), "{tx:?} is blamed");
    }
    Ok(())
}

#[derive(Debug)]
struct Forgetful(Shared);

#[async_trait]
impl Ledger for Forgetful {
    async fn commit(&self, tx: &Tx) -> Result<Committed, LedgerError> {
        let mut tx = tx.clone();
        for row in &mut tx.log {
            row.places.clear();
        }
        self.0.commit(&tx).await
    }

    async fn get(&self, paths: &[Path]) -> Result<Vec<Option<Stored>>, LedgerError> {
        self.0.get(paths).await
    }

    async fn touch(&self, touch: &Touch) -> Result<(), LedgerError> {
        self.0.touch(touch).await
    }

    async fn list(&self, span: &Span, at_most: usize) -> Result<Vec<Placed>, LedgerError> {
        self.0.list(span, at_most).await
    }

    async fn count(&self, span: &Span, at_most: usize) -> Result<usize, LedgerError> {
        self.0.count(span, at_most).await
    }

    async fn children(&self, of: &Children, at_most: usize) -> Result<Vec<Stored>, LedgerError> {
        self.0.children(of, at_most).await
    }

    async fn due(&self, now: Timestamp, at_most: usize) -> Result<Vec<Path>, LedgerError> {
        self.0.due(now, at_most).await
    }

    async fn ping(&self) -> Result<(), LedgerError> {
        self.0.ping().await
    }
}
