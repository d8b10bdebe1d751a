//! Stands before the emulator: notes what is asked of it, answers the next writes with an error, swallows the answers to them, or leaves
//! keys unread.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use serde_json::{Value, json};

#[derive(Debug, Clone)]
pub(crate) struct Faults {
    inner: SharedHttpClient,
    plan: Arc<Mutex<Plan>>,
}

#[derive(Debug, Default)]
struct Plan {
    /// What was asked, by the name of the operation.
    asked: Vec<String>,
    conflicts: u32,
    conflict: String,
    lose: u32,
    leave_unread: u32,
}

impl Faults {
    pub(crate) fn new(inner: SharedHttpClient) -> Self {
        Self { inner, plan: Arc::default() }
    }

    /// So many of the next writes are refused with this answer, and not applied.
    pub(crate) fn conflict(&self, times: u32, body: String) {
        let mut plan = self.plan();
        (plan.conflicts, plan.conflict) = (times, body);
    }

    /// So many of the next writes are applied, and their answers lost.
    pub(crate) fn lose_answers(&self, times: u32) {
        self.plan().lose = times;
    }

    /// So many of the next batches are answered with every key unread.
    pub(crate) fn leave_unread(&self, times: u32) {
        self.plan().leave_unread = times;
    }

    /// How many faults have not fired yet.
    pub(crate) fn left(&self) -> u32 {
        let plan = self.plan();
        plan.conflicts + plan.lose + plan.leave_unread
    }

    /// What was asked since the last question.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.plan().asked)
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self, operation: &str) -> Fault {
        let mut plan = self.plan();
        plan.asked.push(operation.to_owned());
        let Plan { asked: _, conflicts, conflict, lose, leave_unread } = &mut *plan;
        let reads = ["GetItem", "BatchGetItem", "Query"].contains(&operation);
        if !reads && *conflicts > 0 {
            *conflicts -= 1;
            Fault::Refuse(conflict.clone())
        } else if !reads && *lose > 0 {
            *lose -= 1;
            Fault::LoseAnswer
        } else if operation == "BatchGetItem" && *leave_unread > 0 {
            *leave_unread -= 1;
            Fault::LeaveUnread
        } else {
            Fault::None
        }
    }
}

enum Fault {
    None,
    Refuse(String),
    LoseAnswer,
    LeaveUnread,
}

/// A transaction that was cancelled for these reasons, one for each of its writes.
pub(crate) fn cancelled(reasons: &[&str]) -> String {
    let reasons: Vec<_> = reasons.iter().map(|code| json!({ "Code": code })).collect();
    json!({
        "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
        "Message": "Transaction cancelled",
        "CancellationReasons": reasons,
    })
    .to_string()
}

pub(crate) fn refused(code: &str) -> String {
    json!({ "__type": format!("com.amazonaws.dynamodb.v20120810#{code}"), "message": "busy" }).to_string()
}

impl HttpClient for Faults {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        parts: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let inner = self.inner.http_connector(settings, parts);
        SharedHttpConnector::new(FaultyConnector { faults: self.clone(), inner })
    }
}

#[derive(Debug)]
struct FaultyConnector {
    faults: Faults,
    inner: SharedHttpConnector,
}

impl HttpConnector for FaultyConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default();
        match self.faults.next(operation) {
            Fault::None => self.inner.call(request),
            Fault::Refuse(body) => answer(http::StatusCode::BAD_REQUEST, body),
            Fault::LoseAnswer => {
                let answer = self.inner.call(request);
                HttpConnectorFuture::new(async move {
                    answer.await?;
                    Err(ConnectorError::io("the connection was closed".into()))
                })
            }
            Fault::LeaveUnread => {
                let asked = request.body().bytes().unwrap_or_default();
                let asked: Value = serde_json::from_slice(asked).unwrap_or_default();
                let unread = json!({ "Responses": {}, "UnprocessedKeys": asked.get("RequestItems") });
                answer(http::StatusCode::OK, unread.to_string())
            }
        }
    }
}

fn answer(status: http::StatusCode, body: String) -> HttpConnectorFuture {
    HttpConnectorFuture::ready(Ok(HttpResponse::new(StatusCode::from(status), SdkBody::from(body))))
}
