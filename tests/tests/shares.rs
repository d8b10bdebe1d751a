//! Fair shares: turns go round over teams, a team's limits hold, a pool's teams are its own, and a flood of one kind keeps nobody else waiting.

use anyhow::{Context, Result, ensure};
use motorpool_control::ports::tx::{Committed, Op, Row, Tx, When};
use motorpool_control::{Caller, Page, RefusedKind};
use motorpool_domain::claim::{Ask, Claim, ClaimKey, ClaimName, OverLimit, TeamLimits};
use motorpool_domain::runner::StateName;
use motorpool_domain::spec::Want;
use motorpool_domain::{ClaimId, Owner, Workflow};
use motorpool_ledger::MemoryLedger;
use motorpool_queues::InProcessQueue;
use motorpool_tests::fakes::counted::Counted;
use motorpool_tests::fakes::machines::Mood;
use motorpool_tests::harness::seeded;
use motorpool_tests::harness::world::{World, first_member, pool};
use motorpool_wire::api::ClaimView;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

fn owner(name: &str) -> Result<Owner> {
    Ok(Owner::parse(name)?)
}

fn team(name: &str) -> Result<Caller> {
    Ok(Caller::Team(owner(name)?))
}

fn limited(name: &str, limits: TeamLimits) -> Result<BTreeMap<Owner, TeamLimits>> {
    Ok(BTreeMap::from([(owner(name)?, limits)]))
}

/// A pool of so many, all of them in use by the team, of whose claims so many wait.
async fn all_in_use(world: &World, greedy: &Caller, runners: u32, waiting: u32) -> Result<()> {
    for number in 0..runners + waiting {
        world.provision_as(greedy, &format!("gh-{number}"), 1).await?;
    }
    world.agents_work().await?;
    ensure!(world.used().await? == runners);
    Ok(())
}

/// One of the pool's runners is given back by the team, cleaned, and offered to whose turn it is.
async fn one_turn(world: &World, greedy: &Caller, number: u32) -> Result<()> {
    world.release_as(greedy, &format!("gh-{number}")).await?;
    world.agents_work().await
}

async fn state(world: &World, claim: &ClaimView) -> Result<String> {
    Ok(world.claim(claim).await?.state)
}

#[tokio::test(flavor = "multi_thread")]
async fn inv_34_one_claim_among_5000_of_another_team_is_served_within_the_next_two_turns() -> Result<()> {
    let counted = Counted::new(Arc::new(MemoryLedger::new()));
    let queue = Arc::new(InProcessQueue::default());
    let settings = json!({"max": 20, "wait_minutes": 600, "max_runtime_minutes": 600});
    let world = World::on(Arc::new(counted.clone()), queue, settings).await?;
    let (greedy, small) = (team("greedy")?, team("small")?);
    all_in_use(&world, &greedy, 20, 100).await?;
    let calls_among = async |workflow: &str| -> Result<_> {
        counted.take();
        let claim = world.provision_as(&small, workflow, 1).await?;
        ensure!(claim.runners.is_empty() && claim.state == "pending", "{claim:?}");
        let calls = counted.take();
        world.release_as(&small, workflow).await?;
        Ok(calls)
    };
    let among_100 = calls_among("first").await?;
    for number in 120..5_020 {
        world.provision_as(&greedy, &format!("gh-{number}"), 1).await?;
    }
    ensure!(
        calls_among("second").await? == among_100,
        "whoever waits is found without a walk over all claims"
    );
    let claim = world.provision_as(&small, "third", 1).await?;
    one_turn(&world, &greedy, 0).await?;
    if state(&world, &claim).await? != "ready" {
        one_turn(&world, &greedy, 1).await?;
    }
    ensure!(state(&world, &claim).await? == "ready", "{:?}", world.claim(&claim).await?);
    // From then on by turns, until both have as much: its next one comes before the others', too.
    let next = world.provision_as(&small, "fourth", 1).await?;
    one_turn(&world, &greedy, 2).await?;
    ensure!(state(&world, &next).await? == "ready", "{:?}", world.claim(&next).await?);
    Ok(())
}

