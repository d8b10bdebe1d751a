//! The second opinion on the backend's calls, from moto, which somebody else wrote: that our requests are ones that EC2 knows; not what becomes
//! of them in races, for it ignores ClientToken. The lives that runners lead over it are in `life`.

use anyhow::{Context, Result, ensure};
use motorpool_backend_ec2::{Ec2Backend, Ec2Config};
use motorpool_control::ports::backend::{Backend, LaunchError, Machine};
use motorpool_control::ports::clock::{Clock, SystemClock};
use motorpool_domain::ladder::{CapacityOption, LaunchCall};
use motorpool_domain::pool::{Ec2Rules, Pool};
use motorpool_domain::runner::Presence;
use motorpool_domain::spec::{Usage, Want};
use motorpool_ec2_tests::moto::{self, Place, asked, texts, user_data};
use motorpool_ec2_tests::samples::{attempt, ec2_rules, launch_id, order, pool, runner, terminating};
use motorpool_tests::harness::emulated_aws::fresh_name;
use std::sync::Arc;

/// An installation of its own on the moto that all tests share, with a pool in its default network.
struct Ground {
    endpoint: String,
    backend: Ec2Backend,
    pool: Pool,
}

impl Ground {
    async fn new() -> Result<Self> {
        let endpoint = moto::endpoint()?;
        let settings = Ec2Config {
            installation: fresh_name("mp"),
            server_url: "https://pool.example:8443".to_owned(),
            ca_pem: None,
            clock: Arc::new(SystemClock),
        };
        let backend = Ec2Backend::new(&motorpool_aws::emulated(&endpoint).await, settings);
        let Place { image, subnets, security_groups } = moto::place(&endpoint).await?;
        let rules = Ec2Rules { on_demand_fallback: true, image, subnets, security_groups, ..ec2_rules() };
        Ok(Self { endpoint, backend, pool: pool("small", Usage::Spot, 50, rules) })
    }

    async fn launch(&self, word: &str, attempt: &LaunchCall) -> Result<Vec<Machine>, LaunchError> {
        let launch = launch_id(word);
        self.backend.launch(&order(&self.pool, &launch, attempt)).await
    }

    async fn described(&self, machine: &Machine) -> Result<String> {
        asked(&self.endpoint, &format!("DescribeInstances&InstanceId.1={}", machine.provider_id)).await
    }
}

/// One test, since moto takes seconds for its lists, and tests beside each other would wait for each other's.
#[tokio::test]
async fn a_whole_life_over_moto() -> Result<()> {
    let mut ground = Ground::new().await?;
    let ladder = ground.backend.ladder(&ground.pool, &Want::default()).await.context("the ladder")?;
    the_ladder_is_made_of_what_moto_knows(&ladder)?;
    what_is_wrong_with_a_pool_is_found_by_asking_moto(&ground).await?;
    a_launch_comes_in_parts_is_found_and_ends(&ground, &ladder).await?;
    for usage in [Usage::Spot, Usage::OnDemand] {
        let rung = ladder.iter().find(|rung| rung.offer.usage == usage).context("a rung")?;
        refuse_16_the_metadata_is_closed_the_disk_encrypted_and_there_is_no_role(&ground, rung).await?;
    }
    an_image_that_moto_does_not_have_is_refused(&mut ground, &ladder).await
}

fn the_ladder_is_made_of_what_moto_knows(ladder: &[CapacityOption]) -> Result<()> {
    ensure!((20..=40).contains(&ladder.len()), "{} rungs", ladder.len());
    let spot = ladder.iter().take_while(|rung| rung.offer.usage == Usage::Spot).count();
    ensure!(spot > 0, "spot comes first");
    ensure!(
        ladder[spot..].iter().all(|rung| rung.offer.usage == Usage::OnDemand),
        "on-demand comes after it"
    );
    ensure!(spot < ladder.len(), "there is some");
    for rung in ladder {
        let offer = &rung.offer;
        ensure!(offer.spec.cpu >= 2 && offer.spec.memory_mb >= 4_096, "{} is too small", rung.in_words());
        ensure!(
            ["c", "m"].iter().any(|family| offer.instance_type.starts_with(family)),
            "{}",
            rung.in_words()
        );
        ensure!(!offer.instance_type.contains("metal"), "{}", rung.in_words());
    }
    Ok(())
}

