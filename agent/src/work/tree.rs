//! Finds and signals all descendants of a process, through `/proc` (Linux). It does not wait for them or reap them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};

use super::command::MARK;

/// All descendants of one process. If that process is a subreaper, nobody leaves its tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tree {
    root: Pid,
}

impl Tree {
    /// The tree of this process, which started `_command`.
    pub(super) fn of_command(_command: Pid) -> Self {
        Self { root: getpid() }
    }

    pub(super) fn under(root: Pid) -> Self {
        Self { root }
    }

    /// Asks every process of the tree to end, each once.
    pub(super) fn terminate(&self) {
        let all = processes();
        for process in descendants(&all, &BTreeSet::from([self.root.as_raw_pid()])) {
            // It may have ended since we looked, or be another user's: the kill that follows will tell.
            let _gone_or_not_ours = kill_process(process.pid, Signal::TERM);
        }
    }

    /// One pass: kills all that is there now, and tells how many that were. New ones may come; call it until none are left.
    pub(super) fn kill(&self) -> usize {
        let all = processes();
        kill_each(descendants(&all, &BTreeSet::from([self.root.as_raw_pid()])))
    }
}

/// Whose work to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mark {
    Work(String),
    AnyOf { owner: String },
}

impl Mark {
    fn is_on(&self, environment: &[u8]) -> bool {
        let value = environment.split(|byte| *byte == 0).find_map(|variable| {
            variable.strip_prefix(MARK.as_bytes()).and_then(|rest| rest.strip_prefix(b"="))
        });
        match (self, value) {
            (_, None) => false,
            (Self::Work(work_id), Some(value)) => value == work_id.as_bytes(),
            (Self::AnyOf { owner }, Some(value)) => {
                value.strip_prefix(owner.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"))
            }
        }
    }
}

/// One pass over the processes that carry the mark, and their descendants. Tells how many there were.
pub(super) fn kill_marked(mark: &Mark) -> usize {
    let all = processes();
    let marked: BTreeSet<i32> = all
        .iter()
        .filter(|process| process.pid != getpid())
        .filter(|process| {
            fs::read(format!("/proc/{}/environ", process.pid))
                .is_ok_and(|environment| mark.is_on(&environment))
        })
        .map(|process| process.pid.as_raw_pid())
        .collect();
    let below = descendants(&all, &marked);
    kill_each(all.iter().filter(|process| marked.contains(&process.pid.as_raw_pid())).chain(below))
}

/// First by group: that is atomic against a fork in the group. Then one by one, for who is in the supervisor's own group.
///
/// A number could in theory be taken by a stranger between the look and the kill. That needs all process numbers to be
/// used up once in less than a millisecond.
fn kill_each<'a>(processes: impl IntoIterator<Item = &'a Process>) -> usize {
    let processes: Vec<&Process> = processes.into_iter().filter(|process| process.pid != getpid()).collect();
    let own_group = rustix::process::getpgrp();
    let groups: BTreeSet<i32> = processes.iter().map(|process| process.group).collect();
    for group in groups.into_iter().filter_map(Pid::from_raw).filter(|group| *group != own_group) {
        let _gone_or_not_ours = kill_process_group(group, Signal::KILL);
    }
    for process in &processes {
        let _gone_or_not_ours = kill_process(process.pid, Signal::KILL);
    }
    processes.iter().filter(|process| process.alive).count()
}

/// What one line of `/proc/<pid>/stat` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    pid: Pid,
    parent: i32,
    group: i32,
    /// A zombie only waits for its parent. But where only the first thread has ended, the others still run.
    alive: bool,
}

fn processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit))
        .filter_map(|entry| fs::read(entry.path().join("stat")).ok())
        .filter_map(|stat| parse_stat(&String::from_utf8_lossy(&stat)))
        .collect()
}

/// The name in parentheses may itself hold spaces and parentheses; the fields begin after the last one.
fn parse_stat(stat: &str) -> Option<Process> {
    let (pid, rest) = stat.split_once(' ')?;
    let (_name, fields) = rest.rsplit_once(") ")?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let threads: u32 = fields.nth(14)?.parse().ok()?;
    let alive = !matches!(state, "Z" | "X") || threads > 1;
    Some(Process { pid: Pid::from_raw(pid.parse().ok()?)?, parent, group, alive })
}

fn descendants<'a>(all: &'a [Process], roots: &BTreeSet<i32>) -> Vec<&'a Process> {
    let mut children: BTreeMap<i32, Vec<&Process>> = BTreeMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut parents: Vec<i32> = roots.iter().copied().collect();
    while let Some(parent) = parents.pop() {
        // Removed, so that a number that was reused while we read cannot make a circle.
        for child in children.remove(&parent).unwrap_or_default() {
            if !roots.contains(&child.pid.as_raw_pid()) {
                found.push(child);
            }
            parents.push(child.pid.as_raw_pid());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32) -> Process {
        Process { pid: Pid::from_raw(pid).unwrap(), parent, group: pid, alive: true }
    }

    #[test]
    fn a_name_with_spaces_and_parentheses_is_read_right() {
        let stat = "42 (a) R (b c) S 7 9 9 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 3 0 100 0 0";
        let expected = Process { pid: Pid::from_raw(42).unwrap(), parent: 7, group: 9, alive: true };
        assert_eq!(parse_stat(stat), Some(expected));
        assert_eq!(parse_stat("42 (a"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn a_zombie_is_dead_unless_it_has_threads() {
        let zombie = |threads: u32| {
            let stat = format!("42 (x) Z 7 9 9 0 -1 0 1 0 0 0 0 0 0 0 20 0 {threads} 0");
            parse_stat(&stat).unwrap().alive
        };
        assert!(!zombie(0) && !zombie(1) && zombie(2));
    }

    #[test]
    fn descendants_are_found_at_any_depth_and_others_are_not() {
        let all = [process(10, 1), process(11, 10), process(12, 11), process(20, 1), process(21, 20)];
        let found: BTreeSet<i32> =
            descendants(&all, &BTreeSet::from([10])).iter().map(|process| process.pid.as_raw_pid()).collect();
        assert_eq!(found, BTreeSet::from([11, 12]));
    }

    #[test]
    fn a_circle_of_reused_numbers_ends() {
        let all = [process(10, 12), process(11, 10), process(12, 11)];
        assert_eq!(descendants(&all, &BTreeSet::from([10])).len(), 2);
    }

    #[test]
    fn a_mark_is_of_one_work_or_of_all_of_an_owner() {
        let environment = b"HOME=/\0MOTORPOOL_WORK_ID=r-1/ab\0X=MOTORPOOL_WORK_ID=r-2/cd\0";
        assert!(Mark::Work("r-1/ab".into()).is_on(environment));
        assert!(!Mark::Work("r-1/a".into()).is_on(environment));
        assert!(Mark::AnyOf { owner: "r-1".into() }.is_on(environment));
        assert!(!Mark::AnyOf { owner: "r-".into() }.is_on(environment));
        assert!(!Mark::AnyOf { owner: "r-2".into() }.is_on(environment));
    }
}
