//! What every launch asks for, so that a job gets nothing that is not its own.

use crate::Ground;
use motorpool_domain::ladder::CapacityOption;
use motorpool_domain::spec::Usage;
use motorpool_ec2_tests::fake::Query;
use motorpool_ec2_tests::fake::catalogue::{IMAGE, SECURITY_GROUP, SUBNETS};
use motorpool_ec2_tests::samples::{LAUNCH_SECRET, attempt, launch_id, order};
use std::collections::BTreeMap;

async fn launched_on(ground: &Ground, rung: CapacityOption) -> Query {
    ground.launch("abc", &attempt(3, rung)).await.unwrap();
    ground.fake.requests_of("RunInstances").pop().unwrap().query
}

#[tokio::test]
async fn refuse_16_the_metadata_needs_a_token_stays_on_the_host_and_has_no_role() {
    let mut ground = Ground::new().await;
    let rung = ground.rung().await;
    let query = launched_on(&ground, rung.clone()).await;
    for (name, value) in [
        ("MetadataOptions.HttpTokens", "required"),
        ("MetadataOptions.HttpPutResponseHopLimit", "1"),
        ("MetadataOptions.HttpEndpoint", "enabled"),
        ("MetadataOptions.InstanceMetadataTags", "disabled"),
    ] {
        assert_eq!(query.get(name), Some(value), "{name}");
    }
    let of_role = |query: &Query| {
        query
            .pairs()
            .iter()
            .filter(|(name, _)| name.starts_with("Iam"))
            .map(|(_, it)| it.clone())
            .collect::<Vec<_>>()
    };
    assert!(of_role(&query).is_empty(), "no role unless the pool asks for one");

    if let Some(rules) = &mut ground.pool.rules.ec2 {
        rules.instance_profile = Some("reads-the-cache".to_owned());
    }
    ground.launch("def", &attempt(1, rung)).await.unwrap();
    let query = ground.fake.requests_of("RunInstances").pop().unwrap().query;
    assert_eq!(of_role(&query), ["reads-the-cache"]);
}

#[tokio::test]
async fn disks_are_encrypted_a_shutdown_terminates_and_the_place_is_the_rungs() {
    let ground = Ground::new().await;
    let query = launched_on(&ground, ground.rung().await).await;
    for (name, value) in [
        ("MinCount", "1"),
        ("MaxCount", "3"),
        ("ImageId", IMAGE),
        ("InstanceType", "c6i.large"),
        ("SubnetId", SUBNETS[0]),
        ("SecurityGroupId.1", SECURITY_GROUP),
        ("ClientToken", "mp-0a1b2c-l-abc-1.0"),
        ("InstanceInitiatedShutdownBehavior", "terminate"),
        ("BlockDeviceMapping.1.DeviceName", "/dev/xvda"),
        ("BlockDeviceMapping.1.Ebs.Encrypted", "true"),
        ("BlockDeviceMapping.1.Ebs.VolumeType", "gp3"),
        ("BlockDeviceMapping.1.Ebs.VolumeSize", "50"),
        ("BlockDeviceMapping.1.Ebs.DeleteOnTermination", "true"),
        ("InstanceMarketOptions.MarketType", "spot"),
        ("InstanceMarketOptions.SpotOptions.SpotInstanceType", "one-time"),
        ("InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior", "terminate"),
    ] {
        assert_eq!(query.get(name), Some(value), "{name}");
    }
}

#[tokio::test]
async fn on_demand_has_nothing_of_spot() {
    let ground = Ground::new().await;
    let rungs = ground.ladder().await;
    let rung = rungs.into_iter().find(|rung| rung.offer.usage == Usage::OnDemand).unwrap();
    let query = launched_on(&ground, rung).await;
    assert!(query.pairs().iter().all(|(name, value)| !name.contains("Spot") && !value.contains("spot")));
}

#[tokio::test]
async fn everything_is_tagged_for_sweeps_and_reports() {
    let mut ground = Ground::new().await;
    if let Some(rules) = &mut ground.pool.rules.ec2 {
        let own = [("team", "compilers"), ("Name", "a name of theirs")];
        rules.tags = own.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    }
    let query = launched_on(&ground, ground.rung().await).await;
    let expected = BTreeMap::from(
        [
            ("Name", "a name of theirs"),
            ("motorpool:attempt", "1"),
            ("motorpool:claim", "c-0123"),
            ("motorpool:from", "0"),
            ("motorpool:installation", "0a1b2c"),
            ("motorpool:launch", "l-abc"),
            ("motorpool:pool", "small"),
            ("motorpool:workflow", "gh-123.2"),
            ("team", "compilers"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned())),
    );
    for resource in ["instance", "volume", "spot-instances-request"] {
        assert_eq!(query.launch_tags(resource), expected, "{resource}");
    }
}

#[tokio::test]
async fn refuse_17_the_launch_secret_is_in_the_user_data_alone_and_no_other_is_anywhere() {
    let ground = Ground::new().await;
    let attempt = attempt(3, ground.rung().await);
    ground.launch("abc", &attempt).await.unwrap();
    let launch = launch_id("abc");
    let order = order(&ground.pool, &launch, &attempt);
    let of_one = &order.machines[0].secret;
    assert!(!format!("{order:?}").contains(LAUNCH_SECRET));
    assert!(!format!("{:?}", ground.backend).contains("mp_launch_"));
    for request in ground.fake.requests() {
        for (name, value) in request.query.pairs() {
            assert!(!value.contains(LAUNCH_SECRET) && !value.contains(of_one), "{} {name}", request.action);
        }
        let Some(user_data) = request.user_data() else { continue };
        assert_eq!(user_data.matches(LAUNCH_SECRET).count(), 1, "{user_data}");
        assert_eq!(user_data.matches("mp_").count(), 1, "no other secret of ours\n{user_data}");
        for line in ["#cloud-config", "https://pool.example:8443", "l-abc"] {
            assert!(user_data.contains(line), "{line}\n{user_data}");
        }
    }
    let all_the_same = ground.fake.instances();
    assert!(all_the_same.windows(2).all(|pair| pair[0].0.user_data == pair[1].0.user_data));
}
