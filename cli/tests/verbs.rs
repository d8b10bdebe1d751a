//! The operator's verbs against a real `serve` with real local runners, as a person would use them one after another.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers too"
)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_motorpool");

/// Short lives: whatever a failed test leaves behind ends itself soon.
const POOLS: &str = r#"
refresh_seconds = 1
[teams.web]
token_sha256 = ["SHA256"]
[pools.small]
backend = "local"
trusted = true
max = 2
heartbeat_seconds = 1
idle_seconds = 30
grace_seconds = 5
[pools.macs]
backend = "bare_metal"
clean = "keep"
"#;

struct Served {
    dir: TempDir,
    serve: Child,
    server: String,
    team_token: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        // The runners of a test that failed end by their own thresholds.
        let _ = self.serve.kill();
        let _ = self.serve.wait();
    }
}

impl Served {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let made = Command::new(PROGRAM).args(["token", "--json"]).output().unwrap();
        let made: Value = serde_json::from_slice(&made.stdout).unwrap();
        let pools = POOLS.replace("SHA256", made["token_sha256"].as_str().unwrap());
        std::fs::write(dir.path().join("pools.toml"), pools).unwrap();
        let mut serve = clean_command(dir.path())
            .args(["serve", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(serve.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let server =
            line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line:?}")).to_owned();
        Self { dir, serve, server, team_token: made["token"].as_str().unwrap().to_owned() }
    }

    fn run(&self, args: &[&str]) -> Output {
        clean_command(self.dir.path()).env("MOTORPOOL_SERVER", &self.server).args(args).output().unwrap()
    }

    fn run_as_team(&self, args: &[&str]) -> Output {
        clean_command(self.dir.path())
            .env("MOTORPOOL_SERVER", &self.server)
            .env("MOTORPOOL_TOKEN", &self.team_token)
            .args(args)
            .output()
            .unwrap()
    }

    fn says(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.says(&[args, &["--json"]].concat())).unwrap()
    }
}

