//! The functions as a target: deployed to the emulated AWS as native binaries behind function URLs, with one address in front that
//! leads each path to its function. Tables, pools and local machines are a serve's beside them.

mod front;
mod lambda;
mod zip;

use crate::harness::api::Api;
use crate::harness::emulated_aws::{endpoint, fresh_name};
use crate::harness::serve::{ADMIN_TOKEN, WEBHOOK_SECRET};
use anyhow::{Context, Result};
use front::Front;
use motorpool_functions::routes::Function;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

pub use lambda::{Deployed, deploy};

/// What every control plane on one ledger must agree upon.
#[derive(Debug, Clone)]
pub struct SharedLedger {
    table: String,
    queue_prefix: String,
}

impl SharedLedger {
    /// One that nobody uses yet.
    pub fn fresh() -> Self {
        let table = fresh_name("motorpool");
        // A queue's name holds the pool's as well, and is at most 80 letters long.
        let queue_prefix = table.replace("motorpool", "mp");
        Self { table, queue_prefix }
    }

    /// For a serve or a function.
    pub fn environment(&self) -> Vec<(String, String)> {
        [
            ("MOTORPOOL_TABLE", self.table.as_str()),
            ("MOTORPOOL_QUEUE_PREFIX", self.queue_prefix.as_str()),
            ("MOTORPOOL_SERVER_SECRET", "mp_server_secret_for_tests_only_0123456789"),
            ("MOTORPOOL_ADMIN_TOKEN", ADMIN_TOKEN),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
    }

    /// The same for a process that is not started by the emulator.
    pub fn environment_outside(&self) -> Result<Vec<(String, String)>> {
        let mut all = self.environment();
        for (name, value) in [
            ("AWS_ENDPOINT_URL", endpoint()?.as_str()),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
        ] {
            all.push((name.to_owned(), value.to_owned()));
        }
        Ok(all)
    }
}

/// All functions on one ledger.
#[derive(Debug)]
pub struct Functions {
    deployed: BTreeMap<Function, Deployed>,
    front: Front,
    api: Api,
}

impl Functions {
    /// `settings` is what a pools file has above its pools, as JSON.
    pub async fn deploy(on: &SharedLedger, settings: &Value) -> Result<Self> {
        let mut environment: BTreeMap<String, String> = on.environment().into_iter().collect();
        environment.insert("MOTORPOOL_SETTINGS".to_owned(), settings.to_string());
        environment.insert("MOTORPOOL_GITHUB_WEBHOOK_SECRET".to_owned(), WEBHOOK_SECRET.to_owned());
        // The emulator waits for an invocation's log, and longest for one that has none: each request is to have its line.
        environment.insert("RUST_LOG".to_owned(), "info,motorpool_http=debug".to_owned());
        let mut deployed = BTreeMap::new();
        for function in Function::ALL {
            let name = fresh_name(function.name());
            deployed.insert(function, deploy(&name, &binary(function.name())?, &environment).await?);
        }
        let front = Front::open(deployed.clone()).await?;
        let api = Api::new(front.url(), ADMIN_TOKEN)?;
        Ok(Self { deployed, front, api })
    }

    /// At the front, with the operator's token.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// What a schedule does.
    pub async fn refresh(&self) -> Result<Value> {
        self.deployed
            .get(&Function::Refresh)
            .context("refresh is deployed")?
            .invoke(&sample("refresh.json")?)
            .await
    }

    /// What SQS does with messages of the finalize queue: those of the sample. Gives the function's answer.
    pub async fn finalize(&self) -> Result<Value> {
        let finalize = self.deployed.get(&Function::Finalize).context("finalize is deployed")?;
        finalize.invoke(&sample("finalize.json")?).await
    }

    /// What a function has logged so far, and what the platform says around it.
    pub async fn log(&self, function: Function) -> Result<Vec<String>> {
        self.deployed.get(&function).context("it is deployed")?.log().await
    }

    /// Ends the front and every process of the functions.
    pub async fn end(self) -> Result<()> {
        let Self { deployed, front, api: _ } = self;
        front.close();
        for function in deployed.values() {
            function.delete().await?;
        }
        Ok(())
    }
}

/// A function's binary: the one that `cargo xtask test` built, or else the one beside the test.
pub fn binary(name: &str) -> Result<PathBuf> {
    let dir = match std::env::var_os("MOTORPOOL_FUNCTIONS_DIR") {
        Some(dir) => PathBuf::from(dir),
        None => {
            let test = std::env::current_exe().context("this test's own path")?;
            test.ancestors().nth(2).context("the directory of the binaries")?.to_owned()
        }
    };
    let path = dir.join(name);
    let missing =
        "build the functions first: `cargo build -p motorpool-functions`, or run `cargo xtask test`";
    path.exists().then_some(path).context(missing)
}

fn sample(file: &str) -> Result<Value> {
    let path = format!("{}/../events/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).with_context(|| format!("the sample event {file}"))?;
    serde_json::from_str(&text).with_context(|| format!("the sample event {file}"))
}
