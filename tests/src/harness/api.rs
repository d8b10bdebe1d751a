//! The HTTP API as a stranger sees it: paths and JSON, none of our own types, so that any deployment can be the target.

use anyhow::{Context, Result, ensure};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use std::time::Duration;

#[derive(Debug, Clone)]
pub struct Api {
    http: reqwest::Client,
    base: String,
    token: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
}

impl Answer {
    /// The body, if the status is `expected`.
    pub fn expect(self, expected: u16) -> Result<Value> {
        ensure!(self.status == expected, "expected {expected}, got {}: {}", self.status, self.body);
        Ok(self.body)
    }

    /// The envelope's code and message, if this is one that tells what to do.
    pub fn refusal(self, expected: u16) -> Result<(String, String)> {
        let body = self.expect(expected)?;
        let part = |name: &str| body["error"][name].as_str().unwrap_or_default().to_owned();
        let (code, message, hint) = (part("code"), part("message"), part("hint"));
        ensure!(!code.is_empty() && !message.is_empty() && !hint.is_empty(), "not the envelope: {body}");
        Ok((code, message))
    }
}

impl Api {
    pub fn new(base: impl Into<String>, token: impl Into<String>) -> Result<Self> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(Duration::from_secs(90))
            .build()
            .context("an HTTP client")?;
        Ok(Self { http, base: base.into(), token: Some(token.into()) })
    }

    #[must_use]
    pub fn as_who(&self, token: Option<&str>) -> Self {
        Self { token: token.map(str::to_owned), ..self.clone() }
    }

    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    pub fn base(&self) -> &str {
        &self.base
    }

    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.send(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Result<Answer> {
        self.send(self.request(Method::POST, path).json(&body)).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Result<Answer> {
        self.send(self.request(Method::PUT, path).json(&body)).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> Result<Answer> {
        self.send(self.request(Method::PATCH, path).json(&body)).await
    }

    pub async fn delete(&self, path: &str) -> Result<Answer> {
        self.send(self.request(Method::DELETE, path)).await
    }

    /// A body as it is, good or bad; over a connection of its own, since one that is too long ends its connection.
    pub async fn post_raw(
        &self,
        path: &str,
        content_type: &str,
        body: impl Into<reqwest::Body>,
    ) -> Result<Answer> {
        let request = self.request(Method::POST, path).header("connection", "close");
        self.send(request.header("content-type", content_type).body(body)).await
    }

    pub async fn provision(&self, workflow: &str, pool: &str, count: u32) -> Result<Value> {
        self.post("provision", json!({"workflow": workflow, "pool": pool, "count": count})).await?.expect(202)
    }

    pub async fn release(&self, workflow: &str) -> Result<Value> {
        self.post("release", json!({"workflow": workflow})).await?.expect(202)
    }

    pub async fn refresh(&self) -> Result<Value> {
        self.post("refresh", json!({})).await?.expect(200)
    }

    pub async fn pool(&self, pool: &str) -> Result<Value> {
        self.get(&format!("pools/{pool}")).await?.expect(200)
    }

    pub async fn claim(&self, claim: &str) -> Result<Value> {
        self.get(&format!("claims/{claim}")).await?.expect(200)
    }

    pub async fn runner(&self, runner: &str) -> Result<Value> {
        self.get(&format!("runners/{runner}")).await?.expect(200)
    }

    /// All live runners of the pool, page by page.
    pub async fn runners(&self, pool: &str) -> Result<Vec<Value>> {
        let mut all = Vec::new();
        let mut after = String::new();
        loop {
            let page = self.get(&format!("runners?pool={pool}&limit=50{after}")).await?.expect(200)?;
            all.extend(page["runners"].as_array().cloned().unwrap_or_default());
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => return Ok(all),
            }
        }
    }

    /// A request of any kind, with this caller's token.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = match path.strip_prefix('/') {
            Some(absolute) => format!("{}/{absolute}", self.base),
            None => format!("{}/api/v1/{path}", self.base),
        };
        let request = self.http.request(method, url);
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    pub async fn send(&self, request: RequestBuilder) -> Result<Answer> {
        let answer = request.send().await.context("no answer")?;
        let status = answer.status().as_u16();
        let text = answer.text().await.context("half an answer")?;
        let body = match text.is_empty() {
            true => Value::Null,
            false => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        };
        Ok(Answer { status, body })
    }
}
