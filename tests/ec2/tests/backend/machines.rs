//! What is there, its end, and the inventory.

use crate::{Ground, INSTALLATION, runners};
use motorpool_control::ports::backend::{Backend, Machine};
use motorpool_control::ports::clock::Clock;
use motorpool_domain::PoolName;
use motorpool_domain::runner::{Attested, Presence, Runner};
use motorpool_ec2_tests::samples::{attempt, launch_id, runner, terminating};
use motorpool_ec2_tests::{FakeEc2, FakeSettings, Loss, State, TurnedClock};
use std::sync::Arc;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

fn record(ground: &Ground, word: &str, index: u32, machine: Option<&Machine>) -> Runner {
    runner(&ground.pool, &launch_id(word), index, machine, ground.clock.now())
}

async fn described(ground: &Ground, runner: &Runner) -> Presence {
    ground.backend.describe(runner).await.unwrap()
}

/// Shows nothing that is younger than a minute.
async fn slow_to_show() -> Ground {
    let clock = Arc::new(TurnedClock::default());
    let fake = FakeEc2::with(FakeSettings {
        clock: clock.clone(),
        boot: Duration::from_secs(20),
        shutdown: Duration::from_secs(30),
        visible_after: MINUTE,
        largest_page: 2,
    });
    Ground::on(fake, clock).await
}

#[tokio::test]
async fn inv_17_a_machine_is_there_until_it_is_terminated() {
    let ground = Ground::new().await;
    let machines = ground.launched("abc", 2).await;
    let record = record(&ground, "abc", 0, machines.first());
    assert_eq!(described(&ground, &record).await, Presence::There);
    assert_eq!(ground.backend.ensure_gone(&record).await.unwrap(), Presence::There, "it shuts down");
    assert_eq!(described(&ground, &record).await, Presence::There);
    ground.clock.turn(Duration::from_secs(30));
    assert_eq!(
        ground.backend.ensure_gone(&record).await.unwrap(),
        Presence::Gone,
        "to tell it again is harmless"
    );
    assert_eq!(described(&ground, &record).await, Presence::Gone);
    assert_eq!(ground.fake.alive(), 1, "the other one is left");
    ground.clock.turn(2 * 60 * MINUTE);
    assert_eq!(described(&ground, &record).await, Presence::Gone, "EC2 has forgotten it by now");
    assert_eq!(ground.backend.ensure_gone(&record).await.unwrap(), Presence::Gone);
}

#[tokio::test]
async fn fault_12_what_ends_by_itself_is_seen_to_be_gone() {
    let ground = Ground::new().await;
    let machines = ground.launched("abc", 3).await;
    let ids: Vec<&str> = machines.iter().map(|machine| machine.provider_id.as_str()).collect();
    assert!(ground.fake.interrupt(ids[0]) && ground.fake.power_off(ids[1]) && ground.fake.die(ids[2]));
    let mut presences = Vec::new();
    for (index, machine) in machines.iter().enumerate() {
        let record = record(&ground, "abc", u32::try_from(index).unwrap(), Some(machine));
        presences.push(described(&ground, &record).await);
    }
    assert_eq!(presences, [Presence::There, Presence::There, Presence::Gone]);
    ground.clock.turn(MINUTE);
    for machine in &machines {
        let record = record(&ground, "abc", 0, Some(machine));
        assert_eq!(described(&ground, &record).await, Presence::Gone);
    }
    assert_eq!(ground.fake.alive(), 0);
}

#[tokio::test]
async fn inv_16_what_ec2_does_not_show_yet_is_unknown_and_not_gone() {
    let ground = slow_to_show().await;
    let machines = ground.launched("abc", 1).await;
    let noted = record(&ground, "abc", 0, machines.first());
    assert_eq!(described(&ground, &noted).await, Presence::Unknown);
    assert_eq!(ground.backend.ensure_gone(&noted).await.unwrap(), Presence::Unknown);
    ground.clock.turn(MINUTE);
    assert_eq!(described(&ground, &noted).await, Presence::There);

    let never = Machine { provider_id: "i-0dead0dead0dead00".to_owned(), ..machines[0].clone() };
    let never = record(&ground, "abc", 0, Some(&never));
    assert_eq!(described(&ground, &never).await, Presence::Unknown);
    ground.clock.turn(2 * MINUTE);
    assert_eq!(described(&ground, &never).await, Presence::Gone);
    assert_eq!(ground.backend.ensure_gone(&never).await.unwrap(), Presence::Gone);
}

