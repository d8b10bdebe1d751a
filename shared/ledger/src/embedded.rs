//! The embedded ledger: a DynamoDB engine on SQLite inside this process, reached through the ordinary SDK client.
//! It knows no tables and no records, offers no Scan (no request path may scan), and listens on no socket.

mod connector;
mod dispatch;
mod file;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Region, StalledStreamProtectionConfig};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use dynoxide::{Database, DynoxideError};
use tokio::sync::Semaphore;

use connector::Connector;
use file::OwnedFile;

/// How many engine calls may be on the blocking pool at once. The engine serves one at a time, so more would only hold
/// threads that wait for its lock, which is not fair: the rest wait in order here. A few, and not one, so that one
/// request is parsed while another is served.
const CALLS_AT_ONCE: usize = 4;

/// An open engine. It and every client made from it share the database; the file and its lock are given back
/// when the last of them is dropped.
#[derive(Clone)]
pub struct EmbeddedEngine {
    shared: Arc<Shared>,
}

#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    #[error("another process owns this ledger: {path} is locked")]
    Locked { path: PathBuf },
    #[error("could not create or find the data directory {path}")]
    Directory { path: PathBuf, source: std::io::Error },
    #[error("could not create or lock {path}")]
    Lock { path: PathBuf, source: std::io::Error },
    #[error("could not create the database file {path}")]
    File { path: PathBuf, source: std::io::Error },
    #[error("the data directory's path is not UTF-8, which the engine needs: {path}")]
    Path { path: PathBuf },
    #[error("the engine could not open {path}")]
    Open { path: PathBuf, source: Box<DynoxideError> },
    #[error("{path} would not be durable: synchronous={synchronous}, journal_mode={journal_mode}")]
    NotDurable { path: PathBuf, synchronous: i64, journal_mode: String },
    #[error("the engine could not open a database in memory")]
    Memory { source: Box<DynoxideError> },
    #[error("the engine could not delete expired items")]
    Sweep { source: Box<DynoxideError> },
    #[error("the engine broke off while it deleted expired items")]
    SweepBroken { source: tokio::task::JoinError },
}

impl EmbeddedEngine {
    /// Opens `dir/ledger.db`, and creates what is missing. Blocks on the disk: call it at the start, not in a request.
    pub fn open(dir: &Path) -> Result<Self, EmbeddedError> {
        let file = OwnedFile::take(dir)?;
        let database = file.open()?;
        Ok(Self::new(database, Some(file)))
    }

    /// An engine whose data is gone with its last client.
    pub fn in_memory() -> Result<Self, EmbeddedError> {
        let database =
            Database::memory().map_err(|error| EmbeddedError::Memory { source: Box::new(error) })?;
        Ok(Self::new(database, None))
    }

    /// An SDK client whose every request is served by this engine.
    pub fn client(&self) -> Client {
        let retry = RetryConfig::standard()
            .with_max_attempts(3)
            .with_initial_backoff(Duration::from_millis(50))
            .with_max_backoff(Duration::from_secs(1));
        // No time-out for a single attempt: an attempt that is given up still writes, and its repetition would
        // then meet its own write.
        let timeouts = TimeoutConfig::builder().operation_timeout(Duration::from_secs(30)).build();
        let config = Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new("embedded"))
            .endpoint_url("http://embedded.invalid")
            // Nobody checks a signature in here, so none is made, and there are no credentials to find or cache.
            .allow_no_auth()
            .retry_config(retry)
            .timeout_config(timeouts)
            // An answer arrives whole or not at all.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .http_client(self.http_client())
            .build();
        Client::from_conf(config)
    }

    /// What stands in for the network, for who configures a client otherwise.
    pub fn http_client(&self) -> SharedHttpClient {
        SharedHttpClient::new(Connector::new(Arc::clone(&self.shared)))
    }

    /// Deletes the items whose time to live is over, and says how many. Nothing else deletes them: call it now and
    /// then. Other requests get their turn between its pages.
    pub async fn sweep_ttl(&self) -> Result<usize, EmbeddedError> {
        let shared = Arc::clone(&self.shared);
        tokio::task::spawn_blocking(move || shared.database.sweep_ttl())
            .await
            .map_err(|error| EmbeddedError::SweepBroken { source: error })?
            .map_err(|error| EmbeddedError::Sweep { source: Box::new(error) })
    }

    fn new(database: Database, file: Option<OwnedFile>) -> Self {
        Self { shared: Arc::new(Shared { database, calls: Arc::new(Semaphore::new(CALLS_AT_ONCE)), file }) }
    }
}

impl fmt::Debug for EmbeddedEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt(f)
    }
}

/// What the engine's handle, its clients and the calls under way hold together. Fields drop in this order: the
/// database is closed before its lock is given back.
struct Shared {
    database: Database,
    calls: Arc<Semaphore>,
    file: Option<OwnedFile>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedEngine").field("file", &self.file).finish_non_exhaustive()
    }
}
