//! What a new machine is told at its first boot: the template of `infra/cloud-init` with its placeholders filled. All machines of a call are
//! told the same, and nothing in it is secret but the launch's own secret.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use motorpool_control::ports::backend::{LaunchOrder, Unfit};
use motorpool_domain::pool::{Download, Ec2Rules};

use crate::Ec2Config;

const TEMPLATE: &str = include_str!("../../../infra/cloud-init/user-data.yaml.tmpl");
/// EC2's own bound, before it is encoded.
const LARGEST: usize = 16 * 1_024;

/// What the agent is told where there are certificates; the template writes that file.
const TRUSTING: &str = "--ca-file /etc/motorpool/ca.pem";

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UserDataError {
    #[error("{0} has a character that can't stand in user data")]
    NotPlain(&'static str),
    #[error(
        "the user data of its machines would have {all} bytes, {certificates} of them the certificates of --tls-cert, and EC2 takes {LARGEST}"
    )]
    TooLarge { all: usize, certificates: usize },
}

/// As long as any that a launch is given.
const SOME_LAUNCH: &str = "l-0123456789012345678901234567890123456789";
const SOME_SECRET: &str = "mp_launch_0123456789012345678901234567890123456789012";

/// Whether machines with these rules could be told what they need, before any is asked for.
pub(crate) fn fits(rules: &Ec2Rules, settings: &Ec2Config) -> Result<(), Unfit> {
    let filled = filled(&Values {
        server_url: &settings.server_url,
        launch: SOME_LAUNCH,
        from: u32::MAX,
        launch_secret: SOME_SECRET,
        agent: rules.agent.as_ref(),
        runner_program: rules.runner_program.as_ref(),
        ca_pem: settings.ca_pem.as_deref(),
    });
    filled.map(|_| ()).map_err(|error| {
        let hint = match &error {
            UserDataError::NotPlain(_) => "leave out quotes, spaces and the characters \\ ` $ < >",
            UserDataError::TooLarge { .. } => {
                "leave certificates out of that file: the server's own, and the authority that signed it, are enough; or give the pool shorter addresses in ec2.agent and ec2.runner_program"
            }
        };
        Unfit { why: error.to_string(), hint: hint.to_owned() }
    })
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
    // Each with what people call it.
    let values = [
        ("SERVER_URL", "the server's address, --public-url,", server_url.to_owned()),
        ("LAUNCH", "the launch's id", launch.to_owned()),
        ("FROM", "the machine's number", from.to_string()),
        ("LAUNCH_SECRET", "the launch's secret", launch_secret.to_owned()),
        ("AGENT_URL", "ec2.agent.url", url(agent)),
        ("AGENT_SHA256", "ec2.agent.sha256", sha256(agent)),
        ("RUNNER_URL", "ec2.runner_program.url", url(runner_program)),
        ("RUNNER_SHA256", "ec2.runner_program.sha256", sha256(runner_program)),
    ];
    if let Some((_, what, _)) = values.iter().find(|(_, _, value)| !is_plain(value)) {
        return Err(UserDataError::NotPlain(what));
    }
    let ca_pem = certificates_in(ca_pem.unwrap_or_default());
    if !is_pem(&ca_pem) {
        return Err(UserDataError::NotPlain("a certificate of --tls-cert"));
    }
    // A line of its own would have to be indented as the template is: it is one string of YAML, with its newlines escaped.
    let ca_pem = ca_pem.replace('\n', "\\n");
    // Not by a script of the boot, which may be later than the agent's start.
    let agent_options = if ca_pem.is_empty() { "" } else { TRUSTING };
    let mut text = TEMPLATE.replace("@@CA_PEM@@", &ca_pem).replace("@@AGENT_OPTIONS@@", agent_options);
    for (name, _, value) in &values {
        text = text.replace(&format!("@@{name}@@"), value);
    }
    if text.len() > LARGEST {
        return Err(UserDataError::TooLarge { all: text.len(), certificates: ca_pem.len() });
    }
    Ok(text)
}