#[tokio::test]
async fn inv_34_refresh_alone_gives_turns_in_order_too() -> Result<()> {
    let world = World::new(json!({"max": 2})).await?;
    let (greedy, small) = (team("greedy")?, team("small")?);
    all_in_use(&world, &greedy, 2, 250).await?;
    let claim = world.provision_as(&small, "gh-1", 1).await?;
    // A machine dies: nobody offers its slot to anybody until refresh finds out.
    let listed = world.control.list_claims(&greedy, &pool()?, Page::first(500)).await?.claims;
    let held = listed.iter().find(|claim| !claim.runners.is_empty()).context("nothing is held")?;
    world.machines.die(&first_member(held)?);
    world.sweep().await?;
    world.agents_work().await?;
    let claim = world.claim(&claim).await?;
    ensure!(claim.state == "ready", "{claim:?}");
    Ok(())
}

#[tokio::test]
async fn inv_34_what_is_idle_is_for_whose_turn_it_is_though_slots_are_free() -> Result<()> {
    let world = World::new(json!({"max": 10, "idle_minutes": 60})).await?;
    let (greedy, small) = (team("greedy")?, team("small")?);
    all_in_use(&world, &greedy, 2, 0).await?;
    world.machines.mood(Mood::Refuses("no capacity anywhere".to_owned()));
    let claim = world.provision_as(&small, "gh-1", 1).await?;
    ensure!(claim.state == "pending" && claim.runners.is_empty(), "{claim:?}");
    // One becomes idle, and before anybody is offered it the other team comes.
    let idle = seeded::idle(&pool()?, 7, false, Duration::from_secs(3_600), world.now())?;
    seeded::write(&world.store, &[idle], world.now()).await?;
    world.control.announce_all_idle().await?;
    let second = world.provision_as(&greedy, "gh-9", 1).await?;
    ensure!(second.runners.is_empty(), "{second:?}");
    let claim = world.claim(&claim).await?;
    ensure!(claim.runners.len() == 1, "{claim:?}");
    Ok(())
}

#[tokio::test]
async fn inv_23_two_claims_of_several_get_them_one_after_the_other() -> Result<()> {
    let world = World::new(json!({"max": 4})).await?;
    let (one, other) = (team("one")?, team("other")?);
    all_in_use(&world, &one, 4, 0).await?;
    let first = world.provision_as(&other, "gh-first", 3).await?;
    let second = world.provision_as(&one, "gh-second", 3).await?;
    for number in 0..3 {
        one_turn(&world, &one, number).await?;
        let waits = world.claim(&second).await?;
        ensure!(waits.runners.is_empty(), "it takes no part of what the other gathers: {waits:?}");
    }
    ensure!(state(&world, &first).await? == "ready", "{:?}", world.claim(&first).await?);
    one_turn(&world, &one, 3).await?;
    ensure!(world.claim(&second).await?.runners.len() == 1, "now it is its turn");
    world.release_as(&other, "gh-first").await?;
    world.agents_work().await?;
    ensure!(state(&world, &second).await? == "ready", "{:?}", world.claim(&second).await?);
    Ok(())
}

