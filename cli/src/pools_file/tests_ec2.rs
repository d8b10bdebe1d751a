//! Pools on EC2, their CI systems and the credentials for these: what a file may say, and the words for what it may not.

use super::*;
use motorpool_domain::ci::CiSystem;
use secrecy::ExposeSecret;
use std::fs::{Permissions, set_permissions, write};
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

const POOL: &str = r#"
[resource_classes]
large = { cpu = 4, memory_mb = 8192 }

[pools.big]
backend = "ec2"
clean = "replace"
resource_class = "large"
usage = "spot"
max = 10

[pools.big.ec2]
image = "ami-0123456789abcdef0"
subnets = ["subnet-0123456789abcdef0"]
security_groups = ["sg-0123456789abcdef0"]
on_demand_fallback = true
"#;

const CI: &str = r#"
[pools.big.ci]
system = "github"
scope = "my-org"
"#;

const KEY: &str = include_str!("../../../shared/ci/tests/keys/for-tests-only.pkcs1.pem");
const TOKEN: &str = "secret-of-token";

/// A directory with files for secrets, each with this mode.
fn secrets(mode: u32) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let half = KEY.split_at(KEY.len() / 2).0;
    let files =
        [("app.pem", KEY), ("half.pem", half), ("token", TOKEN), ("two", "secret-of two"), ("empty", "\n")];
    for (name, text) in files {
        let path = dir.path().join(name);
        write(&path, text).unwrap();
        set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }
    dir
}

fn problems(text: &str, dir: &Path) -> Vec<String> {
    match parse(text, "p", dir) {
        Ok(_) => Vec::new(),
        Err(error) => error.to_string().lines().map(str::to_owned).collect(),
    }
}

#[test]
fn a_pool_for_elsewhere_is_read_whatever_is_built_in() {
    let pools = parse_pools(&format!("{POOL}{CI}"), "p").unwrap();
    let settings = &pools[&PoolName::parse("big").unwrap()];
    assert_eq!((settings.cpu, settings.memory_mb), (Some(4), Some(8192)));
    assert_eq!(settings.ec2.as_ref().unwrap().image, "ami-0123456789abcdef0");
    assert_eq!(settings.ci.as_ref().unwrap().system, CiSystem::GitHub);
    // As it goes over the wire: the server need not know our classes.
    assert!(!serde_json::to_string(settings).unwrap().contains("resource_class"));
}

#[test]
fn serve_wants_the_feature_and_the_credentials() {
    let dir = secrets(0o600);
    let text = format!("[github]\ntoken_file = \"token\"\n{POOL}{CI}");
    let feature = "p:8: pools.big.backend: this binary was built without the feature \"ec2\": \
                   `cargo build --release --features ec2`";
    let lacking: &[&str] = if pools::EC2_IS_BUILT_IN { &[] } else { &[feature] };
    assert_eq!(problems(&text, dir.path()), lacking);
    let without = format!("[pools.small]\nbackend = \"local\"\n{}", CI.replace("big", "small"));
    assert_eq!(
        problems(&without, dir.path()),
        ["p:4: pools.small.ci: needs credentials for github, and the file has no table [github] at its top"]
    );
    let jenkins = "[pools.small]\nbackend = \"local\"\nci = { system = \"jenkins\", scope = \"instance\" }\n";
    assert_eq!(
        problems(jenkins, dir.path()),
        [
            "p:3: pools.small.ci: needs credentials for jenkins, and the file has no table [jenkins] at its top"
        ]
    );
    let table = "[jenkins]\nurl = \"https://ci\"\nuser = \"a\"\ntoken_file = \"token\"\n";
    assert!(problems(&format!("{table}{jenkins}"), dir.path()).is_empty());
    let elsewhere = format!("{table}{}", jenkins.replace("instance", "folder"));
    assert!(problems(&elsewhere, dir.path()).join("").contains("must be \"instance\""));
}

