//! Where the agent's socket is to be, and who may use it.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use super::listen::ListenError;
use crate::home::Home;
use crate::jobs::Jobs;

const NAME: &str = "agent.sock";
const GROUPS: &str = "/etc/group";
/// What the kernels take, with the zero at its end: 108 bytes on Linux, 104 elsewhere.
const LONGEST_PATH: usize = 103;

#[derive(Debug, Clone, Args)]
pub(crate) struct SocketArgs {
    /// Where hooks of jobs reach this agent; without it, in a directory of its own below --dir, which only the agent's jobs can reach
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The group whose members may use it, by name or number; without it the jobs' own
    #[arg(long, value_name = "GROUP", requires = "socket")]
    socket_group: Option<String>,
}

impl SocketArgs {
    /// It was asked for by name: without it the agent does not begin.
    pub(crate) fn is_named(&self) -> bool {
        self.socket.is_some()
    }

    /// One that was asked for by name is where it is; only the agent's own place for it is shown to jobs.
    pub(crate) fn is_seen_by(&self, jobs: Option<&Jobs>, path: &Path) -> bool {
        !self.is_named() || !jobs.is_some_and(|jobs| jobs.hides(path))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SocketPlace {
    pub(crate) path: PathBuf,
    /// None: the agent's own.
    pub(crate) gid: Option<u32>,
}

impl SocketPlace {
    /// Makes the directory, where it is the agent's to choose.
    pub(crate) fn of(args: &SocketArgs, home: &Home, jobs: Option<&Jobs>) -> Result<Self, ListenError> {
        let SocketArgs { socket, socket_group } = args;
        let of_jobs = jobs.map(|jobs| jobs.user.gid);
        let place = match socket {
            Some(path) => {
                let failed = |source| ListenError::Failed { path: path.clone(), source };
                let path = std::path::absolute(path).map_err(failed)?;
                let gid = socket_group.as_deref().map(gid_of).transpose()?.or(of_jobs);
                Self { path, gid }
            }
            None => {
                let (dir, gid) = (home.socket_dir(), of_jobs);
                let own = rustix::process::getegid().as_raw();
                let failed = |source| ListenError::Failed { path: dir.clone(), source };
                home.make_socket_dir(gid.unwrap_or(own)).map_err(failed)?;
                Self { path: dir.join(NAME), gid }
            }
        };
        match place.path.as_os_str().as_bytes().len() > LONGEST_PATH {
            true => Err(ListenError::TooLong { path: place.path, longest: LONGEST_PATH }),
            false => Ok(place),
        }
    }
}

/// From the host's file of groups, or what else it has them from.
fn gid_of(group: &str) -> Result<u32, ListenError> {
    if let Ok(gid) = group.parse() {
        return Ok(gid);
    }
    let in_file = fs::read_to_string(Path::new(GROUPS)).ok().and_then(|groups| find(&groups, group));
    let asked = || -> io::Result<Option<u32>> {
        let asked = Command::new("getent").args(["group", "--", group]).output()?;
        Ok(find(&String::from_utf8_lossy(&asked.stdout), group))
    };
    in_file.or_else(|| asked().ok().flatten()).ok_or_else(|| ListenError::NoGroup { group: group.to_owned() })
}

fn find(groups: &str, wanted: &str) -> Option<u32> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(wanted)).then(|| fields.nth(1)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_found_by_its_whole_name_or_is_a_number() {
        let groups = "root:x:0:\nci:x:1001:alice,bob\nci-more:x:1002:\nbad:x:none:\n";
        for (wanted, expected) in
            [("root", Some(0)), ("ci", Some(1001)), ("ci-more", Some(1002)), ("c", None), ("bad", None)]
        {
            assert_eq!(find(groups, wanted), expected, "{wanted}");
        }
        assert_eq!(gid_of("4711").unwrap(), 4711);
        let error = gid_of("motorpool-no-group-of-that-name").unwrap_err().to_string();
        assert!(error.contains("motorpool-no-group-of-that-name"), "{error}");
    }

    #[test]
    fn by_default_it_is_in_a_directory_of_its_own_that_others_only_pass() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(dir.path()).unwrap();
        let place = SocketPlace::of(&SocketArgs { socket: None, socket_group: None }, &home, None).unwrap();
        assert_eq!(place.path, dir.path().join("socket/agent.sock"));
        let mode = fs::metadata(dir.path().join("socket")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o710);
    }

    #[test]
    fn a_path_that_no_kernel_takes_is_refused_with_its_length() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(dir.path()).unwrap();
        let socket = Some(dir.path().join("x".repeat(LONGEST_PATH)));
        let refused = SocketPlace::of(&SocketArgs { socket, socket_group: None }, &home, None);
        assert!(matches!(refused, Err(ListenError::TooLong { .. })), "{refused:?}");
    }
}