#[tokio::test]
async fn refuse_24_a_team_has_no_more_claims_open_than_it_may() -> Result<()> {
    let limits = TeamLimits { max_open_claims: 3, ..TeamLimits::default() };
    let world = World::new(json!({"max": 2})).await?.with_teams(limited("web", limits)?);
    let web = team("web")?;
    for number in 0..3 {
        world.provision_as(&web, &format!("gh-{number}"), 1).await?;
    }
    let request =
        |workflow| serde_json::from_value(json!({"workflow": workflow, "pool": "small", "count": 1}));
    let refused = world.control.provision(&web, request("gh-3")?).await.err().context("it was opened")?;
    ensure!(refused.kind == RefusedKind::TooManyRequests, "{refused:?}");
    ensure!(
        refused.message == "team web has 3 of its 3 open claims (max_open_claims)",
        "{}",
        refused.message
    );
    world.control.provision(&web, request("gh-2")?).await.context("the same again is no more than before")?;
    world.provision_as(&team("other")?, "gh-3", 1).await.context("another team has limits of its own")?;
    world.release_as(&web, "gh-0").await?;
    world.provision_as(&web, "gh-3", 1).await.context("one has ended")?;
    Ok(())
}

#[tokio::test]
async fn refuse_24_a_claim_over_its_teams_slots_waits_says_so_and_is_in_nobodys_way() -> Result<()> {
    let limits = TeamLimits { max_slots: Some(2), ..TeamLimits::default() };
    let world = World::new(json!({"max": 3})).await?.with_teams(limited("web", limits)?);
    let (web, other) = (team("web")?, team("other")?);
    for number in 0..2 {
        world.provision_as(&web, &format!("gh-{number}"), 1).await?;
    }
    let over = world.provision_as(&web, "gh-2", 1).await?;
    ensure!(over.runners.is_empty() && over.why.contains("team web uses 2 of its 2 slots"), "{over:?}");
    let record = world.store.claim(&over.claim).await?.context("the claim")?;
    ensure!(
        record.over_limit == Some(OverLimit::Slots { team: owner("web")?, used: 2, max: 2 }),
        "{record:?}"
    );
    let served = world.provision_as(&other, "gh-1", 1).await?;
    ensure!(served.runners.len() == 1, "the last slot is for who may have it: {served:?}");
    world.agents_work().await?;
    world.release_as(&other, "gh-1").await?;
    world.agents_work().await?;
    ensure!(world.claim(&over).await?.runners.is_empty(), "there is room, but not for this team");
    world.release_as(&web, "gh-0").await?;
    let over = world.claim(&over).await?;
    ensure!(over.runners.len() == 1, "its team has room: {over:?}");
    let too_many = json!({"workflow": "gh-9", "pool": "small", "count": 3});
    let refused = world.control.provision(&web, serde_json::from_value(too_many)?).await.err();
    ensure!(refused.is_some_and(|refused| refused.message.contains("max_slots")), "it could never be served");
    Ok(())
}

#[tokio::test]
async fn refuse_09_a_pool_that_names_its_teams_is_no_other_teams_to_use_or_to_see() -> Result<()> {
    let world = World::new(json!({"teams": ["web"]})).await?;
    let (web, other) = (team("web")?, team("other")?);
    world.provision_as(&web, "gh-1", 1).await?;
    world.provision("gh-1", 1).await?;
    let request = json!({"workflow": "gh-1", "pool": "small", "count": 1});
    let claim = json!({"workflow": "gh-1", "pool": "small"});
    let refusals = [
        world.control.provision(&other, serde_json::from_value(request)?).await.err(),
        world.control.claim_now(&other, serde_json::from_value(claim)?).await.err(),
        world.control.view_pool(&other, &pool()?).await.err(),
    ];
    for refused in refusals {
        let refused = refused.context("the door is open")?;
        ensure!(refused.kind == RefusedKind::Forbidden, "{refused:?}");
    }
    ensure!(world.control.list_pools(&other).await?.pools.is_empty());
    ensure!(world.control.list_claims(&other, &pool()?, Page::first(9)).await?.claims.is_empty());
    let seen = world.control.list_pools(&web).await?.pools;
    ensure!(seen.len() == 1 && seen.iter().all(|pool| pool.teams.is_empty()), "{seen:?}");
    let seen = world.control.view_pool(&Caller::Operator, &pool()?).await?;
    ensure!(seen.teams == [owner("web")?], "{seen:?}");
    Ok(())
}

