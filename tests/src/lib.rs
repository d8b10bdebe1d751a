//! What the tests share: the contract suites of the ports, the black-box suite of the API, a real serve, a scripted agent, an
//! emulated AWS.
//! The tests themselves are in `tests/`.

pub mod api;
pub mod black_box;
pub mod books;
pub mod contracts;
pub mod counted;
pub mod counting;
pub mod cutting;
pub mod emulated_aws;
pub mod fake_agent;
pub mod functions_target;
pub mod gating;
pub mod github;
pub mod network;
pub mod played;
pub mod seeded;
pub mod serve;
pub mod story;
pub mod wait;
pub mod world;
