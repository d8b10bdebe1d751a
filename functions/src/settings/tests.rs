use super::*;
use motorpool_domain::ci::CiSystem;
use std::collections::HashMap;

const SECRET: &str = "a-secret-that-nobody-may-see-at-all";

fn read(changes: &[(&'static str, Option<&str>)]) -> Result<FromEnvironment, SettingsError> {
    let mut all = HashMap::from([
        ("MOTORPOOL_ADMIN_TOKEN", Some("mp_admin_0123456789")),
        ("MOTORPOOL_SERVER_SECRET", Some("mp_server_0123456789_0123456789_0123456789")),
    ]);
    all.extend(changes.iter().copied());
    FromEnvironment::read(|name| all.get(name).copied().flatten().map(str::to_owned))
}

#[test]
fn what_is_not_said_has_defaults() {
    let from = read(&[]).unwrap();
    assert_eq!((from.table.as_str(), from.queue_prefix.as_str()), ("motorpool", "motorpool"));
    let PlaneSettings { refresh, sweep, teams, limits, resource_classes } = from.settings;
    assert_eq!((refresh.as_secs(), sweep.as_secs()), (30, 300));
    assert!(teams.is_empty() && limits.is_empty() && resource_classes.is_empty());
}

#[test]
fn everything_can_be_said() {
    let settings = format!(
        r#"{{"refresh_seconds":60,"sweep_seconds":600,"teams":{{"team-a":["{}","{}"],"team-b":[]}},
            "resource_classes":{{"large":{{"cpu":4,"memory_mb":8192}}}}}}"#,
        "0f".repeat(32),
        "A0".repeat(32),
    );
    let from = read(&[
        ("MOTORPOOL_TABLE", Some("pool.one_2-x")),
        ("MOTORPOOL_QUEUE_PREFIX", Some("mp-1")),
        ("MOTORPOOL_SETTINGS", Some(&settings)),
    ])
    .unwrap();
    assert_eq!((from.table.as_str(), from.queue_prefix.as_str()), ("pool.one_2-x", "mp-1"));
    let team = Owner::parse("team-a").unwrap();
    assert_eq!(from.settings.teams, [(team.clone(), [0x0f; 32]), (team, [0xa0; 32])]);
    assert_eq!(from.settings.resource_classes["large"], Spec { cpu: 4, memory_mb: 8192 });
    assert_eq!((from.settings.refresh.as_secs(), from.settings.sweep.as_secs()), (60, 600));
}

#[test]
fn a_team_may_have_limits_and_the_older_form_has_the_usual_ones() {
    let hash = "0f".repeat(32);
    let settings = format!(
        r#"{{"teams":{{"web":{{"token_sha256":["{hash}"],"max_open_claims":50,"max_slots":20,"max_requests_at_once":8}},
            "ops":{{"token_sha256":[]}},"old":[]}}}}"#
    );
    let from = read(&[("MOTORPOOL_SETTINGS", Some(&settings))]).unwrap();
    let [web, ops, old] = ["web", "ops", "old"].map(|name| Owner::parse(name).unwrap());
    assert_eq!(from.settings.teams, [(web.clone(), [0x0f; 32])]);
    let limited = TeamLimits { max_open_claims: 50, max_slots: Some(20), max_requests_at_once: 8 };
    assert_eq!(from.settings.limits[&web], limited);
    assert_eq!(from.settings.limits[&ops], TeamLimits::default());
    assert_eq!(from.settings.limits[&old], TeamLimits::default());
}

