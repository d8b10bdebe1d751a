//! Runners: what happens to one, what its agent says and is told, and the operator's verbs.

mod bootstrap;
mod effects;
mod operate;
mod registration;
mod sync;
mod token;
mod transition;
mod view;

pub use sync::Synced;

pub(crate) use token::not_its_token;
pub(crate) use transition::Applied;
pub(crate) use view::{runner_reason, time_left};

use motorpool_domain::text::steers;
use motorpool_wire::agent::LONGEST_ID;

/// How many records of one use case are written at the same time.
pub(crate) const ABREAST: usize = 8;

/// Whether a machine's or a boot's id, as an agent tells it, can be kept and shown as it is.
fn is_fit_id(id: &str) -> bool {
    id.chars().count() <= LONGEST_ID && !id.chars().any(steers)
}

fn is_token_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}
