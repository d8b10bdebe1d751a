//! The CI systems that this serve signs in to and takes webhooks of, as the pools file says. It calls nobody.

use crate::errors::Failure;
use crate::pools_file::{CiCredentials, PoolsFile};
use motorpool_ci::SetupError;
use motorpool_control::ports::ci::CiSystems;
use motorpool_domain::ci::CiSystem;
use motorpool_http::WebhookSecrets;
use std::sync::Arc;

pub(super) fn systems(file: &PoolsFile) -> Result<CiSystems, Failure> {
    let CiCredentials { github, gitlab, jenkins } = &file.ci;
    let mut systems = CiSystems::default();
    if let Some(credentials) = github {
        systems = systems.with(CiSystem::GitHub, Arc::new(credentials.client().map_err(not_usable)?));
    }
    if let Some(credentials) = gitlab {
        systems = systems.with(CiSystem::GitLab, Arc::new(credentials.client().map_err(not_usable)?));
    }
    if let Some(credentials) = jenkins {
        systems = systems.with(CiSystem::Jenkins, Arc::new(credentials.client().map_err(not_usable)?));
    }
    Ok(systems)
}

pub(super) fn webhooks(file: &PoolsFile) -> WebhookSecrets {
    WebhookSecrets {
        github: file.ci.github.as_ref().and_then(|credentials| credentials.webhook.clone()),
        gitlab: file.ci.gitlab.as_ref().and_then(|credentials| credentials.webhook.clone()),
    }
}

fn not_usable(error: SetupError) -> Failure {
    Failure::failed(error.to_string(), "correct the pools file, and start again")
}