#[tokio::test]
async fn fault_15_a_machine_whose_launch_was_never_noted_is_found_by_its_tags() {
    let ground = Ground::new().await;
    ground.fake.lose_answers("RunInstances", 3, Loss::TimedOut);
    ground.launch("abc", &attempt(3, ground.rung().await)).await.unwrap_err();
    ground.launched("other", 2).await;
    let record = record(&ground, "abc", 1, None);
    assert_eq!(described(&ground, &record).await, Presence::There);

    let ending = terminating(&record, ground.clock.now());
    assert_eq!(ground.backend.ensure_gone(&ending).await.unwrap(), Presence::There);
    ground.clock.turn(MINUTE);
    assert_eq!(ground.backend.ensure_gone(&ending).await.unwrap(), Presence::Gone);
    let ended: Vec<String> = ground
        .fake
        .instances()
        .into_iter()
        .filter(|(_, state)| *state == State::Terminated)
        .filter_map(|(instance, _)| instance.runner().map(|runner| runner.to_string()))
        .collect();
    assert_eq!(ended, ["r-abc-1"]);
}

#[tokio::test]
async fn inv_16_a_launch_that_never_was_is_gone_once_it_would_be_seen() {
    let ground = slow_to_show().await;
    let intent = record(&ground, "never", 0, None);
    ground.clock.turn(10 * MINUTE);
    assert_eq!(described(&ground, &intent).await, Presence::Unknown, "it may be launched at this moment");
    let ending = terminating(&intent, ground.clock.now());
    assert_eq!(ground.backend.ensure_gone(&ending).await.unwrap(), Presence::Unknown);
    ground.clock.turn(2 * MINUTE);
    assert_eq!(ground.backend.ensure_gone(&ending).await.unwrap(), Presence::Gone);
    assert!(!ground.fake.calls().contains_key("TerminateInstances"));
}

#[tokio::test]
async fn inv_16_the_inventory_has_all_of_ours_and_nothing_else() {
    let ground = slow_to_show().await;
    let machines = ground.launched("abc", 5).await;
    ground.launched("def", 2).await;
    let theirs = ground.fake.backend("ffffff").await;
    let (launch, one) = (launch_id("abc"), attempt(2, ground.rung().await));
    let of_others =
        theirs.launch(&motorpool_ec2_tests::samples::order(&ground.pool, &launch, &one)).await.unwrap();
    ground.clock.turn(MINUTE);
    assert!(ground.fake.interrupt(&machines[1].provider_id) && ground.fake.die(&machines[2].provider_id));
    ground.fake.set_tag(&machines[3].provider_id, "motorpool:from", Some("none"));
    ground.fake.set_tag(&machines[4].provider_id, "motorpool:launch", None);

    let small = PoolName::parse("small").unwrap();
    let listed = ground.backend.inventory(&small).await.unwrap();
    assert_eq!(runners(&listed), ["r-abc-0", "r-abc-1", "r-def-0", "r-def-1"], "what shuts down is not gone");
    assert_eq!(ground.backend.inventory(&PoolName::parse("large").unwrap()).await.unwrap(), []);
    assert_eq!(theirs.inventory(&small).await.unwrap(), of_others);
}

