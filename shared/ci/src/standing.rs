//! How it went when the CI system was last asked for each thing, for people who look at a pool. It decides nothing, and a restart forgets it.

use std::collections::BTreeMap;

use motorpool_control::ports::ci::CiTrouble;
use motorpool_domain::Timestamp;

use crate::trouble::Trouble;

/// A control plane has a few pools, each with a scope.
const MOST: usize = 256;

/// Each is told apart, since a credential may do for one and not for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    Register,
    Remove,
    List,
}

#[derive(Debug, Default)]
pub(crate) struct Standing(BTreeMap<(String, Verb), Bad>);

#[derive(Debug)]
struct Bad {
    what: String,
    refused: bool,
    at: Timestamp,
}

impl Standing {
    pub(crate) fn note(&mut self, scope: &str, verb: Verb, outcome: Result<(), &Trouble>, now: Timestamp) {
        let key = (scope.to_owned(), verb);
        let bad = match (outcome, verb) {
            (Ok(()), _) => {
                self.0.remove(&key);
                return;
            }
            // Told by the limits; and GitHub keeps a runner while it works, which ends by itself.
            (Err(Trouble::RateLimited(_)), _) | (Err(Trouble::Failed { .. }), Verb::Remove) => return,
            (Err(Trouble::Refused(what)), _) => Bad { what: what.clone(), refused: true, at: now },
            (Err(Trouble::Failed { attempted, why }), Verb::Register | Verb::List) => {
                Bad { what: format!("cannot {attempted}: {why}"), refused: false, at: now }
            }
        };
        if self.0.len() >= MOST && !self.0.contains_key(&key) {
            let oldest = self.0.iter().min_by_key(|(_, bad)| bad.at).map(|(key, _)| key.clone());
            self.0.retain(|key, _| Some(key) != oldest.as_ref());
        }
        self.0.insert(key, bad);
    }

    /// What somebody must mend before what may pass, and of the same the newest.
    pub(crate) fn trouble(&self, scope: &str, now: Timestamp) -> Option<CiTrouble> {
        let here = self.0.iter().filter(|((of, _), _)| of == scope).map(|(_, bad)| bad);
        let Bad { what, refused, at } = here.max_by_key(|bad| (bad.refused, bad.at))?;
        Some(CiTrouble { what: what.clone(), refused: *refused, ago: now.since(*at) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn refused() -> Trouble {
        Trouble::Refused("cannot register: no permission (GitLab: 403)".to_owned())
    }

    fn down() -> Trouble {
        Trouble::failed("list the runners", "connection refused")
    }

    #[test]
    fn the_last_trouble_is_told_until_the_same_goes_well() {
        let mut standing = Standing::default();
        standing.note("groups/1", Verb::Register, Err(&refused()), at(0));
        standing.note("groups/1", Verb::List, Err(&down()), at(5));
        let told = standing.trouble("groups/1", at(9)).unwrap();
        assert!(told.refused && told.what.contains("403"), "{told:?}");
        assert_eq!(told.ago, Duration::from_secs(9));
        assert_eq!(standing.trouble("groups/2", at(9)), None, "another pool's");

        standing.note("groups/1", Verb::Register, Ok(()), at(10));
        let told = standing.trouble("groups/1", at(11)).unwrap();
        assert_eq!(
            (told.what.as_str(), told.refused),
            ("cannot list the runners: connection refused", false)
        );
        standing.note("groups/1", Verb::List, Ok(()), at(12));
        assert_eq!(standing.trouble("groups/1", at(12)), None);
    }

    #[test]
    fn limits_and_busy_runners_are_no_trouble() {
        let mut standing = Standing::default();
        standing.note("o", Verb::List, Err(&Trouble::RateLimited(Duration::from_secs(60))), at(0));
        standing.note("o", Verb::Remove, Err(&Trouble::failed("remove the runner 7", "it works")), at(0));
        assert_eq!(standing.trouble("o", at(0)), None);
        standing.note("o", Verb::Remove, Err(&refused()), at(0));
        assert!(standing.trouble("o", at(0)).is_some());
    }

    #[test]
    fn it_does_not_grow_beyond_its_bound() {
        let mut standing = Standing::default();
        for second in 0..1_000 {
            standing.note(&format!("groups/{second}"), Verb::List, Err(&down()), at(second));
        }
        assert_eq!(standing.0.len(), MOST);
        assert!(
            standing.trouble("groups/999", at(1_000)).is_some()
                && standing.trouble("groups/0", at(1_000)).is_none()
        );
    }
}
