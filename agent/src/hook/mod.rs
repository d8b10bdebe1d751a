//! `checkpoint`: the verbs that a job's hooks call, for `motorpool` and `motorpool-agent` alike. They ask the agent of this machine over its socket,
//! tell what it said, and exit with a code that a script can tell apart. They know no token and no server.

mod args;
mod client;
mod told;

pub use args::CheckpointArgs;

use std::process::ExitCode;

use motorpool_domain::text::visible;
use motorpool_wire::socket::SocketError;
use serde_json::json;

use args::CheckpointVerb;
use client::ask;

/// Not now, or not at all: the control plane refused or failed, or there is no agent.
const EXIT_FAILED: u8 = 1;
const EXIT_USAGE: u8 = 2;
const EXIT_NOT_ALLOWED: u8 = 3;
const EXIT_NOT_FOUND: u8 = 4;
const EXIT_TOO_MANY: u8 = 5;

/// `json`: tells the control plane's own answer instead of words, errors too.
pub fn main(args: CheckpointArgs, json: bool) -> ExitCode {
    let CheckpointArgs { socket, verb } = args;
    let told = match verb {
        CheckpointVerb::Create(create) => {
            ask(&socket, create.into()).and_then(|body| told::created(body, json))
        }
        CheckpointVerb::Finalize(finalize) => {
            ask(&socket, finalize.into()).and_then(|body| told::finalized(body, json))
        }
        CheckpointVerb::Status(status) => {
            ask(&socket, status.into()).and_then(|body| told::shown(body, json))
        }
        CheckpointVerb::Ready => ask(&socket, args::readiness()).and_then(|body| told::readiness(body, json)),
    };
    told.unwrap_or_else(|error| report(&error, json))
}

/// Tells stderr, and says how to exit.
fn report(error: &SocketError, json: bool) -> ExitCode {
    let SocketError { code, message, hint, status: _, retry_after: _ } = error;
    let (message, hint) = (visible(message), visible(hint));
    if json {
        eprintln!("{}", json!({"error": {"code": code, "message": message, "hint": hint}}));
    } else {
        eprintln!("error: {message}");
        if !hint.is_empty() {
            eprintln!("hint: {hint}");
        }
    }
    ExitCode::from(exit_code(error))
}

fn exit_code(error: &SocketError) -> u8 {
    match error.status {
        401 | 403 => EXIT_NOT_ALLOWED,
        404 => EXIT_NOT_FOUND,
        409 | 410 => EXIT_FAILED,
        429 => EXIT_TOO_MANY,
        400..500 => EXIT_USAGE,
        _failed => EXIT_FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use motorpool_wire::error::ErrorCode;

    #[test]
    fn a_script_can_tell_what_to_do_from_the_exit_code() {
        for (statuses, expected) in [
            (&[409, 410, 500, 502, 503, 504, 302][..], 1),
            (&[400, 408, 413, 415, 422], 2),
            (&[401, 403], 3),
            (&[404], 4),
            (&[429], 5),
        ] {
            for status in statuses {
                let (code, message, hint) = (ErrorCode::Internal, String::new(), String::new());
                let error = SocketError { code, message, hint, status: *status, retry_after: None };
                assert_eq!(exit_code(&error), expected, "{status}");
            }
        }
    }
}
