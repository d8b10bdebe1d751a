//! Whole jobs of a CI system that has hands of its own: its program is what `run_cmd` starts, its job calls the shipped hook, and leaves behind
//! whatever it can: files, and processes that no process group holds.
//!
//! The agent is not told of a user for its jobs here, as where it is not root: they have its own home and temporary directory, and what they leave
//! there is for the operator's commands to remove. `tests/tests/jobs_apart` has jobs with a user of their own.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use motorpool_control::store::Store;
use motorpool_domain::RunnerId;
use motorpool_domain::runner::{ProofKind, Runner, RunnerState};
use motorpool_ledger::sqlite::SqliteLedger;
use tempfile::TempDir;

use crate::gitlab::{Asked, GitLab};
use crate::machine::{Machine, PROGRAM};

/// Only something that hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

const POOLS: &str = r#"
refresh_seconds = 1
[pools.macs]
backend = "bare_metal"
dispatch = "hook"
clean = "reset"
cleanup_cmd = 'exec sh "$MOTORPOOL_RUNNER_DIR/../ci/clean.sh" cleanup'
reset_cmd = 'exec sh "$MOTORPOOL_RUNNER_DIR/../ci/clean.sh" reset'
readiness_cmd = 'test ! -e "$MOTORPOOL_WORK_DIR/left"'
run_cmd = 'exec sh "$MOTORPOOL_RUNNER_DIR/../ci/program.sh"'
heartbeat_seconds = 1
grace_seconds = 5
"#;

