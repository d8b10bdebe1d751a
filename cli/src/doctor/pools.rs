//! The pools, in words: what waits, what is full, what a person must look at, who is not heard from. What of that is worth a word is
//! decided in `domain`.

use std::time::Duration;

use motorpool_domain::pool::{PoolConcern, PoolFigures, calls_run_short, refusal_stands, seems_silent};
use motorpool_domain::runner::StateName;
use motorpool_wire::api::{CiTroubleView, CiView, PoolView, RunnerView};
use motorpool_wire::registry::CredentialKind;

use super::Check;
use crate::client::Client;
use crate::output::words::{some, span_ms};

pub(super) async fn look(client: &Client) -> Vec<Check> {
    let pools = match client.pools().await {
        Ok(answer) => answer.value.pools,
        Err(failure) => return vec![Check::failed(&failure)],
    };
    if pools.is_empty() {
        return vec![Check::warn(
            "there are no pools",
            "define one in the pools file, and restart `motorpool serve`",
        )];
    }
    let mut checks = Vec::new();
    for pool in &pools {
        let runners = match client.runners(&pool.pool, None, false).await {
            Ok(answer) => answer.value.runners,
            // A team does not see runners.
            Err(failure) if failure.is_forbidden() => Vec::new(),
            Err(failure) => {
                checks.push(Check::failed(&failure));
                continue;
            }
        };
        checks.extend(judge(pool, &runners));
    }
    checks
}

fn judge(pool: &PoolView, runners: &[RunnerView]) -> Vec<Check> {
    let name = &pool.pool;
    let figures = PoolFigures {
        used: pool.used,
        max: pool.max,
        idle: pool.count(StateName::Idle),
        quarantined: pool.count(StateName::Quarantined),
        waiting: pool.waiting,
        retired: pool.retired,
    };
    let mut checks: Vec<Check> = figures.concerns().into_iter().map(|of| concern(pool, of)).collect();
    let outdated = runners.iter().filter(|runner| runner.program_outdated).count();
    if outdated > 0 {
        checks.push(Check::warn(
            format!("pool {name}: {outdated} of its runners have a runner program older than its minimum_version"),
            "name a newer one in the pool's ec2.runner_program, or bake a new image, before the CI system refuses them",
        ));
    }
    let set = |why: &String| Check::warn(format!("pool {name}: {why}"), "");
    checks.extend(pool.warnings.iter().map(set));
    checks.extend(pool.ci.as_ref().and_then(|ci| troubled(pool, ci)));
    checks.extend(pool.ci.as_ref().and_then(|ci| nearly_spent(pool, ci)));
    checks.extend(runners.iter().filter_map(silent));
    if checks.is_empty() {
        checks
            .push(Check::ok(format!("pool {name}: {} of {} slots used, nothing waits", pool.used, pool.max)));
    }
    checks
}

fn concern(pool: &PoolView, concern: PoolConcern) -> Check {
    let PoolView { pool: name, used, max, waiting, .. } = pool;
    let waiting = format!("pool {name}: {} waiting", some(*waiting, "claim"));
    match concern {
        PoolConcern::Retired => Check::warn(
            format!("pool {name} is retired, with {} left", some(*used, "runner")),
            "put it back into the pools file, or let its runners end",
        ),
        PoolConcern::ClaimsWait => {
            Check::warn(waiting, format!("`motorpool claims --pool {name}` says what for"))
        }
        PoolConcern::ClaimsWaitForSlots => Check::warn(
            format!("{waiting}, and all {max} slots are taken"),
            "raise its max, or release what is no longer needed: `motorpool claims`",
        ),
        PoolConcern::Full => Check::warn(
            format!("pool {name}: all {max} slots are taken, and no runner is idle"),
            "the next claim waits; raise its max if that is too soon",
        ),
        PoolConcern::Quarantined => Check::warn(
            format!("pool {name}: {} in quarantine", some(pool.count(StateName::Quarantined), "runner")),
            format!("`motorpool runners --pool {name} --state quarantined` says why"),
        ),
    }
}

/// The vendor's words say what to do about a refusal.
fn troubled(pool: &PoolView, ci: &CiView) -> Option<Check> {
    let CiTroubleView { what, refused, ms_ago } = ci.trouble.as_ref()?;
    let (name, system, ago) = (&pool.pool, ci.system.name(), span_ms(*ms_ago));
    Some(if *refused {
        let told = format!("pool {name}: {system} refused, {ago} ago: {what}");
        let hint = "its runners get no jobs until that is mended: the credentials, or the pool's `ci`";
        if refusal_stands(Duration::from_millis(*ms_ago)) {
            Check::fail(told, hint)
        } else {
            Check::warn(told, hint)
        }
    } else {
        Check::warn(
            format!("pool {name}: {system} did not do its part, {ago} ago: {what}"),
            "is it down, or out of the server's reach? It is asked again by itself",
        )
    })
}

