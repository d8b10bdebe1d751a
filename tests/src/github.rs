//! The part of GitHub's API that runners need, over real HTTP on loopback: it hands out configurations, lists and forgets runners, and
//! remembers what it was asked. What a request must look like is not judged here: GitHub's own description does that elsewhere.

use anyhow::{Context, Result};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// In every configuration that it hands out, and nowhere else.
pub const CANARY: &str = "canary-7d1f0c55-of-a-jit-configuration";

#[derive(Debug)]
pub struct GitHubServer {
    url: String,
    books: Books,
    serving: JoinHandle<()>,
}

type Books = Arc<Mutex<Kept>>;

#[derive(Debug, Default)]
struct Kept {
    made: u64,
    /// By id: the organisation, and what it lists there.
    runners: BTreeMap<u64, (String, Value)>,
    removed: Vec<String>,
    /// What the next one who wants a configuration gets instead: so many seconds to wait.
    slow_down_s: Option<u64>,
}

impl GitHubServer {
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("a port for GitHub")?;
        let url = format!("http://{}", listener.local_addr()?);
        let books = Books::default();
        let router = Router::new()
            .route("/orgs/{org}/actions/runners", get(list))
            .route("/orgs/{org}/actions/runners/generate-jitconfig", post(generate))
            .route("/orgs/{org}/actions/runners/{id}", delete(remove))
            .with_state(Arc::clone(&books));
        let serving = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { url, books, serving })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// What it lists now in any organisation, by name.
    pub fn names(&self) -> Vec<String> {
        self.books().runners.values().map(|(_, runner)| name_of(runner)).collect()
    }

    /// What it lists now in one.
    pub fn names_in(&self, org: &str) -> Vec<String> {
        let books = self.books();
        books.runners.values().filter(|(of, _)| of == org).map(|(_, runner)| name_of(runner)).collect()
    }

    pub fn labels_of(&self, name: &str) -> Vec<String> {
        let books = self.books();
        let runner = books.runners.values().find(|(_, runner)| runner["name"] == name);
        let labels = runner.and_then(|(_, runner)| runner["labels"].as_array());
        labels.into_iter().flatten().filter_map(|label| Some(label["name"].as_str()?.to_owned())).collect()
    }

    /// How many configurations were handed out.
    pub fn made(&self) -> u64 {
        self.books().made
    }

    /// The names of those that it was told to forget, in their order.
    pub fn removed(&self) -> Vec<String> {
        self.books().removed.clone()
    }

    /// One that it lists, whoever registered it.
    pub fn has(&self, org: &str, name: &str) {
        let mut books = self.books();
        books.made += 1;
        let id = books.made;
        books.runners.insert(id, (org.to_owned(), listed(id, name, &[])));
    }

    /// The next one who wants a configuration is told to come back after so many seconds.
    pub fn slow_down(&self, seconds: u64) {
        self.books().slow_down_s = Some(seconds);
    }

    /// A job is done: GitHub forgets a runner that was good for one.
    pub fn job_done(&self, name: &str) {
        self.books().runners.retain(|_, (_, runner)| runner["name"] != name);
    }

    fn books(&self) -> MutexGuard<'_, Kept> {
        kept(&self.books)
    }
}

impl Drop for GitHubServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn kept(books: &Books) -> MutexGuard<'_, Kept> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}

fn name_of(runner: &Value) -> String {
    runner["name"].as_str().unwrap_or_default().to_owned()
}

fn listed(id: u64, name: &str, labels: &[String]) -> Value {
    let labels: Vec<Value> =
        labels.iter().map(|label| json!({"id": 1, "name": label, "type": "custom"})).collect();
    json!({"id": id, "name": name, "os": "unknown", "status": "offline", "busy": false, "labels": labels})
}

#[derive(Deserialize)]
struct Wanted {
    name: String,
    labels: Vec<String>,
}

async fn generate(
    State(books): State<Books>,
    Path(org): Path<String>,
    Json(wanted): Json<Wanted>,
) -> Response {
    let mut books = kept(&books);
    if let Some(seconds) = books.slow_down_s.take() {
        let refused = json!({"message": "You have exceeded a secondary rate limit."});
        let answer = counted(StatusCode::TOO_MANY_REQUESTS, refused);
        return ([("retry-after", seconds.to_string())], answer).into_response();
    }
    let is_it = |(of, runner): &(String, Value)| *of == org && runner["name"] == wanted.name.as_str();
    if books.runners.values().any(is_it) {
        return counted(StatusCode::CONFLICT, json!({"message": "Already exists"}));
    }
    books.made += 1;
    let id = books.made;
    let runner = listed(id, &wanted.name, &wanted.labels);
    books.runners.insert(id, (org, runner.clone()));
    let answer = json!({"runner": runner, "encoded_jit_config": configuration(id, &wanted.name)});
    counted(StatusCode::CREATED, answer)
}

/// As GitHub's is: files by name, each in base64, all of it in base64.
fn configuration(id: u64, name: &str) -> String {
    let file = |content: Value| STANDARD.encode(content.to_string());
    let files = json!({
        ".runner": file(json!({"agentId": id, "agentName": name, "ephemeral": true})),
        ".credentials": file(json!({"scheme": "OAuth", "data": {"clientId": CANARY}})),
        ".credentials_rsaparams": file(json!({"d": CANARY})),
    });
    STANDARD.encode(files.to_string())
}

#[derive(Deserialize)]
struct Asked {
    name: Option<String>,
}

async fn list(State(books): State<Books>, Path(org): Path<String>, Query(asked): Query<Asked>) -> Response {
    let books = kept(&books);
    let is_asked = |runner: &&Value| asked.name.as_ref().is_none_or(|name| runner["name"] == name.as_str());
    let there = books.runners.values().filter(|(of, _)| *of == org).map(|(_, runner)| runner);
    let runners: Vec<&Value> = there.filter(is_asked).collect();
    counted(StatusCode::OK, json!({"total_count": runners.len(), "runners": runners}))
}

async fn remove(State(books): State<Books>, Path((org, id)): Path<(String, u64)>) -> Response {
    let mut books = kept(&books);
    let there = books.runners.get(&id).filter(|(of, _)| *of == org).map(|(_, runner)| name_of(runner));
    match there {
        Some(name) => {
            books.runners.remove(&id);
            books.removed.push(name);
            counted(StatusCode::NO_CONTENT, Value::Null)
        }
        None => counted(StatusCode::NOT_FOUND, json!({"message": "Not Found"})),
    }
}

fn counted(status: StatusCode, body: Value) -> Response {
    let limits = [("x-ratelimit-remaining", "4321"), ("x-ratelimit-reset", "4102444800")];
    match body {
        Value::Null => (status, limits).into_response(),
        body => (status, limits, Json(body)).into_response(),
    }
}
