//! The command as its users meet it: help, usage, exit codes, errors, completions, man pages. Without a server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::net::TcpListener;
use std::process::{Command, Output};

const VERBS: &[&[&str]] = &[
    &[],
    &["serve"],
    &["demo"],
    &["agent"],
    &["agent", "run"],
    &["pools"],
    &["pools", "show"],
    &["pools", "apply"],
    &["runners"],
    &["runners", "show"],
    &["runners", "add"],
    &["runners", "set"],
    &["runners", "remove"],
    &["runners", "release"],
    &["runners", "token"],
    &["provision"],
    &["claim"],
    &["release"],
    &["claims"],
    &["claims", "show"],
    &["why"],
    &["checkpoint"],
    &["checkpoint", "create"],
    &["checkpoint", "finalize"],
    &["checkpoint", "status"],
    &["checkpoint", "ready"],
    &["refresh"],
    &["audit"],
    &["backup"],
    &["doctor"],
    &["token"],
    &["completions"],
    &["man"],
];

/// In an empty directory and without our variables, so that nothing of the caller's is picked up.
fn motorpool(args: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_motorpool"));
    for name in [
        "MOTORPOOL_SERVER",
        "MOTORPOOL_TOKEN",
        "MOTORPOOL_ADMIN_TOKEN",
        "MOTORPOOL_CA_FILE",
        "MOTORPOOL_SOCKET",
        "MOTORPOOL_INSECURE_HTTP",
        "http_proxy",
        "HTTP_PROXY",
    ] {
        command.env_remove(name);
    }
    command.args(args).current_dir(dir.path()).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// An address of this host at which nobody listens.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    format!("http://{address}")
}

#[test]
fn every_verb_has_help() {
    for verb in VERBS {
        let output = motorpool(&[verb, &["--help"][..]].concat());
        assert_eq!(output.status.code(), Some(0), "{verb:?}: {}", stderr(&output));
        assert!(stdout(&output).contains("Usage: motorpool"), "{verb:?}: {}", stdout(&output));
    }
}

#[test]
fn no_verb_takes_a_token_as_an_argument() {
    for verb in VERBS {
        let help = stdout(&motorpool(&[verb, &["--help"][..]].concat()));
        assert!(!help.contains("--token "), "{verb:?}: {help}");
        assert!(!help.contains("--secret "), "{verb:?}: {help}");
    }
}

