//! The calls that the agent makes for its job's hooks. What the control plane says of them is handed on as it is.

use std::time::Duration;

use motorpool_wire::checkpoint::{CreateCheckpoint, FinalizeCheckpoint};
use motorpool_wire::error::{ErrorBody, ErrorCode, ErrorEnvelope};
use motorpool_wire::socket::{ReadinessByHook, SocketError, SocketRequest, StatusByHook};
use reqwest::StatusCode;
use reqwest::header::AUTHORIZATION;
use serde_json::Value;
use thiserror::Error;

use super::{Authorization, CallError, ControlPlane, bounded_body, retry_after};

#[derive(Debug, Error)]
pub(crate) enum HookCallError {
    #[error("the control plane did not answer")]
    Unreachable(#[source] CallError),
    #[error("the control plane answered {}: {}", _0.status, _0.message)]
    Refused(SocketError),
}

impl ControlPlane {
    pub(crate) async fn for_hook(
        &self,
        authorization: &Authorization,
        request: SocketRequest,
        timeout: Duration,
    ) -> Result<Value, HookCallError> {
        let at = |path: &str| self.server.api(path);
        let call = match request {
            SocketRequest::Create(create) => {
                self.client.post(at("checkpoint/create")).json(&CreateCheckpoint::from(create))
            }
            SocketRequest::Finalize(finalize) => {
                self.client.post(at("checkpoint/finalize")).json(&FinalizeCheckpoint::from(finalize))
            }
            SocketRequest::Status(StatusByHook { checkpoint_name }) => {
                self.client.get(at(&format!("checkpoint/status/{checkpoint_name}")))
            }
            SocketRequest::Readiness(ReadinessByHook {}) => self.client.get(at("runner/readiness")),
        };
        let call = call.header(AUTHORIZATION, authorization.header.clone()).timeout(timeout);
        let unreachable = |error| HookCallError::Unreachable(CallError::Unreachable(error));
        let response = call.send().await.map_err(unreachable)?;
        let status = response.status();
        let retry_after = retry_after(response.headers()).map(|wait| wait.as_secs());
        let body = bounded_body(response).await.map_err(HookCallError::Unreachable)?;
        let understood = serde_json::from_slice(&body);
        match (status.is_success(), understood) {
            (true, Ok(body)) => Ok(body),
            (true, Err(_)) => Err(HookCallError::Refused(not_the_control_plane())),
            (false, _) => Err(HookCallError::Refused(refusal(status, retry_after, &body))),
        }
    }
}

fn refusal(status: StatusCode, retry_after: Option<u64>, body: &[u8]) -> SocketError {
    let ErrorBody { code, message, hint } = match serde_json::from_slice::<ErrorEnvelope>(body) {
        Ok(ErrorEnvelope { error }) => error,
        Err(_other_than_ours) => ErrorBody {
            code: code_of(status),
            message: format!("the control plane answered {status}, and gave no reason"),
            hint: "what is in front of the control plane may have answered in its place".to_owned(),
        },
    };
    SocketError { code, message, hint, status: status.as_u16(), retry_after }
}

fn not_the_control_plane() -> SocketError {
    SocketError {
        code: ErrorCode::Internal,
        message: "the control plane's answer was not understood".to_owned(),
        hint: "agent and control plane must not be more than one version apart; and nothing else may answer at the agent's --server"
            .to_owned(),
        status: StatusCode::BAD_GATEWAY.as_u16(),
        retry_after: None,
    }
}

fn code_of(status: StatusCode) -> ErrorCode {
    match status {
        StatusCode::UNAUTHORIZED => ErrorCode::Unauthorized,
        StatusCode::FORBIDDEN => ErrorCode::Forbidden,
        StatusCode::NOT_FOUND => ErrorCode::NotFound,
        StatusCode::CONFLICT => ErrorCode::Conflict,
        StatusCode::GONE => ErrorCode::Gone,
        StatusCode::TOO_MANY_REQUESTS => ErrorCode::TooManyRequests,
        refused if refused.is_client_error() => ErrorCode::InvalidRequest,
        _failed => ErrorCode::Internal,
    }
}
