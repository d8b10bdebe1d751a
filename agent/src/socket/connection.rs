//! One connection: one line in, one line out. Whoever sends too much, too slowly or what is not understood is told so, and nothing is asked for him.

use std::time::Duration;

use motorpool_wire::error::ErrorCode;
use motorpool_wire::socket::{LONGEST_CALL, LONGEST_LINE, SocketAnswer, SocketError, SocketRequest};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::forward::Forward;
use crate::clock::BootClock;

/// A hook knows what it wants before it connects.
const REQUEST_WITHIN: Duration = Duration::from_secs(5);
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
const TOO_LONG: u16 = 413;
/// What is thrown away of a request that is too long, so that its sender comes to read why: a socket that is closed before loses its answer.
const THROWN_AWAY: u64 = 1024 * 1024;
const THROWN_AWAY_WITHIN: Duration = Duration::from_secs(1);

/// A caller who has hung up is not noticed before his answer is there: what was begun for him is done.
pub(super) async fn answer(stream: UnixStream, forward: &Forward) {
    let until = BootClock.now() + LONGEST_CALL;
    let (reading, mut writing) = stream.into_split();
    let mut reading = BufReader::new(reading);
    let (answer, unread) = match request(&mut reading).await {
        Ok(request) => (forward.ask(request, until).await, false),
        Err(error) => {
            let unread = error.status == TOO_LONG;
            (SocketAnswer::Error(error), unread)
        }
    };
    let Ok(mut line) = serde_json::to_vec(&answer) else { return };
    line.push(b'\n');
    let written = timeout(ANSWER_WITHIN, async {
        writing.write_all(&line).await?;
        writing.shutdown().await
    });
    if let Err(error) = written.await.unwrap_or_else(|late| Err(late.into())) {
        tracing::debug!(%error, "a hook did not take its answer");
    }
    if unread {
        let mut rest = reading.take(THROWN_AWAY);
        let _nobody_reads_it =
            timeout(THROWN_AWAY_WITHIN, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
    }
}

async fn request(reading: &mut (impl AsyncBufReadExt + Unpin)) -> Result<SocketRequest, SocketError> {
    let mut line = Vec::new();
    let longest = u64::try_from(LONGEST_LINE).unwrap_or(u64::MAX);
    let mut bounded = reading.take(longest.saturating_add(1));
    let read = timeout(REQUEST_WITHIN, bounded.read_until(b'\n', &mut line)).await;
    match read {
        Err(_late) => {
            return Err(refused(408, "the request did not come in time", "send one line of JSON at once"));
        }
        Ok(Err(error)) => return Err(refused(400, &format!("the request could not be read: {error}"), "")),
        Ok(Ok(_length)) if line.len() > LONGEST_LINE => {
            let message = format!("the request is longer than {LONGEST_LINE} bytes");
            return Err(refused(TOO_LONG, &message, "a request has a job's id and a few names, and no more"));
        }
        Ok(Ok(_length)) => {}
    }
    serde_json::from_slice(&line).map_err(|error| {
        let hint = "the verbs are create, finalize, status and readiness; `motorpool-agent checkpoint --help` has them";
        refused(400, &format!("the request was not understood: {error}"), hint)
    })
}

fn refused(status: u16, message: &str, hint: &str) -> SocketError {
    let (message, hint) = (message.to_owned(), hint.to_owned());
    SocketError { code: ErrorCode::InvalidRequest, message, hint, status, retry_after: None }
}

/// What goes back to a hook.
pub(super) type Answer = SocketAnswer<Value>;