#[test]
fn wrong_usage_exits_with_2_and_says_what_is_wrong() {
    for (args, said) in [
        (&["prvision"][..], "unrecognized subcommand"),
        (&["provision", "--pool", "small"], "--workflow"),
        (&["provision", "--pool", "small", "--workflow", "w", "--count", "0"], "--count"),
        (&["provision", "--pool", "Small!", "--workflow", "w"], "a pool's name must be"),
        (&["provision", "--pool", "small", "--workflow", "w", "--usage", "free"], "spot or on-demand"),
        (
            &["provision", "--pool", "small", "--workflow", "w", "--no-wait", "--timeout", "5"],
            "cannot be used with",
        ),
        (&["release"], "--workflow"),
        (&["runners", "--state", "asleep"], "must be one of created, resetting, idle"),
        (&["runners", "--pool", "small", "show", "r-1"], "are for the list"),
        (&["runners", "remove", "r-1", "--drain", "--force"], "cannot be used with"),
        (&["claims", "show", "gh-1"], "a claim's id must be"),
        (&["serve", "--listen", "everywhere"], "--listen"),
        (&["serve", "--tls-cert", "x"], "--tls-key"),
        (&["pools", "--server", "127.0.0.1:8080"], "is no server's address"),
        (&["pools", "--server", "http://me:hush@127.0.0.1/"], "without user, password"),
        (&["pools", "--token-file", "none"], "cannot read a token from none"),
        (&["pools", "--data-dir", "none"], "cannot read a token from none/admin-token"),
        (&["pools", "--ca-file", "none"], "cannot use the certificate authority none"),
        (&["checkpoint", "create"], "--job-id"),
        (&["checkpoint", "create", "--job-id", "a b"], "a job's id must be"),
        (&["checkpoint", "create", "--job-id", "$(id)"], "a job's id must be"),
        (&["checkpoint", "finalize", "--checkpoint", "job-1-2-0123abcd"], "--status"),
        (
            &["checkpoint", "finalize", "--checkpoint", "../x", "--status", "success"],
            "a checkpoint's name must be",
        ),
        (
            &["checkpoint", "finalize", "--checkpoint", "job-1-2-0123abcd", "--status", "failed"],
            "possible values",
        ),
        (&["checkpoint", "exec"], "unrecognized subcommand"),
        (&["completions", "cmd"], "possible values"),
    ] {
        let output = motorpool(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{args:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{args:?}");
    }
}

#[test]
fn a_server_that_is_not_there_exits_with_3_and_a_hint() {
    let server = nobody();
    for verb in [
        &["pools"][..],
        &["runners"],
        &["runners", "show", "r-1"],
        &["provision", "--pool", "small", "--workflow", "gh-1"],
        &["claim", "--pool", "small", "--workflow", "gh-1"],
        &["release", "--workflow", "gh-1"],
        &["claims"],
        &["why", "gh-1"],
        &["why", "c-abc"],
        &["refresh"],
        &["audit", "pool:small"],
    ] {
        let output = motorpool(&[verb, &["--server", &server][..]].concat());
        assert_eq!(output.status.code(), Some(3), "{verb:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{verb:?}");
        let said = stderr(&output);
        assert!(
            said.contains(&format!("error: cannot reach {server}: Connection refused")),
            "{verb:?}: {said}"
        );
        assert!(
            said.contains(&format!("hint: is `motorpool serve` running at {server}?")),
            "{verb:?}: {said}"
        );
    }
}

#[test]
fn with_json_an_error_is_one_envelope_on_stderr() {
    let server = nobody();
    for args in [["--json", "pools", "--server", &server], ["pools", "--server", &server, "--json"]] {
        let output = motorpool(&args);
        assert_eq!(output.status.code(), Some(3));
        let error: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
        assert_eq!(error["error"]["code"], "unreachable");
        assert!(error["error"]["message"].as_str().unwrap().contains(&server));
        assert!(error["error"]["hint"].as_str().unwrap().contains("motorpool serve"));
        assert_eq!(error.as_object().unwrap().len(), 1);
    }
}

#[test]
fn the_doctor_fails_and_still_says_what_it_looked_at() {
    let server = nobody();
    let output = motorpool(&["doctor", "--server", &server]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).starts_with(&format!("FAIL  cannot reach {server}")), "{}", stdout(&output));
    let output = motorpool(&["doctor", "--server", &server, "--json"]);
    let checks: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(checks["checks"][0]["verdict"], "fail");
}

#[test]
fn a_wrong_pools_file_stops_serve_with_every_mistake() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pools.toml");
    std::fs::write(
        &file,
        "[pools.small]\nbackend = \"local\"\nidle_minute = 5\n[pools.big]\nbackend = \"qemu\"\n",
    )
    .unwrap();
    let output = motorpool(&["serve", "--listen", "127.0.0.1:0", "--pools", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(
        said.contains("pools.toml:3: pools.small.idle_minute: unknown key; did you mean idle_minutes?"),
        "{said}"
    );
    assert!(
        said.contains("pools.toml:5: pools.big.backend: backend \"qemu\" is not built into this binary"),
        "{said}"
    );
}

#[test]
fn a_file_to_apply_is_judged_before_the_server_is_asked() {
    let (dir, server) = (tempfile::tempdir().unwrap(), nobody());
    let file = dir.path().join("pools.toml");
    for (text, said) in [
        ("refresh_seconds = 1\n", "pools.toml:1: refresh_seconds: is the server's own"),
        (
            "[pools.big]\nbackend = \"ec2\"\n",
            "pools.toml:1: pools.big.cpu: and memory_mb, or resource_class, are needed",
        ),
        ("", "has no pools"),
    ] {
        std::fs::write(&file, text).unwrap();
        for dry_run in [&[][..], &["--dry-run"]] {
            let args =
                [&["pools", "apply", file.to_str().unwrap(), "--server", &server][..], dry_run].concat();
            let output = motorpool(&args);
            assert_eq!(output.status.code(), Some(1), "{text}");
            assert!(stderr(&output).contains(said), "{}", stderr(&output));
        }
    }
    std::fs::write(&file, "[pools.small]\nbackend = \"local\"\n").unwrap();
    let output = motorpool(&["pools", "apply", file.to_str().unwrap(), "--server", &server]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
}

#[test]
fn a_token_is_new_each_time_and_comes_with_its_hash() {
    let token = |output: Output| -> serde_json::Value { serde_json::from_slice(&output.stdout).unwrap() };
    let one = token(motorpool(&["token", "--json"]));
    let two = token(motorpool(&["token", "--json"]));
    assert!(one["token"].as_str().unwrap().starts_with("mp_team_"));
    assert_ne!(one["token"], two["token"]);
    assert_eq!(one["token_sha256"].as_str().unwrap().len(), 64);
    assert!(stdout(&motorpool(&["token"])).contains("token_sha256 = [\""));
}

#[test]
fn completions_are_made_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = motorpool(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0), "{shell}");
        assert!(stdout(&output).contains("provision"), "{shell}");
    }
}

#[test]
fn man_pages_are_written_for_the_command_and_its_verbs() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("man");
    let output = motorpool(&["man", "--out", out.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for page in ["motorpool.1", "motorpool-provision.1", "motorpool-runners-add.1", "motorpool-why.1"] {
        let text = std::fs::read_to_string(out.join(page)).unwrap();
        assert!(text.contains(".SH NAME"), "{page}");
    }
}

#[test]
fn nothing_is_coloured_in_a_pipe() {
    let output = motorpool(&["doctor", "--server", &nobody()]);
    assert!(!stdout(&output).contains('\x1b') && !stderr(&output).contains('\x1b'));
}
