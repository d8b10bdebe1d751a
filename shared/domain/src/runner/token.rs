//! The runner that a token belongs to, found by the token's hash. It is a hint of where to look: whether the token is good, only the runner's own
//! record says.

use super::Runner;
use crate::ids::RunnerId;
use crate::record::{Key, Kind, Path, Record, Version};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

const TOKEN: Kind = Kind::new("token");
/// Whoever comes with a token that is over is told so for a while.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunnerToken {
    pub token_sha256: String,
    pub runner: RunnerId,
    /// Since when it is good for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
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

    /// What is to be written of the tokens when `before` becomes `after`: the new one, and the end of the old one.
    pub fn changed(before: &Runner, after: &Runner, now: Timestamp) -> Vec<Self> {
        let live = after.state.name().live();
        let of = |runner: &Runner| Some(runner.credential.as_ref()?.token_sha256.clone());
        let (old, new) = (of(before), of(after));
        let token = |token_sha256, ended_at| Self { token_sha256, runner: after.id.clone(), ended_at };
        let ends = old.clone().filter(|_| !live || old != new).map(|old| token(old, Some(now)));
        let begins = new.clone().filter(|_| live && old != new).map(|new| token(new, None));
        ends.into_iter().chain(begins).collect()
    }
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
    use crate::runner::launching::samples::runner;
    use crate::runner::{Credential, RunnerState};

    #[test]
    fn a_token_begins_with_its_credential_and_ends_with_it_or_with_its_runner() {
        let now = Timestamp::from_millis(7);
        let nobody = runner(0, 1, true);
        let with = |token: &str| {
            let credential = Credential { token_sha256: token.to_owned(), machine_id: "i-1".to_owned() };
            Runner { credential: Some(credential), ..nobody.clone() }
        };
        let token = |name: &str, ended_at| RunnerToken {
            token_sha256: name.to_owned(),
            runner: nobody.id.clone(),
            ended_at,
        };
        assert_eq!(RunnerToken::changed(&nobody, &with("a"), now), [token("a", None)]);
        assert_eq!(RunnerToken::changed(&with("a"), &with("a"), now), []);
        assert_eq!(RunnerToken::changed(&with("a"), &nobody, now), [token("a", Some(now))]);
        let renewed = RunnerToken::changed(&with("a"), &with("b"), now);
        assert_eq!(renewed, [token("a", Some(now)), token("b", None)]);
        let over = Runner { state: RunnerState::Terminated { why: "over".to_owned() }, ..with("a") };
        assert_eq!(RunnerToken::changed(&with("a"), &over, now), [token("a", Some(now))]);
    }
}
