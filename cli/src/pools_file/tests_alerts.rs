//! `[alerts]`: tables that do, and those that don't, with the very words that their writers get.

use super::*;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

const SLACK: &str = "https://hooks.example.org/services/T0/B0/x";

/// A directory with the secrets that the tables below name.
fn secrets() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let private = [
        ("address", SLACK),
        ("key", "0123456789abcdef"),
        ("short", "0123"),
        ("at-home", "http://127.0.0.1:9/x"),
    ];
    for (name, text) in private {
        std::fs::write(dir.path().join(name), format!("{text}\n")).unwrap();
        std::fs::set_permissions(dir.path().join(name), std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    std::fs::write(dir.path().join("open"), "0123456789abcdef").unwrap();
    std::fs::set_permissions(dir.path().join("open"), std::fs::Permissions::from_mode(0o644)).unwrap();
    dir
}

fn told(table: &str) -> Result<PoolsFile, String> {
    let dir = secrets();
    parse(&format!("[alerts]\n{table}\n"), "pools.toml", dir.path())
        .map_err(|error| error.to_string().replace(&dir.path().display().to_string(), "DIR"))
}

#[test]
fn whoever_is_told_is_named_by_address_or_by_a_file_that_holds_it() {
    for (table, format) in [
        (format!("url = \"{SLACK}\"\nformat = \"slack\""), "slack"),
        ("url_file = \"address\"\nformat = \"slack\"".to_owned(), "slack"),
        ("url_file = \"address\"\nformat = \"json\"\nsecret_file = \"key\"".to_owned(), "json"),
        ("url_file = \"at-home\"\nformat = \"slack\"\nallow_private = true".to_owned(), "slack"),
    ] {
        let file = told(&table).unwrap();
        assert_eq!(file.alerts.map(|alerts| alerts.format()), Some(format), "{table}");
    }
    assert!(parse("", "pools.toml", Path::new("")).unwrap().alerts.is_none());
}

#[test]
fn each_mistake_is_named_with_its_line() {
    for (table, expected) in [
        ("format = \"slack\"", "pools.toml:1: alerts.url: is missing, and so is url_file: who is told?"),
        (
            "url = \"https://x.example.org\"\nurl_file = \"address\"\nformat = \"slack\"",
            "pools.toml:3: alerts.url_file: is given beside url; leave one out",
        ),
        ("url_file = \"address\"", "pools.toml:1: alerts.format: is missing"),
        (
            "url_file = \"address\"\nformat = \"json\"",
            "pools.toml:1: alerts.secret_file: is missing: messages of format = \"json\" are signed with it",
        ),
        (
            "url_file = \"address\"\nformat = \"slack\"\nsecret_file = \"key\"",
            "pools.toml:4: alerts.secret_file: signs messages of format = \"json\" alone; leave it out",
        ),
        (
            "url_file = \"address\"\nformat = \"json\"\nsecret_file = \"short\"",
            "pools.toml:4: alerts.secret_file: the secret must have at least 16 characters",
        ),
        (
            "url_file = \"address\"\nformat = \"json\"\nsecret_file = \"open\"",
            "pools.toml:4: alerts.secret_file: DIR/open: others on this host can read it",
        ),
        (
            "url_file = \"none\"\nformat = \"slack\"",
            "pools.toml:2: alerts.url_file: DIR/none: cannot be read",
        ),
        ("url = \"example.org\"\nformat = \"slack\"", "pools.toml:2: alerts.url: the address is none"),
        (
            "url_file = \"address\"\nformat = \"slack\"\nsecret = \"x\"",
            "pools.toml:4: alerts.secret: unknown key; did you mean secret_file?",
        ),
        ("url_file = \"address\"\nformat = \"teams\"", "pools.toml:3: alerts.format: "),
        (
            "url_file = \"address\"\nformat = \"slack\"\nallow_private = 1",
            "pools.toml:4: alerts.allow_private: ",
        ),
    ] {
        let problem = told(table).unwrap_err();
        assert!(problem.contains(expected), "{table}\n{problem}");
    }
}

#[test]
fn refuse_15_an_address_of_this_host_or_its_network_is_refused_unless_that_is_said() {
    for url in [
        "https://169.254.169.254/latest",
        "https://127.0.0.1/x",
        "https://[::ffff:10.0.0.1]/x",
        "http://hooks.example.org/x",
    ] {
        let table = format!("url = \"{url}\"\nformat = \"slack\"");
        let problem = told(&table).unwrap_err();
        assert!(
            problem.contains("pools.toml:2: alerts.url: the address") && problem.contains("allow_private"),
            "{problem}"
        );
        assert!(!problem.contains(url), "an address may be a secret: {problem}");
        told(&format!("{table}\nallow_private = true")).unwrap();
    }
    let problem = told("url_file = \"at-home\"\nformat = \"slack\"").unwrap_err();
    assert!(
        problem.contains("pools.toml:2: alerts.url_file: the address must begin with https://"),
        "{problem}"
    );
}

#[test]
fn alerts_are_the_servers_own() {
    let problem = parse_pools("[alerts]\nformat = \"slack\"\n", "pools.toml").unwrap_err().to_string();
    assert!(problem.contains("pools.toml:1: alerts: is the server's own"), "{problem}");
}
