//! The black-box suite of the pool layer: cases that know a target only by its address and its tokens, so that the same suite
//! runs against `serve` and against any other deployment of the same routes. It starts nothing.
//!
//! Each case makes what it needs under names of its own, and can share a target with the others.

pub mod agents;
pub mod audit_why;
pub mod claims;
pub mod limits;
pub mod openapi;
pub mod picking;
pub mod pools;
pub mod provisioning;
pub mod refusals;
pub mod refusals_agents;
pub mod refusals_callers;
pub mod release;
pub mod runners;
mod target;
mod watch;

pub use target::{METAL, METAL_MAX, SMALL, SMALL_MAX, TEAM_A, TEAM_B, Target};
pub use watch::Watch;

/// Hands every case to a macro as `subject: case, case;`, so that a new deployment need not list them again.
#[macro_export]
macro_rules! with_black_box_cases {
    ($each:ident) => {
        $each! {
        }
    };
}