#[test]
fn a_mistake_is_named_with_its_variable_and_never_quoted() {
    let same = "0f".repeat(32);
    let twice = format!(r#"{{"teams":{{"a":["{same}"],"b":["{same}"]}}}}"#);
    let long = "x".repeat(300);
    for (name, value, says) in [
        ("MOTORPOOL_ADMIN_TOKEN", None, "is not set"),
        ("MOTORPOOL_ADMIN_TOKEN", Some("short"), "is too short"),
        ("MOTORPOOL_SERVER_SECRET", None, "is not set"),
        ("MOTORPOOL_SERVER_SECRET", Some("sixteen-or-more-are-not-enough"), "is too short"),
        ("MOTORPOOL_TABLE", Some("ab"), "is no such name"),
        ("MOTORPOOL_TABLE", Some("a table"), "is no such name"),
        ("MOTORPOOL_TABLE", Some(long.as_str()), "is no such name"),
        ("MOTORPOOL_QUEUE_PREFIX", Some(""), "is no such name"),
        ("MOTORPOOL_QUEUE_PREFIX", Some("a.b"), "is no such name"),
        ("MOTORPOOL_SETTINGS", Some(""), "no JSON object"),
        ("MOTORPOOL_SETTINGS", Some("{"), "is not JSON"),
        ("MOTORPOOL_SETTINGS", Some("[]"), "no JSON object"),
        ("MOTORPOOL_SETTINGS", Some(r#"{"refresh":1}"#), "unknown"),
        ("MOTORPOOL_SETTINGS", Some(r#"{"refresh_seconds":"60"}"#), "of another type"),
        ("MOTORPOOL_SETTINGS", Some(r#"{"refresh_seconds":0}"#), "refresh_seconds"),
        ("MOTORPOOL_SETTINGS", Some(r#"{"sweep_seconds":86401}"#), "sweep_seconds"),
        ("MOTORPOOL_SETTINGS", Some(r#"{"teams":{"team a":[]}}"#), "whose name is none"),
        ("MOTORPOOL_SETTINGS", Some(r#"{"teams":{"operator":[]}}"#), "reserved"),
        ("MOTORPOOL_SETTINGS", Some(r#"{"teams":{"a":{"max_slots":1}}}"#), "of another type"),
        ("MOTORPOOL_SETTINGS", Some(r#"{"teams":{"a":{"token_sha256":[],"slots":1}}}"#), "of another type"),
        (
            "MOTORPOOL_SETTINGS",
            Some(r#"{"teams":{"a":{"token_sha256":[],"max_slots":0}}}"#),
            "max_slots must be",
        ),
        (
            "MOTORPOOL_SETTINGS",
            Some(r#"{"teams":{"a":["a-secret-that-nobody-may-see-at-all"]}}"#),
            "64 hexadecimal",
        ),
        ("MOTORPOOL_SETTINGS", Some(twice.as_str()), "there twice"),
        ("MOTORPOOL_SETTINGS", Some(r#"{"resource_classes":{"l":{"cpu":0,"memory_mb":1}}}"#), "without CPUs"),
        ("MOTORPOOL_SETTINGS", Some(r#"{"resource_classes":{"l":{"cpu":1}}}"#), "of another type"),
        ("MOTORPOOL_SETTINGS", Some(r#"{"teams":"a-secret-that-nobody-may-see-at-all"}"#), "of another type"),
    ] {
        let error = read(&[(name, value)]).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(says), "{value:?}: {error}");
        assert!(error.contains("it should be") && !error.contains(SECRET), "{value:?}: {error}");
    }
}

#[test]
fn a_secret_is_not_in_its_debug_form() {
    let shown = format!("{:?}", read(&[("MOTORPOOL_SERVER_SECRET", Some(SECRET))]).unwrap());
    assert!(!shown.contains(SECRET) && !shown.contains("mp_admin_"), "{shown}");
}

#[test]
fn outside_lambda_it_says_what_it_is() {
    assert_eq!(must_be_lambda(|_| Some("127.0.0.1:9001".to_owned())), Ok(()));
    let error = must_be_lambda(|_| None).unwrap_err().to_string();
    assert!(error.contains("cargo lambda watch"), "{error}");
}

#[test]
fn a_ci_system_is_signed_in_to_by_a_token_or_an_app() {
    let systems = |changes: &[(&'static str, Option<&str>)]| read(changes).map(|from| from.ci);
    let none = systems(&[]).unwrap();
    assert!(none.get(CiSystem::GitHub).is_none() && none.get(CiSystem::GitLab).is_none());
    let token = systems(&[("MOTORPOOL_GITHUB_TOKEN", Some("ghp_x"))]).unwrap();
    assert!(token.get(CiSystem::GitHub).is_some());
    let gitlab = [
        ("MOTORPOOL_GITLAB_URL", Some("https://gitlab.example")),
        ("MOTORPOOL_GITLAB_TOKEN", Some("glpat-x")),
    ];
    assert!(systems(&gitlab).unwrap().get(CiSystem::GitLab).is_some());
    let mut jenkins = vec![
        ("MOTORPOOL_JENKINS_URL", Some("https://ci.example")),
        ("MOTORPOOL_JENKINS_USER", Some("motorpool")),
        ("MOTORPOOL_JENKINS_TOKEN", Some("11aa")),
    ];
    assert!(systems(&jenkins).unwrap().get(CiSystem::Jenkins).is_some());
    jenkins.extend([
        ("MOTORPOOL_JENKINS_UNPAUSE_USER", Some("motorpool-online")),
        ("MOTORPOOL_JENKINS_UNPAUSE_TOKEN", Some("11bb")),
    ]);
    assert!(systems(&jenkins).unwrap().get(CiSystem::Jenkins).is_some());
}

#[test]
fn webhooks_are_taken_of_whom_a_secret_is_set_for() {
    let none = read(&[]).unwrap().webhooks;
    assert!(none.github.is_none() && none.gitlab.is_none());
    let both = [
        ("MOTORPOOL_GITHUB_WEBHOOK_SECRET", Some(SECRET)),
        ("MOTORPOOL_GITLAB_WEBHOOK_SECRET", Some(SECRET)),
    ];
    let from = read(&both).unwrap();
    assert!(from.webhooks.github.is_some() && from.webhooks.gitlab.is_some());
    assert!(!format!("{from:?}").contains(SECRET));
}

#[test]
fn refuse_17_what_is_wrong_with_a_ci_system_is_named_and_not_quoted() {
    for (changes, named) in [
        (vec![("MOTORPOOL_GITHUB_APP_ID", Some("1"))], "MOTORPOOL_GITHUB_APP_KEY"),
        (vec![("MOTORPOOL_GITHUB_APP_KEY", Some(SECRET))], "MOTORPOOL_GITHUB_APP_ID"),
        (vec![("MOTORPOOL_GITHUB_APP_ID", Some("one"))], "MOTORPOOL_GITHUB_APP_ID"),
        (
            vec![("MOTORPOOL_GITHUB_APP_ID", Some("1")), ("MOTORPOOL_GITHUB_APP_KEY", Some(SECRET))],
            "MOTORPOOL_GITHUB_APP_KEY",
        ),
        (vec![("MOTORPOOL_GITLAB_TOKEN", Some(SECRET))], "MOTORPOOL_GITLAB_URL"),
        (vec![("MOTORPOOL_GITLAB_URL", Some("https://gitlab.example"))], "MOTORPOOL_GITLAB_TOKEN"),
        (vec![("MOTORPOOL_GITLAB_READ_TOKEN", Some(SECRET))], "MOTORPOOL_GITLAB_TOKEN"),
        (vec![("MOTORPOOL_JENKINS_TOKEN", Some(SECRET))], "MOTORPOOL_JENKINS_URL"),
        (
            vec![("MOTORPOOL_JENKINS_URL", Some("https://ci")), ("MOTORPOOL_JENKINS_TOKEN", Some(SECRET))],
            "MOTORPOOL_JENKINS_USER",
        ),
        (vec![("MOTORPOOL_JENKINS_UNPAUSE_TOKEN", Some(SECRET))], "MOTORPOOL_JENKINS_UNPAUSE_USER"),
        (vec![("MOTORPOOL_URL", Some("http://plain.example"))], "MOTORPOOL_URL"),
        (vec![("MOTORPOOL_GITHUB_WEBHOOK_SECRET", Some("short"))], "MOTORPOOL_GITHUB_WEBHOOK_SECRET"),
        (vec![("MOTORPOOL_GITLAB_WEBHOOK_SECRET", Some("whsec_a"))], "MOTORPOOL_GITLAB_WEBHOOK_SECRET"),
    ] {
        let error = read(&changes).unwrap_err().to_string();
        assert!(error.contains(named), "{named} is not named in: {error}");
        assert!(!error.contains(SECRET), "{error}");
    }
}

#[test]
fn who_is_told_of_incidents_is_said_whole_or_not_at_all() {
    const URL: (&str, Option<&str>) = ("MOTORPOOL_ALERTS_URL", Some("https://hooks.example.org/x"));
    const SLACK: (&str, Option<&str>) = ("MOTORPOOL_ALERTS_FORMAT", Some("slack"));
    const JSON: (&str, Option<&str>) = ("MOTORPOOL_ALERTS_FORMAT", Some("json"));
    let signed = ("MOTORPOOL_ALERTS_SECRET", Some(SECRET));
    assert!(read(&[]).unwrap().alerts.is_none());
    assert!(read(&[URL, SLACK]).unwrap().alerts.is_some());
    assert!(read(&[URL, JSON, signed]).unwrap().alerts.is_some());
    for (wrong, names) in [
        (vec![URL], "MOTORPOOL_ALERTS_FORMAT"),
        (vec![SLACK], "MOTORPOOL_ALERTS_URL"),
        (vec![URL, JSON], "MOTORPOOL_ALERTS_SECRET"),
        (vec![URL, JSON, ("MOTORPOOL_ALERTS_SECRET", Some("short"))], "MOTORPOOL_ALERTS_SECRET"),
        (vec![URL, SLACK, signed], "MOTORPOOL_ALERTS_SECRET"),
        (vec![URL, ("MOTORPOOL_ALERTS_FORMAT", Some("teams"))], "MOTORPOOL_ALERTS_FORMAT"),
        (vec![URL, SLACK, ("MOTORPOOL_ALERTS_ALLOW_PRIVATE", Some("yes"))], "MOTORPOOL_ALERTS_ALLOW_PRIVATE"),
    ] {
        let error = read(&wrong).unwrap_err();
        assert_eq!(error.name, names, "{error}");
        assert!(!error.to_string().contains(SECRET), "{error}");
    }
}

#[test]
fn refuse_15_a_function_tells_nobody_within_its_network_unless_that_is_said() {
    for url in
        ["https://169.254.169.254/latest/api/token", "https://[fd00:ec2::254]/", "http://hooks.example.org/x"]
    {
        let told = [("MOTORPOOL_ALERTS_URL", Some(url)), ("MOTORPOOL_ALERTS_FORMAT", Some("slack"))];
        let error = read(&told).unwrap_err();
        assert!(error.name == "MOTORPOOL_ALERTS_URL" && !error.to_string().contains(url), "{error}");
        let said = [told.as_slice(), &[("MOTORPOOL_ALERTS_ALLOW_PRIVATE", Some("true"))]].concat();
        assert!(read(&said).unwrap().alerts.is_some());
    }
}