/// Nothing else of the file: it may have a description above each of them, and the private key, which is nobody's but the server's.
fn certificates_in(pem: &str) -> String {
    let (mut all, mut block) = (String::new(), None);
    for line in pem.lines().map(str::trim) {
        match line {
            "-----BEGIN CERTIFICATE-----" => block = Some(String::new()),
            line if line.starts_with("-----BEGIN ") => block = None,
            _ => {}
        }
        if let Some(block) = &mut block {
            block.push_str(line);
            block.push('\n');
        }
        if line == "-----END CERTIFICATE-----" {
            all.extend(block.take());
        }
    }
    all
}

/// Nothing that could end a quoted string in YAML or a shell, or be a placeholder itself.
fn is_plain(value: &str) -> bool {
    value.bytes().all(|byte| byte.is_ascii_graphic() && !b"'\"\\`$<>".contains(&byte))
        && !value.contains("@@")
}

fn is_pem(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=- \n".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use motorpool_domain::LaunchId;

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
    fn the_agent_is_told_to_trust_certificates_where_there_are_some() {
        let with = filled(&VALUES).unwrap();
        assert!(with.contains("MOTORPOOL_AGENT_OPTIONS='--ca-file /etc/motorpool/ca.pem'\n"), "{with}");
        let without = filled(&Values { ca_pem: None, ..VALUES }).unwrap();
        assert!(without.contains("MOTORPOOL_AGENT_OPTIONS=''\n"), "{without}");
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
            assert!(matches!(refused, UserDataError::NotPlain(_)), "{bad}: {refused}");
            assert!(refused.to_string().contains("--public-url"), "{bad}: {refused}");
        }
        let pem = format!("{BEGIN}x\"\nruncmd: [reboot]\n{END}");
        let refused = filled(&Values { ca_pem: Some(&pem), ..VALUES }).unwrap_err();
        assert_eq!(refused, UserDataError::NotPlain("a certificate of --tls-cert"));
    }

    const BEGIN: &str = "-----BEGIN CERTIFICATE-----\n";
    const END: &str = "-----END CERTIFICATE-----\n";

    /// A file that has both, as some servers want it, would show the key to every job.
    #[test]
    fn refuse_17_of_the_servers_file_only_certificates_are_sent() {
        let key = "-----BEGIN PRIVATE KEY-----\nCANARY\n-----END PRIVATE KEY-----\n";
        let (one, two) = (format!("{BEGIN}MIIB\n{END}"), format!("{BEGIN}MIIC\n{END}"));
        let windows = one.replace('\n', "\r\n");
        let cut = format!("{BEGIN}MIID\n{key}");
        for (file, sent) in [
            (format!("{key}{one}{two}"), format!("{one}{two}")),
            (format!("Certificate:\n    Data: \"x\"\n{one}{key}{two}{key}"), format!("{one}{two}")),
            (format!("{windows}{cut}"), one.clone()),
            (format!("{cut}{two}"), two.clone()),
            (String::new(), String::new()),
        ] {
            assert_eq!(certificates_in(&file), sent, "{file}");
            let text = filled(&Values { ca_pem: Some(&file), ..VALUES }).unwrap();
            assert!(!text.contains("CANARY") && !text.contains("PRIVATE"), "{text}");
        }
    }

    #[test]
    fn what_ec2_would_not_take_is_refused_here() {
        let pem = format!("{BEGIN}{}\n{END}", "x".repeat(LARGEST));
        let refused = filled(&Values { ca_pem: Some(&pem), ..VALUES }).unwrap_err();
        assert!(matches!(refused, UserDataError::TooLarge { .. }), "{refused}");
    }

    #[test]
    fn no_launch_is_told_more_than_was_looked_at_before() {
        assert!(LaunchId::parse(SOME_LAUNCH).is_ok());
        assert!(LaunchId::parse(format!("{SOME_LAUNCH}0")).is_err());
        // A SHA-256 in base64.
        assert_eq!(SOME_SECRET.len(), "mp_launch_".len() + 43);
    }
}
