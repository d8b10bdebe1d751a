//! The CI systems that a function signs in to, from its environment.

use super::{SettingsError, Variable};
use motorpool_ci::{
    Credentials, GitHub, GitHubConfig, GitLab, GitLabConfig, Jenkins, JenkinsConfig, JenkinsLogin, SetupError,
};
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
const GITLAB_READ_TOKEN: Variable = Variable {
    name: "MOTORPOOL_GITLAB_READ_TOKEN",
    looks: "a token that may only read, beside MOTORPOOL_GITLAB_TOKEN, or not set",
};
const JENKINS_URL: Variable =
    Variable { name: "MOTORPOOL_JENKINS_URL", looks: "Jenkins' address, such as https://ci.example.com" };
const JENKINS_USER: Variable =
    Variable { name: "MOTORPOOL_JENKINS_USER", looks: "the user that MOTORPOOL_JENKINS_TOKEN is of" };
const JENKINS_TOKEN: Variable =
    Variable { name: "MOTORPOOL_JENKINS_TOKEN", looks: "an API token of MOTORPOOL_JENKINS_USER" };
const JENKINS_UNPAUSE_USER: Variable = Variable {
    name: "MOTORPOOL_JENKINS_UNPAUSE_USER",
    looks: "a user who can bring nodes online and cannot take them offline, or not set",
};
const JENKINS_UNPAUSE_TOKEN: Variable = Variable {
    name: "MOTORPOOL_JENKINS_UNPAUSE_TOKEN",
    looks: "an API token of MOTORPOOL_JENKINS_UNPAUSE_USER, or not set",
};

/// Nobody is called.
pub(super) fn read(variable: impl Fn(&str) -> Option<String>) -> Result<CiSystems, SettingsError> {
    let mut systems = CiSystems::default();
    if let Some(github) = github(&variable)? {
        systems = systems.with(CiSystem::GitHub, Arc::new(github));
    }
    if let Some(gitlab) = gitlab(&variable)? {
        systems = systems.with(CiSystem::GitLab, Arc::new(gitlab));
    }
    if let Some(jenkins) = jenkins(&variable)? {
        systems = systems.with(CiSystem::Jenkins, Arc::new(jenkins));
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
        SetupError::Key
        | SetupError::Token { .. }
        | SetupError::SecondLogin { .. }
        | SetupError::User { .. }
        | SetupError::Https { .. } => of.wrong(error.to_string()),
    })
}

fn gitlab(variable: &impl Fn(&str) -> Option<String>) -> Result<Option<GitLab>, SettingsError> {
    let read_token = variable(GITLAB_READ_TOKEN.name).map(SecretString::from);
    let (url, token) = match (variable(GITLAB_URL.name), variable(GITLAB_TOKEN.name)) {
        (None, None) if read_token.is_none() => return Ok(None),
        (Some(url), Some(token)) => (url, SecretString::from(token)),
        (_, None) => return Err(GITLAB_TOKEN.wrong("is not set")),
        (None, Some(_)) => return Err(GITLAB_URL.wrong("is not set")),
    };
    let config = GitLabConfig { url, token, read_token, plain_http: false };
    GitLab::new(config).map(Some).map_err(|error| match error {
        SetupError::Address { .. } | SetupError::Https { .. } => GITLAB_URL.wrong(error.to_string()),
        SetupError::SecondLogin { .. } => GITLAB_READ_TOKEN.wrong(error.to_string()),
        SetupError::Token { .. } | SetupError::User { .. } | SetupError::Key => {
            GITLAB_TOKEN.wrong(error.to_string())
        }
    })
}

fn jenkins(variable: &impl Fn(&str) -> Option<String>) -> Result<Option<Jenkins>, SettingsError> {
    let set = |of: &Variable| variable(of.name).ok_or_else(|| of.wrong("is not set"));
    let login = |user: &Variable, token: &Variable| {
        Ok::<_, SettingsError>(JenkinsLogin { user: set(user)?, token: SecretString::from(set(token)?) })
    };
    let any = |of: &[Variable]| of.iter().any(|of| variable(of.name).is_some());
    let unpauses = any(&[JENKINS_UNPAUSE_USER, JENKINS_UNPAUSE_TOKEN]);
    if !unpauses && !any(&[JENKINS_URL, JENKINS_USER, JENKINS_TOKEN]) {
        return Ok(None);
    }
    let unpause_login = unpauses.then(|| login(&JENKINS_UNPAUSE_USER, &JENKINS_UNPAUSE_TOKEN)).transpose()?;
    let (url, login) = (set(&JENKINS_URL)?, login(&JENKINS_USER, &JENKINS_TOKEN)?);
    let config = JenkinsConfig { url, login, unpause_login, plain_http: false };
    Jenkins::new(config).map(Some).map_err(|error| match error {
        SetupError::Address { .. } | SetupError::Https { .. } => JENKINS_URL.wrong(error.to_string()),
        SetupError::User { .. } => JENKINS_USER.wrong(error.to_string()),
        SetupError::SecondLogin { .. } => JENKINS_UNPAUSE_TOKEN.wrong(error.to_string()),
        SetupError::Token { .. } | SetupError::Key => JENKINS_TOKEN.wrong(error.to_string()),
    })
}
