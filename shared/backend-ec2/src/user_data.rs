//! What a new machine is told at its first boot: the template of `infra/cloud-init` with its placeholders filled. All machines of a call are
//! told the same, and nothing in it is secret but the launch's own secret.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use motorpool_control::ports::backend::LaunchOrder;
use motorpool_domain::pool::{Download, Ec2Rules};

use crate::Ec2Config;

const TEMPLATE: &str = include_str!("../../../infra/cloud-init/user-data.yaml.tmpl");
/// EC2's own bound, before it is encoded.
const LARGEST: usize = 16 * 1_024;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UserDataError {
    #[error("{0} has a character that can't stand in user data")]
    NotPlain(&'static str),
    #[error("the user data would have {0} bytes, and EC2 takes {LARGEST}: shorten the CA certificates")]
    TooLarge(usize),
}

/// As EC2 wants it: in base64.
pub(crate) fn encoded(
    order: &LaunchOrder<'_>,
    rules: &Ec2Rules,
    settings: &Ec2Config,
) -> Result<String, UserDataError> {
    let text = filled(&Values {
        server_url: &settings.server_url,
        launch: order.launch.as_str(),
        from: order.attempt.from,
        launch_secret: &order.launch_secret,
        agent: rules.agent.as_ref(),
        runner_program: rules.runner_program.as_ref(),
        ca_pem: settings.ca_pem.as_deref(),
    })?;
    Ok(STANDARD.encode(text))
}

struct Values<'a> {
    server_url: &'a str,
    launch: &'a str,
    from: u32,
    launch_secret: &'a str,
    agent: Option<&'a Download>,
    runner_program: Option<&'a Download>,
    ca_pem: Option<&'a str>,
}

fn filled(values: &Values<'_>) -> Result<String, UserDataError> {
    let Values { server_url, launch, from, launch_secret, agent, runner_program, ca_pem } = *values;
    let url = |download: Option<&Download>| download.map(|it| it.url.clone()).unwrap_or_default();
    let sha256 = |download: Option<&Download>| download.map(|it| it.sha256.clone()).unwrap_or_default();
    let values = [
        ("SERVER_URL", server_url.to_owned()),
        ("LAUNCH", launch.to_owned()),
        ("FROM", from.to_string()),
        ("LAUNCH_SECRET", launch_secret.to_owned()),
        ("AGENT_URL", url(agent)),
        ("AGENT_SHA256", sha256(agent)),
        ("RUNNER_URL", url(runner_program)),
        ("RUNNER_SHA256", sha256(runner_program)),
    ];
    if let Some((name, _)) = values.iter().find(|(_, value)| !is_plain(value)) {
        return Err(UserDataError::NotPlain(name));
    }
    let ca_pem = ca_pem.unwrap_or_default();
    if !is_pem(ca_pem) {
        return Err(UserDataError::NotPlain("CA_PEM"));
    }
    // A line of its own would have to be indented as the template is: it is one string of YAML, with its newlines escaped.
    let ca_pem = ca_pem.replace("\r\n", "\n").replace('\n', "\\n");
    let mut text = TEMPLATE.replace("@@CA_PEM@@", &ca_pem);
    for (name, value) in &values {
        text = text.replace(&format!("@@{name}@@"), value);
    }
    if text.len() > LARGEST { Err(UserDataError::TooLarge(text.len())) } else { Ok(text) }
}

/// Nothing that could end a quoted string in YAML or a shell, or be a placeholder itself.
fn is_plain(value: &str) -> bool {
    value.bytes().all(|byte| byte.is_ascii_graphic() && !b"'\"\\`$<>".contains(&byte))
        && !value.contains("@@")
}

fn is_pem(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=- \r\n".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: Values<'static> = Values {
        server_url: "https://pool.example:8443",
        launch: "l-abc",
        from: 7,
        launch_secret: "mp_launch_5ec2e7",
        agent: None,
        runner_program: None,
        ca_pem: Some("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"),
    };

    fn download(what: &str) -> Download {
        Download { url: format!("https://downloads.example/{what}"), sha256: "ab".repeat(32) }
    }

    #[test]
    fn every_placeholder_is_filled() {
        let (agent, program) = (download("agent"), download("runner"));
        let text = filled(&Values { agent: Some(&agent), runner_program: Some(&program), ..VALUES }).unwrap();
        assert!(text.starts_with("#cloud-config\n"), "{text}");
        assert!(!text.contains("@@"), "{text}");
        let ca = r"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
        for value in
            [VALUES.server_url, "l-abc", "mp_launch_5ec2e7", &agent.url, &program.url, &agent.sha256, ca]
        {
            assert!(text.contains(value), "{value} is not in\n{text}");
        }
        assert!(!filled(&VALUES).unwrap().contains("@@"));
    }

    #[test]
    fn refuse_17_the_launch_secret_stands_in_it_once() {
        let text = filled(&VALUES).unwrap();
        assert_eq!(text.matches(VALUES.launch_secret).count(), 1, "{text}");
    }

    #[test]
    fn refuse_13_no_value_breaks_out_of_its_place() {
        for bad in [
            "https://x\n- reboot",
            "https://x'; reboot",
            "https://$(reboot)",
            "`reboot`",
            "https://x y",
            "@@LAUNCH@@",
        ] {
            let refused = filled(&Values { server_url: bad, ..VALUES }).unwrap_err();
            assert_eq!(refused, UserDataError::NotPlain("SERVER_URL"), "{bad}");
        }
        let refused = filled(&Values { ca_pem: Some("x\"\nruncmd: [reboot]"), ..VALUES }).unwrap_err();
        assert_eq!(refused, UserDataError::NotPlain("CA_PEM"));
    }

    #[test]
    fn what_ec2_would_not_take_is_refused_here() {
        let pem = "x".repeat(LARGEST);
        let refused = filled(&Values { ca_pem: Some(&pem), ..VALUES }).unwrap_err();
        assert!(matches!(refused, UserDataError::TooLarge(_)), "{refused}");
    }
}
