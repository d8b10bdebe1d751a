//! The user that jobs run as, and how much of the host they see: found out once, when the agent starts. Where the agent is root, nothing of a job
//! runs as root unless that is asked for by name.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use clap::Args;
use clap::builder::BoolishValueParser;
use thiserror::Error;

use crate::home::Home;
use crate::work::{Confinement, Sandbox};

/// The user that the units and cloud-init make.
const DEFAULT_USER: &str = "motorpool-job";

#[derive(Debug, Clone, Args)]
pub(crate) struct JobArgs {
    /// The user that jobs run as, where the agent is root; without this argument motorpool-job
    #[arg(long, value_name = "USER", conflicts_with_all = ["job_uid", "work_as_root"])]
    job_user: Option<String>,
    /// The same by number, of a user that needs no name
    #[arg(long, value_name = "UID", conflicts_with = "work_as_root")]
    job_uid: Option<u32>,
    /// Run jobs as root, as the agent itself: every job can then read the agent's token, and do anything to this host
    #[arg(long)]
    work_as_root: bool,
    /// Let jobs become root through sudo and the like: then every job can do anything to this host
    #[arg(long, env = "MOTORPOOL_JOBS_MAY_SUDO", value_parser = BoolishValueParser::new())]
    jobs_may_sudo: bool,
    /// A directory of which jobs see nothing, beside the agent's own; may be given more than once
    #[arg(long, value_name = "DIR")]
    hide: Vec<PathBuf>,
    /// The users to whom the metadata service of a cloud is closed, if more than the jobs' own
    #[arg(long, value_name = "FIRST-LAST", hide = true)]
    guard_uids: Option<UidRange>,
}

/// From the first to the last, both among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UidRange {
    pub first: u32,
    pub last: u32,
}

impl FromStr for UidRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("{text:?} is not FIRST-LAST, two numbers of users above 0");
        let (first, last) = text.split_once('-').ok_or_else(wrong)?;
        let number =
            |text: &str| text.parse().ok().filter(|uid| (1..u32::MAX).contains(uid)).ok_or_else(wrong);
        match (number(first)?, number(last)?) {
            (first, last) if first <= last => Ok(Self { first, last }),
            (_, _) => Err(wrong()),
        }
    }
}

impl std::fmt::Display for UidRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// Who jobs are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobUser {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
}

/// How jobs run. Without a user of their own they are the agent's.
#[derive(Debug, Clone)]
pub(crate) struct Jobs {
    pub(crate) user: JobUser,
    /// It was given by name, and the host knows more of it.
    named: bool,
    may_gain_privileges: bool,
    hidden: Vec<PathBuf>,
    pub(crate) guarded: UidRange,
    /// There the metadata service may have the credentials of a role, and so is never left open.
    pub(crate) on_ec2: bool,
    /// Whether the host allows a sandbox. The driver tries it.
    pub(crate) sandboxed: bool,
}

impl Jobs {
    /// None: they run as the agent does.
    pub(crate) fn of(args: &JobArgs, home: &Home, on_ec2: bool) -> Result<Option<Self>, JobsError> {
        let JobArgs { job_user, job_uid, work_as_root, jobs_may_sudo, hide, guard_uids } = args;
        if !rustix::process::geteuid().is_root() {
            return match (job_user, job_uid) {
                (None, None) => Ok(None),
                (Some(_), _) | (_, Some(_)) => Err(JobsError::NotRoot),
            };
        }
        if *work_as_root {
            tracing::warn!(
                "jobs run as root, and can read the agent's token and all else on this host: --work-as-root"
            );
            return Ok(None);
        }
        if cfg!(not(target_os = "linux")) {
            return Err(JobsError::NotHere);
        }
        let user = match job_uid {
            Some(uid) => JobUser { name: format!("job-{uid}"), uid: *uid, gid: *uid, groups: Vec::new() },
            None => JobUser::named(job_user.as_deref().unwrap_or(DEFAULT_USER))?,
        };
        if user.uid == 0 {
            return Err(JobsError::IsRoot { user: user.name });
        }
        let mut hidden = vec![PathBuf::from(home.dir())];
        for dir in hide {
            hidden.push(std::path::absolute(dir).map_err(JobsError::Hidden)?);
        }
        let guarded = guard_uids.unwrap_or(UidRange { first: user.uid, last: user.uid });
        let named = job_uid.is_none();
        Ok(Some(Self {
            user,
            named,
            may_gain_privileges: *jobs_may_sudo,
            hidden,
            guarded,
            on_ec2,
            sandboxed: true,
        }))
    }

    pub(crate) fn without_sandbox(self) -> Self {
        Self { sandboxed: false, ..self }
    }

