//! What the command refuses: secrets that others can read, plain HTTP beyond loopback, and answers that steer a terminal.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::fs::{self, Permissions, set_permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use motorpool_domain::text::steers;
use tempfile::TempDir;

const SERVE: [&str; 3] = ["serve", "--listen", "127.0.0.1:0"];

/// In this directory, and without our variables.
fn motorpool(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_motorpool"));
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"MOTORPOOL_") {
            command.env_remove(name);
        }
    }
    command.current_dir(dir).env("NO_PROXY", "*");
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A directory with a pools file.
fn home() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("pools.toml"), "[pools.small]\nbackend = \"local\"\n").unwrap();
    dir
}

fn written(dir: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

/// Where a serve listens that starts all the same; nothing if it ends first. It is ended.
fn listens(mut command: Command) -> (Option<String>, String) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let _ = child.kill();
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    child.wait().unwrap();
    (line.trim().strip_prefix("listening on ").map(str::to_owned), told)
}

#[test]
fn refuse_20_a_short_server_secret_is_refused_at_start() {
    for secret in ["", "\n", "short"] {
        let home = home();
        let file = written(home.path(), "motorpool-data/server-secret", secret, 0o600);
        let refused = motorpool(home.path()).args(SERVE).output().unwrap();
        let told = stderr(&refused);
        assert_eq!(refused.status.code(), Some(1), "{secret:?}: {told}");
        assert!(told.contains("shorter than 32 bytes"), "{secret:?}: {told}");
        assert!(told.contains(&format!("`rm {}`", file.display())), "{secret:?}: {told}");
    }
}

#[test]
fn refuse_20_a_tls_key_that_others_can_read_or_write_is_refused_at_start() {
    for mode in [0o640, 0o604, 0o620, 0o602, 0o644] {
        let home = home();
        written(home.path(), "cert.pem", "", 0o644);
        written(home.path(), "key.pem", "hush", mode);
        let tls = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"];
        let refused = motorpool(home.path()).args(SERVE).args(tls).output().unwrap();
        let told = stderr(&refused);
        assert_eq!(refused.status.code(), Some(1), "{mode:o}: {told}");
        assert!(told.contains("`chmod 600 key.pem`") && !told.contains("hush"), "{mode:o}: {told}");
    }
}

#[test]
fn refuse_20_a_data_directory_that_others_can_write_is_refused_at_start() {
    for mode in [0o777, 0o770, 0o1777] {
        let home = home();
        let data = home.path().join("motorpool-data");
        fs::create_dir(&data).unwrap();
        set_permissions(&data, Permissions::from_mode(mode)).unwrap();
        let refused = motorpool(home.path()).args(SERVE).output().unwrap();
        let told = stderr(&refused);
        assert_eq!(refused.status.code(), Some(1), "{mode:o}: {told}");
        assert!(told.contains("`chmod 700 ") && told.contains("motorpool-data"), "{mode:o}: {told}");
        assert_eq!(fs::read_dir(&data).unwrap().count(), 0, "nothing was written there");
    }
}

/// Only root can give a directory away.
#[test]
fn refuse_20_a_data_directory_of_another_user_is_refused_at_start() {
    let home = home();
    let data = home.path().join("motorpool-data");
    fs::create_dir(&data).unwrap();
    let own = fs::metadata(&data).unwrap().uid();
    if std::os::unix::fs::chown(&data, Some(own + 1), None).is_err() {
        eprintln!("left out: this user may not give a directory away");
        return;
    }
    let refused = motorpool(home.path()).args(SERVE).output().unwrap();
    let told = stderr(&refused);
    assert_eq!(refused.status.code(), Some(1), "{told}");
    assert!(told.contains(&format!("`chown -R {own} ")) && told.contains("motorpool-data"), "{told}");
}

