//! The clients over real HTTP on loopback: what the vendors' descriptions do not say, such as lost answers, limits, paging, and that no
//! secret shows anywhere. That requests fit the descriptions is shown in `tests/ci`.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends here"
)]

mod clients;
mod contract;
mod fake_gitlab;
mod fake_jenkins;
mod github;
mod github_login;
mod gitlab;
mod health;
mod jenkins;
mod jobs;
mod limits;
mod secrets;
mod silence;
mod stages;
