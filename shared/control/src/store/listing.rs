//! Which stretch of which list a page is, and how the place where it ended is handed out and read back. It reads no list.

use super::alert::WhichAlerts;
use super::claim::WhichClaims;
use super::log::LOG;
use crate::ports::ledger::{LedgerError, Span};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use motorpool_domain::alert::{ALERTS, OPEN_ALERTS, OVER_ALERTS};
use motorpool_domain::claim::{
    ENDED, HOLDING, LACKING, OPEN, SHORT, STARTING, WAITING, ended_claims, open_claims, team_claims,
    waiting_claims,
};
use motorpool_domain::runner::{FOR_NOBODY, StateName, ended_runners, live_runners, state_prefix};
use motorpool_domain::{ClaimId, Owner, PoolName, RunnerId};

/// How much of a listing, and from where on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub at_most: u32,
    pub after: Option<String>,
}

impl Page {
    pub fn first(at_most: u32) -> Self {
        Self { at_most, after: None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed<T> {
    pub items: Vec<T>,
    /// Where the next page begins; nothing after the last.
    pub next: Option<String>,
}

/// What comes before and after every character of an id.
const BEFORE_ALL: &str = "!";
const AFTER_ALL: &str = "~";
/// Longer than the name and subject of any incident.
const LONGEST_ALERT: usize = 300;

pub(super) fn whole(list: &str) -> Span {
    span(list.to_owned(), "", None)
}

/// A whole list, from where the last page of it ended.
pub(super) fn page_of(list: &str, page: &Page) -> Result<Span, LedgerError> {
    let after = decode(page)?;
    Ok(span(list.to_owned(), "", after.as_deref()))
}

/// What begins with `prefix`, behind `position` if there is one.
fn span(list: String, prefix: &str, position: Option<&str>) -> Span {
    let low = match position {
        Some(position) => format!("{prefix}{position}{BEFORE_ALL}"),
        None => format!("{prefix}{BEFORE_ALL}"),
    };
    Span { list, low, high: format!("{prefix}{AFTER_ALL}") }
}

pub(super) fn runner_span(
    pool: &PoolName,
    state: Option<StateName>,
    page: &Page,
) -> Result<Span, LedgerError> {
    let after = decode(page)?;
    let position = after.as_deref();
    match state {
        None => {
            let good = |text: &str| text.split_once('#').is_some_and(|(s, id)| is_live(s) && is_runner(id));
            Ok(span(live_runners(pool), "", checked(position, page, good)?))
        }
        Some(StateName::Terminated) => {
            let good = |text: &str| text.split_once('#').is_some_and(|(at, id)| is_time(at) && is_runner(id));
            Ok(span(ended_runners(pool), "", checked(position, page, good)?))
        }
        Some(state) => {
            let prefix = state_prefix(state);
            let position = match position {
                None => None,
                Some(text) => Some(text.strip_prefix(&prefix).ok_or_else(|| bad(page))?),
            };
            Ok(span(live_runners(pool), &prefix, checked(position, page, is_runner)?))
        }
    }
}

/// Those that are over stand right behind the open ones.
pub(super) fn alert_span(which: WhichAlerts, page: &Page) -> Result<Span, LedgerError> {
    let after = decode(page)?;
    let low = match checked(after.as_deref(), page, is_alert_place)? {
        Some(position) => behind(position),
        None => format!("{OPEN_ALERTS}{BEFORE_ALL}"),
    };
    let last = match which {
        WhichAlerts::Open => OPEN_ALERTS,
        WhichAlerts::All => OVER_ALERTS,
    };
    Ok(Span { list: ALERTS.to_owned(), low, high: format!("{last}{AFTER_ALL}") })
}

/// The stretches to read one after the other; those that stand together are merged by age.
pub(super) fn claim_spans(
    pool: &PoolName,
    which: WhichClaims,
    page: &Page,
) -> Result<Vec<Vec<Span>>, LedgerError> {
    let after = decode(page)?;
    let (in_open, in_ended) = claim_position(after.as_deref(), page)?;
    let [short, starting, open] =
        [SHORT, STARTING, OPEN].map(|prefix| span(open_claims(pool), prefix, in_open));
    let ended = span(ended_claims(pool), "", in_ended);
    match which {
        WhichClaims::Short if in_ended.is_none() => Ok(vec![vec![short]]),
        WhichClaims::Waiting if in_ended.is_none() => Ok(vec![vec![short, starting]]),
        WhichClaims::Open if in_ended.is_none() => Ok(vec![vec![short, starting, open]]),
        WhichClaims::Short | WhichClaims::Waiting | WhichClaims::Open => Err(bad(page)),
        WhichClaims::All if in_ended.is_none() => Ok(vec![vec![short, starting, open], vec![ended]]),
        WhichClaims::All => Ok(vec![vec![ended]]),
    }
}

/// The same of the claims that one owner has on the pool, all of them.
pub(super) fn team_spans(owner: &Owner, pool: &PoolName, page: &Page) -> Result<Vec<Vec<Span>>, LedgerError> {
    let after = decode(page)?;
    let (in_open, in_ended) = claim_position(after.as_deref(), page)?;
    let of = |prefix: &str, position| span(team_claims(owner), &format!("{prefix}{pool}#"), position);
    let ended = vec![of(ENDED, in_ended)];
    Ok(match in_ended {
        None => vec![vec![of(HOLDING, in_open), of(LACKING, in_open)], ended],
        Some(_) => vec![ended],
    })
}

/// The claims of an owner that hold a runner: of one pool, or of all.
pub(super) fn holding_span(owner: &Owner, pool: Option<&PoolName>) -> Span {
    let prefix = pool.map_or_else(|| HOLDING.to_owned(), |pool| format!("{HOLDING}{pool}#"));
    span(team_claims(owner), &prefix, None)
}

/// The open claims of an owner that hold no runner.
pub(super) fn lacking_span(owner: &Owner) -> Span {
    span(team_claims(owner), LACKING, None)
}

/// Every open claim of an owner: those that hold a runner, and right behind them those that hold none.
pub(super) fn open_span(owner: &Owner) -> Span {
    Span { list: team_claims(owner), low: HOLDING.to_owned(), high: format!("{LACKING}{AFTER_ALL}") }
}

/// Those who wait at a pool, from `sort` on.
pub(super) fn waiting_span(pool: &PoolName, low: String) -> Span {
    Span { list: waiting_claims(pool), low, high: format!("{WAITING}{AFTER_ALL}") }
}

/// What the places of all of a team's claims begin with, of which one was found at `sort` of those who wait.
pub(super) fn its_team(sort: &str) -> Option<String> {
    let (owner, _) = sort.strip_prefix(WAITING)?.split_once('#')?;
    Some(format!("{WAITING}{owner}#"))
}

/// The next place after this one.
pub(super) fn behind(sort: &str) -> String {
    format!("{sort}{BEFORE_ALL}")
}

/// The next place after all that begin so.
pub(super) fn behind_all(prefix: &str) -> String {
    format!("{prefix}{AFTER_ALL}")
}

/// Where a page of claims begins, among the open ones and among the ended ones.
fn claim_position<'a>(
    after: Option<&'a str>,
    page: &Page,
) -> Result<(Option<&'a str>, Option<&'a str>), LedgerError> {
    let Some(text) = after else { return Ok((None, None)) };
    match (text.strip_prefix(OPEN), text.strip_prefix(ENDED)) {
        (None, None) => Err(bad(page)),
        (in_open, in_ended) => {
            Ok((checked(in_open, page, is_claim_age)?, checked(in_ended, page, is_claim_age)?))
        }
    }
}

/// The name of the log entry behind which this page begins.
pub(super) fn log_position(page: &Page) -> Result<Option<String>, LedgerError> {
    let after = decode(page)?;
    let good = |text: &str| {
        let rest = text.strip_prefix(LOG).and_then(|rest| rest.split_once('#'));
        rest.is_some_and(|(at, which)| {
            is_time(at)
                && which.len() <= 40
                && which.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b))
        })
    };
    Ok(checked(after.as_deref(), page, good)?.map(str::to_owned))
}