fn clean_command(dir: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    for name in ["MOTORPOOL_SERVER", "MOTORPOOL_TOKEN", "MOTORPOOL_ADMIN_TOKEN", "MOTORPOOL_CA_FILE"] {
        command.env_remove(name);
    }
    command.current_dir(dir);
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn an_operators_day() {
    let served = Served::start();

    let ready = served.json(&[
        "provision",
        "--pool",
        "small",
        "--workflow",
        "gh-1",
        "--count",
        "2",
        "--timeout",
        "60",
    ]);
    assert_eq!(
        (ready["state"].as_str(), ready["runners"].as_array().map(Vec::len)),
        (Some("ready"), Some(2))
    );
    let claim = ready["claim"].as_str().unwrap();

    // The pool is full now: the next one waits, and its waiter is told why and how it goes on.
    let waits = served.run(&["provision", "--pool", "small", "--workflow", "gh-2", "--timeout", "1"]);
    assert_eq!(waits.status.code(), Some(1));
    assert!(stderr(&waits).contains("still waits after"), "{}", stderr(&waits));
    assert!(stderr(&waits).contains("motorpool release --workflow gh-2 --pool small"), "{}", stderr(&waits));
    assert_eq!(served.json(&["release", "--workflow", "gh-2"])["state"], "released");

    let pools = served.says(&["pools"]);
    assert!(pools.lines().any(|line| line.starts_with("small") && line.contains("2/2")), "{pools}");
    assert_eq!(served.json(&["pools", "show", "small"])["max"], 2);
    assert_eq!(served.json(&["runners"])["runners"].as_array().unwrap().len(), 2);
    assert!(served.says(&["claims"]).contains(claim));
    assert!(served.says(&["claims", "show", claim]).contains("gh-1 of operator"));
    for subject in [claim, "gh-1"] {
        let story = served.says(&["why", subject]);
        assert!(story.starts_with(&format!("claim {claim} is ready")), "{story}");
        assert!(story.contains("What happened:"), "{story}");
    }
    assert!(served.says(&["audit", claim]).contains("operator"));
    assert_eq!(served.json(&["refresh", "--sweep"])["swept"], true);

    let doctor = served.says(&["doctor"]);
    assert!(doctor.contains("is the operator's"), "{doctor}");
    assert!(served.says(&["release", "--workflow", "gh-1"]).contains(claim));

    for runner in served.json(&["runners"])["runners"].as_array().unwrap() {
        served.says(&["runners", "remove", runner["runner"].as_str().unwrap(), "--force"]);
    }
}

#[test]
fn a_machine_of_ones_own_joins_and_leaves() {
    let served = Served::start();
    let added =
        served.says(&["runners", "add", "mac-01", "--pool", "macs", "--cpu", "8", "--memory-mb", "16384"]);
    assert!(added.contains("mp_launch_") && added.contains("--runner mac-01"), "{added}");
    assert!(served.says(&["runners", "show", "mac-01"]).contains("8 CPUs, 16384 MB"));
    assert!(served.says(&["runners", "token", "mac-01"]).contains("mp_launch_"));
    let refused = served.run(&["runners", "release", "mac-01", "--json"]);
    assert_eq!(refused.status.code(), Some(1));
    let error: Value = serde_json::from_slice(&refused.stderr).unwrap();
    assert_eq!(error["error"]["code"], "conflict");
    served.says(&["runners", "remove", "mac-01"]);
    assert!(served.says(&["audit", "mac-01"]).contains("an operator removed it"));
}

#[test]
fn pools_are_defined_from_a_file_and_planned_before() {
    let served = Served::start();
    let file = served.dir.path().join("more.toml");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    let apply = ["pools", "apply", file.to_str().unwrap()];
    let dry_run = [&apply[..], &["--dry-run"]].concat();
    write(
        "[resource_classes]\nlarge = { cpu = 1, memory_mb = 64 }\n[pools.more]\nbackend = \"local\"\nmax = 3\nresource_class = \"large\"\n",
    );

    let plan = served.says(&dry_run);
    assert!(plan.starts_with("pool more: at most 3 runners, none kept idle\nIt is new.\n"), "{plan}");
    assert!(plan.trim_end().ends_with("Nothing was changed."), "{plan}");
    assert_eq!(served.json(&dry_run)["plans"][0]["rungs"][0]["cpu"], 1);
    assert_eq!(served.run(&["pools", "show", "more"]).status.code(), Some(1), "it was only planned");

    assert!(served.says(&apply).contains("pool more is defined: local, at most 3 runners, none kept idle"));
    assert_eq!(served.json(&["pools", "show", "more"])["source"], "api");
    write("[pools.more]\nbackend = \"local\"\nmax = 4\n");
    let plan = served.says(&dry_run);
    assert!(plan.contains("It is there already, and would change: max 3 → 4."), "{plan}");
    assert_eq!(served.json(&apply)["pools"][0]["max"], 4);

    // What may hold, but hardly is meant, is told before and after.
    write("[pools.more]\nbackend = \"local\"\nheartbeat_seconds = 60\ngrace_seconds = 60\n");
    let told = "grace_seconds is 60, but a refresh (every 1 s) and a heartbeat (every 60 s) may take 61 s";
    for args in [&dry_run[..], &apply[..], &["pools"], &["doctor"]] {
        assert!(served.says(args).contains(told), "{args:?}: {}", served.says(args));
    }

    // One of the server's own is refused; what came before it is done, and told.
    write("[pools.another]\nbackend = \"local\"\n[pools.small]\nbackend = \"local\"\n");
    assert!(served.says(&dry_run).contains("this would be refused"));
    let refused = served.run(&apply);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stdout).contains("pool another is defined"), "{refused:?}");
    assert!(
        stderr(&refused).contains("pool small: pool small is defined in the pools file"),
        "{}",
        stderr(&refused)
    );

    // Where a pool's machines are, stays while there are any.
    served.says(&["provision", "--pool", "more", "--workflow", "gh-1", "--no-wait"]);
    write("[pools.more]\nbackend = \"bare_metal\"\nclean = \"keep\"\n");
    let plan = served.says(&dry_run);
    assert!(
        plan.contains("this would be refused now: pool more has 1 runner with the backend local"),
        "{plan}"
    );
    let refused = served.run(&apply);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        stderr(&refused).contains("pool more has 1 runner with the backend local"),
        "{}",
        stderr(&refused)
    );
    assert!(stderr(&refused).contains("remove its runners"), "{}", stderr(&refused));
    assert_eq!(served.json(&["pools", "show", "more"])["backend"], "local");
    served.says(&["release", "--workflow", "gh-1"]);

    // What this server can't do, it says itself.
    write("[pools.small]\nbackend = \"qemu\"\n");
    assert_eq!(served.run(&dry_run).status.code(), Some(1));
}

