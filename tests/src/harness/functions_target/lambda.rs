//! Lambda's own API, as far as a test needs it: plain requests to the emulator, which asks for no signature.

use super::zip;
use crate::harness::emulated_aws::endpoint;
use crate::harness::wait::until;
use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use motorpool_functions::routes::TIMEOUT;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// How many processes of one function may run at once. Each is a process of this machine.
const AT_ONCE: u32 = 16;

/// A function on the emulator, behind its URL.
#[derive(Debug, Clone)]
pub struct Deployed {
    name: String,
    http: Client,
    endpoint: String,
    /// Of the function's URL.
    url_id: String,
}

/// Puts a native binary on the emulator under this name, and gives it a URL that is open to all.
pub async fn deploy(name: &str, binary: &Path, environment: &BTreeMap<String, String>) -> Result<Deployed> {
    // The client wants a provider of TLS, also where there is none.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = Client::builder().no_proxy().timeout(Duration::from_secs(90)).build()?;
    let endpoint = endpoint()?;
    let lambda = Lambda { http: http.clone(), endpoint: endpoint.clone() };
    let program =
        std::fs::read(binary).with_context(|| format!("the function's binary {}", binary.display()))?;
    let create = json!({
        "FunctionName": name,
        "Runtime": "provided.al2023",
        "Handler": "bootstrap",
        "Role": "arn:aws:iam::000000000000:role/motorpool-tests",
        "Timeout": TIMEOUT.as_secs(),
        "MemorySize": 256,
        "Environment": {"Variables": environment},
        "Code": {"ZipFile": STANDARD.encode(zip::of_one("bootstrap", &program)?)},
    });
    lambda.ask(Method::POST, "2015-03-31/functions", &create).await?;
    let one = format!("2015-03-31/functions/{name}");
    until(&format!("function {name} is active"), async || {
        let found = lambda.ask(Method::GET, &one, &Value::Null).await?;
        Ok((found["Configuration"]["State"] == "Active").then_some(()))
    })
    .await?;
    let limit = json!({"ReservedConcurrentExecutions": AT_ONCE});
    lambda.ask(Method::PUT, &format!("2017-10-31/functions/{name}/concurrency"), &limit).await?;
    let url = lambda
        .ask(Method::POST, &format!("2021-10-31/functions/{name}/url"), &json!({"AuthType": "NONE"}))
        .await?;
    let url = url["FunctionUrl"].as_str().context("a function's URL")?;
    let id = url.trim_start_matches("https://").split('.').next().context("a function URL's id")?;
    let url_id = id.to_owned();
    Ok(Deployed { name: name.to_owned(), http, endpoint, url_id })
}

impl Deployed {
    /// The function's URL, by path: the emulator has one port for everything, and of a host's paths it keeps some to itself.
    pub fn url(&self) -> String {
        format!("{}/_aws/lambda-url/{}", self.endpoint, self.url_id)
    }

    /// AWS hands a function URL's path on as it was sent. The emulator decodes it once, so it is encoded once more.
    pub fn request(&self, method: Method, path_and_query: &str) -> RequestBuilder {
        let (path, query) = match path_and_query.split_once('?') {
            Some((path, query)) => (path, format!("?{query}")),
            None => (path_and_query, String::new()),
        };
        self.http.request(method, format!("{}{}{query}", self.url(), path.replace('%', "%25")))
    }

    /// Calls it with an event of any kind, and gives its answer.
    pub async fn invoke(&self, event: &Value) -> Result<Value> {
        let answer = self
            .lambda()
            .send(Method::POST, &format!("2015-03-31/functions/{}/invocations", self.name), event)
            .await?;
        let failed = answer.headers().contains_key("x-amz-function-error");
        let said: Value = answer.json().await.context("the function's answer")?;
        ensure!(!failed, "the function {} failed: {said}", self.name);
        Ok(said)
    }

    /// What it has logged so far, and what the platform says around it.
    pub async fn log(&self) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        let mut ask = json!({"logGroupName": format!("/aws/lambda/{}", self.name)});
        loop {
            let request =
                self.http.post(&self.endpoint).header("x-amz-target", "Logs_20140328.FilterLogEvents");
            let request = request.header("content-type", "application/x-amz-json-1.1").body(ask.to_string());
            let answer =
                request.header("authorization", scope("logs")).send().await.context("a function's log")?;
            let page: Value = answer.json().await.context("a page of a function's log")?;
            let events =
                page["events"].as_array().with_context(|| format!("no log of {}: {page}", self.name))?;
            lines.extend(events.iter().filter_map(|event| event["message"].as_str()).map(str::to_owned));
            match &page["nextToken"] {
                Value::Null => return Ok(lines),
                next => ask["nextToken"] = next.clone(),
            }
        }
    }

    /// Takes it away with all of its processes.
    pub async fn delete(&self) -> Result<()> {
        let path = format!("2015-03-31/functions/{}", self.name);
        self.lambda().send(Method::DELETE, &path, &Value::Null).await?;
        Ok(())
    }

    fn lambda(&self) -> Lambda {
        Lambda { http: self.http.clone(), endpoint: self.endpoint.clone() }
    }
}

struct Lambda {
    http: Client,
    endpoint: String,
}

impl Lambda {
    async fn ask(&self, method: Method, path: &str, body: &Value) -> Result<Value> {
        self.send(method, path, body).await?.json().await.with_context(|| format!("the answer to {path}"))
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Result<reqwest::Response> {
        let request = self.http.request(method.clone(), format!("{}/{path}", self.endpoint));
        let request = request.header("authorization", scope("lambda"));
        let request = if body.is_null() { request } else { request.json(body) };
        let answer = request.send().await.with_context(|| format!("{method} {path}"))?;
        let status = answer.status();
        if !status.is_success() {
            let said = answer.text().await.unwrap_or_default();
            anyhow::bail!("{method} {path} was answered with {status}: {said}");
        }
        Ok(answer)
    }
}

/// Which service is meant, the emulator reads from the signature's scope. It checks no signature.
fn scope(service: &str) -> String {
    format!(
        "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/{service}/aws4_request, SignedHeaders=host, Signature=0"
    )
}