#[test]
fn refuse_26_serve_beyond_loopback_needs_tls_or_the_flag() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:8080"] {
        let home = home();
        let refused = motorpool(home.path()).args(["serve", "--listen", address]).output().unwrap();
        let told = stderr(&refused);
        assert_eq!(refused.status.code(), Some(2), "{address}: {told}");
        for way_out in ["--tls-cert", "--insecure-http", "MOTORPOOL_INSECURE_HTTP=1"] {
            assert!(told.contains(way_out), "{address}: {told}");
        }
        assert!(!home.path().join("motorpool-data").exists(), "it is refused before anything is made");
    }
    let everywhere = ["serve", "--listen", "0.0.0.0:0"];
    for (flag, variable) in [(Some("--insecure-http"), None), (None, Some("1"))] {
        let home = home();
        let mut command = motorpool(home.path());
        command.args(everywhere).args(flag);
        command.envs(variable.map(|value| ("MOTORPOOL_INSECURE_HTTP", value)));
        let (url, told) = listens(command);
        assert!(url.is_some_and(|url| url.starts_with("http://0.0.0.0:")), "{flag:?} {variable:?}: {told}");
    }
    // No is no, and what is neither is no yes.
    for no in ["0", "false", "maybe"] {
        let home = home();
        let refused = motorpool(home.path()).args(everywhere).env("MOTORPOOL_INSECURE_HTTP", no).output();
        assert_eq!(refused.unwrap().status.code(), Some(2), "{no}");
    }
}

/// The address is one for documents: nobody is there, and nobody may be asked.
#[test]
fn refuse_26_the_command_sends_no_token_over_plain_http_beyond_loopback() {
    let home = home();
    for server in ["http://192.0.2.1:8080", "http://pool.example.com"] {
        for verb in [&["pools"][..], &["doctor"], &["why", "gh-1"]] {
            let refused = motorpool(home.path()).args(verb).args(["--server", server]).output().unwrap();
            let told = stderr(&refused);
            assert_eq!(refused.status.code(), Some(2), "{verb:?} {server}: {told}");
            assert!(told.contains("https://") && told.contains("--insecure-http"), "{told}");
        }
    }
}

#[test]
fn refuse_26_an_agent_sends_no_token_over_plain_http_beyond_loopback() {
    let home = home();
    let agent = [
        "agent",
        "run",
        "--server",
        "http://192.0.2.1",
        "--runner",
        "r-1",
        "--dir",
        "agent",
        "--work-as-root",
    ];
    let refused = motorpool(home.path()).args(agent).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("--insecure-http"), "{}", stderr(&refused));
    assert!(!home.path().join("agent").exists(), "it is refused before anything is made");
    for (flag, variable) in [(Some("--insecure-http"), None), (None, Some("1"))] {
        let mut command = motorpool(home.path());
        command.args(agent).args(flag).envs(variable.map(|value| ("MOTORPOOL_INSECURE_HTTP", value)));
        let allowed = command.output().unwrap();
        // It gets as far as to miss its secret.
        assert!(stderr(&allowed).contains("has not been bootstrapped"), "{}", stderr(&allowed));
    }
}

/// A server that gives one answer to whoever asks first.
fn answering(status: &str, body: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    std::thread::spawn(move || {
        let (mut caller, _) = listener.accept().unwrap();
        let head = BufReader::new(caller.try_clone().unwrap()).lines().map_while(Result::ok);
        let _until_its_end = head.take_while(|line| !line.is_empty()).count();
        caller.write_all(answer.as_bytes()).unwrap();
    });
    url
}

/// An older server may have kept, and tell, what agents of its time said.
#[test]
fn refuse_25_what_a_server_tells_steers_no_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let steering = "\u{1b}[2J\u{7f}\u{9b}\u{202e}x\r\n";
    let why = serde_json::json!({
        "claim": "c-abc", "state": "pending", "why": steering, "runners": [steering],
        "history": [{"at": 1, "who": "control", "what": steering, "why": steering}],
    });
    for json in [false, true] {
        let server = answering("200 OK", &why.to_string());
        let mut command = motorpool(dir.path());
        command.args(["why", "c-abc", "--server", &server]).args(json.then_some("--json"));
        let told = command.output().unwrap();
        assert!(told.status.success(), "{}", stderr(&told));
        let text = String::from_utf8(told.stdout).unwrap();
        assert!(!text.lines().any(|line| line.chars().any(steers)), "{text:?}");
        if json {
            // To a program it is still what the server said.
            assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), why);
        } else {
            assert!(text.contains("␛[2J␡��x␍␊"), "{text}");
        }
    }
    let error = serde_json::json!({"error": {"code": "conflict", "message": steering, "hint": steering}});
    let server = answering("409 Conflict", &error.to_string());
    let told = motorpool(dir.path()).args(["pools", "--server", &server]).output().unwrap();
    assert_eq!(told.status.code(), Some(1));
    assert!(!stderr(&told).lines().any(|line| line.chars().any(steers)), "{:?}", stderr(&told));
}
