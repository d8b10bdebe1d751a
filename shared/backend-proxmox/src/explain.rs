//! What Proxmox VE's words mean: the same words come as a call's reason, as the message in its body, and as a task's exit status. Each
//! phrase here stands in its sources; whatever is not recognised is a failure with its words kept.

use crate::answer::Answer;
use crate::error::{Begun, Lacking, Problem};
use crate::status::Lock;

/// AnyEvent's own statuses, with which a node says that it could not ask another: of these, only that there was no connection means that
/// nothing arrived there.
const NO_CONNECTION: u16 = 595;
const CANNOT_BE_ASKED: std::ops::RangeInclusive<u16> = 595..=599;

/// Of an answer that is no success.
pub(crate) fn refusal(answer: &Answer) -> Problem {
    let Answer { status, said, errors, .. } = answer;
    match *status {
        401 => Problem::Unauthorized,
        403 => Problem::Forbidden { lacks: lacking(said) },
        NO_CONNECTION => Problem::NodeUnreachable { begun: Begun::No },
        status if CANNOT_BE_ASKED.contains(&status) => Problem::NodeUnreachable { begun: Begun::Perhaps },
        400 if errors.get("upid").is_some_and(|why| why.contains("no such task")) => Problem::TaskUnknown,
        400 | 404 | 500 => match words(said) {
            Some(problem) => problem,
            None if *status == 500 => Problem::Failed,
            None => Problem::BadParameter { errors: errors.clone() },
        },
        status if status < 500 || status == 501 => Problem::BadParameter { errors: errors.clone() },
        _ => Problem::Unavailable,
    }
}

/// Of a task that has failed.
pub(crate) fn exit_status(said: &str) -> Problem {
    words(said).unwrap_or(Problem::Failed)
}

fn words(said: &str) -> Option<Problem> {
    if let Some(lock) = between(said, "is locked (", ")") {
        return Some(Problem::Locked { lock: Lock::from(lock) });
    }
    if said.contains("snapshot '") && said.contains("' does not exist") {
        return Some(Problem::SnapshotMissing);
    }
    let phrases = [
        ("snapshot name '", Problem::NameTaken),
        ("snapshot feature is not available", Problem::NoSnapshots),
        ("is not most recent snapshot", Problem::NotNewest),
        ("rollback to incomplete snapshot", Problem::SnapshotUnfinished),
        ("vm is running", Problem::StillRunning),
        ("already running", Problem::AlreadyRunning),
        ("Configuration file '", Problem::VmMissing),
        ("config file already exists", Problem::VmIdTaken),
        ("detected modified configuration", Problem::ConfigChanged),
        ("Permission check failed", Problem::Forbidden { lacks: lacking(said) }),
        ("can't lock file", Problem::Busy),
        ("no quorum", Problem::Unavailable),
        ("got no worker upid", Problem::Unavailable),
        ("hostname lookup '", Problem::NodeUnreachable { begun: Begun::No }),
        ("No route to host", Problem::NodeUnreachable { begun: Begun::No }),
    ];
    phrases.into_iter().find(|(phrase, _)| said.contains(phrase)).map(|(_, problem)| problem)
}

/// `Permission check failed (/vms/101, VM.Snapshot|VM.Snapshot.Rollback)`
fn lacking(said: &str) -> Lacking {
    let inside = between(said, "Permission check failed (", ")").and_then(|inside| inside.split_once(", "));
    match inside {
        Some((path, privileges)) => Lacking {
            path: path.to_owned(),
            privileges: privileges.split('|').map(|one| one.trim().to_owned()).collect(),
        },
        None => Lacking { path: String::new(), privileges: Vec::new() },
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(inside, _)| inside)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn answered(status: u16, said: &str) -> Problem {
        refusal(&Answer { status, said: said.to_owned(), errors: BTreeMap::new(), data: None })
    }

    #[test]
    fn what_a_task_or_a_call_says_is_told_apart() {
        for (said, expected) in [
            ("VM is locked (snapshot)", Problem::Locked { lock: Lock::Snapshot }),
            ("VM is locked (snapshot-delete)", Problem::Locked { lock: Lock::SnapshotDelete }),
            ("VM is locked (backup)", Problem::Locked { lock: Lock::Backup }),
            ("snapshot name 'mp-1' already used", Problem::NameTaken),
            ("snapshot 'mp-1' does not exist", Problem::SnapshotMissing),
            (
                "can't rollback, snapshot 'mp-1' does not exist on 'tank:vm-101-disk-0'",
                Problem::SnapshotMissing,
            ),
            (
                "can't rollback, 'mp-1' is not most recent snapshot on 'tank:vm-101-disk-0'",
                Problem::NotNewest,
            ),
            ("unable to rollback to incomplete snapshot (snapstate = prepare)", Problem::SnapshotUnfinished),
            ("snapshot feature is not available", Problem::NoSnapshots),
            ("unable to rollback vm 101: vm is running", Problem::StillRunning),
            ("VM 101 already running", Problem::AlreadyRunning),
            ("can't lock file '/var/lock/qemu-server/lock-101.conf' - got timeout", Problem::Busy),
            ("unexpected status", Problem::Failed),
        ] {
            assert_eq!(exit_status(said), expected, "{said}");
        }
        for (status, said, expected) in [
            (500, "Configuration file 'nodes/pve1/qemu-server/101.conf' does not exist", Problem::VmMissing),
            (500, "unable to create VM 120: config file already exists", Problem::VmIdTaken),
            (
                500,
                "detected modified configuration - file changed by other user? Try again.",
                Problem::ConfigChanged,
            ),
            (500, "unable to parse UPID", Problem::Failed),
            (401, "authentication failure", Problem::Unauthorized),
            (595, "No route to host", Problem::NodeUnreachable { begun: Begun::No }),
            (596, "Connection timed out", Problem::NodeUnreachable { begun: Begun::Perhaps }),
            (599, "Too many redirections", Problem::NodeUnreachable { begun: Begun::Perhaps }),
            (501, "Method 'GET /nope' not implemented", Problem::BadParameter { errors: BTreeMap::new() }),
            (503, "", Problem::Unavailable),
        ] {
            assert_eq!(answered(status, said), expected, "{status} {said}");
        }
    }

    #[test]
    fn a_lacking_privilege_is_named_with_its_path() {
        let problem = answered(403, "Permission check failed (/vms/101, VM.Snapshot|VM.Snapshot.Rollback)");
        assert_eq!(problem.to_string(), "the token lacks VM.Snapshot or VM.Snapshot.Rollback on /vms/101");
        assert_eq!(answered(403, "Forbidden").to_string(), "the token lacks a privilege");
    }
}
