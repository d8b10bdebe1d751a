//! Cuts: a control plane that is cut off at the n-th point of its work, before or after one of its calls, as a crash would. What it had
//! done by then is done.

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Counts the points that are passed, and cuts at one of them, once.
#[derive(Debug, Default)]
pub struct Cuts {
    inner: Mutex<Inner>,
    cut: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    at: Option<usize>,
    passed: Vec<String>,
}

impl Cuts {
    /// Without `at`, it only counts.
    pub fn new(at: Option<usize>) -> Arc<Self> {
        Arc::new(Self { inner: Mutex::new(Inner { at, passed: Vec::new() }), cut: Notify::new() })
    }

    /// From here on: counts anew, and cuts at this point.
    pub fn cut_at(&self, at: Option<usize>) {
        *self.inner() = Inner { at, passed: Vec::new() };
    }

    /// Returns at once; at the point of the cut, never.
    pub async fn pass(&self, what: String) {
        let cut = {
            let mut inner = self.inner();
            let cut = inner.at == Some(inner.passed.len());
            inner.passed.push(what);
            cut
        };
        if cut {
            self.cut.notify_one();
            std::future::pending::<()>().await;
        }
    }

    /// What came of `work`; nothing if it was cut off.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.cut.notified() => None,
            done = work => Some(done),
        }
    }

    /// What was passed so far, in its order.
    pub fn passed(&self) -> Vec<String> {
        self.inner().passed.clone()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connector whose writes can be cut off. Reads are no points: nothing is done by them.
#[derive(Debug, Clone)]
pub struct Cutting {
    inner: SharedHttpClient,
    cuts: Arc<Cuts>,
}

impl Cutting {
    pub fn new(inner: SharedHttpClient, cuts: &Arc<Cuts>) -> Self {
        Self { inner, cuts: Arc::clone(cuts) }
    }
}

impl HttpClient for Cutting {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let inner = self.inner.http_connector(settings, components);
        SharedHttpConnector::new(CuttingConnector { inner, cuts: Arc::clone(&self.cuts) })
    }
}

#[derive(Debug)]
struct CuttingConnector {
    inner: SharedHttpConnector,
    cuts: Arc<Cuts>,
}

impl HttpConnector for CuttingConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or("unknown");
        let operation = target.rsplit('.').next().unwrap_or(target).to_owned();
        if !is_write(&operation) {
            return self.inner.call(request);
        }
        let (inner, cuts) = (self.inner.clone(), Arc::clone(&self.cuts));
        HttpConnectorFuture::new(async move {
            cuts.pass(format!("before {operation}")).await;
            let answer = inner.call(request).await;
            cuts.pass(format!("after {operation}")).await;
            answer
        })
    }
}

fn is_write(operation: &str) -> bool {
    ["PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems", "BatchWriteItem"].contains(&operation)
}