#[test]
fn mistakes_in_nested_tables_are_named_where_they_stand() {
    for (from, to, expected) in [
        ("image =", "imge =", "p:13: pools.big.ec2.imge: unknown key; did you mean image?"),
        ("ami-0", "amy-0", "p:13: pools.big.ec2.image: must be an image's id, such as ami-0123456789abcdef0"),
        (
            "[\"sg-0123456789abcdef0\"]",
            "[]",
            "p:15: pools.big.ec2.security_groups: must be one or more ids, such as sg-0123456789abcdef0",
        ),
        (
            "= true",
            "= 1",
            "p:16: pools.big.ec2.on_demand_fallback: invalid type: integer `1`, expected a boolean",
        ),
        (
            "\"my-org\"",
            "\"a/b/c\"",
            "p:20: pools.big.ci.scope: must be \"org\", \"owner/repository\" or \"enterprises/name\"",
        ),
        (
            "\"large\"\n",
            "\"huge\"\n",
            "p:8: pools.big.resource_class: there is no class \"huge\": [resource_classes] has only large",
        ),
        (
            "\"large\"\n",
            "\"large\"\ncpu = 2\n",
            "p:9: pools.big.cpu: is given by resource_class, too; leave one out",
        ),
        (
            "resource_class = \"large\"\n",
            "cpu = 2\n",
            "p:8: pools.big.cpu: and memory_mb, or resource_class, are needed with backend = \"ec2\": machines are chosen by them",
        ),
        (
            "resource_class =",
            "resource_clas =",
            "p:8: pools.big.resource_clas: unknown key; did you mean resource_class?",
        ),
    ] {
        let text = format!("{POOL}{CI}").replace(from, to);
        let error = parse_pools(&text, "p").unwrap_err();
        assert_eq!(error.to_string(), expected, "\n{text}");
    }
}

#[test]
fn a_file_for_elsewhere_has_pools_only() {
    assert_eq!(
        parse_pools("refresh_seconds = 1\npool = 1\n[github]", "p").unwrap_err().to_string(),
        "p:1: refresh_seconds: is the server's own: leave it out here, and have it in the file of `motorpool serve`\n\
         p:2: pool: unknown key; did you mean pools?\n\
         p:3: github: is the server's own: leave it out here, and have it in the file of `motorpool serve`"
    );
}

#[test]
fn credentials_are_read_from_files_beside_the_pools_file() {
    let dir = secrets(0o600);
    let text = "[github]\napp_id = 7\nprivate_key_file = \"app.pem\"\ninstallation_id = 9\n\
                api_url = \"https://github.example.com/api/v3\"\n\
                [gitlab]\nurl = \"https://gitlab.example.com\"\ntoken_file = \"token\"\n\
                [jenkins]\nurl = \"https://ci.example.com\"\nuser = \"motorpool\"\ntoken_file = \"token\"\n";
    let file = parse(text, "p", dir.path()).unwrap();
    let github = file.ci.github.clone().unwrap();
    assert_eq!(github.api_url.as_deref(), Some("https://github.example.com/api/v3"));
    let GitHubLogin::App { app_id, private_key, installation_id } = github.login else { unreachable!() };
    assert_eq!((app_id, installation_id), (7, Some(9)));
    assert_eq!(private_key.expose_secret(), KEY.trim());
    let gitlab = file.ci.gitlab.clone().unwrap();
    assert_eq!((gitlab.url.as_str(), gitlab.token.expose_secret()), ("https://gitlab.example.com", TOKEN));
    assert!(gitlab.read_token.is_none());
    let jenkins = file.ci.jenkins.clone().unwrap();
    assert_eq!((jenkins.url.as_str(), jenkins.login.user.as_str()), ("https://ci.example.com", "motorpool"));
    assert_eq!(jenkins.login.token.expose_secret(), TOKEN);
    assert!(jenkins.unpause_login.is_none());
    let shown = format!("{file:?}");
    assert!(!shown.contains("secret-of") && !shown.contains("PRIVATE KEY"), "{shown}");
    let by_token = parse("[github]\ntoken_file = \"token\"", "p", dir.path()).unwrap();
    assert!(matches!(by_token.ci.github.unwrap().login, GitHubLogin::Token(_)));
}

