//! Asks the control plane for a hook, with the agent's present token, and asks again where that can help: nobody answered, the control plane
//! failed, or it said when to come back. All of it within the caller's time. Each verb may be repeated: the control plane answers it as before.

use std::error::Error;
use std::time::Duration;

use motorpool_wire::error::ErrorCode;
use motorpool_wire::socket::{SocketAnswer, SocketError, SocketRequest};

use super::connection::Answer;
use crate::clock::{BootClock, BootInstant};
use crate::driver::LentToken;
use crate::http::{ControlPlane, HookCallError};

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
/// One that is silent for so long may be asked anew.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) struct Forward {
    pub(crate) control_plane: ControlPlane,
    pub(crate) token: LentToken,
}

impl Forward {
    pub(super) async fn ask(&self, request: SocketRequest, until: BootInstant) -> Answer {
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match self.ask_once(request.clone(), until).await {
                Ok(body) => return SocketAnswer::Ok(body),
                Err(error) => error,
            };
            // Half of it by chance: the hooks of many machines may have met the same outage.
            let own = pause.mul_f64(rand::random_range(0.5..1.0));
            let Some(wait) = worth_waiting(&error, own) else { return SocketAnswer::Error(error) };
            let again_at = BootClock.now() + wait;
            if again_at >= until {
                return SocketAnswer::Error(error);
            }
            tracing::warn!(
                status = error.status,
                error = error.message,
                ?wait,
                "a hook's request is tried again"
            );
            BootClock.sleep_until(again_at).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// The token is held until there is an answer: see [`LentToken`].
    async fn ask_once(
        &self,
        request: SocketRequest,
        until: BootInstant,
    ) -> Result<serde_json::Value, SocketError> {
        let token = tokio::select! {
            token = self.token.read() => token,
            () = BootClock.sleep_until(until) => return Err(changing_its_token()),
        };
        let left = until.since(BootClock.now()).min(CALL_TIMEOUT);
        self.control_plane.for_hook(&token, request, left).await.map_err(|error| match error {
            HookCallError::Refused(error) => error,
            HookCallError::Unreachable(error) => {
                tracing::warn!(error = &error as &dyn Error, "a hook's request was not answered");
                not_reached()
            }
        })
    }
}

/// How long to wait before it is asked again; nothing where the answer would be the same.
fn worth_waiting(error: &SocketError, own: Duration) -> Option<Duration> {
    let told = error.retry_after.map(Duration::from_secs);
    match error.status {
        429 => told,
        500.. => Some(told.unwrap_or_default().max(own)),
        _refused => None,
    }
}

fn not_reached() -> SocketError {
    SocketError {
        code: ErrorCode::Internal,
        message: "the control plane could not be reached".to_owned(),
        hint: "is `motorpool serve` up, and is the network between? the agent's log says what it met"
            .to_owned(),
        status: 503,
        retry_after: None,
    }
}

fn changing_its_token() -> SocketError {
    SocketError {
        code: ErrorCode::Internal,
        message: "the agent is changing its token, and has not heard from the control plane".to_owned(),
        hint: "ask again in a moment; if it stays so, the agent's log says why".to_owned(),
        status: 503,
        retry_after: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_change_by_itself_is_asked_again() {
        let own = Duration::from_millis(150);
        let seconds = Duration::from_secs;
        for (status, retry_after, expected) in [
            (400, None, None),
            (401, None, None),
            (403, None, None),
            (404, None, None),
            (409, None, None),
            (409, Some(3), None),
            (429, None, None),
            (429, Some(5), Some(seconds(5))),
            (500, None, Some(own)),
            (502, None, Some(own)),
            (503, Some(0), Some(own)),
            (503, Some(7), Some(seconds(7))),
        ] {
            let error = SocketError { status, retry_after, ..not_reached() };
            assert_eq!(worth_waiting(&error, own), expected, "{status} {retry_after:?}");
        }
    }
}
