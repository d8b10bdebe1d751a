//! Pools files that do, and those that don't, with the very words that their writers get.

use super::*;
use motorpool_domain::claim::TeamLimits;
use motorpool_domain::pool::{BackendKind, Clean};

/// As in the design, with everything else that a file can have.
const EXAMPLE: &str = r#"
refresh_seconds = 10
sweep_seconds = 60

[resource_classes]
large = { cpu = 4, memory_mb = 8192 }

[teams.web]
token_sha256 = ["00000000000000000000000000000000000000000000000000000000000000ff"]
max_slots = 20

[pools.small]
teams = ["web"]
backend = "local"                    # local | ec2 | proxmox | qemu | bare_metal
dispatch = "claim"                   # claim | hook | lease
clean = "cleanup"                    # replace | reset | cleanup | keep
max = 100
min_idle = 0
idle_minutes = 5                     # every *_minutes also as *_seconds, for short lives in tests
created_minutes = 10
claimed_minutes = 2
wait_minutes = 15                    # how long a claim may stay pending
releasing_minutes = 5
max_runtime_minutes = 30
heartbeat_seconds = 15

[pools.macs]
backend = "bare_metal"
cleanup_cmd = "rm -rf work"
idle_seconds = 7
cpu = 8
memory_mb = 16384
"#;

const BUILT_IN: &str = if pools::EC2_IS_BUILT_IN {
    "\"local\", \"bare_metal\" and \"ec2\""
} else {
    "\"local\" and \"bare_metal\""
};

#[test]
fn the_designs_example_is_read() {
    let file = parse(EXAMPLE, "pools.toml", Path::new("")).unwrap();
    assert_eq!((file.refresh, file.sweep), (Duration::from_secs(10), Duration::from_secs(60)));
    assert_eq!(file.resource_classes["large"], Spec { cpu: 4, memory_mb: 8192 });
    let mut token = [0; 32];
    token[31] = 0xff;
    let web = Owner::parse("web").unwrap();
    assert_eq!(file.teams[&web], [token]);
    let limits = TeamLimits { max_slots: Some(20), ..TeamLimits::default() };
    assert_eq!(file.team_limits[&web], limits);
    assert_eq!(file.pools[&PoolName::parse("small").unwrap()].teams, [web]);
    let small = &file.pools[&PoolName::parse("small").unwrap()];
    assert_eq!((small.backend, small.clean, small.max), (BackendKind::Local, Clean::Cleanup, 100));
    assert_eq!(small.offer.spec, host_spec());
    let macs = &file.pools[&PoolName::parse("macs").unwrap()];
    assert_eq!(macs.limits.idle, Duration::from_secs(7));
    assert_eq!(macs.offer.spec, Spec { cpu: 8, memory_mb: 16384 });
}

#[test]
fn an_empty_file_has_defaults_and_no_pools() {
    let file = parse("", "pools.toml", Path::new("")).unwrap();
    assert_eq!((file.refresh, file.sweep), (Duration::from_secs(30), Duration::from_secs(300)));
    assert!(file.pools.is_empty() && file.teams.is_empty());
}

