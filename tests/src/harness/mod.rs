//! What starts real things, drives them and looks at them: a serve, the functions, a network, a control plane in memory. No case,
//! and nothing that only pretends.

pub mod api;
pub mod books;
pub mod emulated_aws;
pub mod functions_target;
pub mod network;
pub mod seeded;
pub mod serve;
pub mod story;
pub mod wait;
pub mod world;