#[tokio::test]
async fn inv_16_a_machine_without_a_record_is_ended_and_another_installations_never() {
    let ground = Ground::new().await;
    let machines = ground.launched("abc", 2).await;
    let theirs = ground.fake.backend("ffffff").await;
    // The same launch by chance, or by a copied ledger: theirs has no such machine.
    let record = record(&ground, "abc", 0, None);
    let ending = terminating(&record, ground.clock.now());
    assert_eq!(theirs.ensure_gone(&ending).await.unwrap(), Presence::Unknown);
    assert_eq!(theirs.describe(&record).await.unwrap(), Presence::Unknown);
    assert!(!ground.fake.calls().contains_key("TerminateInstances"));

    ground.backend.discard(&machines[0]).await.unwrap();
    ground.clock.turn(MINUTE);
    assert_eq!(ground.fake.alive(), 1);
    ground.backend.discard(&machines[0]).await.unwrap();
    let unknown = Machine { provider_id: "i-0dead0dead0dead00".to_owned(), ..machines[0].clone() };
    ground.backend.discard(&unknown).await.unwrap();
    assert_eq!(ground.fake.alive(), 1);
    let again = ground.fake.backend(INSTALLATION).await;
    assert_eq!(again.inventory(&ground.pool.name).await.unwrap(), machines[1..]);
}

#[tokio::test]
async fn refuse_23_a_machine_is_a_runners_if_ec2_says_that_its_launch_made_it_in_its_place() {
    let ground = slow_to_show().await;
    let machines = ground.launched("abc", 2).await;
    let others = ground.launched("other", 1).await;
    let first = record(&ground, "abc", 0, None);
    let asked = async |id: &str| ground.backend.attest(&first, id).await.unwrap();
    assert_eq!(asked(&machines[0].provider_id).await, Attested::NotShown, "EC2's lists lag");
    ground.clock.turn(MINUTE);
    assert_eq!(asked(&machines[0].provider_id).await, Attested::Its);
    assert_eq!(asked(&machines[1].provider_id).await, Attested::Another, "a sibling's");
    assert_eq!(asked(&others[0].provider_id).await, Attested::Another, "another launch's");
    assert_eq!(asked("i-0dead0dead0dead00").await, Attested::NotShown, "nobody's, or not shown yet");
    assert_eq!(asked("laptop").await, Attested::Another, "no instance at all");
    let theirs = ground.fake.backend("ffffff").await;
    assert_eq!(theirs.attest(&first, &machines[0].provider_id).await.unwrap(), Attested::Another);
    ground.fake.throttle(3, 1_000);
    assert!(ground.backend.attest(&first, &machines[0].provider_id).await.is_err());
}

#[tokio::test]
async fn refuse_23_what_does_not_have_the_tags_of_its_runners_launch_is_never_ended() {
    let ground = Ground::new().await;
    let machines = ground.launched("abc", 2).await;
    let others = ground.launched("other", 1).await;
    ground.fake.set_tag(&machines[1].provider_id, "motorpool:installation", None);
    for (index, named) in [(0, &others[0]), (0, &machines[1]), (1, &machines[1])] {
        let record = record(&ground, "abc", index, Some(named));
        let ending = terminating(&record, ground.clock.now());
        let error = ground.backend.ensure_gone(&ending).await.unwrap_err();
        let why = std::error::Error::source(&error).unwrap().to_string();
        assert!(why.contains("does not have the tags"), "{why}");
        let stray = Machine { runner: record.id.clone(), provider_id: named.provider_id.clone() };
        assert!(ground.backend.discard(&stray).await.is_err());
    }
    assert!(!ground.fake.calls().contains_key("TerminateInstances"));
    assert_eq!(ground.fake.alive(), 3);
}

#[tokio::test]
async fn what_ec2_does_not_answer_is_an_error_and_never_gone() {
    let ground = Ground::new().await;
    let machines = ground.launched("abc", 1).await;
    let record = record(&ground, "abc", 0, machines.first());
    ground.clock.turn(10 * MINUTE);
    ground.fake.throttle(3, 1_000);
    assert!(ground.backend.describe(&record).await.is_err());
    assert!(ground.backend.ensure_gone(&record).await.is_err());
    assert!(ground.backend.inventory(&ground.pool.name).await.is_err());
    assert!(ground.backend.discard(&machines[0]).await.is_err());
    assert_eq!(ground.fake.alive(), 1);
}
