//! One order, one call: what comes of it, whatever becomes of the answer.

use crate::{Ground, INSTALLATION, runners};
use motorpool_control::ports::backend::{Backend, LaunchError};
use motorpool_domain::ladder::{CapacityOption, Lacking};
use motorpool_domain::spec::Usage;
use motorpool_ec2_tests::samples::{attempt, launch_id, order};
use motorpool_ec2_tests::{Loss, State};
use std::time::Duration;

fn type_of(rung: &CapacityOption) -> &str {
    &rung.offer.instance_type
}

fn zone_of(rung: &CapacityOption) -> &str {
    rung.zone.as_deref().unwrap()
}

#[tokio::test]
async fn one_call_makes_all_machines_of_an_order() {
    let ground = Ground::new().await;
    let machines = ground.launched("abc", 5).await;
    assert_eq!(runners(&machines), ["r-abc-0", "r-abc-1", "r-abc-2", "r-abc-3", "r-abc-4"]);
    assert_eq!(ground.fake.calls()["RunInstances"], 1);
    let tokens = ground.fake.tokens();
    let ids: Vec<&String> = machines.iter().map(|machine| &machine.provider_id).collect();
    assert_eq!(tokens["mp-0a1b2c-l-abc-1.0"].iter().collect::<Vec<_>>(), ids);
    for (instance, state) in ground.fake.instances() {
        assert_eq!(state, State::Pending);
        assert_eq!(instance.tags["motorpool:runner"], instance.runner().unwrap().to_string());
    }
    ground.clock.turn(Duration::from_secs(20));
    assert!(ground.fake.instances().iter().all(|(_, state)| *state == State::Running));
}

#[tokio::test]
async fn inv_15_the_same_order_again_makes_no_machine_more() {
    let ground = Ground::new().await;
    let attempt = attempt(3, ground.rung().await);
    let first = ground.launch("abc", &attempt).await.unwrap();
    assert_eq!(ground.launch("abc", &attempt).await.unwrap(), first);
    let elsewhere = ground.fake.backend(INSTALLATION).await;
    let launch = launch_id("abc");
    assert_eq!(elsewhere.launch(&order(&ground.pool, &launch, &attempt)).await.unwrap(), first);
    assert_eq!(ground.fake.alive(), 3);
}

#[tokio::test]
async fn fault_13_what_came_is_kept_and_the_rest_is_the_next_orders() {
    let ground = Ground::new().await;
    let ladder = ground.ladder().await;
    let (first, second) = (&ladder[0], &ladder[1]);
    ground.fake.set_capacity(type_of(first), zone_of(first), Usage::Spot, 2);
    let attempt = attempt(5, first.clone());
    let came = ground.launch("abc", &attempt).await.unwrap();
    assert_eq!(runners(&came), ["r-abc-0", "r-abc-1"]);
    assert_eq!(ground.launch("abc", &attempt).await.unwrap(), came, "the same again is no more");

    let rest = ground.launch("abc", &attempt.next(2, 3, second.clone())).await.unwrap();
    assert_eq!(runners(&rest), ["r-abc-2", "r-abc-3", "r-abc-4"]);
    assert_eq!(ground.fake.alive(), 5);
    let of_fourth = ground.fake.instances_of(&rest[2].runner);
    assert_eq!(of_fourth.len(), 1);
    assert_eq!(of_fourth[0].instance_type, type_of(second));
}

#[tokio::test]
async fn fault_22_a_lack_of_capacity_is_an_answer_and_not_asked_again() {
    let ground = Ground::new().await;
    let rung = ground.rung().await;
    let attempt = attempt(2, rung.clone());
    let lacking = async |word: &str| match ground.launch(word, &attempt).await {
        Err(LaunchError::NoCapacity { of, why }) => (of, why),
        other => panic!("{other:?}"),
    };
    ground.fake.set_capacity(type_of(&rung), zone_of(&rung), Usage::Spot, 0);
    let (of, why) = lacking("a").await;
    assert_eq!(of, Lacking::rung(&rung));
    assert!(why.contains("InsufficientInstanceCapacity") && why.contains("c6i.large"), "{why}");
    assert_eq!(ground.fake.calls()["RunInstances"], 1);

    ground.fake.restore_capacity();
    ground.fake.set_free_addresses("us-east-1a", 0);
    assert_eq!(lacking("b").await.0, Lacking::Zone { zone: "us-east-1a".to_owned() });

    ground.fake.restore_capacity();
    ground.fake.set_quota(Usage::Spot, 0);
    assert_eq!(lacking("c").await.0, Lacking::Usage { usage: Usage::Spot });
    assert_eq!(ground.fake.calls()["RunInstances"], 3);
    assert_eq!(ground.fake.alive(), 0);
}

