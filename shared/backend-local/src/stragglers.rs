//! Finds what is left of a runner when its agent is gone, by a mark in the environment (Linux only), and kills it. The
//! agent and the supervisors that it starts carry the mark; work that has shed it still counts as theirs by descent.

use std::path::Path;

/// Its value is the runner's directory.
pub(crate) const MARK: &str = "MOTORPOOL_RUNNER_DIR";

/// Whether anybody is left of the runner with this directory.
pub(crate) fn any(directory: &Path) -> bool {
    !system::marked(directory).is_empty()
}

/// One pass: kills what can be killed now, and tells how many were there. To be called until there are none.
pub(crate) fn kill(directory: &Path) -> usize {
    system::kill(directory)
}

#[cfg(target_os = "linux")]
mod system {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;
    use std::path::Path;

    use rustix::process::{Pid, Signal, getpid, kill_process};

    use super::MARK;

    /// Who carries the mark, by number, except this process. Processes of other users can't be read, and are not ours.
    pub(super) fn marked(directory: &Path) -> BTreeSet<i32> {
        let own = getpid().as_raw_pid();
        pids().filter(|pid| *pid != own && carries(*pid, directory)).collect()
    }

    /// Those who carry the mark hold their work together: an orphan of it goes to its supervisor. So the work is killed
    /// first, and a supervisor only in a pass that finds it alone; most end by themselves then.
    pub(super) fn kill(directory: &Path) -> usize {
        let parents: BTreeMap<i32, i32> = pids().filter_map(|pid| Some((pid, parent(pid)?))).collect();
        let marked = marked(directory);
        let work: BTreeMap<i32, i32> = parents
            .keys()
            .filter(|pid| **pid != getpid().as_raw_pid() && !marked.contains(pid))
            .filter_map(|pid| Some((*pid, keeper(*pid, &parents, &marked)?)))
            .collect();
        let keepers: BTreeSet<i32> = work.values().copied().collect();
        for pid in work.keys().chain(marked.difference(&keepers)) {
            // It may have ended since we looked: the next pass will tell.
            let _ended = Pid::from_raw(*pid).map(|pid| kill_process(pid, Signal::KILL));
        }
        marked.len() + work.len()
    }

    /// The nearest ancestor that carries the mark.
    fn keeper(pid: i32, parents: &BTreeMap<i32, i32>, marked: &BTreeSet<i32>) -> Option<i32> {
        // Bounded, since numbers that were reused while we read can make a circle.
        std::iter::successors(parents.get(&pid), |pid| parents.get(pid))
            .take(parents.len())
            .find(|pid| marked.contains(pid))
            .copied()
    }

    fn pids() -> impl Iterator<Item = i32> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
    }

    /// A zombie has no environment: it has ended, and only waits for its parent.
    fn carries(pid: i32, directory: &Path) -> bool {
        fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| has_mark(&environment, directory))
    }

    pub(super) fn has_mark(environment: &[u8], directory: &Path) -> bool {
        let directory = directory.as_os_str().as_encoded_bytes();
        environment.split(|byte| *byte == 0).any(|variable| {
            variable.strip_prefix(MARK.as_bytes()).and_then(|rest| rest.strip_prefix(b"=")) == Some(directory)
        })
    }

    /// The parent, unless the process is a zombie, which needs no kill.
    fn parent(pid: i32) -> Option<i32> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        parse_parent(&String::from_utf8_lossy(&stat))
    }

    /// The name in parentheses may itself hold spaces and parentheses; the fields begin after the last one.
    pub(super) fn parse_parent(stat: &str) -> Option<i32> {
        let (_name, fields) = stat.rsplit_once(") ")?;
        let mut fields = fields.split_ascii_whitespace();
        if fields.next()? == "Z" {
            return None;
        }
        fields.next()?.parse().ok()
    }
}

/// Without a `/proc` the supervisors alone see to it that nobody is left.
#[cfg(not(target_os = "linux"))]
mod system {
    use std::collections::BTreeSet;
    use std::path::Path;

    pub(super) fn marked(_: &Path) -> BTreeSet<i32> {
        BTreeSet::new()
    }

    pub(super) fn kill(_: &Path) -> usize {
        0
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::system::{has_mark, parse_parent};
    use std::path::Path;

    #[test]
    fn only_the_exact_mark_counts() {
        let directory = Path::new("/data/runners/r-1");
        for (environment, expected) in [
            ("A=b\0MOTORPOOL_RUNNER_DIR=/data/runners/r-1\0", true),
            ("MOTORPOOL_RUNNER_DIR=/data/runners/r-1", true),
            ("MOTORPOOL_RUNNER_DIR=/data/runners/r-12\0", false),
            ("MOTORPOOL_RUNNER_DIR=/data/runners/r-1/work\0", false),
            ("XMOTORPOOL_RUNNER_DIR=/data/runners/r-1\0", false),
            ("A=MOTORPOOL_RUNNER_DIR=/data/runners/r-1\0", false),
            ("", false),
        ] {
            assert_eq!(has_mark(environment.as_bytes(), directory), expected, "{environment:?}");
        }
    }

    #[test]
    fn a_parent_is_read_whatever_the_name() {
        assert_eq!(parse_parent("42 (a) R (b c) S 7 9 9 0"), Some(7));
        assert_eq!(parse_parent("42 (a) Z 7 9 9 0"), None);
        assert_eq!(parse_parent("42 (a"), None);
    }
}
