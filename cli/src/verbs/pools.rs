//! `pools`: all pools in a table, or one in full. How they are defined is in `apply`.

use motorpool_domain::runner::StateName;
use motorpool_wire::api::{CiTroubleView, CiView, PoolView};

use super::apply;
use crate::args::{PoolsArgs, PoolsVerb};
use crate::client::Client;
use crate::errors::Failure;
use crate::output::Report;
use crate::output::table::{facts, table};
use crate::output::words::{some, span_ms};

pub(crate) async fn run(args: PoolsArgs) -> Result<Report, Failure> {
    let PoolsArgs { connect, verb } = args;
    let client = Client::new(&connect)?;
    match verb {
        None => Ok(Report::of(client.pools().await?, |page| list(&page.pools))),
        Some(PoolsVerb::Show { pool }) => Ok(Report::of(client.pool(&pool).await?, one)),
        Some(PoolsVerb::Apply { file, dry_run }) => apply::run(&client, &file, dry_run).await,
    }
}

fn list(pools: &[PoolView]) -> String {
    if pools.is_empty() {
        return "There are no pools yet. Define one in the pools file, and restart `motorpool serve`."
            .to_owned();
    }
    let rows = pools.iter().map(|pool| {
        let count =
            |states: &[StateName]| states.iter().map(|state| pool.count(*state)).sum::<u32>().to_string();
        vec![
            pool.pool.to_string(),
            pool.backend.clone(),
            pool.clean.clone(),
            count(&[StateName::Idle]),
            count(&[StateName::Created, StateName::Claimed]),
            count(&[StateName::Running]),
            count(&[StateName::Releasing, StateName::Resetting]),
            format!("{}/{}", pool.used, pool.max),
            pool.waiting.to_string(),
        ]
    });
    let header = ["POOL", "BACKEND", "CLEAN", "IDLE", "STARTING", "RUNNING", "CLEANING", "USED", "WAITING"];
    let mut text = table(&header, rows);
    for note in pools.iter().flat_map(notes) {
        text.push('\n');
        text.push_str(&note);
    }
    text
}

/// What the table has no column for, since it should not be.
fn notes(pool: &PoolView) -> Vec<String> {
    let name = &pool.pool;
    let mut notes = Vec::new();
    let quarantined = pool.count(StateName::Quarantined);
    if quarantined > 0 {
        notes.push(format!(
            "{name}: {} in quarantine; see `motorpool runners --pool {name} --state quarantined`",
            some(quarantined, "runner")
        ));
    }
    if pool.retired {
        notes.push(format!("{name}: retired; it is no longer in the pools file, and gets no new runners"));
    }
    notes.extend(pool.warnings.iter().map(|warning| format!("{name}: {warning}")));
    notes.extend(pool.ci.as_ref().and_then(|ci| ci.trouble.as_ref()).map(|trouble| {
        let CiTroubleView { what, refused: _, ms_ago } = trouble;
        format!("{name}: {} ago its CI system did not do as asked: {what}", span_ms(*ms_ago))
    }));
    notes
}

