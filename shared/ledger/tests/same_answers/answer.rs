//! What a ledger answers to a call: to be compared with what another says.

use crate::adapters::Shared;
use crate::calls::Call;
use crate::universe::{END, LISTS, keys, spots};
use anyhow::Result;
use motorpool_control::ports::ledger::{Children, LedgerError, Order, Placed, Span};
use motorpool_control::ports::tx::{Committed, Stored, TxError};
use motorpool_domain::Timestamp;
use motorpool_domain::record::Path;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Committed(Committed),
    NoTransaction(TxError),
    Touched,
    Rows(Vec<Option<Stored>>),
    Listed(Vec<Placed>),
    Counted(usize),
    Children(Vec<Stored>),
    Due(Vec<Path>),
}

/// An error is not an answer, unless it is the caller's.
pub(crate) async fn ask(ledger: &Shared, call: &Call) -> Result<Answer> {
    let answer = match call {
        Call::Commit(tx) => ledger.commit(tx).await.map(Answer::Committed),
        Call::Touch(touch) => ledger.touch(touch).await.map(|()| Answer::Touched),
        Call::Get(paths) => ledger.get(paths).await.map(Answer::Rows),
        Call::List(span, at_most) => ledger.list(span, *at_most).await.map(Answer::Listed),
        Call::Count(span, at_most) => ledger.count(span, *at_most).await.map(Answer::Counted),
        Call::Children(of, at_most) => ledger.children(of, *at_most).await.map(Answer::Children),
        Call::Due(now, at_most) => ledger.due(*now, *at_most).await.map(Answer::Due),
    };
    match answer {
        Ok(answer) => Ok(answer),
        Err(LedgerError::Failed { attempted, source }) => match source.downcast::<TxError>() {
            Ok(error) => Ok(Answer::NoTransaction(*error)),
            Err(source) => Err(LedgerError::Failed { attempted, source }.into()),
        },
        Err(error) => Err(error.into()),
    }
}

/// All there is, as the port tells it.
pub(crate) async fn records(ledger: &Shared) -> Result<Vec<(Call, Answer)>> {
    const ALL: usize = 1_000;
    let (low, high) = (String::new(), END.to_owned());
    let mut calls = vec![Call::Get(spots().into_iter().map(|spot| spot.path).collect())];
    for list in LISTS {
        let span = Span { list: list.to_owned(), low: low.clone(), high: high.clone() };
        calls.extend([Call::List(span.clone(), ALL), Call::Count(span, ALL)]);
    }
    for (of, _) in keys() {
        let all = Children { of, low: low.clone(), high: high.clone(), order: Order::Rising };
        calls.push(Call::Children(all, ALL));
    }
    calls.push(Call::Due(Timestamp::from_millis(1 << 50), ALL));
    let mut answers = Vec::new();
    for call in calls {
        let answer = ask(ledger, &call).await?;
        answers.push((call, answer));
    }
    Ok(answers)
}
