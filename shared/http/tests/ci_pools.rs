//! Pools that are bound to a CI system: what is refused at the API because that system could not be asked or told later.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on ends here")]

mod seen;
mod site;

use async_trait::async_trait;
use motorpool_control::ports::ci::{
    Ci, CiError, CiJob, CiSystems, CiTrouble, ListedRunner, Paused, Rate, Registered, RegistrationOrder,
};
use motorpool_domain::ci::{CiSystem, JobStatus};
use motorpool_wire::error::ErrorCode::{Conflict, InvalidRequest};
use serde_json::{Value, json};
use site::{RUNNER, Site, site_with_ci};
use std::sync::Arc;

/// It is down: what is refused here is refused before anybody asks it.
#[derive(Debug)]
struct Down;

fn down<T>() -> Result<T, CiError> {
    Err(CiError::Failed { attempted: "answer".to_owned(), source: "it is down".into() })
}

#[async_trait]
impl Ci for Down {
    async fn register(&self, _: &RegistrationOrder<'_>) -> Result<Registered, CiError> {
        down()
    }

    async fn remove(&self, _: &str, _: &str) -> Result<(), CiError> {
        down()
    }

    async fn list(&self, _: &str, _: &str) -> Result<Vec<ListedRunner>, CiError> {
        down()
    }

    async fn job_status(&self, _: &CiJob) -> Result<JobStatus, CiError> {
        down()
    }

    async fn pause(&self, _: &str, _: &str) -> Result<Paused, CiError> {
        down()
    }

    async fn unpause(&self, _: &str, _: &str) -> Result<(), CiError> {
        down()
    }

    fn rate(&self) -> Option<Rate> {
        None
    }

    fn trouble(&self, _: &str) -> Option<CiTrouble> {
        None
    }
}

/// One machine in a pool of hooks at this CI system, or at none.
async fn machine_at(ci: Value) -> Site {
    let mut systems = CiSystems::default();
    for system in CiSystem::ALL {
        systems = systems.with(system, Arc::new(Down));
    }
    let pool = json!({"backend": "bare_metal", "clean": "keep", "dispatch": "hook", "ci": ci, "max": 3});
    site_with_ci(systems).with_a_machine_of(&pool).await
}

#[tokio::test]
async fn a_job_that_its_ci_system_cannot_be_asked_about_is_refused_and_says_which_field_lacks() {
    let create =
        async |site: &Site, job: Value| site.ask("POST", "/api/v1/checkpoint/create", RUNNER, &job).await;
    for (ci, variable, project) in [
        (json!({"system": "github", "scope": "my-org"}), "$GITHUB_REPOSITORY", "my-org/app"),
        (json!({"system": "jenkins", "scope": "instance"}), "$JOB_NAME", "folder/app"),
    ] {
        let site = machine_at(ci.clone()).await;
        let error = create(&site, json!({"job_id": "1"})).await.refused(400, InvalidRequest);
        assert!(error.message.contains("project is missing"), "{ci}: {error:?}");
        assert!(error.hint.contains(variable), "{ci}: {error:?}");
        // With it, there is only its machine in the way, which nobody has cleaned yet.
        create(&site, json!({"job_id": "1", "project": project})).await.refused(409, Conflict);
    }
    // Who needs none, or has no CI system that is waited for, is served as ever.
    for ci in [
        Value::Null,
        json!({"system": "github", "scope": "me/app"}),
        json!({"system": "gitlab", "scope": "instance"}),
    ] {
        let site = machine_at(ci).await;
        create(&site, json!({"job_id": "1"})).await.refused(409, Conflict);
    }
}

#[tokio::test]
async fn a_token_at_gitlab_needs_the_number_that_its_runner_is_paused_by() {
    let site = machine_at(json!({"system": "gitlab", "scope": "groups/7"})).await;
    let mut machine = json!({"runner_id": "mac-02", "pool": "macs", "credential": "token"});
    let error = site.as_admin("POST", "/api/v1/runners", &machine).await.refused(400, InvalidRequest);
    assert!(
        error.message.contains("ci_runner is missing") && error.hint.contains("--ci-runner"),
        "{error:?}"
    );
    machine["ci_runner"] = json!("42");
    site.as_admin("POST", "/api/v1/runners", &machine).await.json(201);
    let path = "/api/v1/runners/mac-02";
    let error = site.as_admin("PATCH", path, &json!({"ci_runner": null})).await.refused(400, InvalidRequest);
    assert!(error.message.contains("ci_runner is missing"), "{error:?}");
    let seen = site.as_admin("PATCH", path, &json!({"ci_runner": "43", "reset_cmd": "true"})).await.json(200);
    assert_eq!(seen["ci_runner"], "43", "{seen}");
    // A machine with an agent is registered by that, and need not have one.
    site.as_admin("PATCH", "/api/v1/runners/mac-01", &json!({"ci_runner": "44"})).await.json(200);
    site.as_admin("PATCH", "/api/v1/runners/mac-01", &json!({"ci_runner": null})).await.json(200);
}