/// Takes one job after another from the pipe `jobs`, as a CI system's program does from its server.
const CI_PROGRAM: &str = r#"
ci=${0%/*}
while read -r job <"$ci/jobs"; do
    said=$(CI_JOB_ID=$job CI_PROJECT_ID=7 sh -e "$ci/gitlab-pre-build.sh") || continue
    checkpoint=${said##* }
    if CHECKPOINT=$checkpoint sh "$ci/job.sh"; then ended=success; else ended=failure; fi
    "$PROGRAM" checkpoint finalize --socket "$SOCKET" --checkpoint "$checkpoint" --status "$ended" --source hook
done
"#;

/// Cleans up nothing, and ends as the pipe `ends` says. Each of its processes has the pipe `told` open until it is dead.
const JOB: &str = r#"
ci=${0%/*}
exec 9>"$ci/told"
for place in "$MOTORPOOL_WORK_DIR" "$HOME" "$TMPDIR" "$ci/../tools"; do
    echo "of $CHECKPOINT" >"$place/left" || exit
done
stays='trap "" HUP INT TERM; echo $$ >>"$1/pids"; echo "$2 process" >&9; while :; do sleep 1000; done'
sh -c "$stays" job "$ci" background </dev/null >/dev/null 2>&1 &
setsid sh -c "$stays" job "$ci" setsid </dev/null >/dev/null 2>&1 &
echo "$CHECKPOINT" >&9
read -r ends <"$ci/ends"
[ "$ends" = success ]
"#;

/// What an operator's commands do: a cleanup removes what a job left, and a reset also what it installed.
const CLEAN: &str = r#"
set -eu
ci=${0%/*}
if [ -e "$ci/pids" ]; then
    while read -r pid; do
        if kill -0 "$pid" 2>/dev/null; then echo "process $pid was alive" >>"$ci/did"; fi
    done <"$ci/pids"
    rm "$ci/pids"
fi
find "$MOTORPOOL_WORK_DIR" "$HOME" "$TMPDIR" -mindepth 1 -delete
if [ "$1" = reset ]; then rm -f "$ci/../tools/left"; fi
echo "$1 in epoch $MOTORPOOL_EPOCH" >>"$ci/did"
"#;

const PLACES: [&str; 4] = ["agent/work/left", "home/left", "tmp/left", "tools/left"];

/// A machine with a CI system's program on it, clean and idle.
fn with_a_ci_program() -> Machine {
    with_a_ci_program_in(TempDir::new().unwrap(), POOLS, &[])
}

fn with_a_ci_program_in(dir: TempDir, pools: &str, about: &[&str]) -> Machine {
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("ci")).unwrap();
    fs::create_dir(at("tools")).unwrap();
    for pipe in ["ci/jobs", "ci/ends", "ci/told"] {
        assert!(Command::new("mkfifo").arg(at(pipe)).status().unwrap().success(), "mkfifo {pipe}");
    }
    let socket = at("agent/socket/agent.sock").display().to_string();
    fs::write(at("ci/program.sh"), format!("PROGRAM='{PROGRAM}'\nSOCKET='{socket}'\n{CI_PROGRAM}")).unwrap();
    fs::write(at("ci/job.sh"), JOB).unwrap();
    fs::write(at("ci/clean.sh"), CLEAN).unwrap();
    fs::write(at("ci/gitlab-pre-build.sh"), installed_hook("gitlab-pre-build.sh", &socket)).unwrap();
    let machine = Machine::ready_in(dir, pools, about);
    assert_eq!(machine.socket().display().to_string(), socket);
    machine
}

/// The shipped hook, with this machine's agent and socket where the usual ones stand.
fn installed_hook(name: &str, socket: &str) -> String {
    let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/hooks");
    let mut text = fs::read_to_string(hooks.join(name)).unwrap();
    for (variable, usual, here) in [
        ("AGENT", "/usr/local/bin/motorpool-agent", PROGRAM),
        ("SOCKET", "/run/motorpool/agent.sock", socket),
    ] {
        let usual = format!("\n{variable}={usual}\n");
        assert_eq!(text.matches(&usual).count(), 1, "{name} says once where the agent is");
        text = text.replace(&usual, &format!("\n{variable}='{here}'\n"));
    }
    text
}

/// A job that was dispatched to the machine, as it tells of itself.
struct Dispatched {
    lines: Receiver<String>,
    checkpoint: String,
}

impl Machine {
    /// Hands a line to whoever reads this pipe next.
    fn tell(&self, pipe: &str, line: &str) {
        let (path, line) = (self.path("ci").join(pipe), format!("{line}\n"));
        let (done, told) = channel();
        // To open it waits for its reader.
        thread::spawn(move || {
            let written =
                OpenOptions::new().write(true).open(path).and_then(|mut to| to.write_all(line.as_bytes()));
            done.send(written.is_ok())
        });
        let told = told.recv_timeout(PATIENCE);
        assert_eq!(told, Ok(true), "nobody reads {pipe}\n{}", self.logs());
    }

    /// Dispatches a job, and waits until it has its checkpoint and both of its processes run.
    fn dispatch(&self, job: &str) -> Dispatched {
        let path = self.path("ci/told");
        let (to, lines) = channel();
        thread::spawn(move || {
            let read = BufReader::new(File::open(path)?).lines();
            for line in read {
                let Ok(()) = to.send(line?) else { break };
            }
            Ok::<(), std::io::Error>(())
        });
        self.tell("jobs", job);
        let mut told = BTreeSet::new();
        while told.len() < 3 {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) => told.insert(line),
                Err(error) => panic!("{error}: job {job} told {told:?}\n{}", self.logs()),
            };
        }
        for process in ["background process", "setsid process"] {
            assert!(told.remove(process), "no {process}: {told:?}");
        }
        Dispatched { lines, checkpoint: told.pop_first().unwrap() }
    }

    /// Waits until none of the job's processes has its pipe open any more.
    fn until_all_are_dead(&self, job: &Dispatched) {
        let end = job.lines.recv_timeout(PATIENCE);
        assert_eq!(end, Err(RecvTimeoutError::Disconnected), "a process is left\n{}", self.logs());
    }

    fn until_checkpoint(&self, name: &str, state: &str) {
        let is = format!("is {state}");
        self.until(&format!("checkpoint {name} {is}"), |machine| {
            machine.hook(&["status", "--checkpoint", name]).1.contains(&is)
        });
    }

    /// What the operator's commands did, in order.
    fn cleaned(&self) -> Vec<String> {
        let did = fs::read_to_string(self.path("ci/did")).unwrap_or_default();
        did.lines().map(str::to_owned).collect()
    }

    fn left(&self) -> Vec<&'static str> {
        PLACES.into_iter().filter(|place| self.path(place).exists()).collect()
    }

    /// As the ledger has it.
    fn record(&self) -> Runner {
        let copy = self.copy_of_ledger();
        let read = async {
            let store = Store::new(Arc::new(SqliteLedger::open(copy.path()).unwrap()));
            store.runner(&RunnerId::parse("mac-01").unwrap()).await.unwrap().unwrap()
        };
        tokio::runtime::Runtime::new().unwrap().block_on(read)
    }

    /// In this epoch, by this task, which its record names.
    fn is_proven_clean(&self, epoch: u64, how: ProofKind, task: &str) {
        let Runner { state, epoch: found, proof, checkpoint, .. } = self.record();
        let proof = proof.unwrap();
        let by = proof.task.map(|task| task.to_string());
        assert_eq!((state, found.0, proof.how), (RunnerState::Idle, epoch, how));
        assert_eq!((by.as_deref(), checkpoint), (Some(task), None));
        let log = self.operator(&["audit", "mac-01"]);
        let idle = format!("idle@{epoch}");
        let mut ends = log["entries"].as_array().unwrap().iter().filter(|entry| entry["to"] == *idle);
        assert!(ends.any(|entry| entry["result"] == "ok" && entry["duration_ms"].is_u64()), "{log}");
    }
}

impl Machine {
    /// Of two jobs, and the machine's joining: the figures, and the log's lines, under the names that an operator's own tools may rely on.
    fn has_measured_what_it_did(&self) {
        let figures = self.figures();
        let of = |step: &str, count: u32| {
            format!("motorpool_{step}_count{{backend_type=\"bare_metal\",result=\"ok\"}} {count}")
        };
        for expected in [
            of("checkpoint_create_duration_seconds", 2),
            of("reset_duration_seconds", 2),
            of("checkpoint_delete_duration_seconds", 1),
            of("readiness_duration_seconds", 3),
            "motorpool_finalize_source_total{finalize_source=\"hook\"} 2".to_owned(),
            "motorpool_finalize_source_total{finalize_source=\"gc\"} 0".to_owned(),
            "motorpool_pending_checkpoints_count{pool=\"macs\"} 0".to_owned(),
        ] {
            assert!(figures.lines().any(|line| line == expected), "{expected}\n{figures}");
        }
        let log = fs::read_to_string(self.path("serve.log")).unwrap();
        for name in [
            "checkpoint_create_duration_seconds",
            "reset_duration_seconds",
            "checkpoint_delete_duration_seconds",
            "readiness_duration_seconds",
            "finalize_source",
            "backend_type",
            "pending_checkpoints_count",
        ] {
            assert!(log.contains(name), "{name}\n{log}");
        }
    }
}

#[test]
fn what_a_job_leaves_behind_is_gone_and_proven_to_be_after_a_failure_and_after_a_success() {
    let machine = with_a_ci_program();
    let shown = |field: &str| machine.operator(&["runners", "show", "mac-01"])[field].clone();
    assert_eq!(machine.cleaned(), ["reset in epoch 2"], "a machine that joins is reset first");
    machine.is_proven_clean(2, ProofKind::Reset, "2-reset-1");

    let failed = machine.dispatch("42");
    assert!(failed.checkpoint.starts_with("job-42-"), "{}", failed.checkpoint);
    assert_eq!(machine.left(), PLACES, "as far as this layout allows");
    assert_eq!((shown("state"), shown("epoch")), ("running".into(), 2.into()));
    machine.until_checkpoint(&failed.checkpoint, "created");
    machine.tell("ends", "failure");
    machine.until_all_are_dead(&failed);
    machine.until_checkpoint(&failed.checkpoint, "reset");
    assert_eq!(machine.cleaned(), ["reset in epoch 2", "reset in epoch 3"]);
    assert!(machine.left().is_empty(), "{:?}", machine.left());
    assert_eq!((shown("state"), shown("epoch")), ("idle".into(), 3.into()));
    assert_eq!(shown("proof"), "its reset succeeded");
    machine.is_proven_clean(3, ProofKind::Reset, "3-reset-1");

    let went_well = machine.dispatch("43");
    machine.tell("ends", "success");
    machine.until_all_are_dead(&went_well);
    machine.until_checkpoint(&went_well.checkpoint, "deleted");
    assert_eq!(machine.cleaned(), ["reset in epoch 2", "reset in epoch 3", "cleanup in epoch 4"]);
    assert_eq!(machine.left(), ["tools/left"], "what it installed, a cleanup leaves there");
    assert_eq!((shown("state"), shown("epoch")), ("idle".into(), 4.into()));
    assert_eq!(shown("proof"), "its cleanup succeeded");
    machine.is_proven_clean(4, ProofKind::Cleanup, "4-cleanup-1");
    assert_ne!(went_well.checkpoint, failed.checkpoint);
    machine.has_measured_what_it_did();
}

/// With GitLab behind its API: what it is told and asked, in the order of what is done on the machine.
#[test]
fn inv_30_gitlab_is_paused_before_a_machine_is_cleaned_and_not_unpaused_before_it_is_clean() {
    let dir = TempDir::new().unwrap();
    let gitlab = GitLab::start(dir.path().join("ci/did"));
    let token = dir.path().join("gitlab-token");
    fs::write(&token, "glpat-for-tests-only").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let (url, ci) = (&gitlab.url, "ci = { system = \"gitlab\", scope = \"groups/7\" }");
    let own = "[gitlab]\nurl = \"URL\"\ntoken_file = \"gitlab-token\"\n[pools.macs]\n".replace("URL", url);
    let pools = format!("{}poll_seconds = 1\n{ci}\n", POOLS.replace("[pools.macs]\n", &own));
    let machine = with_a_ci_program_in(dir, &pools, &["--ci-runner", "11"]);
    let joined = gitlab.asked();
    assert_eq!(machine.cleaned(), ["reset in epoch 2"]);

    let job = machine.dispatch("42");
    machine.tell("ends", "failure");
    // The hook has said that it is over. GitLab says that it runs, and that counts.
    machine.until("GitLab was asked about it", |_| {
        gitlab.asked().iter().skip(joined.len()).any(|asked| asked.what == "job")
    });
    assert_eq!(machine.cleaned(), ["reset in epoch 2"], "its artifacts may still be on their way");
    gitlab.job_is_over("42", "failed");
    machine.until_all_are_dead(&job);
    machine.until_checkpoint(&job.checkpoint, "reset");
    machine.until("it is brought jobs again", |_| {
        gitlab.asked().last().is_some_and(|asked| asked.what == "unpaused")
    });
    let asked: Vec<Asked> = gitlab.asked().split_off(joined.len());
    let cleaned_at = |what: &str| -> BTreeSet<usize> {
        asked.iter().filter(|asked| asked.what == what).map(|asked| asked.cleaned).collect()
    };
    assert_eq!(asked.first().map(|asked| asked.what), Some("paused"), "{asked:?}");
    assert_eq!(cleaned_at("paused"), BTreeSet::from([1]), "{asked:?}");
    assert_eq!(cleaned_at("job"), BTreeSet::from([1]), "after the pause, and before the reset: {asked:?}");
    assert_eq!(cleaned_at("unpaused"), BTreeSet::from([2]), "{asked:?}");
    machine.is_proven_clean(3, ProofKind::Reset, "3-reset-1");
}
