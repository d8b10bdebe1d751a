//! The runner that a token belongs to, found by the token's hash. It is a hint of where to look: whether the token is good, only the runner's own
//! record says. Of a token that is good no more it says how that came, and so what to think of who still uses it.

use super::{Runner, RunnerState};
use crate::ids::RunnerId;
use crate::record::{Key, Kind, Path, Record, Version};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

const TOKEN: Kind = Kind::new("token");
/// Whoever comes with a token that is over is told so for a while.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// Longer than a request is under way, with its long poll and what the clocks of two control planes may differ by.
const UNDER_WAY: Duration = Duration::from_secs(5 * 60);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunnerToken {
    pub token_sha256: String,
    pub runner: RunnerId,
    /// Since when it is good for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Its agent has another in its place. Nothing where an operator or its runner's end made it void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<Replaced>,
    /// When somebody else was first seen to use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misused_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replaced {
    /// The SHA-256 of the token that took its place.
    pub by: String,
    /// Of the agent's process that replaced it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// A token that an agent made, and will use from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextToken {
    pub token_sha256: String,
    /// Of the agent's process that made it.
    pub session: String,
}

/// What a request tells of its sender, beside its token.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sender<'a> {
    pub session: Option<&'a str>,
    /// The SHA-256 of the token that it names as its next.
    pub next: Option<&'a str>,
}

/// What to think of who uses a token that is not its runner's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenUse {
    /// It is void, and that says nothing: its operator made it so, or its runner is over, or its misuse was told of.
    Void,
    /// An agent sent this before it was replaced, as far as anybody can tell.
    Late,
    /// Somebody else has it.
    Misused,
}

impl RunnerToken {
    pub fn path_of(token_sha256: &str) -> Path {
        Key::new(TOKEN, token_sha256).into()
    }

    /// Whether `runner` is the one that this token belongs to, and has no other by now. `same` compares hashes in constant time.
    pub fn is_good_for(&self, runner: &Runner, same: fn(&str, &str) -> bool) -> bool {
        let its = runner.credential.as_ref();
        let is_its = its.is_some_and(|its| same(&its.token_sha256, &self.token_sha256));
        self.runner == runner.id && is_its && runner.state.name().live()
    }

    /// What its use by `sender` means once it is not good any more. Requests overtake each other: one that the agent sent with this token may be
    /// looked at after another has replaced it, and again and again while it waits for news. Such a one is of the session that replaced it, which no
    /// disk tells of, or names the very token that took its place. One of a process that died meanwhile has another session, and comes soon after.
    pub fn used_by(&self, sender: Sender<'_>, now: Timestamp, same: fn(&str, &str) -> bool) -> TokenUse {
        let (Some(Replaced { by, session }), None) = (&self.replaced, self.misused_at) else {
            return TokenUse::Void;
        };
        let same_session = session.as_deref().zip(sender.session).is_some_and(|(its, own)| same(its, own));
        let names_it = sender.next.is_some_and(|next| same(by, next));
        let ended_just_now = self.ended_at.is_some_and(|ended_at| now.since(ended_at) < UNDER_WAY);
        let may_be_under_way = sender.session.is_some() && ended_just_now;
        if same_session || names_it || may_be_under_way { TokenUse::Late } else { TokenUse::Misused }
    }

    /// Of a runner that has its token from the start.
    pub fn of_new(runner: &Runner) -> Option<Self> {
        let token_sha256 = runner.credential.as_ref()?.token_sha256.clone();
        Some(Self {
            token_sha256,
            runner: runner.id.clone(),
            ended_at: None,
            replaced: None,
            misused_at: None,
        })
    }

    /// What is to be written of the tokens when `before` becomes `after`: the new one, and the end of the old one.
    pub fn changed(before: &Runner, after: &Runner, now: Timestamp) -> Vec<Self> {
        let live = after.state.name().live();
        let of = |runner: &Runner| Some(runner.credential.as_ref()?.token_sha256.clone());
        let (old, new) = (of(before), of(after));
        let token = |token_sha256, ended_at, replaced| Self {
            token_sha256,
            runner: after.id.clone(),
            ended_at,
            replaced,
            misused_at: None,
        };
        // A fixed token is replaced by its operator: whoever still has the old one is late, and no thief.
        let by =
            after.credential.as_ref().filter(|its| live && old != new && !its.fixed).map(|its| Replaced {
                by: its.token_sha256.clone(),
                session: its.named.as_ref().map(|named| named.session.clone()),
            });
        let ends = old.clone().filter(|_| !live || old != new).map(|old| token(old, Some(now), by));
        let begins = new.clone().filter(|_| live && old != new).map(|new| token(new, None, None));
        ends.into_iter().chain(begins).collect()
    }
}

/// Whether its agent should make itself another token before it is idle again: with each reset, once nothing of its work is left. A fixed one stays.
pub fn is_token_due(runner: &Runner) -> bool {
    if runner.has_fixed_token() {
        return false;
    }
    let named = runner.credential.as_ref().and_then(|credential| credential.named.as_ref());
    matches!(runner.state, RunnerState::Resetting { .. })
        && named.map(|named| named.epoch) != Some(runner.epoch)
}

impl Record for RunnerToken {
    fn path(&self) -> Path {
        Self::path_of(&self.token_sha256)
    }

    fn version(&self) -> Version {
        Version::default()
    }

