//! The CI systems: GitHub and GitLab, each as one client behind the port [`motorpool_control::ports::ci::Ci`]. They make and remove
//! registrations of runners. Which runner registers when, and which registration is a ghost, is not decided here.

mod error;
mod github;
mod gitlab;
mod health;
mod limits;
mod transport;

pub use error::SetupError;
pub use github::{Credentials, GitHub, GitHubConfig};
pub use gitlab::{GitLab, GitLabConfig};
