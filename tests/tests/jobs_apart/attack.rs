//! A job that looks for secrets wherever one could be, and then does what jobs do. It says all that it found, and the test looks through that.

use anyhow::{Result, ensure};
use motorpool_tests::harness::wait::until;
use std::fs;
use std::path::PathBuf;

/// What the pool runs: it waits for what it is to do.
pub(crate) const JOB: &str = "until [ -e go ]; do sleep 0.05; done; sh ./go > report 2>&1; mv report reported; while [ -e go ]; do sleep 0.05; done; sleep 7000";

/// Files by name, whatever can be found, processes by number and by sight, traces, signals, the metadata service.
const LOOK: &str = r#"
for file in $FILES; do echo "-- $file"; cat "$file"; ls -la "$(dirname "$file")"; done
find / -xdev \( -name state.json -o -name 'admin-token*' -o -name server-secret -o -name github-token -o -name launch-secret \) \
    -exec cat {} + 2>/dev/null
for process in $PROCESSES /proc/[0-9]*; do
    process=${process##*/}
    for part in environ cmdline maps; do tr '\0' '\n' <"/proc/$process/$part"; done
    cat "/proc/$process/root$AGENT_DIR/state.json" "/proc/$process/cwd/state.json"
    dd if="/proc/$process/mem" bs=4096 skip=1048576 count=1 status=none
done
for process in $PROCESSES; do
    for signal in 0 STOP TERM KILL; do kill -$signal "$process" && echo "SIGNALLED $process"; done
done
echo "-- environment"; env
echo "-- metadata"; curl --silent --show-error --max-time 5 --output /dev/null http://169.254.169.254/ && echo "METADATA ANSWERED"
"#;

const WORK: &str = r#"
echo "-- work"
id
grep NoNewPrivs /proc/self/status
echo a >file && mkdir -p sub && cp file sub/ && echo "can write its work directory"
echo b >"$HOME/made" && cd "$HOME" && cd - >/dev/null && echo "can write its home"
echo c >"${TMPDIR:-/tmp}/made" && mktemp >/dev/null && echo "can write its temporary directory"
git -c init.defaultBranch=main init -q repository && cd repository && echo x >x && git add x &&
    git -c user.name=job -c user.email=job@example.org commit -q -m one && git log --oneline | grep -q one && echo "can use git"
cd ..
command -v whoami >/dev/null && whoami
sh -c 'exit 3'; [ $? = 3 ] && (sleep 0.01 & wait) && echo "can run programs"
su -c id root </dev/null; sudo -n id
"#;

pub(crate) struct Attack {
    /// Where the job's `work/` is.
    pub(crate) agent_dir: PathBuf,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) processes: Vec<i32>,
    pub(crate) canaries: Vec<String>,
}

impl Attack {
    pub(crate) async fn made(&self) -> Result<String> {
        self.made_with("").await
    }

    /// All that the job said, in which there is no secret, and which shows that the job works.
    pub(crate) async fn made_with(&self, more: &str) -> Result<String> {
        let Self { agent_dir, files, processes, canaries } = self;
        let words = |all: Vec<String>| all.join(" ");
        let script = format!(
            "FILES='{}'\nPROCESSES='{}'\nAGENT_DIR='{}'\n{LOOK}{WORK}{more}",
            words(files.iter().map(|file| file.display().to_string()).collect()),
            words(processes.iter().map(i32::to_string).collect()),
            agent_dir.display(),
        );
        let work = agent_dir.join("work");
        fs::write(work.join("go.new"), script)?;
        fs::set_permissions(work.join("go.new"), std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
        fs::rename(work.join("go.new"), work.join("go"))?;
        let reported = work.join("reported");
        until("the job has done its worst", async || Ok(reported.exists().then_some(()))).await?;
        let report = String::from_utf8_lossy(&fs::read(&reported)?).into_owned();
        for canary in canaries {
            ensure!(
                canary.len() > 10 && !report.contains(canary.as_str()),
                "the job found {canary}:\n{report}"
            );
        }
        for worst in ["SIGNALLED", "METADATA ANSWERED", "uid=0("] {
            ensure!(!report.contains(worst), "{worst}:\n{report}");
        }
        for works in [
            "NoNewPrivs:\t1",
            "can write its work directory",
            "can write its home",
            "can write its temporary directory",
            "can use git",
            "can run programs",
        ] {
            ensure!(report.contains(works), "the job does not work: {works}\n{report}");
        }
        Ok(report)
    }
}
