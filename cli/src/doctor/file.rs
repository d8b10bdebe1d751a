//! A pools file as `serve` of this very binary would take it: what is wrong in it, what is built in, which credentials it has.

use std::path::Path;

use motorpool_domain::Owner;
use motorpool_domain::claim::TeamLimits;
use motorpool_domain::pool::BackendKind;

use super::local_jobs::{self, Powers};
use super::{Check, alerts};
use crate::errors::chain;
use crate::output::words::some;
use crate::pools_file::{
    self, CiCredentials, GitHubCredentials, GitHubLogin, GitLabCredentials, JenkinsCredentials,
    PoolsFileError,
};

pub(super) fn look(path: &Path) -> Vec<Check> {
    let file = match pools_file::load(path) {
        Ok(file) => file,
        Err(PoolsFileError::Wrong(problems)) => {
            return problems.iter().map(|problem| Check::fail(problem.to_string(), "")).collect();
        }
        Err(error @ PoolsFileError::Unreadable { .. }) => return vec![Check::fail(chain(&error), "")],
    };
    let pools = some(u64::try_from(file.pools.len()).unwrap_or(u64::MAX), "pool");
    let mut checks = vec![Check::ok(format!("{} is sound, with {pools}", path.display()))];
    let on_ec2 = file.pools.values().filter(|rules| rules.backend == BackendKind::Ec2).count();
    if on_ec2 > 0 {
        checks.push(ec2(on_ec2, |name| std::env::var_os(name).is_some()));
    }
    let limits = file.pools.iter().map(|(name, rules)| (name, &rules.limits));
    checks.extend(limits.filter_map(|(name, limits)| {
        Some(Check::warn(format!("pool {name}: {}", limits.short_grace(file.refresh)?), ""))
    }));
    checks.extend(local_jobs::look(&file, Powers::here()));
    checks.extend(file.team_limits.iter().map(|(team, limits)| Check::ok(told(team, limits))));
    checks.extend(credentials(&file.ci));
    checks.push(match &file.alerts {
        Some(settings) => {
            Check::ok(format!("people are told of incidents, in the format {}", settings.format()))
        }
        None => alerts::only_logged(),
    });
    checks
}

fn told(team: &Owner, limits: &TeamLimits) -> String {
    let TeamLimits { max_open_claims, max_slots, max_requests_at_once } = limits;
    let slots = max_slots.map_or_else(|| "all slots".to_owned(), |slots| some(slots, "slot"));
    format!(
        "team {team} may have {}, {slots}, and {} at once",
        some(*max_open_claims, "open claim"),
        some(*max_requests_at_once, "request")
    )
}

/// The feature is there, or the file would not have been sound. Credentials are looked for by the AWS SDK itself, in more places than
/// could be named here.
fn ec2(pools: usize, is_set: impl Fn(&str) -> bool) -> Check {
    let what = format!("EC2 is built in, and {pools} of the pools use it");
    if ["AWS_REGION", "AWS_DEFAULT_REGION"].into_iter().any(is_set) {
        return Check::ok(what);
    }
    Check::warn(
        format!("{what}; no region is set here"),
        "set AWS_REGION for `motorpool serve`, unless its AWS configuration has one",
    )
}

fn credentials(ci: &CiCredentials) -> Vec<Check> {
    let CiCredentials { github, gitlab, jenkins } = ci;
    let github = github.as_ref().map(|GitHubCredentials { api_url, login, webhook: _ }| {
        let place = api_url.as_deref().unwrap_or("github.com");
        let how = match login {
            GitHubLogin::App { app_id, installation_id: Some(installation), .. } => {
                format!("the App {app_id}, installation {installation}")
            }
            GitHubLogin::App { app_id, installation_id: None, .. } => format!("the App {app_id}"),
            GitHubLogin::Token(_) => "a token".to_owned(),
        };
        Check::ok(format!("credentials for {place}: {how}"))
    });
    let gitlab = gitlab.as_ref().map(|GitLabCredentials { url, token: _, read_token, webhook: _ }| {
        let and_more = if read_token.is_some() { ", and one that only reads" } else { "" };
        Check::ok(format!("credentials for {url}: a token{and_more}"))
    });
    let jenkins = jenkins.as_ref().map(|JenkinsCredentials { url, login, unpause_login }| {
        let what = format!("credentials for {url}: the user {}", login.user);
        match unpause_login {
            Some(unpause) => Check::ok(format!("{what}, and {} to bring nodes online", unpause.user)),
            None => Check::ok(what),
        }
    });
    github.into_iter().chain(gitlab).chain(jenkins).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_sound_file_is_told_with_its_credentials_and_a_wrong_one_line_by_line() {
        let dir = tempfile::tempdir().unwrap();
        let (pools, token) = (dir.path().join("pools.toml"), dir.path().join("token"));
        std::fs::write(&token, "x").unwrap();
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&pools, "[github]\ntoken_file = \"token\"\n[pools.small]\nbackend = \"local\"\n")
            .unwrap();
        let told: Vec<(Verdict, String)> = look(&pools)
            .into_iter()
            .map(|check| (check.verdict, check.what))
            .filter(|(_, what)| !what.starts_with("jobs of local"))
            .collect();
        assert_eq!(
            told,
            [
                (Verdict::Ok, format!("{} is sound, with 1 pool", pools.display())),
                (Verdict::Ok, "credentials for github.com: a token".to_owned()),
                (Verdict::Warn, "incidents are only logged: nobody is told".to_owned()),
            ]
        );
        std::fs::write(
            &pools,
            "[github]\napp_id = 7\nprivate_key_file = \"token\"\n[pools.small]\nbackend = \"local\"\n",
        )
        .unwrap();
        let garbage = look(&pools);
        assert_eq!(garbage.len(), 1, "{garbage:?}");
        let at = format!("{}:3: github.private_key_file: the private key", pools.display());
        assert!(garbage[0].verdict == Verdict::Fail && garbage[0].what.starts_with(&at), "{garbage:?}");
        std::fs::write(
            &pools,
            "refresh_seconds = 120\n[pools.small]\nbackend = \"local\"\nheartbeat_seconds = 60\ngrace_seconds = 90\n",
        )
        .unwrap();
        let odd = look(&pools);
        let odd = odd.iter().find(|check| check.what.contains("grace")).unwrap();
        assert!(odd.what.starts_with("pool small: grace_seconds is 90"), "{odd:?}");
        std::fs::write(&pools, "[pools.small]\nbackend = \"lokal\"\nmx = 1\n").unwrap();
        let wrong = look(&pools);
        assert_eq!(wrong.len(), 2);
        assert!(wrong.iter().all(|check| check.verdict == Verdict::Fail), "{wrong:?}");
        assert!(look(&dir.path().join("none"))[0].what.contains("cannot read the pools file"));
    }

    #[test]
    fn a_region_is_asked_for() {
        assert_eq!(ec2(1, |name| name == "AWS_REGION").verdict, Verdict::Ok);
        assert_eq!(ec2(1, |_| false).verdict, Verdict::Warn);
    }
}
