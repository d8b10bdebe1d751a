//! A connector that counts: what goes to AWS, by the operation's name, on its way to whatever answers.

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Debug, Clone)]
pub struct Counting {
    inner: SharedHttpClient,
    calls: Calls,
}

type Calls = Arc<Mutex<BTreeMap<String, u32>>>;

impl Counting {
    pub fn new(inner: SharedHttpClient) -> Self {
        Self { inner, calls: Calls::default() }
    }

    /// What was called since the last time, and how often.
    pub fn take(&self) -> BTreeMap<String, u32> {
        std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl HttpClient for Counting {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let inner = self.inner.http_connector(settings, components);
        SharedHttpConnector::new(CountingConnector { inner, calls: Arc::clone(&self.calls) })
    }
}

#[derive(Debug)]
struct CountingConnector {
    inner: SharedHttpConnector,
    calls: Calls,
}

impl HttpConnector for CountingConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or("unknown");
        let operation = target.rsplit('.').next().unwrap_or(target).to_owned();
        *self.calls.lock().unwrap_or_else(PoisonError::into_inner).entry(operation).or_default() += 1;
        self.inner.call(request)
    }
}
