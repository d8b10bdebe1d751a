//! What went wrong when the CI system was last asked for something, for people who look at a pool. It decides nothing, and a restart
//! forgets it.

use std::collections::BTreeMap;

use motorpool_control::ports::ci::CiTrouble;
use motorpool_domain::Timestamp;

use crate::error::CallError;

/// A control plane has a few pools, each with a scope.
const MOST: usize = 256;

/// What a CI system is asked to do. Each verb's problem is kept apart, since a credential may do for one and not for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    Register,
    Remove,
    List,
    JobStatus,
    Pause,
    Unpause,
}

#[derive(Debug, Default)]
pub(crate) struct Health(BTreeMap<(String, Verb), Problem>);

#[derive(Debug)]
struct Problem {
    what: String,
    refused: bool,
    at: Timestamp,
}

impl Health {
    pub(crate) fn note(&mut self, scope: &str, verb: Verb, outcome: Result<(), &CallError>, now: Timestamp) {
        let key = (scope.to_owned(), verb);
        let problem = match (outcome, verb) {
            (Ok(()), _) => {
                self.0.remove(&key);
                return;
            }
            // `Limits` tells of the first; and GitHub keeps a runner while it works, which ends by itself.
            (Err(CallError::RateLimited(_)), _) | (Err(CallError::Failed { .. }), Verb::Remove) => return,
            // Told whatever it was asked last, and not instead of what it said of that.
            (Err(CallError::Silent(_)), _) if self.0.contains_key(&key) => return,
            (Err(CallError::Silent(_)), _) => {
                Problem { what: "it does not answer in time".to_owned(), refused: false, at: now }
            }
            (Err(CallError::Refused(what)), _) => Problem { what: what.clone(), refused: true, at: now },
            (
                Err(CallError::Failed { attempted, why }),
                Verb::Register | Verb::List | Verb::JobStatus | Verb::Pause | Verb::Unpause,
            ) => Problem { what: format!("cannot {attempted}: {why}"), refused: false, at: now },
        };
        if self.0.len() >= MOST && !self.0.contains_key(&key) {
            let oldest = self.0.iter().min_by_key(|(_, problem)| problem.at).map(|(key, _)| key.clone());
            self.0.retain(|key, _| Some(key) != oldest.as_ref());
        }
        self.0.insert(key, problem);
    }

    /// The problem to tell of a scope: what somebody must mend comes before what may pass, and the newer before the older.
    pub(crate) fn trouble(&self, scope: &str, now: Timestamp) -> Option<CiTrouble> {
        let here = self.0.iter().filter(|((of, _), _)| of == scope).map(|(_, problem)| problem);
        let Problem { what, refused, at } = here.max_by_key(|problem| (problem.refused, problem.at))?;
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

    fn refused() -> CallError {
        CallError::Refused("cannot register: no permission (GitLab: 403)".to_owned())
    }

    fn down() -> CallError {
        CallError::failed("list the runners", "connection refused")
    }

    #[test]
    fn the_last_trouble_is_told_until_the_same_goes_well() {
        let mut health = Health::default();
        health.note("groups/1", Verb::Register, Err(&refused()), at(0));
        health.note("groups/1", Verb::List, Err(&down()), at(5));
        let told = health.trouble("groups/1", at(9)).unwrap();
        assert!(told.refused && told.what.contains("403"), "{told:?}");
        assert_eq!(told.ago, Duration::from_secs(9));
        assert_eq!(health.trouble("groups/2", at(9)), None, "another pool's");

        health.note("groups/1", Verb::Register, Ok(()), at(10));
        let told = health.trouble("groups/1", at(11)).unwrap();
        assert_eq!(
            (told.what.as_str(), told.refused),
            ("cannot list the runners: connection refused", false)
        );
        health.note("groups/1", Verb::List, Ok(()), at(12));
        assert_eq!(health.trouble("groups/1", at(12)), None);
    }

    #[test]
    fn limits_and_busy_runners_are_no_trouble() {
        let mut health = Health::default();
        health.note("o", Verb::List, Err(&CallError::RateLimited(Duration::from_secs(60))), at(0));
        health.note("o", Verb::Remove, Err(&CallError::failed("remove the runner 7", "it works")), at(0));
        assert_eq!(health.trouble("o", at(0)), None);
        health.note("o", Verb::Remove, Err(&refused()), at(0));
        assert!(health.trouble("o", at(0)).is_some());
    }

    #[test]
    fn it_does_not_grow_beyond_its_bound() {
        let mut health = Health::default();
        for second in 0..1_000 {
            health.note(&format!("groups/{second}"), Verb::List, Err(&down()), at(second));
        }
        assert_eq!(health.0.len(), MOST);
        assert!(
            health.trouble("groups/999", at(1_000)).is_some()
                && health.trouble("groups/0", at(1_000)).is_none()
        );
    }
}