fn nearly_spent(pool: &PoolView, ci: &CiView) -> Option<Check> {
    let left = ci.rate_remaining.filter(|left| calls_run_short(*left, pool.max))?;
    let resets = ci.rate_resets_in_ms.map_or_else(String::new, |resets| format!(" for {}", span_ms(resets)));
    Some(Check::warn(
        format!("pool {}: {} allows only {}{resets}", pool.pool, ci.system.name(), some(left, "more call")),
        "registrations wait until then; who else uses these credentials?",
    ))
}

fn silent(runner: &RunnerView) -> Option<Check> {
    // Who has a token of its own calls when it has a job.
    let is_expected = runner.credential == CredentialKind::Bootstrap;
    let is_silent = |ago: &u64| is_expected && seems_silent(runner.state, Duration::from_millis(*ago));
    let ago = runner.seen_ms_ago.filter(is_silent)?;
    Some(Check::warn(
        format!("runner {} ({}) was not heard from for {}", runner.runner, runner.state, span_ms(ago)),
        format!(
            "is its agent running, and does it reach the server? `motorpool runners show {}`",
            runner.runner
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;
    use crate::verbs::pools::tests::pool;
    use std::collections::BTreeMap;

    fn runner(state: StateName, seen_ms_ago: Option<u64>) -> RunnerView {
        RunnerView { seen_ms_ago, ..crate::verbs::runners::tests::runner(state) }
    }

    fn warnings(pool: &PoolView, runners: &[RunnerView]) -> Vec<String> {
        judge(pool, runners)
            .into_iter()
            .filter(|check| check.verdict == Verdict::Warn)
            .map(|check| check.what)
            .collect()
    }

    #[test]
    fn a_healthy_pool_is_one_line() {
        let checks =
            judge(&pool(), &[runner(StateName::Idle, Some(1_000)), runner(StateName::Created, None)]);
        assert_eq!(checks, [Check::ok("pool small: 1 of 3 slots used, nothing waits")]);
    }

    #[test]
    fn a_ci_system_that_will_refuse_is_named_before_it_does() {
        let ci = CiView {
            system: motorpool_domain::ci::CiSystem::GitHub,
            scope: "my-org".to_owned(),
            rate_remaining: Some(5),
            rate_resets_in_ms: Some(60_000),
            trouble: None,
        };
        let old = RunnerView { program_outdated: true, ..runner(StateName::Idle, Some(1_000)) };
        assert_eq!(
            warnings(&PoolView { ci: Some(ci.clone()), ..pool() }, &[old]),
            [
                "pool small: 1 of its runners have a runner program older than its minimum_version",
                "pool small: github allows only 5 more calls for 1 min",
            ]
        );
        let plenty = CiView { rate_remaining: Some(4_000), ..ci };
        assert_eq!(warnings(&PoolView { ci: Some(plenty), ..pool() }, &[]), [""; 0]);
    }

    #[test]
    fn a_ci_system_that_refuses_fails_the_doctor_with_its_own_words() {
        let with = |refused, ms_ago| {
            let what = "cannot list the runners of GitLab's group 7: … (GitLab: 403: insufficient_scope)";
            let ci = CiView {
                system: motorpool_domain::ci::CiSystem::GitLab,
                scope: "groups/7".to_owned(),
                rate_remaining: None,
                rate_resets_in_ms: None,
                trouble: Some(CiTroubleView { what: what.to_owned(), refused, ms_ago }),
            };
            let mut checks = judge(&PoolView { ci: Some(ci), ..pool() }, &[]);
            assert_eq!(checks.len(), 1, "{checks:?}");
            let check = checks.remove(0);
            assert!(check.what.contains("GitLab: 403: insufficient_scope"), "{check:?}");
            check
        };
        let refused = with(true, 180_000);
        assert_eq!(refused.verdict, Verdict::Fail);
        assert!(refused.what.starts_with("pool small: gitlab refused, 3 min ago: "), "{refused:?}");
        assert_eq!(with(true, 3_600_000).verdict, Verdict::Warn, "it may be mended");
        assert_eq!(with(false, 1_000).verdict, Verdict::Warn, "it may pass");
    }

    #[test]
    fn every_oddity_is_named() {
        let odd = PoolView {
            used: 3,
            waiting: 2,
            retired: true,
            counts: BTreeMap::from([("quarantined".to_owned(), 1)]),
            warnings: vec!["grace_seconds is 1".to_owned()],
            ..pool()
        };
        assert_eq!(
            warnings(
                &odd,
                &[runner(StateName::Running, Some(180_000)), runner(StateName::Quarantined, Some(180_000))]
            ),
            [
                "pool small is retired, with 3 runners left",
                "pool small: 2 claims waiting, and all 3 slots are taken",
                "pool small: 1 runner in quarantine",
                "pool small: grace_seconds is 1",
                "runner mac-01 (running) was not heard from for 3 min",
            ]
        );
        assert_eq!(warnings(&PoolView { waiting: 1, ..pool() }, &[]), ["pool small: 1 claim waiting"]);
        assert_eq!(
            warnings(&PoolView { used: 3, ..pool() }, &[]),
            ["pool small: all 3 slots are taken, and no runner is idle"]
        );
        let idle = PoolView { used: 3, counts: BTreeMap::from([("idle".to_owned(), 3)]), ..pool() };
        assert_eq!(warnings(&idle, &[]), [""; 0]);
    }
}
