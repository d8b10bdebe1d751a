//! What a workflow asks of its machines: it gets one that fits of all that the pool can launch, or is refused at once.

use anyhow::{Context, Result, ensure};
use motorpool_control::{Caller, Refused, RefusedKind};
use motorpool_domain::Workflow;
use motorpool_domain::pool::Ec2Rules;
use motorpool_domain::spec::Usage;
use motorpool_ec2_tests::samples::{ec2_rules, pool};
use motorpool_ec2_tests::stage::Stage;
use motorpool_wire::api::{ClaimView, ProvisionRequest};

async fn stage(on_demand_fallback: bool) -> Result<Stage> {
    Stage::new(pool("small", Usage::Spot, 5, Ec2Rules { on_demand_fallback, ..ec2_rules() })).await
}

async fn asked(stage: &Stage, usage: Option<Usage>, types: Option<&str>) -> Result<ClaimView, Refused> {
    let request = ProvisionRequest {
        workflow: Workflow::parse("gh-1")?,
        pool: stage.pool.name.clone(),
        count: 1,
        max_runtime_minutes: None,
        usage,
        allowed_instance_types: types.map(str::to_owned),
        resource_class: None,
    };
    stage.plane().await.provision(&Caller::Operator, request).await
}

#[tokio::test]
async fn a_type_that_the_pool_can_launch_is_launched_though_others_are_cheaper() -> Result<()> {
    let stage = stage(false).await?;
    let first = stage.ladder().await?.into_iter().next().context("no ladder")?.offer.instance_type;
    let wanted = if first.starts_with('c') { "m*" } else { "c*" };
    asked(&stage, None, Some(wanted)).await?;
    let runners = stage.runners().await?;
    let types: Vec<&str> = runners.iter().map(|runner| runner.offer.instance_type.as_str()).collect();
    ensure!(types.len() == 1 && wanted.starts_with(&types[0][..1]), "{types:?} for {wanted}");
    Ok(())
}

#[tokio::test]
async fn on_demand_is_to_be_had_where_the_pool_falls_back_on_it() -> Result<()> {
    let stage = stage(true).await?;
    asked(&stage, Some(Usage::OnDemand), None).await?;
    ensure!(stage.runners().await?.iter().all(|runner| runner.offer.usage == Usage::OnDemand));
    Ok(())
}

#[tokio::test]
async fn what_no_machine_can_ever_be_is_refused_at_once() -> Result<()> {
    let stage = stage(false).await?;
    for (usage, types, said) in
        [(None, Some("x9*"), "a type like 'x9*'"), (Some(Usage::OnDemand), None, "on-demand")]
    {
        let Err(refused) = asked(&stage, usage, types).await else { anyhow::bail!("{said} is waited for") };
        ensure!(refused.kind == RefusedKind::InvalidRequest, "{refused:?}");
        ensure!(refused.message.contains("can ever fit") && refused.message.contains(said), "{refused:?}");
    }
    ensure!(stage.instances().await?.is_empty() && stage.runners().await?.is_empty());
    Ok(())
}