    /// For programs that look up who they are, and find only a number.
    pub(crate) fn write_passwd(&self, home: &Home) -> io::Result<()> {
        let JobUser { name, uid, gid, groups: _ } = &self.user;
        let known = std::fs::read_to_string("/etc/passwd")?;
        let line = format!("{name}:x:{uid}:{gid}::{}:/bin/sh\n", home.job_home_dir().display());
        std::fs::write(home.passwd_file(), format!("{}\n{line}", known.trim_end()))?;
        std::fs::set_permissions(home.passwd_file(), std::os::unix::fs::PermissionsExt::from_mode(0o644))
    }

    /// An operator's command may have put the user into a group.
    pub(crate) fn look_up_groups(&mut self) -> Result<(), JobsError> {
        if self.named {
            self.user = JobUser::named(&self.user.name)?;
        }
        Ok(())
    }

    /// Whether jobs see nothing of what the host has at this place, unless it is shown to them.
    pub(crate) fn hides(&self, path: &Path) -> bool {
        let temporary = ["/tmp", "/var/tmp"].map(PathBuf::from);
        self.sandboxed && self.hidden.iter().chain(&temporary).any(|hidden| path.starts_with(hidden))
    }

    pub(crate) fn confinement(&self, home: &Home) -> Confinement {
        let Self { user: JobUser { name: _, uid, gid, groups }, may_gain_privileges, hidden, .. } = self;
        let shown = vec![home.work_dir(), home.job_home_dir(), home.program_copy_dir(), home.socket_dir()];
        let sandbox = Sandbox {
            hidden: hidden.clone(),
            shown,
            tmp: home.job_tmp_dir(),
            passwd: (!self.named).then(|| home.passwd_file()),
        };
        Confinement {
            uid: *uid,
            gid: *gid,
            groups: groups.clone(),
            may_gain_privileges: *may_gain_privileges,
            sandbox: self.sandboxed.then_some(sandbox),
        }
    }
}

impl JobUser {
    /// Asked of `id`, which knows users that are in no file.
    fn named(name: &str) -> Result<Self, JobsError> {
        let ask = |what: &str| -> Result<Vec<u32>, JobsError> {
            let asked = Command::new("id").args([what, "--", name]).output().map_err(JobsError::Id)?;
            if !asked.status.success() {
                return Err(JobsError::Missing { user: name.to_owned() });
            }
            let numbers = String::from_utf8_lossy(&asked.stdout);
            Ok(numbers.split_whitespace().filter_map(|number| number.parse().ok()).collect())
        };
        let one =
            |what| ask(what)?.first().copied().ok_or_else(|| JobsError::Missing { user: name.to_owned() });
        Ok(Self { name: name.to_owned(), uid: one("-u")?, gid: one("-g")?, groups: ask("-G")? })
    }
}

/// Whether this process may make the namespaces of a sandbox. That they can be furnished, an agent finds out when it tries.
pub fn namespaces_can_be_made() -> bool {
    #[cfg(target_os = "linux")]
    {
        // In a thread of its own, which ends with them.
        std::thread::spawn(crate::work::try_namespaces).join().is_ok_and(|made| made.is_ok())
    }
    #[cfg(not(target_os = "linux"))]
    {
        false
    }
}

#[derive(Debug, Error)]
pub(crate) enum JobsError {
    #[error(
        "only root can run jobs as another user; leave out --job-user and --job-uid, or start the agent as root"
    )]
    NotRoot,
    #[error(
        "the agent is root, and jobs are kept apart from it on Linux only; start it as a user of its own, or say --work-as-root if \
         every job may do anything to this host"
    )]
    NotHere,
    #[error(
        "the agent is root, and there is no user {user} for its jobs; make one: `useradd --system --user-group --no-create-home --home-dir \
         /nonexistent --shell /usr/sbin/nologin {user}`, or name another with --job-user"
    )]
    Missing { user: String },
    #[error("{user} is root, and jobs must not be; name another user with --job-user")]
    IsRoot { user: String },
    #[error("the jobs' user could not be looked up with `id`")]
    Id(#[source] io::Error),
    #[error("the path of a directory to hide is of no use")]
    Hidden(#[source] io::Error),
    #[error("the directories of jobs could not be made")]
    Directories(#[source] io::Error),
    #[error(
        "jobs cannot run as user {user}: {why}; start the agent where it may change users, or as a user of its own"
    )]
    CannotRun { user: String, why: String },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_users_has_two_ends_and_no_root() {
        assert_eq!("5-7".parse(), Ok(UidRange { first: 5, last: 7 }));
        assert_eq!("5-5".parse::<UidRange>().unwrap().to_string(), "5-5");
        for wrong in ["", "5", "7-5", "0-5", "a-b", "5-", "-5", "5-4294967295", "5-6-7"] {
            assert!(wrong.parse::<UidRange>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_user_that_is_not_there_is_asked_for_with_the_command_that_makes_it() {
        let error = JobUser::named("motorpool-nobody-of-that-name").unwrap_err().to_string();
        assert!(
            error.contains("`useradd --system") && error.contains("motorpool-nobody-of-that-name`"),
            "{error}"
        );
        assert_eq!(JobUser::named("root").unwrap().uid, 0);
    }
}