/// Where the reader of a listing of claims is, who found a claim at `sort` of its list: the claim may have moved on since.
pub(super) fn claim_position_at(sort: &str) -> String {
    match [SHORT, STARTING, OPEN].iter().find_map(|prefix| sort.strip_prefix(prefix)) {
        Some(age) => format!("{OPEN}{age}"),
        None => format!("{ENDED}{sort}"),
    }
}

/// The same for a claim of a team's own list, where its pool stands before its age.
pub(super) fn team_position_at(sort: &str) -> String {
    let age = sort.splitn(3, '#').nth(2).unwrap_or_default();
    match sort.starts_with(ENDED) {
        true => format!("{ENDED}{age}"),
        false => format!("{OPEN}{age}"),
    }
}

/// How many to read for `page`: one more than it shows, so that it is known whether another follows.
pub(super) fn to_read(page: &Page) -> usize {
    shown(page).saturating_add(1)
}

/// `items` as the page shows them, with the place where it ended if more follow.
pub(super) fn cut<T>(mut items: Vec<T>, page: &Page, position: impl Fn(&T) -> String) -> Listed<T> {
    let more = items.len() > shown(page);
    items.truncate(shown(page));
    let next = items.last().filter(|_| more).map(|last| encoded(&position(last)));
    Listed { items, next }
}

