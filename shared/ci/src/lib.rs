//! The CI systems: GitHub, GitLab and Jenkins, each as one client behind the port [`motorpool_control::ports::ci::Ci`]. They make and
//! remove registrations of runners, look up jobs, and keep jobs from a runner. Which runner registers when, and which registration is a
//! ghost, is not decided here.

mod call;
mod error;
mod github;
mod gitlab;
mod health;
mod jenkins;
mod limits;
mod segment;
mod silence;
mod transport;

pub use error::SetupError;
pub use github::{Credentials, GitHub, GitHubConfig};
pub use gitlab::{GitLab, GitLabConfig};
pub use jenkins::{Jenkins, JenkinsConfig, JenkinsLogin};