#[tokio::test]
async fn fault_11_throttled_nothing_is_made_and_the_same_order_works_later() {
    let ground = Ground::new().await;
    let attempt = attempt(2, ground.rung().await);
    ground.fake.throttle_next(Some("RunInstances"), 3);
    let error = ground.launch("abc", &attempt).await.unwrap_err();
    assert!(matches!(error, LaunchError::Throttled(_)), "{error:?}");
    assert_eq!((ground.fake.calls()["RunInstances"], ground.fake.alive()), (3, 0));
    assert_eq!(ground.launch("abc", &attempt).await.unwrap().len(), 2);

    ground.fake.throttle_next(Some("RunInstances"), 2);
    assert_eq!(ground.launch("def", &attempt).await.unwrap().len(), 2, "a short while is waited out");
    assert_eq!(ground.fake.alive(), 4);
}

#[tokio::test]
async fn fault_15_a_launch_whose_answer_was_lost_is_found_by_the_same_order() {
    for loss in [Loss::TimedOut, Loss::Cut, Loss::ServerError, Loss::Garbled] {
        let ground = Ground::new().await;
        let attempt = attempt(3, ground.rung().await);
        ground.fake.lose_answers("RunInstances", 3, loss);
        let error = ground.launch("abc", &attempt).await.unwrap_err();
        assert!(matches!(error, LaunchError::Unconfirmed(_)), "{loss:?}: {error:?}");
        assert_eq!(ground.fake.alive(), 3, "{loss:?}: they were made all the same");
        // One that can't be read is not tried again by the SDK: what is left of the plan is over first.
        while ground.fake.calls()["RunInstances"] < 3 {
            assert!(ground.launch("abc", &attempt).await.is_err());
        }
        let machines = ground.launch("abc", &attempt).await.unwrap();
        assert_eq!(runners(&machines), ["r-abc-0", "r-abc-1", "r-abc-2"], "{loss:?}");
        assert_eq!((ground.fake.alive(), ground.fake.tokens().len()), (3, 1), "{loss:?}");
    }
}

#[tokio::test]
async fn fault_15_also_after_the_pools_settings_changed() {
    let mut ground = Ground::new().await;
    let attempt = attempt(3, ground.rung().await);
    ground.fake.lose_answers("RunInstances", 3, Loss::Cut);
    ground.launch("abc", &attempt).await.unwrap_err();
    if let Some(rules) = &mut ground.pool.rules.ec2 {
        rules.disk_gb += 1;
    }
    let machines = ground.launch("abc", &attempt).await.unwrap();
    assert_eq!(runners(&machines), ["r-abc-0", "r-abc-1", "r-abc-2"]);
    assert_eq!(ground.fake.alive(), 3);
    let outcomes: Vec<String> =
        ground.fake.requests_of("RunInstances").into_iter().map(|request| request.outcome).collect();
    assert_eq!(outcomes, ["lost", "lost", "lost", "IdempotentParameterMismatch"]);
}

/// Whoever took the part that is shown for all would launch the rest again.
#[tokio::test]
async fn inv_17_a_part_of_a_launch_that_is_shown_already_is_not_taken_for_all_of_it() {
    const BEHIND: Duration = Duration::from_secs(60);
    let (mut in_part, mut at_last) = (0, 0);
    for seed in 0..20 {
        let mut ground = Ground::new().await;
        let attempt = attempt(3, ground.rung().await);
        ground.fake.lose_answers("RunInstances", 3, Loss::Cut);
        ground.launch("abc", &attempt).await.unwrap_err();
        if let Some(rules) = &mut ground.pool.rules.ec2 {
            rules.disk_gb += 1;
        }
        ground.fake.lag(seed, BEHIND);
        ground.clock.turn(BEHIND / 2);
        match ground.launch("abc", &attempt).await {
            Ok(machines) => assert_eq!(machines.len(), 3, "with seed {seed}"),
            Err(error) => {
                assert!(matches!(error, LaunchError::Unconfirmed(_)), "with seed {seed}: {error:?}")
            }
        }
        in_part += u32::from((1..3).contains(&ground.fake.lagged().hidden));
        ground.clock.turn(BEHIND);
        at_last += ground.launch("abc", &attempt).await.unwrap().len();
    }
    assert!(in_part > 0, "no launch was ever shown in part");
    assert_eq!(at_last, 60);
}

