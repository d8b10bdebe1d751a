//! Agents that are connected by a WebSocket: where they connect, and what the operator asks of them.

use super::JsonResult;
use crate::App;
use crate::auth::{Authenticated, Operator};
use crate::envelope::Refusal;
use crate::extract::{Body, Id};
use crate::lane::{Agents, Newcomer, too_many};
use crate::log::{CallerKind, Mark};
use crate::ws::{self, ChannelCredentials, Connecting};
use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::header::UPGRADE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use motorpool_control::ports::channels::{AgentChannels, ExecError};
use motorpool_control::{NotRun, RefusedKind};
use motorpool_domain::RunnerId;
use motorpool_wire::channel::{Connected, ExecAnswer, ExecRequest};
use motorpool_wire::error::{ErrorCode, ErrorEnvelope};
use motorpool_wire::schema;
use std::sync::Arc;

/// Opens an agent's WebSocket
///
/// With the runner's token in the header, or as `?runner_id=…&token=…`. A connection whose token is not good is closed at once with code 4401.
/// Its messages are `{"id","type":"create|finalize|status|ping","payload":{}}`, answered with `{"id","status":"ok|error","data","error":{"code","detail"}}`.
#[utoipa::path(
    get, path = "/ws/agent", operation_id = "open_agent_channel", tag = "agent", security(("runner" = [])),
    responses(
        (status = 101, description = "The connection is a WebSocket from here on"),
        (status = 400, description = "It is no WebSocket that is asked for", body = ErrorEnvelope),
        (status = 426, description = "It is asked for over a connection that can't become one", body = ErrorEnvelope),
    )
)]
pub(super) async fn open(
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    Extension(shown): Extension<ChannelCredentials>,
    Extension(mark): Extension<Mark>,
    Extension(agents): Extension<Arc<Agents>>,
    newcomer: Option<Extension<Arc<Newcomer>>>,
    State(app): State<App>,
) -> Result<Response, Refusal> {
    let known = app.control.connect_agent(shown.token(), shown.runner.as_deref()).await;
    let longest = app.limits.channel_message_bytes;
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade.max_message_size(longest).max_frame_size(longest),
        // Only who may connect is told how.
        Err(rejection) => return known.map(|_| not_upgraded(&rejection)).map_err(Refusal::from),
    };
    match known {
        Ok(agent) => {
            mark.is_of(CallerKind::Agent);
            if let Some(Extension(newcomer)) = newcomer {
                newcomer.is_known_now();
            }
            let place = app.channel_places.take().ok_or_else(too_many)?;
            let connecting = Connecting { agent, token: shown.token, agents, place };
            Ok(upgrade.on_upgrade(|socket| ws::serve(socket, app, connecting)))
        }
        Err(refused) if refused.kind == RefusedKind::Unauthorized => {
            agents.forget_token(shown.token());
            let place = app.turned_away_places.take().ok_or_else(too_many)?;
            Ok(upgrade.on_upgrade(|socket| ws::turn_away(socket, place)))
        }
        Err(refused) => Err(refused.into()),
    }
}

fn not_upgraded(rejection: &WebSocketUpgradeRejection) -> Response {
    let refusal = Refusal::invalid(
        format!("this route is a WebSocket: {}", rejection.body_text()),
        "ask for an upgrade over HTTP/1.1, with Connection: Upgrade and Upgrade: websocket",
    );
    let status = match rejection.status() {
        StatusCode::UPGRADE_REQUIRED => StatusCode::UPGRADE_REQUIRED,
        _ => StatusCode::BAD_REQUEST,
    };
    let mut answer = refusal.with_status(status).into_response();
    answer.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
    answer
}

/// Says whether a runner's agent is connected
///
/// For the operator. To the process that answers: another one of the same control plane may have the connection.
#[utoipa::path(
    get, path = "/internal/agent/{runner}/connected", operation_id = "show_agent_connected", tag = "agent",
    security(("operator" = [])),
    params(("runner" = inline(schema::RunnerId), Path, description = "Its id")),
    responses((status = 200, description = "Whether it is", body = Connected))
)]
pub(super) async fn connected(
    Operator(_): Operator,
    State(app): State<App>,
    Id(runner): Id<RunnerId>,
) -> JsonResult<Connected> {
    Ok(Json(Connected { connected: app.channels.is_connected(&runner) }))
}

/// Has a command run on a machine whose agent is connected
///
/// For the operator, and only where the runner's pool says `allow_exec`. Each command is in the runner's audit log. Of what it writes, the end is told.
#[utoipa::path(
    post, path = "/internal/agent/{runner}/exec", operation_id = "exec_on_agent", tag = "agent",
    request_body = ExecRequest, security(("operator" = [])),
    params(("runner" = inline(schema::RunnerId), Path, description = "Its id")),
    responses(
        (status = 200, description = "How it ended", body = ExecAnswer),
        (status = 403, description = "The pool does not allow commands on its machines, or the token is not the operator's", body = ErrorEnvelope),
        (status = 404, description = "There is no such runner, or its agent is not connected", body = ErrorEnvelope),
        (status = 502, description = "The agent could not run it, or was cut off: `internal`", body = ErrorEnvelope),
        (status = 504, description = "The agent has not said in time how it ended: `internal`. It may be running still", body = ErrorEnvelope),
    )
)]
pub(super) async fn exec(
    Authenticated(caller): Authenticated,
    State(app): State<App>,
    Id(runner): Id<RunnerId>,
    Body(request): Body<ExecRequest>,
) -> JsonResult<ExecAnswer> {
    // Its end is written down whether somebody waits for it or not.
    let running =
        tokio::spawn(
            async move { app.control.exec(&caller, &runner, &request, app.channels.as_ref()).await },
        );
    match running.await {
        Ok(ran) => Ok(Json(ran.map_err(not_run)?)),
        Err(error) => {
            tracing::error!(%error, "a command on a machine came to no end");
            Err(Refusal::internal("the command came to no end", "the server's log says more"))
        }
    }
}

fn not_run(why: NotRun) -> Refusal {
    let error = match why {
        NotRun::Refused(refused) => return refused.into(),
        NotRun::ByAgent(error) => error,
    };
    let (status, code, hint) = match &error {
        ExecError::NotConnected => (
            StatusCode::NOT_FOUND,
            ErrorCode::NotFound,
            "it connects to `/api/v1/ws/agent`; ask the process that has its connection",
        ),
        ExecError::Busy => {
            return Refusal::too_many(error.to_string(), "wait until one of them has ended");
        }
        ExecError::TimedOut => (
            StatusCode::GATEWAY_TIMEOUT,
            ErrorCode::Internal,
            "it may be running still: look at the machine, or ask with a longer timeout",
        ),
        ExecError::CutOff | ExecError::Failed(_) => (
            StatusCode::BAD_GATEWAY,
            ErrorCode::Internal,
            "it may have run all the same: look at the machine",
        ),
    };
    Refusal::new(status, code, error.to_string(), hint)
}
