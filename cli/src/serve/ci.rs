//! The CI systems that this serve signs in to, as the pools file says. It makes the clients, and calls nobody.

use crate::errors::Failure;
use crate::pools_file::{CiCredentials, GitHubCredentials, GitHubLogin, GitLabCredentials, PoolsFile};
use motorpool_ci::{Credentials, GitHub, GitHubConfig, GitLab, GitLabConfig, SetupError};
use motorpool_control::ports::ci::CiSystems;
use motorpool_domain::ci::CiSystem;
use std::sync::Arc;

pub(super) fn systems(file: &PoolsFile) -> Result<CiSystems, Failure> {
    let CiCredentials { github, gitlab } = &file.ci;
    let mut systems = CiSystems::default();
    if let Some(credentials) = github {
        systems = systems.with(CiSystem::GitHub, Arc::new(self::github(credentials).map_err(not_usable)?));
    }
    if let Some(GitLabCredentials { url, token }) = gitlab {
        let config = GitLabConfig { url: url.clone(), token: token.clone(), plain_http: false };
        systems = systems.with(CiSystem::GitLab, Arc::new(GitLab::new(config).map_err(not_usable)?));
    }
    Ok(systems)
}

fn github(credentials: &GitHubCredentials) -> Result<GitHub, SetupError> {
    let GitHubCredentials { api_url, login } = credentials;
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

fn not_usable(error: SetupError) -> Failure {
    Failure::failed(error.to_string(), "correct the pools file, and start again")
}