    fn kept_until(&self) -> Option<Timestamp> {
        self.ended_at.map(|ended_at| ended_at.after(KEPT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Epoch;
    use crate::runner::launching::samples::runner;
    use crate::runner::{Credential, Named};

    fn with(token: &str, session: Option<&str>) -> Runner {
        let named = session.map(|session| Named { epoch: Epoch(1), session: session.to_owned() });
        let credential =
            Credential { token_sha256: token.to_owned(), machine_id: "i-1".to_owned(), named, fixed: false };
        Runner { credential: Some(credential), ..runner(0, 1, true) }
    }

    fn token(name: &str, ended_at: Option<Timestamp>, replaced: Option<Replaced>) -> RunnerToken {
        let runner = runner(0, 1, true).id;
        RunnerToken { token_sha256: name.to_owned(), runner, ended_at, replaced, misused_at: None }
    }

    #[test]
    fn a_token_begins_with_its_credential_and_ends_with_it_or_with_its_runner() {
        let now = Timestamp::from_millis(7);
        let (nobody, a) = (runner(0, 1, true), with("a", None));
        assert_eq!(RunnerToken::changed(&nobody, &a, now), [token("a", None, None)]);
        assert_eq!(RunnerToken::changed(&a, &a, now), []);
        assert_eq!(RunnerToken::changed(&a, &nobody, now), [token("a", Some(now), None)]);
        let replaced = Some(Replaced { by: "b".to_owned(), session: Some("s".to_owned()) });
        let renewed = RunnerToken::changed(&a, &with("b", Some("s")), now);
        assert_eq!(renewed, [token("a", Some(now), replaced), token("b", None, None)]);
        let over = Runner { state: RunnerState::Terminated { why: "over".to_owned() }, ..with("a", None) };
        assert_eq!(RunnerToken::changed(&a, &over, now), [token("a", Some(now), None)]);
    }

    #[test]
    fn refuse_22_who_uses_a_replaced_token_is_late_or_somebody_else() {
        let replaced = Replaced { by: "b".to_owned(), session: Some("s".to_owned()) };
        let old = token("a", Some(Timestamp::from_millis(7)), Some(replaced));
        let later = Timestamp::from_millis(7).after(UNDER_WAY);
        let used =
            |token: &RunnerToken, session, next| token.used_by(Sender { session, next }, later, str::eq);
        assert_eq!(used(&old, None, None), TokenUse::Misused);
        assert_eq!(used(&old, Some("other"), Some("c")), TokenUse::Misused);
        assert_eq!(used(&old, Some("s"), None), TokenUse::Late, "sent before it was replaced");
        assert_eq!(
            used(&old, Some("other"), Some("b")),
            TokenUse::Late,
            "its agent started anew, and says it again"
        );
        let soon = Timestamp::from_millis(8);
        let by_another = Sender { session: Some("other"), next: None };
        assert_eq!(
            old.used_by(by_another, soon, str::eq),
            TokenUse::Late,
            "of a process that died meanwhile"
        );
        assert_eq!(old.used_by(Sender::default(), soon, str::eq), TokenUse::Misused, "no agent of ours");
        let told = RunnerToken { misused_at: Some(Timestamp::from_millis(8)), ..old.clone() };
        assert_eq!(used(&told, None, None), TokenUse::Void, "it is told of once");
        let by_operator = RunnerToken { replaced: None, ..old.clone() };
        assert_eq!(used(&by_operator, None, None), TokenUse::Void);
        let of_an_older_agent = Replaced { by: "b".to_owned(), session: None };
        let old = RunnerToken { replaced: Some(of_an_older_agent), ..old };
        assert_eq!(used(&old, None, None), TokenUse::Misused, "no session is not the same session");
    }

    #[test]
    fn a_token_is_due_once_a_reset() {
        let reset = |runner: Runner| {
            let why = "used".to_owned();
            let state =
                RunnerState::Resetting { attempt: 1, not_before: Timestamp::default(), why, step: None };
            Runner { state, epoch: Epoch(2), ..runner }
        };
        assert!(is_token_due(&reset(with("a", None))));
        assert!(is_token_due(&reset(with("a", Some("s")))), "it is of an earlier epoch");
        let mut renewed = reset(with("b", Some("s")));
        if let Some(named) = renewed.credential.as_mut().and_then(|its| its.named.as_mut()) {
            named.epoch = Epoch(2);
        }
        assert!(!is_token_due(&renewed));
        assert!(!is_token_due(&Runner { state: RunnerState::Idle, ..reset(with("a", None)) }));
    }

    #[test]
    fn a_fixed_token_is_changed_by_its_operator_alone_and_the_old_one_is_void_and_no_more() {
        let id = runner(0, 1, true).id;
        let fixed = |token: &str| Runner {
            credential: Some(Credential::fixed(&id, token.to_owned())),
            ..runner(0, 1, true)
        };
        let why = "used".to_owned();
        let resetting =
            RunnerState::Resetting { attempt: 1, not_before: Timestamp::default(), why, step: None };
        assert!(!is_token_due(&Runner { state: resetting, ..fixed("a") }));
        let now = Timestamp::from_millis(7);
        let written = RunnerToken::changed(&fixed("a"), &fixed("b"), now);
        assert_eq!(written, [token("a", Some(now), None), token("b", None, None)]);
        let [old, _] = written.as_slice() else { panic!("{written:?}") };
        assert_eq!(old.used_by(Sender::default(), now, str::eq), TokenUse::Void);
    }
}
