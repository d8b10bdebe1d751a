//! As whom the jobs of local runners run: each runner's as a user of its own, where this process is root. It starts nothing.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::RangeInclusive;

use motorpool_domain::RunnerId;

/// As whom jobs run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobUsers {
    /// As this process does, which is not root.
    Same,
    /// As root, as this process does: whoever asked for that knows what it means.
    Root,
    /// Each runner's as one of these users, who need no name.
    OneEach(RangeInclusive<u32>),
}

impl JobUsers {
    /// Whether a job can do what this process can.
    pub(crate) fn are_apart(&self) -> bool {
        match self {
            Self::Same | Self::Root => false,
            Self::OneEach(_) => true,
        }
    }
}

/// One that no other runner has. Where to begin follows from the runner's id, so that the next one is hardly ever the last one again.
pub(crate) fn free_user(
    range: &RangeInclusive<u32>,
    taken: &BTreeSet<u32>,
    runner: &RunnerId,
) -> Option<u32> {
    let count = u64::from(range.end().checked_sub(*range.start())?) + 1;
    let mut hasher = DefaultHasher::new();
    runner.as_str().hash(&mut hasher);
    let begin = hasher.finish() % count;
    (0..count)
        .map(|step| range.start() + u32::try_from((begin + step) % count).unwrap_or_default())
        .find(|uid| !taken.contains(uid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuse_21_no_two_runners_have_one_user() {
        let range = 500..=504;
        let mut taken = BTreeSet::new();
        for n in 0..5 {
            let runner = RunnerId::parse(format!("r-{n}")).unwrap();
            let uid = free_user(&range, &taken, &runner).unwrap();
            assert_eq!(free_user(&range, &taken, &runner), Some(uid), "the same again");
            assert!(range.contains(&uid) && taken.insert(uid), "{uid} of {taken:?}");
        }
        assert_eq!(free_user(&range, &taken, &RunnerId::parse("r-6").unwrap()), None);
    }
}
