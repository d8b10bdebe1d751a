//! The CI systems: GitHub and GitLab, each as one client behind the port [`motorpool_control::ports::ci::Ci`]. They make and remove
//! registrations of runners. Which runner registers when, and which registration is a ghost, is not decided here.

mod github;
mod gitlab;
mod limits;
mod standing;
mod transport;
mod trouble;

pub use github::{Credentials, GitHub, GitHubConfig};
pub use gitlab::{GitLab, GitLabConfig};
pub use trouble::SetupError;