#[test]
fn each_mistake_is_named_with_its_line_and_what_is_allowed() {
    let sha256 = "0".repeat(64);
    let shared =
        format!("[teams.a]\ntoken_sha256 = [\"{sha256}\"]\n[teams.b]\ntoken_sha256 = [\n  \"{sha256}\",\n]");
    let operator = format!("[teams.operator]\ntoken_sha256 = [\"{sha256}\"]");
    for (text, expected) in [
        // What is no TOML.
        ("refresh_seconds = \n", "p:1: string values must be quoted, expected literal string"),
        ("[pools.small]\nbackend = \"local\"\nbackend = \"local\"", "p:3: duplicate key"),
        // Keys that nobody knows.
        ("refresh_second = 30", "p:1: refresh_second: unknown key; did you mean refresh_seconds?"),
        (
            "x = 1",
            "p:1: x: unknown key; known are refresh_seconds, sweep_seconds, resource_classes, teams, github, gitlab, jenkins, alerts, pools",
        ),
        (
            "[pools.small]\nbackend = \"local\"\n\nidle_minute = 5",
            "p:4: pools.small.idle_minute: unknown key; did you mean idle_minutes?",
        ),
        (
            "[pools.small]\nbackend = \"local\"\nidle = 5",
            "p:3: pools.small.idle: unknown key; did you mean idle_minutes?",
        ),
        (
            "[resource_classes]\nlarge = { cpu = 4, memory = 8192 }",
            "p:2: resource_classes.large.memory: unknown key; did you mean memory_mb?",
        ),
        ("[teams.web]\ntoken = []", "p:2: teams.web.token: unknown key; did you mean token_sha256?"),
        // Keys that are needed.
        ("[pools.small]\nmax = 1", "p:1: pools.small.backend: is missing"),
        ("\n[resource_classes]\nlarge = { cpu = 4 }", "p:3: resource_classes.large.memory_mb: is missing"),
        ("[teams.web]", "p:1: teams.web.token_sha256: is missing"),
        (
            "[teams.web]\ntoken_sha256 = []\nmax_slots = 0",
            "p:3: teams.web.max_slots: must be from 1 to 100000",
        ),
        (
            "[teams.web]\ntoken_sha256 = []\nmax_claims = 1",
            "p:3: teams.web.max_claims: unknown key; known are token_sha256, max_open_claims, max_slots, max_requests_at_once",
        ),
        (
            "[teams.web]\ntoken_sha256 = []\n[pools.small]\nbackend = \"local\"\nteams = [\"web\", \"ops\"]",
            "p:5: pools.small.teams: there is no team ops: the file has no table [teams.ops]",
        ),
        (
            "[pools.small]\nbackend = \"local\"\nteams = []",
            "p:3: pools.small.teams: must name a team; without it, all may use the pool",
        ),
        (
            "[teams.web]\ntoken_sha256 = []\n[pools.small]\nbackend = \"local\"\nteams = [\"web\", \"web\"]",
            "p:5: pools.small.teams: names web twice; leave one out",
        ),
        // Values of the wrong kind.
        (
            "refresh_seconds = \"30\"",
            "p:1: refresh_seconds: invalid type: string \"30\", expected a whole number, 0 or above",
        ),
        (
            "[pools.small]\nbackend = \"local\"\nmax = -1",
            "p:3: pools.small.max: invalid value: integer `-1`, expected a whole number, 0 or above",
        ),
        (
            "[pools.small]\nbackend = \"lokal\"",
            "p:2: pools.small.backend: unknown variant `lokal`, expected one of `local`, `ec2`, `proxmox`, `qemu`, `bare_metal`",
        ),
        (
            "[teams.web]\ntoken_sha256 = \"00\"",
            "p:2: teams.web.token_sha256: invalid type: string \"00\", expected a list, [\"…\"]",
        ),
        ("pools = 3", "p:1: pools: must be a table, such as [pools.small]"),
        ("[pools]\nsmall = 3", "p:2: pools.small: must be a table, such as { … }"),
        // Values that can't be.
        ("sweep_seconds = 0", "p:1: sweep_seconds: must be from 1 to 86400, is 0"),
        (
            "[resource_classes]\nlarge = { cpu = 0, memory_mb = 1 }",
            "p:2: resource_classes.large.cpu: must be above 0",
        ),
        (
            "[teams.web]\ntoken_sha256 = [\n  \"0\",\n]",
            "p:3: teams.web.token_sha256: must be 64 hexadecimal digits; `motorpool token` prints a token and the line for it",
        ),
        (&shared, "p:5: teams.b.token_sha256: is also a token of team a; make one for each"),
        (&operator, "p:1: teams.operator: is reserved for whoever has the admin token; choose another name"),
        (
            "[teams.\"My Team\"]\ntoken_sha256 = []",
            "p:1: teams.\"My Team\": an owner's name must be 1 to 48 of a-z, 0-9 and '-', starting with a letter or digit",
        ),
        (
            "[pools.Small]\nbackend = \"local\"",
            "p:1: pools.Small: a pool's name must be 1 to 48 of a-z, 0-9 and '-', starting with a letter or digit",
        ),
        (
            "[pools.small]\n\nbackend = \"proxmox\"",
            &format!(
                "p:3: pools.small.backend: backend \"proxmox\" is not built into this binary; it has {BUILT_IN}"
            ),
        ),
        (
            "[pools.small]\nbackend = \"local\"\ndispatch = \"hook\"",
            "p:3: pools.small.dispatch: \"hook\" is for machines that are kept; on local a workflow provisions them: use claim",
        ),
        (
            "[pools.small]\nbackend = \"local\"\ndispatch = \"lease\"",
            "p:3: pools.small.dispatch: dispatch \"lease\" comes with a later version; use \"claim\" or \"hook\"",
        ),
        (
            "[pools.macs]\nbackend = \"bare_metal\"\nclean = \"reset\"",
            "p:1: pools.macs.reset_cmd: is needed: clean = \"reset\" proves that it ran",
        ),
        (
            "[pools.small]\nbackend = \"local\"\nmax = 1001",
            "p:3: pools.small.max: must be from 1 to 1000, is 1001",
        ),
        (
            "[pools.small]\nmax = 2\nmin_idle = 3\nbackend = \"local\"",
            "p:3: pools.small.min_idle: is 3, but max is only 2",
        ),
        (
            "[pools.small]\nbackend = \"local\"\nidle_seconds = 0",
            "p:3: pools.small.idle_seconds: must be above 0 and at most 30 days",
        ),
        (
            "[pools.small]\nbackend = \"local\"\nheartbeat_seconds = 0",
            "p:3: pools.small.heartbeat_seconds: must be above 0 and at most 30 days",
        ),
        (
            "[pools.small]\nbackend = \"local\"\nwait_minutes = 1\nwait_seconds = 60",
            "p:4: pools.small.wait_seconds: is given in minutes and in seconds; leave one out",
        ),
        (
            "[pools.small]\nbackend = \"local\"\nmemory_mb = 0",
            "p:3: pools.small.memory_mb: cpu and memory_mb must be above 0",
        ),
        (
            "\n[pools.macs]\nbackend = \"bare_metal\"",
            "p:2: pools.macs.cleanup_cmd: is needed: clean = \"cleanup\" proves that it ran",
        ),
    ] {
        let error = parse(text, "p", Path::new("")).unwrap_err();
        assert_eq!(error.to_string(), expected, "\n{text}");
    }
}