/// A page of nothing would never come to an end.
fn shown(page: &Page) -> usize {
    usize::try_from(page.at_most).unwrap_or(usize::MAX).max(1)
}

/// A position as it is handed out.
pub(super) fn encoded(position: &str) -> String {
    URL_SAFE_NO_PAD.encode(position)
}

pub(super) fn decode(page: &Page) -> Result<Option<String>, LedgerError> {
    let Some(token) = &page.after else { return Ok(None) };
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| bad(page))?;
    String::from_utf8(bytes).map(Some).map_err(|_| bad(page))
}

fn checked<'a>(
    position: Option<&'a str>,
    page: &Page,
    good: impl Fn(&str) -> bool,
) -> Result<Option<&'a str>, LedgerError> {
    match position {
        Some(text) if !good(text) => Err(bad(page)),
        position => Ok(position),
    }
}

pub(super) fn bad(page: &Page) -> LedgerError {
    LedgerError::BadPage { after: page.after.iter().flat_map(|token| token.chars().take(100)).collect() }
}

/// A page may also end with a runner whose state only a newer version has.
fn is_live(state: &str) -> bool {
    (1..=40).contains(&state.len())
        && state.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
        && state != StateName::Terminated.as_str()
}

fn is_runner(id: &str) -> bool {
    RunnerId::parse(id.strip_prefix(FOR_NOBODY).unwrap_or(id)).is_ok()
}

fn is_time(at: &str) -> bool {
    (15..=20).contains(&at.len()) && at.bytes().all(|b| b.is_ascii_digit())
}

fn is_claim_age(age: &str) -> bool {
    age.split_once('#').is_some_and(|(at, id)| is_time(at) && ClaimId::parse(id).is_ok())
}

/// What it is about is known by the kind of incident alone, which a newer version may have more of.
fn is_alert_place(sort: &str) -> bool {
    let rest = [OPEN_ALERTS, OVER_ALERTS].iter().find_map(|prefix| sort.strip_prefix(prefix));
    rest.and_then(|rest| rest.split_once('#')).is_some_and(|(at, id)| {
        is_time(at) && (1..=LONGEST_ALERT).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic())
    })
}
