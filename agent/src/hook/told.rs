//! What a checkpoint verb prints of its answer, and how it exits: one line for people and scripts, or the answer itself.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use motorpool_domain::text::visible;
use motorpool_wire::checkpoint::{CheckpointView, FinalizeAnswer, Readiness};
use motorpool_wire::error::ErrorCode;
use motorpool_wire::socket::SocketError;
use serde::de::DeserializeOwned;
use serde_json::Value;

type Told = Result<ExitCode, SocketError>;

/// The name alone, so that a hook can take it as it is.
pub(super) fn created(body: Value, json: bool) -> Told {
    tell(body, json, |checkpoint: &CheckpointView| (checkpoint.name.to_string(), ExitCode::SUCCESS))
}

pub(super) fn finalized(body: Value, json: bool) -> Told {
    tell(body, json, |answer: &FinalizeAnswer| {
        let FinalizeAnswer { detail, checkpoint_name, state } = answer;
        let line = match state {
            Some(state) => format!("{detail}: checkpoint {checkpoint_name} is {state}"),
            None => format!("{detail}: checkpoint {checkpoint_name}"),
        };
        (line, ExitCode::SUCCESS)
    })
}

pub(super) fn shown(body: Value, json: bool) -> Told {
    tell(body, json, |checkpoint: &CheckpointView| {
        let CheckpointView { name, runner_id, job_id, state, why, .. } = checkpoint;
        let line = format!("checkpoint {name} of job {job_id} on runner {runner_id} is {state}: {why}");
        (line, ExitCode::SUCCESS)
    })
}

pub(super) fn readiness(body: Value, json: bool) -> Told {
    tell(body, json, |readiness: &Readiness| {
        let Readiness { runner_id, ready, state } = readiness;
        match ready {
            true => (format!("runner {runner_id} can take a job"), ExitCode::SUCCESS),
            false => (format!("runner {runner_id} can take no job now: it is {state}"), ExitCode::FAILURE),
        }
    })
}

fn tell<T: DeserializeOwned>(
    body: Value,
    json: bool,
    in_words: impl FnOnce(&T) -> (String, ExitCode),
) -> Told {
    let understood: T = serde_json::from_value(body.clone())
        .map_err(|error| failed(format!("the control plane's answer was not understood: {error}")))?;
    let (line, exit) = in_words(&understood);
    // A value of JSON has no control character but escaped; what turns the text's direction becomes a mark.
    let text = if json { body.to_string() } else { line };
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{}", visible(&text)).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(failed(format!("cannot write to stdout: {error}")))
        }
        Ok(()) | Err(_) => Ok(exit),
    }
}

fn failed(message: String) -> SocketError {
    SocketError { code: ErrorCode::Internal, message, hint: String::new(), status: 502, retry_after: None }
}