async fn what_is_wrong_with_a_pool_is_found_by_asking_moto(ground: &Ground) -> Result<()> {
    let found = async |change: &dyn Fn(&mut Ec2Rules)| -> Result<String> {
        let mut pool = ground.pool.clone();
        change(pool.rules.ec2.as_mut().context("an EC2 pool")?);
        let found = ground.backend.check(&pool).await.context("moto can be asked")?;
        Ok(found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    };
    assert_eq!(found(&|_| {}).await?, "");
    let vpc = texts(&asked(&ground.endpoint, "CreateVpc&CidrBlock=10.77.0.0/16").await?, "vpcId");
    let vpc = vpc.first().context("a VPC")?;
    let group = format!("CreateSecurityGroup&GroupName={}&GroupDescription=x&VpcId={vpc}", fresh_name("mp"));
    let group = texts(&asked(&ground.endpoint, &group).await?, "groupId");
    let arm = "DescribeImages&Filter.1.Name=architecture&Filter.1.Value.1=arm64";
    let image_of = async |query: &str| -> Result<String> {
        let images = texts(&asked(&ground.endpoint, query).await?, "imageId");
        images.into_iter().next().with_context(|| format!("no image: {query}"))
    };
    let arm = image_of(arm).await?;
    let windows = image_of("DescribeImages&Filter.1.Name=platform&Filter.1.Value.1=windows").await?;
    for (told, change) in [
        (
            "image: EC2 has no ami-00000000000000bad",
            &(|rules: &mut Ec2Rules| rules.image = "ami-00000000000000bad".to_owned())
                as &dyn Fn(&mut Ec2Rules),
        ),
        ("is for arm64", &|rules| rules.image.clone_from(&arm)),
        ("is Windows", &|rules| rules.image.clone_from(&windows)),
        ("subnets: EC2 has no subnet-00000000000000bad", &|rules| {
            rules.subnets.push("subnet-00000000000000bad".to_owned());
        }),
        ("security_groups: EC2 has no sg-00000000000000bad", &|rules| {
            rules.security_groups.push("sg-00000000000000bad".to_owned());
        }),
        (vpc.as_str(), &|rules| rules.security_groups.clone_from(&group)),
    ] {
        let found = found(change).await?;
        ensure!(found.contains(told) && found.lines().count() == 1, "{told}: {found}");
    }
    Ok(())
}

/// moto makes as few as it may, so each call is a partial launch, and the rest is the next one's.
async fn a_launch_comes_in_parts_is_found_and_ends(ground: &Ground, ladder: &[CapacityOption]) -> Result<()> {
    let mut call = attempt(3, ladder[0].clone());
    let mut machines = Vec::new();
    for from in 0..3 {
        let came = ground.launch("abc", &call).await?;
        assert_eq!(came.len(), 1);
        machines.extend(came);
        call = call.next(from + 1, 2 - from, ladder[0].clone());
    }
    let ids: Vec<&str> = machines.iter().map(|machine| machine.runner.as_str()).collect();
    assert_eq!(ids, ["r-abc-0", "r-abc-1", "r-abc-2"]);
    let mut listed = ground.backend.inventory(&ground.pool.name).await?;
    listed.sort_by(|a, b| a.runner.cmp(&b.runner));
    assert_eq!(listed, machines);

    let (launch, now) = (launch_id("abc"), SystemClock.now());
    let noted = runner(&ground.pool, &launch, 0, machines.first(), now);
    assert_eq!(ground.backend.describe(&noted).await?, Presence::There);
    let lost = runner(&ground.pool, &launch, 1, None, now);
    assert_eq!(ground.backend.describe(&lost).await?, Presence::There, "it is found by its tags");

    // Its instances are terminated as soon as they are told to be, though it answers that they shut down.
    ground.backend.ensure_gone(&noted).await?;
    assert_eq!(ground.backend.describe(&noted).await?, Presence::Gone);
    let ending = terminating(&lost, now);
    ground.backend.ensure_gone(&ending).await?;
    assert_eq!(ground.backend.describe(&ending).await?, Presence::Gone);
    ground.backend.discard(&machines[2]).await?;
    assert_eq!(ground.backend.inventory(&ground.pool.name).await?, []);
    let unknown = Machine { provider_id: "i-0dead0dead0dead00".to_owned(), ..machines[0].clone() };
    assert_eq!(
        ground.backend.describe(&runner(&ground.pool, &launch, 0, Some(&unknown), now)).await?,
        Presence::Unknown,
        "it is too young to be gone"
    );
    Ok(())
}

async fn refuse_16_the_metadata_is_closed_the_disk_encrypted_and_there_is_no_role(
    ground: &Ground,
    rung: &CapacityOption,
) -> Result<()> {
    let machines = ground
        .launch(if rung.offer.usage == Usage::Spot { "spot" } else { "demand" }, &attempt(2, rung.clone()))
        .await?;
    let seen = ground.described(&machines[0]).await?;
    let first = |name: &str| texts(&seen, name).into_iter().next().unwrap_or_default();
    assert_eq!(first("httpTokens"), "required", "{seen}");
    assert_eq!(first("httpPutResponseHopLimit"), "1");
    assert_eq!(first("instanceType"), rung.offer.instance_type);
    ensure!(!seen.contains("<iamInstanceProfile>"), "it has a role: {seen}");
    let keys = texts(&seen, "key");
    for key in ["Name", "motorpool:installation", "motorpool:launch", "motorpool:from", "motorpool:runner"] {
        ensure!(keys.iter().any(|known| known == key), "{key} is not among {keys:?}");
    }
    assert_eq!(texts(&seen, "instanceLifecycle") == ["spot"], rung.offer.usage == Usage::Spot, "{seen}");

    let volume = texts(&seen, "volumeId").into_iter().next().context("it has no disk")?;
    let disk = asked(&ground.endpoint, &format!("DescribeVolumes&VolumeId.1={volume}")).await?;
    assert_eq!(texts(&disk, "encrypted"), ["true"], "{disk}");
    assert_eq!(texts(&disk, "size"), ["50"]);

    let attribute = async |name: &str| {
        let action =
            format!("DescribeInstanceAttribute&Attribute={name}&InstanceId={}", machines[0].provider_id);
        asked(&ground.endpoint, &action).await
    };
    ensure!(attribute("instanceInitiatedShutdownBehavior").await?.contains("<value>terminate</value>"));
    let text = user_data(&ground.endpoint, &machines[0].provider_id).await?;
    ensure!(text.starts_with("#cloud-config\n") && text.contains("pool.example"), "{text}");
    Ok(())
}

async fn an_image_that_moto_does_not_have_is_refused(
    ground: &mut Ground,
    ladder: &[CapacityOption],
) -> Result<()> {
    if let Some(rules) = &mut ground.pool.rules.ec2 {
        rules.image = "ami-00000000000000bad".to_owned();
    }
    match ground.launch("bad", &attempt(1, ladder[0].clone())).await {
        Err(LaunchError::Refused(why)) => ensure!(why.contains("InvalidAMIID.NotFound"), "{why}"),
        other => anyhow::bail!("{other:?}"),
    }
    Ok(())
}
