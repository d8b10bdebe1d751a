//! In what CI systems differ: a build of Jenkins' outlives its use of a machine, what a job is asked for by, and who can be paused.

use crate::workshop::{Workshop, in_ci};
use anyhow::{Context, Result, ensure};
use motorpool_control::{Caller, RefusedKind};
use motorpool_domain::RunnerId;
use motorpool_domain::checkpoint::{FinalizeSource, JobOutcome};
use motorpool_domain::ci::{CiSystem, JobStatus};
use motorpool_tests::harness::world::POOL;
use motorpool_wire::api::RegisterRunnerRequest;
use motorpool_wire::registry::UpdateRunnerRequest;
use serde_json::json;
use std::time::Duration;

const MAC: &str = "mac-1";
/// A pipeline, as its builds name it.
const PIPELINE: Option<&str> = Some("team/app");

async fn at_jenkins() -> Result<Workshop> {
    Workshop::open_at((CiSystem::Jenkins, "instance"), json!({}), &[MAC]).await
}

#[tokio::test]
async fn a_build_that_goes_on_elsewhere_does_not_hold_the_machine_that_it_has_left() -> Result<()> {
    let shop = at_jenkins().await?;
    shop.ci.job("1", JobStatus::Running);
    let name = shop.create_in(MAC, "1", PIPELINE).await?.name;
    // The hook's own step is still on the node.
    shop.ci.busy(&in_ci(MAC), true);
    shop.finalize(MAC, &name, "success").await?;
    for _ in 0..3 {
        shop.works(MAC).await?;
        ensure!(shop.state(MAC).await? == "releasing", "the build is still on it");
        shop.turn(20);
        shop.refresh().await?;
    }
    // It goes on for an hour with a deployment, or waits for a person.
    shop.ci.busy(&in_ci(MAC), false);
    shop.turn(20);
    shop.refresh().await?;
    shop.works(MAC).await?;
    ensure!(shop.state(MAC).await? == "idle", "{:?}", shop.runner(MAC).await?);
    ensure!(shop.checkpoint(&name).await?.state.as_str() == "deleted" && !shop.ci.is_paused(&in_ci(MAC)));
    Ok(())
}

/// One machine, and a pipeline that uses it twice: nobody waits for himself.
#[tokio::test]
async fn a_build_comes_back_to_the_machine_that_it_had_and_finds_it_clean() -> Result<()> {
    let shop = at_jenkins().await?;
    shop.ci.job("1", JobStatus::Running);
    let first = shop.create_in(MAC, "1", PIPELINE).await?.name;
    shop.finalize(MAC, &first, "failure").await?;
    let refused = shop.create_in(MAC, "1", PIPELINE).await.err().context("it is not clean yet")?;
    ensure!(refused.kind == RefusedKind::Conflict, "{refused:?}");
    shop.works(MAC).await?;
    ensure!(shop.checkpoint(&first).await?.state.as_str() == "reset");
    shop.turn(6);
    let second = shop.create_in(MAC, "1", PIPELINE).await?.name;
    ensure!(second != first && shop.runner(MAC).await?.epoch.0 == 3, "in another life of the machine");

    // The poller hears that the build runs, and that is no end of its second part.
    shop.turn(300);
    shop.refresh().await?;
    ensure!(shop.state(MAC).await? == "running" && shop.checkpoint(&second).await?.finalized.is_none());
    // Its hook never speaks. The build's end is its end.
    shop.ci.job("1", JobStatus::Canceled);
    shop.turn(30);
    shop.refresh().await?;
    shop.works(MAC).await?;
    let ended = shop.checkpoint(&second).await?;
    let finalized = ended.finalized.context("the poller did")?;
    ensure!((finalized.source, finalized.status) == (FinalizeSource::Poller, JobOutcome::Canceled));
    ensure!(ended.state.as_str() == "reset" && shop.state(MAC).await? == "idle", "{ended:?}");
    Ok(())
}

#[tokio::test]
async fn a_build_that_failed_in_the_end_overrides_what_its_hook_said() -> Result<()> {
    let shop = at_jenkins().await?;
    let name = shop.create_in(MAC, "1", PIPELINE).await?.name;
    shop.ci.job("1", JobStatus::Failure);
    shop.finalize(MAC, &name, "success").await?;
    shop.works(MAC).await?;
    let ended = shop.checkpoint(&name).await?;
    ensure!(ended.finalized.map(|it| it.status) == Some(JobOutcome::Failure), "{ended:?}");
    ensure!(ended.state.as_str() == "reset" && shop.state(MAC).await? == "idle", "{ended:?}");
    Ok(())
}

