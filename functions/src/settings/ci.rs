//! The CI systems that a function signs in to, from its environment.

use super::{SettingsError, Variable};
use motorpool_ci::{Credentials, GitHub, GitHubConfig, GitLab, GitLabConfig, SetupError};
use motorpool_control::ports::ci::CiSystems;
use motorpool_domain::ci::CiSystem;
use secrecy::SecretString;
use std::sync::Arc;

const GITHUB_TOKEN: Variable =
    Variable { name: "MOTORPOOL_GITHUB_TOKEN", looks: "a token, where there is no GitHub App" };
const GITHUB_APP_ID: Variable =
    Variable { name: "MOTORPOOL_GITHUB_APP_ID", looks: "the number of the GitHub App" };
const GITHUB_APP_KEY: Variable =
    Variable { name: "MOTORPOOL_GITHUB_APP_KEY", looks: "the private key of the GitHub App, in PEM" };
const GITHUB_INSTALLATION: Variable = Variable {
    name: "MOTORPOOL_GITHUB_INSTALLATION_ID",
    looks: "the number of the GitHub App's installation, or not set",
};
const GITHUB_API_URL: Variable = Variable {
    name: "MOTORPOOL_GITHUB_API_URL",
    looks: "the address of a GitHub Enterprise Server's API, or not set",
};
const GITLAB_URL: Variable =
    Variable { name: "MOTORPOOL_GITLAB_URL", looks: "GitLab's address, such as https://gitlab.com" };
const GITLAB_TOKEN: Variable = Variable {
    name: "MOTORPOOL_GITLAB_TOKEN",
    looks: "a token that may make runners, beside MOTORPOOL_GITLAB_URL",
};

/// Nobody is called.
pub(super) fn read(variable: impl Fn(&str) -> Option<String>) -> Result<CiSystems, SettingsError> {
    let mut systems = CiSystems::default();
    if let Some(github) = github(&variable)? {
        systems = systems.with(CiSystem::GitHub, Arc::new(github));
    }
    match (variable(GITLAB_URL.name), variable(GITLAB_TOKEN.name)) {
        (None, None) => {}
        (Some(url), Some(token)) => {
            let config = GitLabConfig { url, token: SecretString::from(token), plain_http: false };
            let gitlab = GitLab::new(config).map_err(|error| GITLAB_URL.wrong(error.to_string()))?;
            systems = systems.with(CiSystem::GitLab, Arc::new(gitlab));
        }
        (Some(_), None) => return Err(GITLAB_TOKEN.wrong("is not set")),
        (None, Some(_)) => return Err(GITLAB_URL.wrong("is not set")),
    }
    Ok(systems)
}

fn github(variable: &impl Fn(&str) -> Option<String>) -> Result<Option<GitHub>, SettingsError> {
    let number = |of: &Variable| match variable(of.name) {
        Some(text) => text.parse::<u64>().map(Some).map_err(|_| of.wrong("is no number")),
        None => Ok(None),
    };
    let (app_id, key) = (number(&GITHUB_APP_ID)?, variable(GITHUB_APP_KEY.name));
    let of = if app_id.is_some() { &GITHUB_APP_KEY } else { &GITHUB_TOKEN };
    let credentials = match (app_id, key, variable(GITHUB_TOKEN.name)) {
        (None, None, None) => return Ok(None),
        (Some(app_id), Some(key), None) => Credentials::App {
            app_id,
            private_key: SecretString::from(key),
            installation_id: number(&GITHUB_INSTALLATION)?,
        },
        (None, None, Some(token)) => Credentials::Token(SecretString::from(token)),
        (Some(_), None, _) => return Err(GITHUB_APP_KEY.wrong("is not set")),
        (None, Some(_), _) => return Err(GITHUB_APP_ID.wrong("is not set")),
        (Some(_), Some(_), Some(_)) => return Err(GITHUB_TOKEN.wrong("is set beside a GitHub App")),
    };
    let mut config = GitHubConfig::new(credentials);
    if let Some(url) = variable(GITHUB_API_URL.name) {
        config.api_url = url;
    }
    GitHub::new(config).map(Some).map_err(|error| match error {
        SetupError::Address { .. } => GITHUB_API_URL.wrong(error.to_string()),
        SetupError::Key | SetupError::Token { .. } | SetupError::Https { .. } => of.wrong(error.to_string()),
    })
}