#[test]
fn all_mistakes_are_told_at_once_in_the_order_of_the_file() {
    let text = r#"refresh_seconds = 0
[pools.small]
backend = "local"
mx = 3
min_idle = "none"
[pools.big]
backend = "qemu"
[pools.other]
max = 0
"#;
    assert_eq!(
        parse(text, "pools.toml", Path::new("")).unwrap_err().to_string(),
        "pools.toml:1: refresh_seconds: must be from 1 to 86400, is 0\n\
         pools.toml:4: pools.small.mx: unknown key; did you mean max?\n\
         pools.toml:5: pools.small.min_idle: invalid type: string \"none\", expected a whole number, 0 or above\n\
         pools.toml:7: pools.big.backend: backend \"qemu\" is not built into this binary; it has BUILT_IN\n\
         pools.toml:8: pools.other.backend: is missing"
            .replace("BUILT_IN", BUILT_IN)
    );
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pools.toml");
    let error = load(&path).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot read the pools file {}", path.display()));
}

#[test]
fn refuse_21_what_jobs_are_given_and_whether_they_are_trusted_stands_in_the_file() {
    let with =
        |more: &str| parse(&format!("[pools.small]\nbackend = \"local\"\n{more}\n"), "p", Path::new(""));
    let small = |file: &PoolsFile| file.pools[&PoolName::parse("small").unwrap()].clone();
    let given =
        small(&with("trusted = true\njob_env = { LANG = \"C\", HTTP_PROXY = \"http://p:1\" }").unwrap());
    assert!(given.trusted && given.job_env.len() == 2 && given.job_env["LANG"] == "C");
    let plain = small(&with("").unwrap());
    assert!(!plain.trusted && plain.job_env.is_empty());
    let error = with("job_env = { MOTORPOOL_SERVER = \"x\" }").unwrap_err().to_string();
    assert!(
        error.starts_with("p:3: pools.small.job_env: MOTORPOOL_SERVER is the control plane's own"),
        "{error}"
    );
    let error = with("job_env = { \"A B\" = \"x\" }").unwrap_err().to_string();
    assert!(
        error.starts_with("p:3: pools.small.job_env: \"A B\" cannot be the name of a variable"),
        "{error}"
    );
}

#[test]
fn commands_on_machines_are_allowed_only_where_the_file_says_so() {
    let with = |more: &str| {
        let file = parse(&format!("[pools.small]\nbackend = \"local\"\n{more}\n"), "p", Path::new(""));
        file.unwrap().pools[&PoolName::parse("small").unwrap()].allow_exec
    };
    assert!(with("allow_exec = true") && !with("allow_exec = false") && !with(""));
}
