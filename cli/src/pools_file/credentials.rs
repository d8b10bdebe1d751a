//! What the control plane signs in to CI systems with: the tables `[github]`, `[gitlab]` and `[jenkins]`. The secrets are in files of their
//! own, which nobody else on the host may read; they are never part of the pools file. What can't be signed in with is told with its line;
//! nobody is called.

use std::path::{Path, PathBuf};

use motorpool_ci::{
    Credentials, GitHub, GitHubConfig, GitLab, GitLabConfig, Jenkins, JenkinsConfig, JenkinsLogin, SetupError,
};
use motorpool_http::webhook::{BadSecret, GitHubSecret, GitLabSecret};
use secrecy::SecretString;
use serde::Deserialize;

use super::problem::Problems;
use super::strict::{self, Entry};
use crate::private_file;

#[derive(Debug, Clone, Default)]
pub(crate) struct CiCredentials {
    pub(crate) github: Option<GitHubCredentials>,
    pub(crate) gitlab: Option<GitLabCredentials>,
    pub(crate) jenkins: Option<JenkinsCredentials>,
}

#[derive(Debug, Clone)]
pub(crate) struct GitHubCredentials {
    /// The API of a GitHub Enterprise Server; without it, GitHub's own.
    pub(crate) api_url: Option<String>,
    pub(crate) login: GitHubLogin,
    /// Without it, its webhooks are not taken.
    pub(crate) webhook: Option<GitHubSecret>,
}

#[derive(Debug, Clone)]
pub(crate) enum GitHubLogin {
    App {
        app_id: u64,
        private_key: SecretString,
        /// Looked up where it is not given.
        installation_id: Option<u64>,
    },
    Token(SecretString),
}

#[derive(Debug, Clone)]
pub(crate) struct GitLabCredentials {
    pub(crate) url: String,
    pub(crate) token: SecretString,
    /// For what only reads.
    pub(crate) read_token: Option<SecretString>,
    /// Without it, its webhooks are not taken.
    pub(crate) webhook: Option<GitLabSecret>,
}

#[derive(Debug, Clone)]
pub(crate) struct JenkinsCredentials {
    pub(crate) url: String,
    pub(crate) login: JenkinsLogin,
    /// For a user who can bring nodes online, and cannot take them offline.
    pub(crate) unpause_login: Option<JenkinsLogin>,
}

impl GitHubCredentials {
    pub(crate) fn client(&self) -> Result<GitHub, SetupError> {
        let Self { api_url, login, webhook: _ } = self;
        let mut config = GitHubConfig::new(match login.clone() {
            GitHubLogin::App { app_id, private_key, installation_id } => {
                Credentials::App { app_id, private_key, installation_id }
            }
            GitHubLogin::Token(token) => Credentials::Token(token),
        });
        if let Some(url) = api_url {
            config.api_url = url.clone();
        }
        GitHub::new(config)
    }
}

impl GitLabCredentials {
    pub(crate) fn client(&self) -> Result<GitLab, SetupError> {
        let Self { url, token, read_token, webhook: _ } = self.clone();
        GitLab::new(GitLabConfig { url, token, read_token, plain_http: false })
    }
}