#[test]
fn second_tokens_are_read_where_they_are_named() {
    let dir = secrets(0o600);
    let text = "[gitlab]\nurl = \"https://gitlab.com\"\ntoken_file = \"token\"\nread_token_file = \"token\"\n\
                [jenkins]\nurl = \"https://ci.example.com\"\nuser = \"a\"\ntoken_file = \"token\"\n\
                unpause_user = \"b\"\nunpause_token_file = \"token\"\n";
    let ci = parse(text, "p", dir.path()).unwrap().ci;
    assert_eq!(ci.gitlab.unwrap().read_token.unwrap().expose_secret(), TOKEN);
    let unpause = ci.jenkins.unwrap().unpause_login.unwrap();
    assert_eq!((unpause.user.as_str(), unpause.token.expose_secret()), ("b", TOKEN));
}

#[test]
fn secrets_of_webhooks_are_read_where_they_are_named() {
    let dir = secrets(0o600);
    let github = "[github]\ntoken_file = \"token\"\n";
    let gitlab = "[gitlab]\nurl = \"https://gitlab.com\"\ntoken_file = \"token\"\n";
    let webhook = "webhook_secret_file = \"half.pem\"\n";
    let ci = parse(&format!("{github}{gitlab}"), "p", dir.path()).unwrap().ci;
    assert!(ci.github.unwrap().webhook.is_none() && ci.gitlab.unwrap().webhook.is_none());
    let ci = parse(&format!("{github}{webhook}{gitlab}{webhook}"), "p", dir.path()).unwrap().ci;
    assert!(ci.github.unwrap().webhook.is_some() && ci.gitlab.unwrap().webhook.is_some());
    for (table, key) in [(github, "p:3: github"), (gitlab, "p:4: gitlab")] {
        for (file, why) in
            [("two", "is too short to be a secret"), ("empty", "is empty"), ("none", "cannot be read")]
        {
            let told = problems(&format!("{table}webhook_secret_file = \"{file}\""), dir.path());
            let begins = format!("{key}.webhook_secret_file: {}", dir.path().join(file).display());
            assert!(told.len() == 1 && told[0].starts_with(&begins) && told[0].contains(why), "{told:?}");
            assert!(!told[0].contains("secret-of"), "{told:?}");
        }
    }
}

#[test]
fn credentials_that_do_not_belong_together_are_refused() {
    let dir = secrets(0o600);
    let path = |name: &str| dir.path().join(name).display().to_string();
    for (text, expected) in [
        ("[github]", "p:1: github.app_id: is missing, and so is token_file: give app_id and private_key_file, or token_file".to_owned()),
        ("[github]\napp_id = 7", "p:1: github.private_key_file: is missing: a GitHub App has an app_id and a private key".to_owned()),
        ("[github]\nprivate_key_file = \"app.pem\"", "p:1: github.app_id: is missing: a GitHub App has an app_id and a private key".to_owned()),
        ("[github]\napp_id = 7\ntoken_file = \"token\"", "p:3: github.token_file: is given beside a GitHub App; leave one out".to_owned()),
        ("[github]\ntoken_file = \"token\"\ninstallation_id = 1", "p:3: github.installation_id: is of a GitHub App, and token_file is none; leave one out".to_owned()),
        ("[github]\ntoken = \"x\"", "p:2: github.token: unknown key; did you mean token_file?".to_owned()),
        ("[github]\ntoken_file = \"empty\"", format!("p:2: github.token_file: {}: is empty", path("empty"))),
        ("[gitlab]\nurl = \"gitlab.com\"\ntoken_file = \"token\"", "p:2: gitlab.url: must be an address, such as https://ci.example.com".to_owned()),
        ("[gitlab]\nurl = \"https://gitlab.com/api/v4/\"\ntoken_file = \"token\"", "p:2: gitlab.url: must be GitLab's own address: leave out /api/v4".to_owned()),
        ("[gitlab]\nurl = \"https://gitlab.com\"", "p:1: gitlab.token_file: is missing".to_owned()),
        ("[jenkins]\nurl = \"https://ci\"\ntoken_file = \"token\"", "p:1: jenkins.user: is missing".to_owned()),
        ("[jenkins]\nurl = \"ci\"\nuser = \"a\"\ntoken_file = \"token\"", "p:2: jenkins.url: must be an address, such as https://ci.example.com".to_owned()),
        ("[jenkins]\nurl = \"https://ci\"\nuser = \"a\"\ntoken_file = \"token\"\nunpause_user = \"b\"", "p:1: jenkins.unpause_token_file: is missing: unpause_user is there, and one needs the other".to_owned()),
    ] {
        assert_eq!(problems(text, dir.path()), [expected], "{text}");
    }
}

