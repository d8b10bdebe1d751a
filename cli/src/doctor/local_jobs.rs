//! Whether jobs of local pools would be kept apart from `serve`, if whoever asks started it here.

use motorpool_domain::PoolName;
use motorpool_domain::pool::{BackendKind, Rules};

use super::Check;
use crate::pools_file::PoolsFile;

/// What this host and user can do for jobs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Powers {
    pub(super) is_root: bool,
    pub(super) has_namespaces: bool,
}

impl Powers {
    pub(super) fn here() -> Self {
        let is_root = rustix::process::geteuid().is_root();
        Self { is_root, has_namespaces: is_root && motorpool_agent::jobs::namespaces_can_be_made() }
    }
}

/// No check without a local pool.
pub(super) fn look(file: &PoolsFile, powers: Powers) -> Vec<Check> {
    let local: Vec<(&PoolName, &Rules)> =
        file.pools.iter().filter(|(_, rules)| rules.backend == BackendKind::Local).collect();
    if local.is_empty() {
        return Vec::new();
    }
    match powers {
        Powers { is_root: true, has_namespaces: true } => {
            vec![Check::ok("jobs of local pools run as users of their own, in a sandbox")]
        }
        Powers { is_root: true, has_namespaces: false } => vec![Check::warn(
            "jobs of local pools run as users of their own; this host allows no sandbox, so they see all files that are open to everybody",
            "let serve make namespaces (in a container: the capability SYS_ADMIN), or use machines of their own for jobs",
        )],
        Powers { is_root: false, .. } if file.teams.is_empty() => vec![Check::warn(
            "jobs of local pools run as serve's own user, and can read its secrets",
            "start serve as root for jobs that you do not vouch for",
        )],
        Powers { is_root: false, .. } => local
            .into_iter()
            .map(|(name, rules)| match rules.trusted {
                true => Check::ok(format!("pool {name} is trusted: its jobs may do what serve may")),
                false => Check::fail(
                    format!("pool {name}: its jobs would run as serve's own user, and there are teams"),
                    "start serve as root, or say `trusted = true` in the pool; without either serve does not start",
                ),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;
    use crate::pools_file;

    #[test]
    fn refuse_21_what_holds_jobs_is_told_before_there_are_any() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pools.toml");
        let team = format!("[teams.web]\ntoken_sha256 = [\"{}\"]\n", "ab".repeat(32));
        let (root, bare_root, other) = ((true, true), (true, false), (false, false));
        for (teams, pools, (is_root, has_namespaces), expected) in [
            ("", "backend = \"local\"", root, &[Verdict::Ok][..]),
            (&team, "backend = \"local\"", root, &[Verdict::Ok]),
            ("", "backend = \"local\"", bare_root, &[Verdict::Warn]),
            ("", "backend = \"local\"", other, &[Verdict::Warn]),
            (&team, "backend = \"local\"", other, &[Verdict::Fail]),
            (&team, "backend = \"local\"\ntrusted = true", other, &[Verdict::Ok]),
            (&team, "backend = \"bare_metal\"\nclean = \"keep\"", other, &[]),
        ] {
            std::fs::write(&path, format!("{teams}[pools.p]\n{pools}\n")).unwrap();
            let checks = look(&pools_file::load(&path).unwrap(), Powers { is_root, has_namespaces });
            let verdicts: Vec<Verdict> = checks.iter().map(|check| check.verdict).collect();
            assert_eq!(verdicts, expected, "{teams} {pools} {is_root}: {checks:?}");
        }
    }
}
