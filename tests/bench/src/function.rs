//! A function's start: from nothing to its first question for work (init), and to its first answer, beside a function that only says
//! hello, under the same local runtime: Lambda's runtime API, as far as one invocation needs it.

use crate::clock::Stopwatch;
use crate::report;
use crate::samples::{Samples, ms, ratio};
use anyhow::{Context, Result, bail};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::routing::{get, post};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc};

const STARTS: usize = 30;
/// A start that takes longer will never end.
const PATIENCE: Duration = Duration::from_secs(30);

struct Start {
    init: Duration,
    answer: Duration,
}

pub(crate) async fn run() -> Result<()> {
    let (hello_init, hello) = starts("hello").await?;
    let (gateway_init, gateway) = starts("gateway").await?;
    report(&json!({
        "name": "function_start",
        "starts": STARTS,
        "init_p50_ms": ms(gateway_init.p50()),
        "first_answer_p50_ms": ms(gateway.p50()),
        "first_answer_p99_ms": ms(gateway.percentile(0.99)),
        "floor_init_p50_ms": ms(hello_init.p50()),
        "floor_first_answer_p50_ms": ms(hello.p50()),
        "floor_first_answer_p99_ms": ms(hello.percentile(0.99)),
        "aim": 4,
        "ratio": ratio(gateway.p50().as_secs_f64(), hello.p50().as_secs_f64()),
    }));
    Ok(())
}

async fn starts(function: &str) -> Result<(Samples, Samples)> {
    let (mut inits, mut answers) = (Samples::default(), Samples::default());
    // The first only brings the binary into the page cache.
    for number in 0..=STARTS {
        let Start { init, answer } = start(function).await.with_context(|| format!("starting {function}"))?;
        if number > 0 {
            inits.add(init);
            answers.add(answer);
        }
    }
    Ok((inits, answers))
}

async fn start(function: &str) -> Result<Start> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let (said, mut hears) = mpsc::unbounded_channel();
    let runtime = Arc::new(RuntimeApi { said, waiting: Mutex::new(true) });
    let routes = Router::new()
        .route("/2018-06-01/runtime/invocation/next", get(next))
        .route("/2018-06-01/runtime/invocation/{id}/response", post(answered))
        .route("/2018-06-01/runtime/invocation/{id}/error", post(failed))
        .with_state(runtime);
    let server = tokio::spawn(async move { axum::serve(listener, routes).await });
    let watch = Stopwatch::start();
    let mut process = Process(spawn(function, &address)?);
    let mut init = None;
    let answer = loop {
        match tokio::time::timeout(PATIENCE, hears.recv()).await.context("it did not answer in time")? {
            Some(Said::Asked) => init = Some(watch.elapsed()),
            Some(Said::Answered) => break watch.elapsed(),
            Some(Said::Failed(why)) => bail!("it failed: {why}"),
            None => bail!("the runtime is gone"),
        }
    };
    process.end()?;
    server.abort();
    Ok(Start { init: init.context("it answered without being asked")?, answer })
}

struct RuntimeApi {
    said: mpsc::UnboundedSender<Said>,
    /// The one event is still to be given.
    waiting: Mutex<bool>,
}

enum Said {
    Asked,
    Answered,
    Failed(String),
}

async fn next(State(runtime): State<Arc<RuntimeApi>>) -> (HeaderMap, String) {
    let mut waiting = runtime.waiting.lock().await;
    if !*waiting {
        std::future::pending::<()>().await;
    }
    *waiting = false;
    // Nobody listens to a process that is to be ended.
    let _ = runtime.said.send(Said::Asked);
    let mut headers = HeaderMap::new();
    headers.insert("lambda-runtime-aws-request-id", HeaderValue::from_static("bench-1"));
    headers.insert("lambda-runtime-deadline-ms", HeaderValue::from_static("4102444800000"));
    headers.insert(
        "lambda-runtime-invoked-function-arn",
        HeaderValue::from_static("arn:aws:lambda:us-east-1:000000000000:function:bench"),
    );
    (headers, event().to_string())
}

async fn answered(State(runtime): State<Arc<RuntimeApi>>) -> StatusCode {
    let _ = runtime.said.send(Said::Answered);
    StatusCode::ACCEPTED
}

async fn failed(State(runtime): State<Arc<RuntimeApi>>, body: Bytes) -> StatusCode {
    let _ = runtime.said.send(Said::Failed(String::from_utf8_lossy(&body).into_owned()));
    StatusCode::ACCEPTED
}

/// A request at a function's own address, for something that needs no ledger.
fn event() -> Value {
    json!({
        "version": "2.0", "routeKey": "$default", "rawPath": "/health", "rawQueryString": "",
        "headers": {"host": "bench.invalid", "accept": "application/json"},
        "requestContext": {
            "accountId": "000000000000", "apiId": "bench", "domainName": "bench.invalid", "domainPrefix": "bench",
            "http": {"method": "GET", "path": "/health", "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1", "userAgent": "bench"},
            "requestId": "bench-1", "routeKey": "$default", "stage": "$default",
            "time": "16/Nov/2026:00:00:00 +0000", "timeEpoch": 1_794_787_200_000_u64,
        },
        "isBase64Encoded": false,
    })
}

fn spawn(function: &str, runtime: &str) -> Result<Child> {
    let binary = beside()?.join(function);
    Command::new(&binary)
        .env_clear()
        .env("AWS_LAMBDA_RUNTIME_API", runtime)
        .env("AWS_LAMBDA_FUNCTION_NAME", function)
        .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
        .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128")
        .env("SSL_CERT_FILE", certificates())
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "bench")
        .env("AWS_SECRET_ACCESS_KEY", "bench")
        .env("MOTORPOOL_TABLE", "motorpool")
        .env("MOTORPOOL_ADMIN_TOKEN", "mp_admin_for_benchmarks_only")
        .env("MOTORPOOL_SERVER_SECRET", "for benchmarks only, and no secret at all")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("{} can't be started", binary.display()))
}

/// One file of certificates. Left alone, the TLS library reads every file of the host's directory as well, which is half of a start; so
/// a deployment names the file.
fn certificates() -> &'static str {
    const FILES: [&str; 3] =
        ["/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/cert.pem"];
    FILES.into_iter().find(|file| Path::new(file).exists()).unwrap_or("/dev/null")
}

/// Where this program is, the functions are too.
fn beside() -> Result<PathBuf> {
    let own = std::env::current_exe().context("this program's own path")?;
    Ok(own.parent().context("this program is in no directory")?.to_owned())
}

/// Ended with its owner.
struct Process(Child);

impl Process {
    fn end(&mut self) -> Result<()> {
        self.0.kill().context("ending a function")?;
        self.0.wait().context("a function's end")?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
