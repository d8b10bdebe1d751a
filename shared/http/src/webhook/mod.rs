//! Webhooks of CI systems: whether one is truly its system's, and what it says. What becomes of it is decided in `control`.

mod github;
mod gitlab;
mod secrets;

pub use github::github_job;
pub use gitlab::gitlab_job;
pub use secrets::{BadSecret, GitHubSecret, GitLabSecret, WebhookSecrets};

use axum::http::HeaderMap;

/// A header that is there once. Of two, each reader would take another.
pub(crate) fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        (Some(_) | None, _) => None,
    }
}
