//! Runners: what happens to one, what its agent says and is told, and the operator's verbs.

mod bootstrap;
mod channel;
mod direct;
mod effects;
mod list;
mod operate;
mod register;
mod registration;
mod revise;
mod sync;
mod token;
mod transition;
mod view;

pub use channel::{ConnectedAgent, NotRun};
pub use list::WhichRunners;
pub use sync::Synced;

pub(crate) use token::not_its_token;
pub(crate) use transition::Applied;
pub(crate) use view::{runner_reason, time_left};

use crate::error::Refused;
use motorpool_domain::runner::{LONGEST_COMMAND, is_command};
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

/// Whether each of a machine's own commands, by its name in requests, could be given to a shell.
fn must_be_commands(named: [(&str, Option<&str>); 3]) -> Result<(), Refused> {
    match named.into_iter().find(|(_, command)| !command.is_none_or(is_command)) {
        None => Ok(()),
        Some((name, _)) => Err(Refused::invalid(
            format!(
                "{name} must be 1 to {LONGEST_COMMAND} characters, and none of them a control but lines and tabs"
            ),
            "name a script of the machine's own, and put what is longer there",
        )),
    }
}
