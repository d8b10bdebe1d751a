//! The CI systems whose webhooks a function takes, from its environment.

use super::{SettingsError, Variable};
use motorpool_http::WebhookSecrets;
use motorpool_http::webhook::{BadSecret, GitHubSecret, GitLabSecret};
use secrecy::SecretString;

const GITHUB: Variable = Variable {
    name: "MOTORPOOL_GITHUB_WEBHOOK_SECRET",
    looks: "the secret that GitHub signs its webhooks with, at least 16 random characters, or not set",
};
const GITLAB: Variable = Variable {
    name: "MOTORPOOL_GITLAB_WEBHOOK_SECRET",
    looks: "the signing token of GitLab's webhook (whsec_…), or its secret token of at least 16 random characters, or not set",
};

pub(super) fn read(variable: impl Fn(&str) -> Option<String>) -> Result<WebhookSecrets, SettingsError> {
    Ok(WebhookSecrets {
        github: secret(&variable, &GITHUB, GitHubSecret::parse)?,
        gitlab: secret(&variable, &GITLAB, GitLabSecret::parse)?,
    })
}

fn secret<Secret>(
    variable: &impl Fn(&str) -> Option<String>,
    of: &Variable,
    parse: fn(SecretString) -> Result<Secret, BadSecret>,
) -> Result<Option<Secret>, SettingsError> {
    let parsed = variable(of.name).map(|text| parse(SecretString::from(text)));
    parsed.transpose().map_err(|bad| of.wrong(bad.to_string()))
}
