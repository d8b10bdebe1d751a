//! The hook's end of the agent's socket: one line out, one line in.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use motorpool_wire::error::ErrorCode;
use motorpool_wire::socket::{LONGEST_CALL, SocketAnswer, SocketError, SocketRequest};
use serde_json::Value;

/// An agent answers before that, or never.
const PATIENCE: Duration = LONGEST_CALL.saturating_add(Duration::from_secs(10));
/// Of an answer. A checkpoint's is far shorter.
const LONGEST_ANSWER: u64 = 4 * 1024 * 1024;

/// The body of the control plane's answer.
pub(super) fn ask(socket: &Path, request: SocketRequest) -> Result<Value, SocketError> {
    let stream = UnixStream::connect(socket).map_err(|error| no_agent(socket, &error))?;
    let line = exchange(&stream, &request).map_err(|error| no_answer(&error.to_string()))?;
    match serde_json::from_slice(&line) {
        Ok(SocketAnswer::Ok(body)) => Ok(body),
        Ok(SocketAnswer::Error(error)) => Err(error),
        Err(_) if line.is_empty() => Err(no_answer("it hung up")),
        Err(_) => Err(no_answer("what it said was not understood")),
    }
}

fn exchange(stream: &UnixStream, request: &SocketRequest) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    // An agent that refuses a line that is too long says so before it has read all of it.
    let written = (&mut &*stream).write_all(&line);
    let mut answer = Vec::new();
    BufReader::new(stream.take(LONGEST_ANSWER)).read_until(b'\n', &mut answer)?;
    match answer.is_empty() {
        true => written.map(|()| answer),
        false => Ok(answer),
    }
}

fn no_agent(socket: &Path, error: &io::Error) -> SocketError {
    let at = socket.display();
    if error.kind() == ErrorKind::PermissionDenied {
        return SocketError {
            code: ErrorCode::Forbidden,
            message: format!("this user may not use the agent's socket {at}"),
            hint: "the socket's group may: put the user of the CI runner into it, or name another with the agent's --socket-group"
                .to_owned(),
            status: 403,
            retry_after: None,
        };
    }
    let message = match matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) {
        true => format!("no agent listens at {at}"),
        false => format!("the agent's socket {at} cannot be used: {error}"),
    };
    let hint = "is the agent up? if its socket is elsewhere, say where with --socket or $MOTORPOOL_SOCKET"
        .to_owned();
    SocketError { code: ErrorCode::Internal, message, hint, status: 503, retry_after: None }
}

fn no_answer(why: &str) -> SocketError {
    SocketError {
        code: ErrorCode::Internal,
        message: format!("the agent did not answer: {why}"),
        hint: "ask again: each verb may be repeated; the agent's log says what it met".to_owned(),
        status: 503,
        retry_after: None,
    }
}
