//! The HTTP client of the operator's verbs: one method a route. It prints nothing, and decides nothing about pools.

mod token;
mod transport;

use std::time::Duration;

use motorpool_domain::runner::{Removal, StateName};
use motorpool_domain::{CheckpointName, ClaimId, PoolName, RunnerId};
use motorpool_wire::api::{
    AlertsPage, AuditPage, ClaimRequest, ClaimView, ClaimsPage, PlanView, PoolView, PoolsPage,
    ProvisionRequest, RefreshReport, RegisterRunnerRequest, RegisteredRunner, ReleaseRequest, RunnerView,
    RunnersPage, WhyView,
};
use motorpool_wire::checkpoint::CheckpointView;
use motorpool_wire::pool_settings::PoolSettings;
use motorpool_wire::registry::UpdateRunnerRequest;
use serde_json::Value;

pub(crate) use token::{ADMIN_TOKEN_FILE, Source as TokenSource, data_dir};
pub(crate) use transport::Client;

use crate::errors::Failure;

/// What the server said: understood, and word for word for `--json`.
#[derive(Debug, Clone)]
pub(crate) struct ApiResponse<T> {
    pub(crate) value: T,
    pub(crate) json: Value,
}

type ApiResult<T> = Result<ApiResponse<T>, Failure>;

/// Pages are followed to their end, but a listing that never ends is not.
const MOST_PAGES: usize = 1_000;
/// How long a page may be: as long as the server makes them.
const PAGE: &str = "500";

impl Client {
    pub(crate) async fn pools(&self) -> ApiResult<PoolsPage> {
        self.get("pools", &[]).await
    }

    pub(crate) async fn pool(&self, pool: &PoolName) -> ApiResult<PoolView> {
        self.get(&format!("pools/{pool}"), &[]).await
    }

    pub(crate) async fn put_pool(&self, pool: &PoolName, settings: &PoolSettings) -> ApiResult<PoolView> {
        self.put(&format!("pools/{pool}"), settings).await
    }

    /// Changes nothing.
    pub(crate) async fn plan_pool(&self, pool: &PoolName, settings: &PoolSettings) -> ApiResult<PlanView> {
        self.post(&format!("pools/{pool}/plan"), &[], Some(settings)).await
    }

    /// `all`: also those that were removed or are gone.
    pub(crate) async fn runners(
        &self,
        pool: &PoolName,
        state: Option<StateName>,
        all: bool,
    ) -> ApiResult<RunnersPage> {
        let mut query = vec![("pool", pool.as_str())];
        query.extend(state.map(|state| ("state", state.as_str())));
        query.extend(all.then_some(("include_inactive", "true")));
        self.get_all("runners", &query, "runners").await
    }

    pub(crate) async fn runner(&self, runner: &RunnerId) -> ApiResult<RunnerView> {
        self.get(&format!("runners/{runner}"), &[]).await
    }

    pub(crate) async fn add_runner(&self, request: &RegisterRunnerRequest) -> ApiResult<RegisteredRunner> {
        self.post("runners", &[], Some(request)).await
    }

    pub(crate) async fn update_runner(
        &self,
        runner: &RunnerId,
        request: &UpdateRunnerRequest,
    ) -> ApiResult<RunnerView> {
        self.patch(&format!("runners/{runner}"), request).await
    }

    pub(crate) async fn remove_runner(&self, runner: &RunnerId, removal: Removal) -> ApiResult<RunnerView> {
        let query: &[(&str, &str)] = match removal {
            Removal::IfFree => &[],
            Removal::Drain => &[("drain", "true")],
            Removal::Force => &[("force", "true")],
        };
        self.delete(&format!("runners/{runner}"), query).await
    }

    pub(crate) async fn release_runner(&self, runner: &RunnerId) -> ApiResult<RunnerView> {
        self.post(&format!("runners/{runner}/release"), &[], None::<&()>).await
    }

    pub(crate) async fn rotate_token(&self, runner: &RunnerId) -> ApiResult<RegisteredRunner> {
        self.post(&format!("runners/{runner}/token"), &[], None::<&()>).await
    }

    pub(crate) async fn provision(&self, request: &ProvisionRequest) -> ApiResult<ClaimView> {
        self.post("provision", &[], Some(request)).await
    }

    pub(crate) async fn claim_now(&self, request: &ClaimRequest) -> ApiResult<ClaimView> {
        self.post("claim", &[], Some(request)).await
    }

    pub(crate) async fn release(&self, request: &ReleaseRequest) -> ApiResult<ClaimView> {
        self.post("release", &[], Some(request)).await
    }

    /// The claim as it is; if it is pending, as it is once that changed or `wait` is over.
    pub(crate) async fn claim(&self, claim: &ClaimId, wait: Duration) -> ApiResult<ClaimView> {
        let seconds = wait.as_secs().to_string();
        let query = [("wait", seconds.as_str())];
        let query = if wait.is_zero() { &[][..] } else { &query[..] };
        self.get_waiting(&format!("claims/{claim}"), query, wait).await
    }

    pub(crate) async fn claims(&self, pool: &PoolName) -> ApiResult<ClaimsPage> {
        self.get_all("claims", &[("pool", pool.as_str())], "claims").await
    }

    pub(crate) async fn why(&self, claim: &ClaimId) -> ApiResult<WhyView> {
        self.get(&format!("claims/{claim}/why"), &[]).await
    }

    pub(crate) async fn checkpoint(&self, name: &CheckpointName) -> ApiResult<CheckpointView> {
        self.get(&format!("checkpoint/status/{name}"), &[]).await
    }

    pub(crate) async fn refresh(&self, sweep: bool) -> ApiResult<RefreshReport> {
        let query: &[(&str, &str)] = if sweep { &[("sweep", "now")] } else { &[] };
        self.post("refresh", query, None::<&()>).await
    }

    pub(crate) async fn audit(&self, subject: &str) -> ApiResult<AuditPage> {
        self.get_all("audit", &[("subject", subject)], "entries").await
    }

    pub(crate) async fn alerts(&self, all: bool) -> ApiResult<AlertsPage> {
        let query: &[(&str, &str)] = if all { &[("all", "true")] } else { &[] };
        self.get_all("alerts", query, "alerts").await
    }

    /// All pages as one document in the shape of one page: `items` names its list.
    async fn get_all<T: serde::de::DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
        items: &str,
    ) -> ApiResult<T> {
        let mut whole: Option<Value> = None;
        let mut after: Option<String> = None;
        for _ in 0..MOST_PAGES {
            let mut query = query.to_vec();
            query.push(("limit", PAGE));
            query.extend(after.as_deref().map(|after| ("after", after)));
            let ApiResponse { mut json, value: _ } = self.get::<Value>(path, &query).await?;
            after = json.get("next").and_then(Value::as_str).map(str::to_owned);
            let rest =
                json.get_mut(items).and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
            match whole.as_mut().and_then(|whole| whole.get_mut(items)).and_then(Value::as_array_mut) {
                Some(list) => list.extend(rest),
                None => {
                    json.as_object_mut().map(|object| object.insert(items.to_owned(), Value::Array(rest)));
                    whole = Some(json);
                }
            }
            if after.is_none() {
                break;
            }
        }
        let mut json = whole.unwrap_or_default();
        if let Some(next) = json.get_mut("next") {
            *next = after.map_or(Value::Null, Value::String);
        }
        let value = self.understand(&json)?;
        Ok(ApiResponse { value, json })
    }
}
