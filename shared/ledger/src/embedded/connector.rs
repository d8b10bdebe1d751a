//! The SDK's HTTP connector that hands each request to the engine, on the blocking pool. There is no network and no
//! time-out here, and a fault of the engine is always an answer: 500, never a panic.

use std::sync::Arc;

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use dynoxide::DynoxideError;
use tokio::sync::Semaphore;

use super::Shared;
use super::dispatch::{Answer, serve};

#[derive(Debug, Clone)]
pub(super) struct Connector {
    shared: Arc<Shared>,
}

impl Connector {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

impl HttpClient for Connector {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let shared = Arc::clone(&self.shared);
        HttpConnectorFuture::new(async move {
            let target = request.headers().get("x-amz-target").unwrap_or_default().to_owned();
            let calls = Arc::clone(&shared.calls);
            let answer = on_blocking_pool(calls, move || {
                let body = request.body().bytes().unwrap_or_default();
                serve(&shared.database, &target, body)
            })
            .await;
            response(answer)
        })
    }
}

/// The permit goes along: when the caller gives up, the call still counts until it is over.
async fn on_blocking_pool(calls: Arc<Semaphore>, call: impl FnOnce() -> Answer + Send + 'static) -> Answer {
    let Ok(permit) = calls.acquire_owned().await else {
        return fault("the embedded ledger is closed");
    };
    let running = tokio::task::spawn_blocking(move || {
        let answer = call();
        drop(permit);
        answer
    });
    match running.await {
        Ok(answer) => answer,
        // After a panic inside the engine its lock is poisoned and it refuses all that follows, so that nothing is
        // built on a half-done write; the process has to be started again.
        Err(error) if error.is_panic() => fault("the embedded ledger's engine panicked"),
        Err(_) => fault("the process is shutting down"),
    }
}

fn fault(message: &str) -> Answer {
    tracing::error!(message, "the embedded ledger could not serve a request");
    Answer::from(DynoxideError::InternalServerError(message.to_owned()))
}

fn response(answer: Answer) -> Result<HttpResponse, ConnectorError> {
    let Answer { status, body } = answer;
    let status = status.try_into().map_err(|error| ConnectorError::other(Box::new(error), None))?;
    let mut response = HttpResponse::new(status, SdkBody::from(body));
    response.headers_mut().insert("content-type", "application/x-amz-json-1.0");
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_of_the_engine_is_an_answer_and_gives_its_permit_back() {
        let calls = Arc::new(Semaphore::new(1));
        let answer = on_blocking_pool(Arc::clone(&calls), || panic!("as the engine might")).await;
        assert_eq!(answer.status, 500);
        assert!(answer.body.contains("InternalServerError"), "{}", answer.body);
        assert_eq!(calls.available_permits(), 1);
    }
}
