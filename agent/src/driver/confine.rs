//! Tries, before there is any job, how far jobs can be held on this host, and closes the metadata service to them. What is not possible
//! is said once; without a user of their own nothing begins.

use std::collections::BTreeMap;
use std::time::Duration;

use super::AgentError;
use crate::guard;
use crate::home::Home;
use crate::identity::sha256_hex;
use crate::jobs::{Jobs, JobsError};
use crate::work::{End, Order, Outcome, RunAs, SupervisorCommand};

/// A job that does nothing but to look at what it has.
const TRIAL: &str = r#"test -w . && test -w "$HOME" && test -w "$TMPDIR""#;
const TRIAL_TIMEOUT: Duration = Duration::from_secs(20);

/// The same directory and jobs, as they can be held here.
pub(super) async fn settle(
    home: Home,
    jobs: Option<Jobs>,
    supervisor: &SupervisorCommand,
    owner: &str,
) -> Result<(Home, Option<Jobs>), AgentError> {
    let Some(jobs) = jobs else { return Ok((home, None)) };
    match guard::close_metadata(jobs.guarded).await {
        Ok(()) => {}
        // There it has the credentials of the machine's role.
        Err(why) if jobs.on_ec2 => return Err(AgentError::MetadataOpen(why)),
        Err(why) => tracing::warn!(why, "should this host have a metadata service, its jobs can reach it"),
    }
    let Err(why) = trial(&home, &jobs, supervisor, owner).await? else {
        tracing::info!(
            user = jobs.user.name,
            uid = jobs.user.uid,
            "jobs run as a user of their own, in a sandbox"
        );
        return Ok((home, Some(jobs)));
    };
    tracing::warn!(
        why,
        user = jobs.user.name,
        uid = jobs.user.uid,
        "this host allows no sandbox: jobs run as a user of their own, and see all files that are open to everybody"
    );
    let name: String = sha256_hex(home.dir()).chars().take(16).collect();
    let home = home.within_reach(&name).map_err(JobsError::Directories)?;
    let jobs = jobs.without_sandbox();
    match trial(&home, &jobs, supervisor, owner).await? {
        Ok(()) => Ok((home, Some(jobs))),
        Err(why) => Err(JobsError::CannotRun { user: jobs.user.name, why }.into()),
    }
}

async fn trial(
    home: &Home,
    jobs: &Jobs,
    supervisor: &SupervisorCommand,
    owner: &str,
) -> Result<Result<(), String>, AgentError> {
    home.make_job_dirs(jobs.user.uid, jobs.user.gid, jobs.sandboxed).map_err(JobsError::Directories)?;
    jobs.write_passwd(home).map_err(JobsError::Directories)?;
    let order = Order {
        owner: owner.to_owned(),
        script: TRIAL.to_owned(),
        env: environment(home, jobs),
        cwd: home.work_dir(),
        run_as: RunAs::Job(jobs.confinement(home)),
        timeout: Some(TRIAL_TIMEOUT),
        fence_at: None,
        log_path: None,
    };
    Ok(match supervisor.start(order).await {
        Ok(work) => match work.outcome().await {
            Outcome { end: End::Exited { code: 0 }, .. } => Ok(()),
            Outcome { end, output, .. } => Err(format!("a trial {end} {output}").trim_end().to_owned()),
        },
        Err(error) => Err(error.to_string()),
    })
}

/// Whose a job is, in the words of its environment.
pub(super) fn environment(home: &Home, jobs: &Jobs) -> BTreeMap<String, String> {
    let text = |path: std::path::PathBuf| path.to_string_lossy().into_owned();
    let tmp = if jobs.sandboxed { "/tmp".to_owned() } else { text(home.job_tmp_dir()) };
    [
        ("HOME", text(home.job_home_dir())),
        ("USER", jobs.user.name.clone()),
        ("LOGNAME", jobs.user.name.clone()),
        ("SHELL", "/bin/sh".to_owned()),
        ("TMPDIR", tmp.clone()),
        ("MOTORPOOL_JOB_DIR", tmp),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::JobArgs;
    use crate::work::{Confinement, Sandbox};
    use clap::Parser;
    use std::path::{Path, PathBuf};

    #[derive(Parser)]
    struct Given {
        #[command(flatten)]
        jobs: JobArgs,
    }

    /// Only root has jobs of other users.
    #[test]
    fn refuse_21_a_job_has_a_home_of_its_own_and_sees_nothing_of_the_agents_and_serves() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(dir.path()).unwrap();
        let Given { jobs } = Given::parse_from(["agent", "--job-uid", "50323", "--hide", "/srv/serve"]);
        let jobs = Jobs::of(&jobs, &home, false).unwrap().unwrap();
        let of_job = environment(&home, &jobs);
        let its_home = of_job.get("HOME").map(PathBuf::from).unwrap();
        assert_eq!(its_home, home.job_home_dir());
        assert_eq!(of_job.get("TMPDIR").map(String::as_str), Some("/tmp"));
        assert_eq!(of_job.get("USER").map(String::as_str), Some("job-50323"));
        let Confinement { uid, gid, groups, may_gain_privileges, sandbox } = jobs.confinement(&home);
        assert_eq!((uid, gid, groups, may_gain_privileges), (50_323, 50_323, Vec::new(), false));
        let Sandbox { hidden, shown, .. } = sandbox.unwrap();
        assert_eq!(hidden, [Path::new(home.dir()), Path::new("/srv/serve")]);
        assert!(!shown.iter().any(|path| hidden.contains(path)), "{shown:?}");
    }
}
