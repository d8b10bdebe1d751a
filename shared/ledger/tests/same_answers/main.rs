//! inv_25: the same transactions and reads give the same answers, and leave the same records, on every adapter as in memory. They are random,
//! from a seed, on few paths, versions and lists, so that they meet; about half of the transactions are refused.
//!
//! `MOTORPOOL_TRANSACTIONS` says how many, `MOTORPOOL_SEED` from which seed on.

#[path = "../adapters/mod.rs"]
mod adapters;
mod answer;
mod calls;
mod dice;
mod forgetful;
mod tally;
mod universe;

use adapters::{Opened, Shared, each_adapter};
use answer::{ask, records};
use anyhow::{Context, Result, bail, ensure};
use calls::{Call, Calls};
use motorpool_ledger::MemoryLedger;
use std::sync::Arc;
use tally::Tally;

/// So many on one ledger; the next ones begin with an empty one and the next seed. It bounds how far a failure is from its beginning.
const A_LEDGER: usize = 1_000;
/// After so many calls all records are compared.
const BETWEEN_LOOKS: usize = 50;

macro_rules! same_answers {
    ($adapter:ident) => {
        #[tokio::test]
        async fn $adapter() -> Result<()> {
            same_answers(stringify!($adapter), async || adapters::$adapter().await).await
        }
    };
}

each_adapter!(same_answers);

async fn same_answers(adapter: &str, open: impl AsyncFn() -> Result<Opened>) -> Result<()> {
    let by_default = if adapter == "dynamodb" { 500 } else { 3_000 };
    let transactions = number("MOTORPOOL_TRANSACTIONS", by_default)?;
    let first = number("MOTORPOOL_SEED", 25)?;
    let mut tally = Tally::default();
    for (seed, begun) in (first..).zip((0..transactions).step_by(A_LEDGER)) {
        let run = Run { seed: u64::try_from(seed)?, transactions: A_LEDGER.min(transactions - begun) };
        if let Some(differs) = run.first_difference(&open, &mut tally).await? {
            bail!(run.report(adapter, &differs));
        }
    }
    eprintln!("{adapter}: {tally}");
    ensure!(transactions < A_LEDGER || tally.is_full(), "these calls prove too little: {tally}");
    Ok(())
}

fn number(variable: &str, by_default: usize) -> Result<usize> {
    match std::env::var(variable) {
        Ok(text) => text.parse().with_context(|| format!("{variable} is no number: {text}")),
        Err(_) => Ok(by_default),
    }
}

struct Run {
    seed: u64,
    transactions: usize,
}

/// After which calls all records are compared; after the last in any case.
enum Looks {
    Seldom,
    AfterEachFrom(usize),
}

struct Differs {
    what: What,
    /// Counted from 0.
    number: usize,
    call: Call,
    /// How many transactions there were, with this call.
    transactions: usize,
    in_memory: String,
    in_other: String,
}

#[derive(Debug, PartialEq, Eq)]
enum What {
    Answers,
    Records,
}

impl Run {
    /// The first call after which a ledger differs from one in memory, if it does.
    async fn first_difference(
        &self,
        open: &impl AsyncFn() -> Result<Opened>,
        tally: &mut Tally,
    ) -> Result<Option<Differs>> {
        let found = self.on(&open().await?.ledger, Looks::Seldom, tally).await?;
        let Some(Differs { number, .. }) = found else { return Ok(None) };
        // What differs now may have been written by an earlier call, after the last look at the records.
        let looks = Looks::AfterEachFrom(number.saturating_sub(BETWEEN_LOOKS));
        let again = self.on(&open().await?.ledger, looks, &mut Tally::default()).await?;
        Ok(again.or(found))
    }

    async fn on(&self, ledger: &Shared, looks: Looks, tally: &mut Tally) -> Result<Option<Differs>> {
        let memory = Arc::new(MemoryLedger::new());
        let plain: Shared = Arc::<MemoryLedger>::clone(&memory);
        let mut calls = Calls::new(self.seed);
        let mut transactions = 0;
        for number in 0.. {
            let call = calls.next(&memory.rows());
            transactions += usize::from(matches!(call, Call::Commit(_)));
            let in_memory = ask(&plain, &call).await?;
            let in_other = ask(ledger, &call).await.with_context(|| self.at(number, &call))?;
            tally.count(&call, &in_memory);
            let differs = |what, [in_memory, in_other]: [String; 2]| {
                Some(Differs { what, number, call, transactions, in_memory, in_other })
            };
            if in_memory != in_other {
                return Ok(differs(What::Answers, [in_memory, in_other].map(|told| format!("{told:#?}"))));
            }
            let last = transactions == self.transactions;
            let look = match looks {
                Looks::Seldom => number % BETWEEN_LOOKS == BETWEEN_LOOKS - 1,
                Looks::AfterEachFrom(first) => number >= first,
            };
            if (look || last)
                && let Some(told) = different_records(&plain, ledger).await?
            {
                return Ok(differs(What::Records, told));
            }
            if last {
                break;
            }
        }
        Ok(None)
    }

    fn at(&self, number: usize, call: &Call) -> String {
        format!("call {number} of seed {}: {call:#?}", self.seed)
    }

    fn report(&self, adapter: &str, differs: &Differs) -> String {
        let Differs { what, number, call, transactions, in_memory, in_other } = differs;
        let again = format!("MOTORPOOL_SEED={} MOTORPOOL_TRANSACTIONS={transactions}", self.seed);
        let at = self.at(*number, call);
        format!(
            "{what:?} differ after {at}\nin memory: {in_memory}\nin {adapter}: {in_other}\nAgain: {again}"
        )
    }
}

/// The first read of all there is that differs.
async fn different_records(memory: &Shared, other: &Shared) -> Result<Option<[String; 2]>> {
    let [in_memory, in_other] = [records(memory).await?, records(other).await?];
    let mut both = in_memory.into_iter().zip(in_other);
    let different = both.find(|(memory, other)| memory != other);
    Ok(different.map(|(memory, other)| [memory, other].map(|(call, told)| format!("{call:?}\n{told:#?}"))))
}