impl JenkinsCredentials {
    pub(crate) fn client(&self) -> Result<Jenkins, SetupError> {
        let Self { url, login, unpause_login } = self.clone();
        Jenkins::new(JenkinsConfig { url, login, unpause_login, plain_http: false })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GitHubTable {
    app_id: Option<u64>,
    private_key_file: Option<PathBuf>,
    installation_id: Option<u64>,
    token_file: Option<PathBuf>,
    api_url: Option<String>,
    webhook_secret_file: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GitLabTable {
    url: String,
    token_file: PathBuf,
    read_token_file: Option<PathBuf>,
    webhook_secret_file: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JenkinsTable {
    url: String,
    user: String,
    token_file: PathBuf,
    unpause_user: Option<String>,
    unpause_token_file: Option<PathBuf>,
}

pub(super) fn github(
    entry: &Entry<'_, '_>,
    dir: &Path,
    problems: &mut Problems<'_>,
) -> Option<GitHubCredentials> {
    let GitHubTable { app_id, private_key_file, installation_id, token_file, api_url, webhook_secret_file } =
        strict::table(entry, problems)?;
    let webhook = webhook_secret(entry, dir, webhook_secret_file.as_deref(), GitHubSecret::parse, problems);
    let api_url = match api_url {
        Some(url) => Some(address(entry, "api_url", url, problems)?),
        None => None,
    };
    let mut wrong = |key: &str, what: &str| {
        problems.add(entry.line_of(&[key]), &entry.key.then(key), what);
    };
    let login = match (app_id, private_key_file, token_file) {
        (Some(app_id), Some(file), None) => GitHubLogin::App {
            app_id,
            private_key: secret(entry, "private_key_file", dir, &file, problems)?,
            installation_id,
        },
        (None, None, Some(file)) => {
            if installation_id.is_some() {
                wrong("installation_id", "is of a GitHub App, and token_file is none; leave one out");
                return None;
            }
            GitHubLogin::Token(secret(entry, "token_file", dir, &file, problems)?)
        }
        (Some(_), None, None) => {
            wrong("private_key_file", "is missing: a GitHub App has an app_id and a private key");
            return None;
        }
        (None, Some(_), None) => {
            wrong("app_id", "is missing: a GitHub App has an app_id and a private key");
            return None;
        }
        (None, None, None) => {
            wrong(
                "app_id",
                "is missing, and so is token_file: give app_id and private_key_file, or token_file",
            );
            return None;
        }
        (Some(_), _, Some(_)) | (_, Some(_), Some(_)) => {
            wrong("token_file", "is given beside a GitHub App; leave one out");
            return None;
        }
    };
    let credentials = GitHubCredentials { api_url, login, webhook };
    let keys = Keys { address: "api_url", second_token: "token_file" };
    usable(entry, &keys, credentials.client(), problems).then_some(credentials)
}

pub(super) fn gitlab(
    entry: &Entry<'_, '_>,
    dir: &Path,
    problems: &mut Problems<'_>,
) -> Option<GitLabCredentials> {
    let GitLabTable { url, token_file, read_token_file, webhook_secret_file } =
        strict::table(entry, problems)?;
    let webhook = webhook_secret(entry, dir, webhook_secret_file.as_deref(), GitLabSecret::parse, problems);
    let url = gitlab_address(entry, url, problems);
    let token = secret(entry, "token_file", dir, &token_file, problems);
    let read_token = match read_token_file {
        Some(file) => Some(secret(entry, "read_token_file", dir, &file, problems)?),
        None => None,
    };
    let credentials = GitLabCredentials { url: url?, token: token?, read_token, webhook };
    let keys = Keys { address: "url", second_token: "read_token_file" };
    usable(entry, &keys, credentials.client(), problems).then_some(credentials)
}

pub(super) fn jenkins(
    entry: &Entry<'_, '_>,
    dir: &Path,
    problems: &mut Problems<'_>,
) -> Option<JenkinsCredentials> {
    let JenkinsTable { url, user, token_file, unpause_user, unpause_token_file } =
        strict::table(entry, problems)?;
    let url = address(entry, "url", url, problems);
    let token = secret(entry, "token_file", dir, &token_file, problems);
    let missing = |key: &str, beside: &str, problems: &mut Problems<'_>| {
        let what = format!("is missing: {beside} is there, and one needs the other");
        problems.add(entry.line_of(&[key]), &entry.key.then(key), &what);
    };
    let unpause_login = match (unpause_user, unpause_token_file) {
        (None, None) => None,
        (Some(user), Some(file)) => {
            let token = secret(entry, "unpause_token_file", dir, &file, problems)?;
            Some(JenkinsLogin { user, token })
        }
        (Some(_), None) => {
            missing("unpause_token_file", "unpause_user", problems);
            return None;
        }
        (None, Some(_)) => {
            missing("unpause_user", "unpause_token_file", problems);
            return None;
        }
    };
    let login = JenkinsLogin { user, token: token? };
    let credentials = JenkinsCredentials { url: url?, login, unpause_login };
    let keys = Keys { address: "url", second_token: "unpause_token_file" };
    usable(entry, &keys, credentials.client(), problems).then_some(credentials)
}

/// What a table calls that which its client may find fault with.
struct Keys {
    address: &'static str,
    second_token: &'static str,
}

fn usable<Client>(
    entry: &Entry<'_, '_>,
    keys: &Keys,
    client: Result<Client, SetupError>,
    problems: &mut Problems<'_>,
) -> bool {
    let Err(error) = client else { return true };
    let key = match &error {
        SetupError::Address { .. } => keys.address,
        SetupError::Key => "private_key_file",
        SetupError::Token { .. } => "token_file",
        SetupError::SecondLogin { .. } => keys.second_token,
        SetupError::User { .. } => "user",
        SetupError::Https { .. } => {
            problems.add(entry.at, &entry.key, &error.to_string());
            return false;
        }
    };
    problems.add(entry.line_of(&[key]), &entry.key.then(key), &error.to_string());
    false
}

/// The client looks closer; this is for what is plainly wrong, in fewer words.
fn address(entry: &Entry<'_, '_>, key: &str, url: String, problems: &mut Problems<'_>) -> Option<String> {
    if url.starts_with("https://") || url.starts_with("http://") {
        return Some(url);
    }
    problems.add(
        entry.line_of(&[key]),
        &entry.key.then(key),
        "must be an address, such as https://ci.example.com",
    );
    None
}

/// Every call's path begins with the API's own: it is no part of the address.
fn gitlab_address(entry: &Entry<'_, '_>, url: String, problems: &mut Problems<'_>) -> Option<String> {
    if url.trim_end_matches('/').ends_with("/api/v4") {
        problems.add(
            entry.line_of(&["url"]),
            &entry.key.then("url"),
            "must be GitLab's own address: leave out /api/v4",
        );
        return None;
    }
    address(entry, "url", url, problems)
}

/// What a CI system shows that a webhook is its own. One that is no such secret is a problem of the file's.
fn webhook_secret<Secret>(
    entry: &Entry<'_, '_>,
    dir: &Path,
    file: Option<&Path>,
    parse: fn(SecretString) -> Result<Secret, BadSecret>,
    problems: &mut Problems<'_>,
) -> Option<Secret> {
    const KEY: &str = "webhook_secret_file";
    let file = file?;
    let text = secret(entry, KEY, dir, file, problems)?;
    parse(text)
        .map_err(|bad| {
            let what = format!("{}: {bad}", dir.join(file).display());
            problems.add(entry.line_of(&[KEY]), &entry.key.then(KEY), &what);
        })
        .ok()
}

pub(super) fn secret(
    entry: &Entry<'_, '_>,
    key: &str,
    dir: &Path,
    file: &Path,
    problems: &mut Problems<'_>,
) -> Option<SecretString> {
    let path = dir.join(file);
    match read_private(&path) {
        Ok(secret) => Some(secret),
        Err(why) => {
            let what = format!("{}: {why}", path.display());
            problems.add(entry.line_of(&[key]), &entry.key.then(key), &what);
            None
        }
    }
}

/// A secret that others can read may be known already.
fn read_private(path: &Path) -> Result<SecretString, String> {
    let found = std::fs::metadata(path).map_err(|error| format!("cannot be read: {error}"))?;
    if private_file::is_open(&found) {
        return Err(format!(
            "others on this host can read it or write it; replace the secret if they may have, and close the file: `{}`",
            private_file::closing(path)
        ));
    }
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    match text.trim() {
        "" => Err("is empty".to_owned()),
        secret => Ok(SecretString::from(secret)),
    }
}
