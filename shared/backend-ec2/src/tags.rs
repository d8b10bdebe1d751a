//! Our tags: whose an instance is, and which of our runners. Pure.

use std::collections::BTreeMap;

use motorpool_control::ports::backend::LaunchOrder;
use motorpool_domain::{LaunchId, RunnerId};

pub(crate) const INSTALLATION: &str = "motorpool:installation";
pub(crate) const POOL: &str = "motorpool:pool";
pub(crate) const LAUNCH: &str = "motorpool:launch";
/// The index, in its launch, of the first runner that the call was for.
pub(crate) const FROM: &str = "motorpool:from";
const ATTEMPT: &str = "motorpool:attempt";
/// For people and reports of costs; nothing here reads it. A machine's index does not follow from it alone.
pub(crate) const RUNNER: &str = "motorpool:runner";
const CLAIM: &str = "motorpool:claim";
const WORKFLOW: &str = "motorpool:workflow";
const NAME: &str = "Name";

/// What every instance and volume of a call is tagged with.
pub(crate) fn of_order(
    order: &LaunchOrder<'_>,
    installation: &str,
    own: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let attempt = order.attempt;
    let mut tags = BTreeMap::from([(NAME.to_owned(), format!("motorpool {}", order.pool.name))]);
    tags.extend(own.iter().map(|(key, value)| (key.clone(), value.clone())));
    let mut ours = vec![
        (INSTALLATION, installation.to_owned()),
        (POOL, order.pool.name.to_string()),
        (LAUNCH, order.launch.to_string()),
        (FROM, attempt.from.to_string()),
        (ATTEMPT, attempt.number.to_string()),
    ];
    if let Some(asked_by) = &attempt.asked_by {
        ours.push((CLAIM, asked_by.claim.to_string()));
        ours.push((WORKFLOW, asked_by.workflow.to_string()));
    }
    if attempt.count == 1 {
        ours.push((RUNNER, RunnerId::of_launch(order.launch, attempt.from).to_string()));
    }
    tags.extend(ours.into_iter().map(|(key, value)| (key.to_owned(), value)));
    tags
}

/// Why an instance with our tags is none of our runners.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BrokenTags {
    #[error("it has no tag {0}")]
    Missing(&'static str),
    #[error("its tag {0} can't be read")]
    Unreadable(&'static str),
    #[error("it has no launch index")]
    NoIndex,
}

/// Which runner's machine it is: its tags are those of the whole call, and EC2 counts the instances of a call.
pub(crate) fn runner_of<'a>(
    tags: impl IntoIterator<Item = (&'a str, &'a str)>,
    ami_launch_index: Option<i32>,
) -> Result<(LaunchId, u32), BrokenTags> {
    let (mut launch, mut from) = (None, None);
    for (key, value) in tags {
        match key {
            LAUNCH => launch = Some(value),
            FROM => from = Some(value),
            _ => {}
        }
    }
    let launch = LaunchId::parse(launch.ok_or(BrokenTags::Missing(LAUNCH))?)
        .map_err(|_| BrokenTags::Unreadable(LAUNCH))?;
    let from: u32 =
        from.ok_or(BrokenTags::Missing(FROM))?.parse().map_err(|_| BrokenTags::Unreadable(FROM))?;
    let index = ami_launch_index.and_then(|index| u32::try_from(index).ok()).ok_or(BrokenTags::NoIndex)?;
    let index = from.checked_add(index).ok_or(BrokenTags::Unreadable(FROM))?;
    Ok((launch, index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_follows_from_its_calls_tags_and_its_launch_index() {
        let tags = [(LAUNCH, "l-abc"), (FROM, "3"), ("Name", "x")];
        let (launch, index) = runner_of(tags, Some(2)).unwrap();
        assert_eq!(RunnerId::of_launch(&launch, index).as_str(), "r-abc-5");
    }

    #[test]
    fn broken_tags_are_told_apart() {
        let broken = |tags: &[(&'static str, &'static str)], index| {
            runner_of(tags.iter().copied(), index).unwrap_err()
        };
        assert_eq!(broken(&[(FROM, "0")], Some(0)), BrokenTags::Missing(LAUNCH));
        assert_eq!(broken(&[(LAUNCH, "l-a")], Some(0)), BrokenTags::Missing(FROM));
        assert_eq!(broken(&[(LAUNCH, "$(x)"), (FROM, "0")], Some(0)), BrokenTags::Unreadable(LAUNCH));
        assert_eq!(broken(&[(LAUNCH, "l-a"), (FROM, "-1")], Some(0)), BrokenTags::Unreadable(FROM));
        let most = u32::MAX.to_string();
        let most: &'static str = most.leak();
        assert_eq!(broken(&[(LAUNCH, "l-a"), (FROM, most)], Some(1)), BrokenTags::Unreadable(FROM));
        assert_eq!(broken(&[(LAUNCH, "l-a"), (FROM, "0")], None), BrokenTags::NoIndex);
        assert_eq!(broken(&[(LAUNCH, "l-a"), (FROM, "0")], Some(-1)), BrokenTags::NoIndex);
    }
}