#[tokio::test]
async fn refuse_09_a_teams_list_is_its_own_in_pages_that_end_where_it_says() -> Result<()> {
    let world = World::new(json!({"max": 3})).await?;
    let (web, other) = (team("web")?, team("other")?);
    for number in 0..7 {
        world.provision_as(&web, &format!("web-{number}"), 1).await?;
        world.provision_as(&other, &format!("other-{number}"), 1).await?;
        world.clock.turn(Duration::from_secs(1));
    }
    for number in [1, 4] {
        world.release_as(&web, &format!("web-{number}")).await?;
    }
    for length in [1, 2, 3, 7, 100] {
        let (mut workflows, mut page) = (Vec::new(), Page::first(length));
        loop {
            let listed = world.control.list_claims(&web, &pool()?, page).await?;
            ensure!(listed.claims.iter().all(|claim| claim.owner.as_str() == "web"), "{listed:?}");
            workflows.extend(listed.claims.iter().map(|claim| claim.workflow.to_string()));
            match listed.next {
                Some(after) => page = Page { at_most: length, after: Some(after) },
                None => break,
            }
        }
        let expected = ["web-0", "web-2", "web-3", "web-5", "web-6", "web-1", "web-4"];
        ensure!(workflows == expected, "{length} a page: {workflows:?}");
    }
    Ok(())
}

#[tokio::test]
async fn refuse_24_a_flood_of_due_claims_does_not_keep_due_runners_from_being_looked_at() -> Result<()> {
    let world = World::new(json!({"max": 1, "wait_seconds": 35, "heartbeat_seconds": 10})).await?;
    all_in_use(&world, &team("greedy")?, 1, 1_500).await?;
    // It sweeps, and not again before all is over: a sweep would find the dead machine in any case.
    world.refresh().await?;
    let dead = world.machines.there().first().context("a machine")?.clone();
    world.machines.die(&dead);
    // In the second pass the claims are overdue, and for longer than the runner.
    for _ in 0..2 {
        world.clock.turn(Duration::from_secs(30));
        world.refresh().await?;
    }
    let runner = world.runner(&dead).await?;
    ensure!(runner.state.name() == StateName::Terminated, "a thousand due claims came first: {runner:?}");
    Ok(())
}

/// As the version before wrote it: in its pool's list, and in no other.
#[tokio::test]
async fn fault_29_a_claim_that_an_older_control_plane_opened_has_its_turn() -> Result<()> {
    let world = World::new(json!({"max": 1})).await?;
    let greedy = team("greedy")?;
    all_in_use(&world, &greedy, 1, 0).await?;
    let key = ClaimKey { owner: owner("small")?, workflow: Workflow::parse("gh-1")?, pool: pool()? };
    let ask = Ask { count: 1, want: Want::default(), max_runtime: Duration::from_secs(60), idle_only: false };
    let old = Claim::open(ClaimId::parse("c-old")?, key, ask, Duration::from_secs(600), world.now());
    let mut row = Row::of(&old)?;
    row.places.truncate(1);
    row.lists = 1;
    let name = Row::of(&ClaimName::of(&old))?;
    let tx = Tx::default()
        .with(Op::Put { row, when: When::Absent })
        .with(Op::Put { row: name, when: When::Absent });
    ensure!(world.ledger.commit(&tx).await? == Committed::Done);
    world.clock.turn(Duration::from_secs(1));
    for number in 1..30 {
        world.provision_as(&greedy, &format!("gh-{number}"), 1).await?;
    }
    one_turn(&world, &greedy, 0).await?;
    let old = world.store.claim(&old.id).await?.context("the claim")?;
    ensure!(old.members.len() == 1, "{old:?}");
    let listed = world.control.list_claims(&team("small")?, &pool()?, Page::first(9)).await?.claims;
    ensure!(listed.len() == 1, "and from its next write on it stands in its team's list: {listed:?}");
    Ok(())
}
