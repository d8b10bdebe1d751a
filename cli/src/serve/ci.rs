//! The CI systems that this serve signs in to, as the pools file says. It calls nobody.

use crate::errors::Failure;
use crate::pools_file::{CiCredentials, PoolsFile};
use motorpool_ci::SetupError;
use motorpool_control::ports::ci::CiSystems;
use motorpool_domain::ci::CiSystem;
use std::sync::Arc;

pub(super) fn systems(file: &PoolsFile) -> Result<CiSystems, Failure> {
    let CiCredentials { github, gitlab } = &file.ci;
    let mut systems = CiSystems::default();
    if let Some(credentials) = github {
        systems = systems.with(CiSystem::GitHub, Arc::new(credentials.client().map_err(not_usable)?));
    }
    if let Some(credentials) = gitlab {
        systems = systems.with(CiSystem::GitLab, Arc::new(credentials.client().map_err(not_usable)?));
    }
    Ok(systems)
}

fn not_usable(error: SetupError) -> Failure {
    Failure::failed(error.to_string(), "correct the pools file, and start again")
}
