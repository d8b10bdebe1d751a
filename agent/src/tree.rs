//! Removes what a job left, however deep: by `rm`, which holds one directory open at a time, where a function that calls itself for each would
//! run out of files or of stack at ten thousand levels.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// What is not there is removed. No link is followed.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    let ended = Command::new("rm").args(["-rf", "--"]).arg(path).stdin(Stdio::null()).output()?;
    match ended.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&ended.stderr).trim().to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
    use std::os::fd::{AsFd, BorrowedFd};

    /// Deeper than this process may have files open by default, and than a path may be long.
    #[test]
    fn refuse_21_however_deep_a_job_dug_it_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("deep");
        std::fs::create_dir(&deep).unwrap();
        let directory = |at: BorrowedFd<'_>, name: &Path| {
            openat(at, name, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap()
        };
        let mut at = directory(CWD, &deep);
        for _ in 0..3_000 {
            mkdirat(&at, "d", Mode::RWXU).unwrap();
            at = directory(at.as_fd(), Path::new("d"));
        }
        drop(at);
        remove_tree(&deep).unwrap();
        assert!(!deep.exists());
        remove_tree(&deep).unwrap();
    }
}