/// EC2 gave one of three, and nobody heard of it.
#[tokio::test]
async fn fault_13_15_a_launch_that_came_in_part_is_taken_as_it_came_once_all_of_it_would_be_shown() {
    let mut ground = Ground::new().await;
    let attempt = attempt(3, ground.rung().await);
    ground.fake.set_capacity_of_all(None, None, 1);
    ground.fake.lose_answers("RunInstances", 3, Loss::Cut);
    ground.launch("abc", &attempt).await.unwrap_err();
    if let Some(rules) = &mut ground.pool.rules.ec2 {
        rules.disk_gb += 1;
    }
    let error = ground.launch("abc", &attempt).await.unwrap_err();
    assert!(matches!(error, LaunchError::Unconfirmed(_)), "{error:?}");
    ground.clock.turn(Duration::from_secs(120));
    assert_eq!(runners(&ground.launch("abc", &attempt).await.unwrap()), ["r-abc-0"]);
}

#[tokio::test]
async fn fault_15_also_when_they_are_gone_by_then() {
    let ground = Ground::new().await;
    let attempt = attempt(2, ground.rung().await);
    let first = ground.launch("abc", &attempt).await.unwrap();
    for machine in &first {
        ground.fake.die(&machine.provider_id);
    }
    assert_eq!(ground.launch("abc", &attempt).await.unwrap(), first, "that they are gone, describe tells");
    assert_eq!((ground.fake.alive(), ground.fake.instances().len()), (0, 2));
}

#[tokio::test]
async fn a_rung_in_a_zone_without_a_subnet_is_passed_over() {
    let mut ground = Ground::new().await;
    let attempt = attempt(1, ground.rung().await);
    if let Some(rules) = &mut ground.pool.rules.ec2 {
        rules.subnets.remove(0);
    }
    let error = ground.launch("abc", &attempt).await.unwrap_err();
    assert!(matches!(error, LaunchError::NoCapacity { of: Lacking::Zone { .. }, .. }), "{error:?}");
    assert!(!ground.fake.calls().contains_key("RunInstances"));
}

#[tokio::test]
async fn a_refusal_comes_in_ec2s_own_words() {
    let mut ground = Ground::new().await;
    let attempt = attempt(1, ground.rung().await);
    let refused = |error: LaunchError| match error {
        LaunchError::Refused(why) => why,
        other => panic!("{other:?}"),
    };
    ground.fake.fail_next("RunInstances", 1, "UnauthorizedOperation", 403);
    let why = refused(ground.launch("abc", &attempt).await.unwrap_err());
    assert!(why.contains("UnauthorizedOperation"), "{why}");
    if let Some(rules) = &mut ground.pool.rules.ec2 {
        rules.image = "ami-00000000000000bad".to_owned();
    }
    let why = refused(ground.launch("abc", &attempt).await.unwrap_err());
    assert!(why.contains("InvalidAMIID.NotFound") && why.contains("ami-00000000000000bad"), "{why}");
    assert_eq!(ground.fake.alive(), 0);
}

#[tokio::test]
async fn a_tag_for_people_is_not_worth_a_failure() {
    let ground = Ground::new().await;
    ground.fake.fail_next("CreateTags", 99, "RequestLimitExceeded", 503);
    let machines = ground.launched("abc", 5).await;
    assert_eq!(machines.len(), 5);
    assert_eq!(ground.fake.calls()["CreateTags"], 1, "the first failure ends it");
    ground.launched("def", 1).await;
    assert_eq!(ground.fake.calls()["CreateTags"], 1, "one alone is tagged as it is launched");
    let alone = &ground.fake.instances()[5].0;
    assert_eq!(alone.tags["motorpool:runner"], "r-def-0");
}
