//! Which variables of the agent's own environment go on to what it starts: those of an allow-list, and no others. Whatever else a job
//! needs, its pool names (`job_env`).

use std::env;
use std::ffi::{OsStr, OsString};

/// How a program finds others, and in which language and zone it speaks.
const PLAIN: [&str; 5] = ["PATH", "LANG", "LANGUAGE", "TZ", "TERM"];
const LOCALE_PREFIX: &str = "LC_";

/// Whose the process is. Another user gets values of its own.
const PERSONAL: [&str; 5] = ["HOME", "USER", "LOGNAME", "SHELL", "TMPDIR"];

/// Whose environment is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// The agent's own user.
    Agent,
    /// A job's user, whose home and the like are told with its order.
    Job,
}

/// What is passed on of this process's environment.
pub(super) fn inherited(whose: Whose) -> impl Iterator<Item = (OsString, OsString)> {
    env::vars_os().filter(move |(name, _value)| passes(name, whose))
}

fn passes(name: &OsStr, whose: Whose) -> bool {
    let Some(name) = name.to_str() else { return false };
    let personal = match whose {
        Whose::Agent => PERSONAL.contains(&name),
        Whose::Job => false,
    };
    personal || PLAIN.contains(&name) || name.starts_with(LOCALE_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuse_21_only_what_the_list_names_goes_on() {
        for (name, to_agent, to_job) in [
            ("PATH", true, true),
            ("LANG", true, true),
            ("LC_ALL", true, true),
            ("LC_CTYPE", true, true),
            ("TZ", true, true),
            ("TERM", true, true),
            ("HOME", true, false),
            ("USER", true, false),
            ("LOGNAME", true, false),
            ("SHELL", true, false),
            ("TMPDIR", true, false),
            ("AWS_SECRET_ACCESS_KEY", false, false),
            ("AWS_PROFILE", false, false),
            ("MOTORPOOL_ADMIN_TOKEN", false, false),
            ("MOTORPOOL_SERVER_SECRET", false, false),
            ("GITHUB_TOKEN", false, false),
            ("SSH_AUTH_SOCK", false, false),
            ("DBUS_SESSION_BUS_ADDRESS", false, false),
            ("XDG_RUNTIME_DIR", false, false),
            ("https_proxy", false, false),
            ("LD_PRELOAD", false, false),
            ("NOTIFY_SOCKET", false, false),
            ("CREDENTIALS_DIRECTORY", false, false),
            ("path", false, false),
            ("XPATH", false, false),
            ("PATHX", false, false),
            ("", false, false),
        ] {
            assert_eq!(passes(OsStr::new(name), Whose::Agent), to_agent, "{name:?} to the agent's own");
            assert_eq!(passes(OsStr::new(name), Whose::Job), to_job, "{name:?} to a job");
        }
    }
}