fn one(pool: &PoolView) -> String {
    let counts: Vec<String> = StateName::ALL
        .into_iter()
        .map(|state| (state, pool.count(state)))
        .filter(|(_, count)| *count > 0)
        .map(|(state, count)| format!("{count} {state}"))
        .collect();
    let waiting = some(pool.waiting, "claim");
    let pending = format!("{} pending", pool.pending_checkpoints);
    let text = facts([
        ("pool", Some(pool.pool.to_string())),
        ("backend", Some(pool.backend.clone())),
        ("dispatch", Some(pool.dispatch.clone())),
        ("clean", Some(pool.clean.clone())),
        ("slots", Some(format!("{} of {} used", pool.used, pool.max))),
        ("kept idle", Some(format!("at least {}", pool.min_idle)).filter(|_| pool.min_idle > 0)),
        ("runners", Some(if counts.is_empty() { "none".to_owned() } else { counts.join(", ") })),
        ("waiting", Some(waiting)),
        ("checkpoints", Some(pending).filter(|_| pool.dispatch == "hook")),
        (
            "teams",
            (!pool.teams.is_empty())
                .then(|| pool.teams.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
        ),
        ("registers with", pool.ci.as_ref().map(registers_with)),
        (
            "defined in",
            Some(if pool.source == "file" { "the pools file".to_owned() } else { pool.source.clone() }),
        ),
    ]);
    [vec![text], notes(pool)].concat().join("\n")
}

fn registers_with(ci: &CiView) -> String {
    let CiView { system, scope, rate_remaining, rate_resets_in_ms, trouble: _ } = ci;
    let place = format!("{} {scope}", system.name());
    match (rate_remaining, rate_resets_in_ms) {
        (Some(left), Some(resets)) => {
            format!("{place}; {} left until it resets in {}", some(*left, "call"), span_ms(*resets))
        }
        (Some(left), None) => format!("{place}; {} left", some(*left, "call")),
        (None, _) => place,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use motorpool_domain::PoolName;
    use std::collections::BTreeMap;

    pub(crate) fn pool() -> PoolView {
        PoolView {
            pool: PoolName::parse("small").unwrap(),
            backend: "local".to_owned(),
            dispatch: "claim".to_owned(),
            clean: "cleanup".to_owned(),
            max: 3,
            min_idle: 0,
            used: 1,
            counts: BTreeMap::new(),
            waiting: 0,
            pending_checkpoints: 0,
            retired: false,
            ci: None,
            source: "file".to_owned(),
            warnings: Vec::new(),
            teams: Vec::new(),
        }
    }

    fn macs(name: &str) -> PoolView {
        let counts = [
            ("idle", 2),
            ("created", 1),
            ("claimed", 1),
            ("running", 3),
            ("resetting", 1),
            ("quarantined", 1),
        ];
        PoolView {
            pool: PoolName::parse(name).unwrap(),
            backend: "bare_metal".to_owned(),
            max: 100,
            used: 9,
            counts: counts.into_iter().map(|(state, count)| (state.to_owned(), count)).collect(),
            waiting: 4,
            retired: true,
            warnings: vec!["grace_seconds is 1".to_owned()],
            ..pool()
        }
    }

    #[test]
    fn the_table_says_what_is_odd() {
        let text = list(&[macs("macs-of-the-lab")]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "POOL             BACKEND     CLEAN    IDLE  STARTING  RUNNING  CLEANING  USED   WAITING",
                "macs-of-the-lab  bare_metal  cleanup  2     2         3        1         9/100  4",
                "macs-of-the-lab: 1 runner in quarantine; see `motorpool runners --pool macs-of-the-lab --state quarantined`",
                "macs-of-the-lab: retired; it is no longer in the pools file, and gets no new runners",
                "macs-of-the-lab: grace_seconds is 1",
            ]
        );
    }

    #[test]
    fn one_pool_names_the_states_that_its_runners_are_in() {
        let ci = CiView {
            system: motorpool_domain::ci::CiSystem::GitHub,
            scope: "my-org".to_owned(),
            rate_remaining: Some(4_990),
            rate_resets_in_ms: Some(600_000),
            trouble: Some(CiTroubleView {
                what: "cannot list the runners of my-org".to_owned(),
                refused: true,
                ms_ago: 60_000,
            }),
        };
        let text = one(&PoolView { ci: Some(ci), ..macs("macs") });
        assert!(text.contains("github my-org; 4990 calls left until it resets in 10 min"), "{text}");
        let trouble = "macs: 1 min ago its CI system did not do as asked: cannot list the runners of my-org";
        assert!(text.ends_with(trouble), "{text}");
        assert!(
            text.contains(
                "runners         1 created, 1 resetting, 2 idle, 1 claimed, 3 running, 1 quarantined"
            ),
            "{text}"
        );
    }
}
