//! The routes, one file a resource: where each is mounted, and where the OpenAPI document has it. A test holds that neither lacks one.
//! A handler translates and calls `control`: it holds no rule of the domain.

mod agent;
mod alerts;
mod audit;
mod channel;
mod checkpoints;
mod claims;
mod mounted;
mod paging;
mod pools;
mod refresh;
mod runners;
mod service;
mod webhooks;

use crate::envelope::Refusal;
use crate::lane::Lanes;
use axum::Json;
use axum::http::StatusCode;
use axum::routing::{get, post, put};
pub(crate) use mounted::Mounted;
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;

/// A body with 200, or a refusal.
type JsonResult<T> = Result<Json<T>, Refusal>;
/// A body with another status, or a refusal.
type JsonResultWithStatus<T> = Result<(StatusCode, Json<T>), Refusal>;

pub(crate) fn all(lanes: &Lanes) -> Mounted {
    let Lanes { work, waits, figures, service, agents, syncs, looks, channels, execs, joining, webhooks } =
        lanes;
    of_callers()
        .in_lane(work)
        .merge(Mounted::one("/claims/{claim}", get(claims::follow)).in_lane(waits))
        .merge(Mounted::one("/agent/bootstrap", post(agent::bootstrap)).in_lane(joining))
        .merge(of_ci_systems().in_lane(webhooks))
        .merge(of_agents().in_lane(agents))
        .merge(Mounted::one("/checkpoint/status/{name}", get(checkpoints::status)).in_lane(looks))
        .merge(Mounted::one("/agent/sync", post(agent::sync)).in_lane(syncs))
        .merge(Mounted::one("/ws/agent", get(channel::open)).in_lane(channels))
        .merge(Mounted::one("/internal/agent/{runner}/exec", post(channel::exec)).in_lane(execs))
        .merge(of_anybody_within().in_lane(service))
        .under("/api/v1")
        .merge(of_anybody().in_lane(service))
        .merge(Mounted::one("/metrics", get(service::metrics)).in_lane(figures))
}

/// What operators and teams do.
fn of_callers() -> Mounted {
    Mounted::one("/provision", post(claims::provision))
        .and("/claim", post(claims::claim))
        .and("/release", post(claims::release))
        .and("/claims", get(claims::list))
        .and("/claims/{claim}/why", get(claims::why))
        .and("/refresh", post(refresh::refresh))
        .and("/pools", get(pools::list))
        .and("/pools/{pool}", put(pools::put).get(pools::view).delete(pools::delete))
        .and("/pools/{pool}/plan", post(pools::plan))
        .and("/runners", post(runners::register).get(runners::list))
        .and("/runners/{runner}", get(runners::view).patch(runners::update).delete(runners::remove))
        .and("/runners/{runner}/release", post(runners::release))
        .and("/runners/{runner}/token", post(runners::rotate_token))
        .and("/internal/agent/{runner}/connected", get(channel::connected))
        .and("/audit", get(audit::audit))
        .and("/alerts", get(alerts::list))
}

fn of_agents() -> Mounted {
    Mounted::one("/agent/self", get(agent::show_self))
        .and("/agent/registration", post(agent::registration))
        .and("/checkpoint/create", post(checkpoints::create))
        .and("/checkpoint/finalize", post(checkpoints::finalize))
        .and("/runner/readiness", get(checkpoints::readiness))
}

fn of_ci_systems() -> Mounted {
    Mounted::one("/webhooks/github", post(webhooks::github)).and("/webhooks/gitlab", post(webhooks::gitlab))
}

fn of_anybody_within() -> Mounted {
    Mounted::one("/openapi.json", get(service::document)).and("/healthz", get(service::healthz))
}

fn of_anybody() -> Mounted {
    Mounted::one("/health", get(service::health)).and("/ready", get(service::ready))
}

/// What the routes say of themselves. It is put together when it is first asked for: that takes longer than all else at a function's start.
pub(crate) fn described() -> OpenApi {
    #[derive(utoipa::OpenApi)]
    #[openapi(paths(
        claims::provision,
        claims::claim,
        claims::release,
        claims::list,
        claims::follow,
        claims::why,
        refresh::refresh,
        pools::list,
        pools::put,
        pools::view,
        pools::delete,
        pools::plan,
        runners::register,
        runners::list,
        runners::view,
        runners::update,
        runners::remove,
        runners::release,
        runners::rotate_token,
        audit::audit,
        alerts::list,
        agent::bootstrap,
        agent::show_self,
        agent::registration,
        agent::sync,
        channel::open,
        channel::connected,
        channel::exec,
        checkpoints::create,
        checkpoints::finalize,
        checkpoints::status,
        checkpoints::readiness,
        webhooks::github,
        webhooks::gitlab,
        service::document,
        service::healthz,
    ))]
    struct Prefixed;

    #[derive(utoipa::OpenApi)]
    #[openapi(paths(service::health, service::ready, service::metrics))]
    struct Bare;

    Bare::openapi().nest("/api/v1", Prefixed::openapi())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HttpLimits;
    use crate::auth::Tokens;
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::Arc;

    #[test]
    fn what_is_mounted_is_described_and_the_other_way_round() {
        let nobody = Tokens { admin_sha256: [0; 32], teams: Vec::new(), at_once: BTreeMap::new() };
        let mounted = all(&Lanes::new(&HttpLimits::default(), &Arc::new(nobody))).paths;
        let mounted: BTreeSet<String> = mounted.into_iter().collect();
        let described: BTreeSet<String> = described().paths.paths.into_keys().collect();
        assert_eq!(mounted, described);
    }
}