#[test]
fn the_doctor_looks_at_a_pools_file_as_well() {
    let served = Served::start();
    let told = served.says(&["doctor", "--pools", "pools.toml"]);
    assert!(told.contains("pools.toml is sound, with 2 pools"), "{told}");
    std::fs::write(served.dir.path().join("wrong.toml"), "[gitlab]\nurl = \"https://gitlab.com\"\n").unwrap();
    let wrong = served.run(&["doctor", "--pools", "wrong.toml"]);
    assert_eq!(wrong.status.code(), Some(1));
    let told = String::from_utf8_lossy(&wrong.stdout).into_owned();
    assert!(told.contains("FAIL  wrong.toml:1: gitlab.token_file: is missing"), "{told}");
}

#[test]
fn a_team_sees_what_is_its_own_and_is_told_what_is_not() {
    let served = Served::start();
    let doctor = served.run_as_team(&["doctor"]);
    assert!(String::from_utf8_lossy(&doctor.stdout).contains("the token from $MOTORPOOL_TOKEN is a team's"));
    let empty = served.run_as_team(&["claim", "--pool", "small", "--workflow", "gh-1"]);
    assert_eq!(empty.status.code(), Some(1));
    assert!(stderr(&empty).contains("pool empty"), "{}", stderr(&empty));
    let refused = served.run_as_team(&["refresh"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("admin token"), "{}", stderr(&refused));
    let unknown = served.run_as_team(&["why", "gh-77"]);
    assert!(stderr(&unknown).contains("no claim of a workflow gh-77"), "{}", stderr(&unknown));
}

#[test]
fn without_the_right_token_nothing_opens() {
    let served = Served::start();
    let elsewhere = tempfile::tempdir().unwrap();
    let mut command = clean_command(elsewhere.path());
    let without = command.args(["pools", "--server", &served.server]).output().unwrap();
    assert_eq!(without.status.code(), Some(1));
    assert!(stderr(&without).contains("hint: no token was sent"), "{}", stderr(&without));
    let wrong = command.env("MOTORPOOL_TOKEN", "mp_team_wrong").output().unwrap();
    assert!(stderr(&wrong).contains("the token is from $MOTORPOOL_TOKEN"), "{}", stderr(&wrong));
    assert!(!stderr(&wrong).contains("mp_team_wrong"), "{}", stderr(&wrong));
}

/// A machine whose hooks call the API themselves: its token is shown once, and what is said of it may change.
#[test]
fn a_machine_with_a_token_of_its_own() {
    let served = Served::start();
    let pool = "[pools.plain]\nbackend = \"bare_metal\"\ndispatch = \"hook\"\nclean = \"keep\"\n";
    std::fs::write(served.dir.path().join("plain.toml"), pool).unwrap();
    served.says(&["pools", "apply", "plain.toml"]);
    let text = served.says(&["runners", "add", "vm-07", "--pool", "plain", "--with-token"]);
    let token = text.split_whitespace().find(|word| word.starts_with("mp_runner_")).unwrap();
    assert!(
        text.starts_with("runner vm-07 is registered with pool plain. Its token, shown only now:"),
        "{text}"
    );
    assert!(text.contains("/api/v1/checkpoint/create"), "{text}");

    let again = served.run(&["runners", "add", "vm-07", "--pool", "plain", "--token"]);
    assert!(!again.status.success() && stderr(&again).contains("there is a runner vm-07 already"));
    let elsewhere = served.run(&["runners", "add", "vm-08", "--pool", "macs", "--token"]);
    assert!(stderr(&elsewhere).contains("dispatch = \"hook\""), "{}", stderr(&elsewhere));

    let shown = served.says(&["runners", "show", "vm-07"]);
    assert!(shown.contains("idle for") && !shown.contains(token), "{shown}");
    let set = served.says(&["runners", "set", "vm-07", "--reset-cmd", "reset.sh", "--ci-runner", "42"]);
    assert!(set.contains("reset.sh") && set.contains("42"), "{set}");
    let unset = served.says(&["runners", "set", "vm-07", "--reset-cmd", ""]);
    assert!(!unset.contains("reset.sh") && unset.contains("42"), "{unset}");
    let nothing = served.run(&["runners", "set", "vm-07"]);
    assert_eq!(nothing.status.code(), Some(2), "{}", stderr(&nothing));

    let renewed = served.json(&["runners", "token", "vm-07"]);
    assert!(renewed["token"].as_str().unwrap() != token && renewed.get("bootstrap_secret").is_none());
    served.says(&["runners", "remove", "vm-07"]);
    assert_eq!(served.says(&["runners", "--pool", "plain"]).trim(), "There are no such runners.");
    let all = served.json(&["runners", "--pool", "plain", "--all"]);
    assert_eq!(
        (&all["runners"][0]["runner"], &all["runners"][0]["active"]),
        (&"vm-07".into(), &false.into())
    );
}