#[test]
fn credentials_that_nobody_can_sign_in_with_are_told_with_their_line() {
    let dir = secrets(0o600);
    for (text, expected) in [
        (
            "[github]\napp_id = 7\nprivate_key_file = \"half.pem\"",
            "p:3: github.private_key_file: the private key of the GitHub App is not usable",
        ),
        (
            "[github]\napp_id = 7\nprivate_key_file = \"token\"",
            "p:3: github.private_key_file: the private key of the GitHub App is not usable",
        ),
        ("[github]\ntoken_file = \"two\"", "p:2: github.token_file: the token for GitHub"),
        (
            "[github]\ntoken_file = \"token\"\napi_url = \"http://github.example.com\"",
            "p:3: github.api_url: \"http://github.example.com\" is no address of GitHub",
        ),
        (
            "[gitlab]\ntoken_file = \"two\"\nurl = \"https://gitlab.com\"",
            "p:2: gitlab.token_file: the token for GitLab",
        ),
        (
            "[gitlab]\ntoken_file = \"token\"\nread_token_file = \"two\"\nurl = \"https://gitlab.com\"",
            "p:3: gitlab.read_token_file: the second token for GitLab",
        ),
        (
            "[jenkins]\nuser = \"a:b\"\ntoken_file = \"token\"\nurl = \"https://ci\"",
            "p:2: jenkins.user: the user for Jenkins",
        ),
        (
            "[jenkins]\nuser = \"a\"\ntoken_file = \"token\"\nurl = \"http://ci\"",
            "p:4: jenkins.url: \"http://ci\" is no address of Jenkins",
        ),
    ] {
        let told = problems(text, dir.path());
        assert!(told.len() == 1 && told[0].starts_with(expected), "{text}: {told:?}");
        assert!(!told[0].contains("secret-of") && !told[0].contains("PRIVATE KEY"), "{told:?}");
    }
}

#[test]
fn refuse_20_a_secret_that_others_can_read_is_refused() {
    for mode in [0o644, 0o640, 0o604, 0o660] {
        let dir = secrets(mode);
        for (text, key) in [
            ("[github]\ntoken_file = \"token\"", "github.token_file"),
            ("[github]\napp_id = 1\nprivate_key_file = \"app.pem\"", "github.private_key_file"),
            ("[gitlab]\nurl = \"https://gitlab.com\"\ntoken_file = \"token\"", "gitlab.token_file"),
            ("[jenkins]\nurl = \"https://ci\"\nuser = \"a\"\ntoken_file = \"token\"", "jenkins.token_file"),
        ] {
            let told = problems(text, dir.path()).join("\n");
            assert!(
                told.contains(key)
                    && told.contains("others on this host can read it")
                    && told.contains("`chmod 600 "),
                "{mode:o}: {told}"
            );
            assert!(!told.contains("secret-of") && !told.contains("PRIVATE KEY"), "{told}");
        }
    }
}

/// What one job leaves on a machine, no other meets, unless an operator says that it may.
#[test]
fn refuse_21_on_ec2_machines_are_replaced_by_default() {
    let clean = |text: &str| {
        let pools = parse_pools(text, "p").unwrap();
        pools[&PoolName::parse("big").unwrap()].clone().rules(host_spec()).unwrap().clean.name()
    };
    assert_eq!(clean(&POOL.replace("clean = \"replace\"\n", "")), "replace");
    assert_eq!(clean(&POOL.replace("clean = \"replace\"", "clean = \"cleanup\"")), "cleanup");
}