/// Where nobody could ever see that a job is over, its hook is told at once, and the machine is not held for it.
#[tokio::test]
async fn a_job_that_its_ci_system_cannot_be_asked_about_is_refused_and_not_waited_for() -> Result<()> {
    for (system, scope, refused, taken) in [
        (CiSystem::Jenkins, "instance", None, PIPELINE),
        (CiSystem::GitHub, "my-org", None, Some("my-org/app")),
        (CiSystem::GitHub, "enterprises/big", None, Some("my-org/app")),
        (CiSystem::GitHub, "me/app", Some("app"), None),
        (CiSystem::GitLab, "groups/7", Some("app"), Some("group/app")),
        (CiSystem::GitLab, "groups/7", Some("group/../app"), None),
    ] {
        let what = format!("{system:?} {scope} {refused:?} {taken:?}");
        let shop = Workshop::open_at((system, scope), json!({}), &[MAC]).await?;
        let refused = shop.create_in(MAC, "1", refused).await.err().context(what.clone())?;
        ensure!(refused.kind == RefusedKind::InvalidRequest, "{what}: {refused:?}");
        ensure!(
            refused.message.starts_with("project is ") && refused.hint.contains('$'),
            "{what}: {refused:?}"
        );
        ensure!(shop.state(MAC).await? == "idle", "{what}");
        shop.create_in(MAC, "1", taken).await.with_context(|| what.clone())?;
        ensure!(shop.state(MAC).await? == "running", "{what}");
    }
    Ok(())
}

/// Nobody could be paused before such a machine is cleaned.
#[tokio::test]
async fn inv_30_a_runner_that_nobody_registers_for_us_must_have_a_name_at_gitlab() -> Result<()> {
    let shop = Workshop::open(json!({"clean": "keep"}), &[]).await?;
    let unnamed = json!({"runner_id": MAC, "pool": POOL, "credential": "token"});
    let register =
        async |request: RegisterRunnerRequest| shop.control.register_runner(&Caller::Operator, request).await;
    let refused = register(serde_json::from_value(unnamed.clone())?).await.err().context("it has no name")?;
    ensure!(
        refused.kind == RefusedKind::InvalidRequest && refused.message.contains("ci_runner"),
        "{refused:?}"
    );
    let mut named = unnamed.clone();
    named["ci_runner"] = json!(in_ci(MAC));
    register(serde_json::from_value(named)?).await?;
    let id = RunnerId::parse(MAC)?;
    let update = async |request: UpdateRunnerRequest| {
        shop.control.update_runner(&Caller::Operator, &id, &request).await
    };
    let refused = update(serde_json::from_value(json!({"ci_runner": null}))?).await.err();
    let refused = refused.context("it would have none")?;
    ensure!(
        refused.kind == RefusedKind::InvalidRequest && refused.message.contains("ci_runner"),
        "{refused:?}"
    );
    update(serde_json::from_value(json!({"ci_runner": "43", "reset_cmd": "reset"}))?).await?;
    ensure!(shop.runner(MAC).await?.ci_runner.as_deref() == Some("43"));

    // One with an agent of ours may have none: its agent registers it.
    let agents = json!({"runner_id": "mac-2", "pool": POOL, "ci_runner": "44"});
    register(serde_json::from_value(agents)?).await?;
    let cleared = serde_json::from_value(json!({"ci_runner": null}))?;
    shop.control.update_runner(&Caller::Operator, &RunnerId::parse("mac-2")?, &cleared).await?;
    for (system, scope) in [(CiSystem::Jenkins, "instance"), (CiSystem::GitHub, "my-org")] {
        let other = Workshop::open_at((system, scope), json!({"clean": "keep"}), &[]).await?;
        let request = serde_json::from_value(unnamed.clone())?;
        other.control.register_runner(&Caller::Operator, request).await?;
    }
    Ok(())
}

/// One that was registered before its pool was GitLab's: a pause that nobody was asked for is none.
#[tokio::test]
async fn inv_30_a_runner_without_a_name_is_not_cleaned_until_an_operator_gives_it_one() -> Result<()> {
    let shop = Workshop::open_at((CiSystem::GitHub, "my-org"), json!({"clean": "keep"}), &[]).await?;
    let request = serde_json::from_value(json!({"runner_id": MAC, "pool": POOL, "credential": "token"}))?;
    shop.control.register_runner(&Caller::Operator, request).await?;
    let shop = shop.moved_to((CiSystem::GitLab, "groups/7")).await?;
    let attended = async || -> Result<()> {
        while shop.control.attend_to_notices(Duration::ZERO).await? > 0 {}
        Ok(())
    };
    for _ in 0..3 {
        attended().await?;
        shop.turn(20);
        shop.refresh().await?;
        ensure!(shop.state(MAC).await? == "resetting", "{:?}", shop.runner(MAC).await?);
    }
    let id = RunnerId::parse(MAC)?;
    let shown = shop.control.view_runner(&Caller::Operator, &id).await?;
    ensure!(shown.why.is_some_and(|why| why.contains("--ci-runner")));
    let named = serde_json::from_value(json!({"ci_runner": in_ci(MAC)}))?;
    shop.control.update_runner(&Caller::Operator, &id, &named).await?;
    attended().await?;
    ensure!(shop.state(MAC).await? == "idle", "{:?}", shop.runner(MAC).await?);
    Ok(())
}
