//! The ladder: what is on it, in which order, and how little EC2 is asked for it.

use crate::Ground;
use futures_util::future::join_all;
use motorpool_control::ports::backend::Backend;
use motorpool_domain::ladder::CapacityOption;
use motorpool_domain::pool::Architecture;
use motorpool_domain::spec::{Spec, TypeGlobs, Usage, Want};
use motorpool_ec2_tests::fake::catalogue::{ARM_IMAGE, SUBNETS};
use motorpool_ec2_tests::samples::ec2_rules;
use motorpool_ec2_tests::{FakeEc2, FakeSettings, TurnedClock};
use std::sync::Arc;
use std::time::Duration;

fn told(rungs: &[CapacityOption]) -> Vec<String> {
    let told = |rung: &CapacityOption| {
        let micros = rung.hourly.map(|price| price.micro_dollars()).unwrap_or_default();
        format!("{} {micros}", rung.in_words())
    };
    rungs.iter().map(told).collect()
}

#[tokio::test]
async fn spot_comes_first_and_the_cheapest_of_each_before_the_dearer() {
    let ground = Ground::new().await;
    let ladder = ground.ladder().await;
    let expected = [
        "c6i.large (spot) in us-east-1a 33000",
        "c5.large (spot) in us-east-1a 36000",
        "c6i.large (spot) in us-east-1b 36300",
        "m6i.large (spot) in us-east-1a 38000",
        "c5.large (spot) in us-east-1b 39600",
        "c6i.large (spot) in us-east-1c 39600",
        "m7i.large (spot) in us-east-1a 40000",
    ];
    assert_eq!(told(&ladder)[..expected.len()], expected);
    let on_demand = ladder.iter().position(|rung| rung.offer.usage == Usage::OnDemand).unwrap();
    assert!(ladder[on_demand..].iter().all(|rung| rung.offer.usage == Usage::OnDemand));
    let expected = [
        "c5.large (on-demand) in us-east-1a 85000",
        "c5.large (on-demand) in us-east-1b 85000",
        "c5.large (on-demand) in us-east-1c 85000",
        "c6i.large (on-demand) in us-east-1a 85000",
    ];
    assert_eq!(told(&ladder)[on_demand..][..expected.len()], expected);
    assert!(ladder.len() <= 40);
}

#[tokio::test]
async fn only_what_fits_is_on_it() {
    let ground = Ground::new().await;
    let ladder = ground.ladder().await;
    for rung in &ladder {
        let CapacityOption { offer, .. } = rung;
        let fits = offer.spec.cpu >= 2 && offer.spec.memory_mb >= 4_096;
        let family_fits = offer.instance_type.starts_with('c') || offer.instance_type.starts_with('m');
        assert!(fits && family_fits && !offer.instance_type.contains("metal"), "{}", rung.in_words());
        assert_ne!(offer.instance_type, "m3.large", "it is of a former generation");
        let family = offer.instance_type.split('.').next().unwrap();
        assert!(!family.contains('g'), "{} is of another architecture", rung.in_words());
        assert!(offer.instance_type != "m7i.large" || rung.zone.as_deref() != Some("us-east-1c"));
    }
}

#[tokio::test]
async fn a_pool_gets_its_own_ladder() {
    let mut ground = Ground::new().await;
    let mut rules = ec2_rules();
    rules.architecture = Architecture::Arm64;
    rules.image = ARM_IMAGE.to_owned();
    rules.instance_types = TypeGlobs::parse("c7g.* r*").unwrap();
    rules.subnets = vec![SUBNETS[1].to_owned()];
    ground.pool.rules.ec2 = Some(rules);
    ground.pool.rules.offer.usage = Usage::OnDemand;
    ground.pool.rules.offer.spec = Spec { cpu: 2, memory_mb: 8_192 };
    let expected =
        ["r7g.large (on-demand) in us-east-1b 107100", "c7g.xlarge (on-demand) in us-east-1b 145000"];
    assert_eq!(told(&ground.ladder().await), expected);
    assert!(!ground.fake.calls().contains_key("DescribeSpotPriceHistory"), "it has no use for them");
}

#[tokio::test]
async fn many_who_ask_a_cold_cache_at_once_make_each_call_once() {
    let (ground, any) = (Ground::new().await, &Want::default());
    let all = join_all((0..500).map(|_| ground.backend.ladder(&ground.pool, any))).await;
    let first = all.first().unwrap().as_ref().unwrap();
    assert!(all.iter().all(|ladder| ladder.as_ref().unwrap() == first));
    let calls: Vec<(String, u32)> = ground.fake.calls().into_iter().collect();
    let expected = [
        ("DescribeInstanceTypeOfferings", 3),
        ("DescribeInstanceTypes", 1),
        ("DescribeSpotPriceHistory", 3),
        ("DescribeSubnets", 3),
    ];
    assert_eq!(calls, expected.map(|(action, count)| (action.to_owned(), count)));

    ground.clock.turn(Duration::from_secs(601));
    ground.ladder().await;
    assert_eq!(ground.fake.calls()["DescribeSpotPriceHistory"], 6, "prices grow old soonest");
    assert_eq!(ground.fake.calls()["DescribeInstanceTypes"], 1);
}

#[tokio::test]
async fn every_page_is_read() {
    let clock = Arc::new(TurnedClock::default());
    let small = FakeSettings {
        clock: clock.clone(),
        boot: Duration::ZERO,
        shutdown: Duration::ZERO,
        visible_after: Duration::ZERO,
        largest_page: 3,
    };
    let paged = Ground::on(FakeEc2::with(small), clock).await;
    assert_eq!(paged.ladder().await, Ground::new().await.ladder().await);
    assert!(paged.fake.calls()["DescribeInstanceTypes"] > 3);
}

#[tokio::test]
async fn fault_11_throttling_is_waited_out_and_what_was_read_before_still_serves() {
    let ground = Ground::new().await;
    ground.fake.throttle_next(Some("DescribeInstanceTypes"), 2);
    let ladder = ground.ladder().await;
    assert_eq!(ground.fake.calls()["DescribeInstanceTypes"], 3);

    ground.clock.turn(Duration::from_secs(24 * 3_600));
    ground.fake.throttle(1, 1_000);
    assert_eq!(ground.ladder().await, ladder, "all is old, and nothing can be read");

    let cold = ground.fake.backend("another").await;
    let error = cold.ladder(&ground.pool, &Want::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "the backend could not say which machines pool small can have");
}

#[tokio::test]
async fn a_subnet_that_is_gone_does_not_stop_the_others_and_is_named_when_it_is_the_last() {
    const GONE: &str = "subnet-0ddddddddddddddd4";
    let mut ground = Ground::new().await;
    if let Some(rules) = &mut ground.pool.rules.ec2 {
        rules.subnets = vec![GONE.to_owned(), SUBNETS[1].to_owned()];
    }
    assert!(ground.ladder().await.iter().all(|rung| rung.zone.as_deref() == Some("us-east-1b")));
    ground.launched("abc", 1).await;

    if let Some(rules) = &mut ground.pool.rules.ec2 {
        rules.subnets = vec![GONE.to_owned()];
    }
    let error = ground.backend.ladder(&ground.pool, &Want::default()).await.unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("InvalidSubnetID.NotFound") && source.contains("subnet-0ddd"), "{source}");
}
