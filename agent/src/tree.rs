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

    /// Deeper than this process may have files open, and than a path may be long.
    #[test]
    fn refuse_21_however_deep_a_job_dug_it_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("deep");
        let dig =
            "mkdir \"$1\" && cd -P \"$1\" && for i in $(seq 3000); do mkdir d && cd -P d || exit 1; done";
        let dug = Command::new("bash").args(["-c", dig, "dig"]).arg(&deep).status().unwrap();
        assert!(dug.success());
        remove_tree(&deep).unwrap();
        assert!(!deep.exists());
        remove_tree(&deep).unwrap();
    }
}
