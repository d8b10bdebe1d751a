//! A real serve with EC2 built in, on moto, as an operator uses it: plan, apply, provision, join, look, release, and the instance is gone.

use anyhow::{Context, Result, ensure};
use motorpool_ec2_tests::moto::{self, Place, asked, texts, user_data};
use motorpool_tests::fakes::fake_agent::FakeAgent;
use motorpool_tests::harness::serve::{ADMIN_TOKEN, Serve, binary};
use motorpool_tests::harness::wait::until;
use serde_json::{Value, json};
use std::process::Command;

/// Out of the way of whatever the test's own environment says.
fn aws(endpoint: &str) -> Vec<(String, String)> {
    [
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec()
}

fn pools(place: &Place) -> String {
    let Place { image, subnets, security_groups } = place;
    format!(
        r#"
[pools.cloud]
backend = "ec2"
clean = "replace"
max = 3
cpu = 2
memory_mb = 4096
usage = "spot"
heartbeat_seconds = 1
terminating_seconds = 1

[pools.cloud.ec2]
image = "{image}"
subnets = {subnets:?}
security_groups = {security_groups:?}
on_demand_fallback = true
"#
    )
}

fn motorpool(serve: &Serve, args: &[&str]) -> Result<String> {
    let (code, said) = exited(serve, args)?;
    ensure!(code == Some(0), "motorpool {args:?} exited with {code:?}: {said}");
    Ok(said)
}

/// Its exit code, and all that it said.
fn exited(serve: &Serve, args: &[&str]) -> Result<(Option<i32>, String)> {
    let output = Command::new(binary()?)
        .args(args)
        .env("MOTORPOOL_SERVER", serve.api().base())
        .env("MOTORPOOL_ADMIN_TOKEN", ADMIN_TOKEN)
        .env("COLUMNS", "160")
        .output()?;
    let (said, wrong) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
    Ok((output.status.code(), said + &wrong))
}

/// The dry run and the real one both name what is wrong, in EC2's ids, and the pool is not there.
async fn a_pool_that_could_never_launch_is_refused(
    serve: &Serve,
    place: &Place,
    dir: &std::path::Path,
) -> Result<()> {
    const NO_IMAGE: &str = "ami-00000000000000bad";
    let file = dir.join("wrong.toml");
    let file = file.to_str().context("a path")?;
    let wrong = pools(place).replace(&place.image, NO_IMAGE);
    let too_large = pools(place).replace("cpu = 2", "cpu = 4000");
    for (text, told) in [(wrong, NO_IMAGE), (too_large, "cpu: is 4000")] {
        std::fs::write(file, text)?;
        for args in [&["pools", "apply", file, "--dry-run"] as &[_], &["pools", "apply", file]] {
            let (code, said) = exited(serve, args)?;
            ensure!(code == Some(1) && said.contains(told), "{args:?} exited with {code:?}: {said}");
        }
    }
    ensure!(serve.api().get("pools/cloud").await?.status == 404, "it was defined all the same");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn planned_applied_provisioned_joined_released_and_gone() -> Result<()> {
    let endpoint = moto::endpoint()?;
    let place = moto::place(&endpoint).await?;
    let serve = Serve::start_where(
        "refresh_seconds = 1",
        &["--public-url", "https://pool.example:8443"],
        aws(&endpoint),
    )?;
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("cloud.toml");
    std::fs::write(&file, pools(&place))?;
    let file = file.to_str().context("a path")?;

    let plan = motorpool(&serve, &["pools", "apply", file, "--dry-run"])?;
    ensure!(plan.contains("spot") && plan.contains('$') && plan.contains("Nothing was changed"), "{plan}");
    let whole = motorpool(&serve, &["--json", "pools", "apply", file, "--dry-run"])?;
    ensure!(whole.contains("on-demand"), "it says nothing of what it falls back to: {whole}");
    ensure!(serve.api().get("pools/cloud").await?.status == 404, "a dry run defined the pool");
    a_pool_that_could_never_launch_is_refused(&serve, &place, dir.path()).await?;
    let Place { image, subnets, security_groups } = &place;
    let ec2 = json!({"image": image, "subnets": subnets, "security_groups": security_groups});
    let (_, problem) =
        serve.api().put("pools/cloud", json!({"backend": "ec2", "ec2": ec2})).await?.refusal(400)?;
    ensure!(problem.contains("cpu"), "the server's own hardware stood in for the pool's: {problem}");
    motorpool(&serve, &["pools", "apply", file])?;

    let claim = serve.api().provision("gh-1", "cloud", 1).await?;
    let claim = claim["claim"].as_str().context("no claim")?.to_owned();
    let launched = async || -> Result<Option<Value>> {
        let runners = serve.api().runners("cloud").await?;
        Ok(runners.into_iter().find(|runner| runner["provider_id"].is_string()))
    };
    let runner = until("an instance is launched", launched).await?;
    let (id, instance) = (text(&runner, "runner")?, text(&runner, "provider_id")?);
    let told = user_data(&endpoint, &instance).await?;
    ensure!(told.contains("https://pool.example:8443"), "{told}");
    let at = told.find("mp_launch_").context("no launch secret in the user data")?;
    let secret: String =
        told[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')).collect();

    let mut other = FakeAgent::new(serve.api(), &id);
    other.machine_id = "i-0123456789abcdef0".to_owned();
    ensure!(other.bootstrap(&secret).await?.status == 403, "another machine joined in its place");
    let mut agent = FakeAgent::new(serve.api(), &id);
    agent.machine_id = instance.clone();
    agent.bootstrap(&secret).await?.expect(200)?;
    agent.work_until("running").await?;
    until("the claim is ready", async || {
        Ok((serve.api().claim(&claim).await?["state"] == "ready").then_some(()))
    })
    .await?;

    let shown = motorpool(&serve, &["runners", "--pool", "cloud"])?;
    for part in [text(&runner, "instance_type")?, text(&runner, "zone")?, "spot".to_owned(), "$".to_owned()] {
        ensure!(shown.contains(&part), "no {part} in:\n{shown}");
    }
    serve.api().release("gh-1").await?;
    // Its agent deregisters, is told to end, and is heard no more; or it is over before it asks again.
    while agent.step().await.is_ok_and(|answer| answer["end"] == false) {}
    until("the instance is gone", async || {
        let seen = asked(&endpoint, &format!("DescribeInstances&InstanceId.1={instance}")).await?;
        let gone = texts(&seen, "name").iter().any(|state| state == "terminated");
        Ok((gone && serve.api().runners("cloud").await?.is_empty()).then_some(()))
    })
    .await
}

fn text(value: &Value, name: &str) -> Result<String> {
    Ok(value[name].as_str().with_context(|| format!("no {name} in {value}"))?.to_owned())
}
