//! Whose turn it is: tables and properties of the order in which waiting claims are served.
#![expect(clippy::expect_used, reason = "what a test is made of is known to be right")]

mod samples;

use motorpool_domain::claim::{
    Ask, Claim, ClaimKey, ClaimState, Member, Room, TeamWaiting, Turn, in_turn, lacked_before, turn,
};
use motorpool_domain::spec::Usage;
use motorpool_domain::{Epoch, Owner, RunnerId};
use proptest::prelude::*;
use samples::{NOW, claim, claim_id};
use std::time::Duration;

fn owner(name: &str) -> Owner {
    Owner::parse(name).expect("an owner")
}

/// A claim of `team` that was opened so many seconds after the others, and asks for `count`.
fn waiting(team: &str, age: u64, count: u32) -> Claim {
    let sample = claim(count);
    Claim {
        id: claim_id(&format!("{}{age}", team.replace('-', ""))),
        key: ClaimKey { owner: owner(team), ..sample.key },
        opened_at: NOW.after(Duration::from_secs(age)),
        ..sample
    }
}

fn team(name: &str, shares: u32, waiting: Vec<Claim>) -> TeamWaiting {
    TeamWaiting { owner: owner(name), shares, waiting }
}

fn holding(claim: Claim, runners: u32) -> Claim {
    claim.gaining((0..runners).map(|number| Member {
        runner: RunnerId::parse(format!("r-{number}")).expect("a runner's id"),
        epoch: Epoch(1),
        warm: true,
    }))
}

fn ids(claims: &[&Claim]) -> Vec<String> {
    claims.iter().map(|claim| claim.id.to_string()).collect()
}

#[test]
fn inv_34_turns_go_round_over_teams_and_the_oldest_comes_first_within_one() {
    let teams = [
        team("a", 0, vec![waiting("a", 0, 1), waiting("a", 1, 1), waiting("a", 2, 1)]),
        team("b", 0, vec![waiting("b", 5, 1), waiting("b", 6, 1)]),
        team("c", 0, vec![waiting("c", 3, 1)]),
    ];
    assert_eq!(ids(&in_turn(&teams)), ["c-a0", "c-c3", "c-b5", "c-a1", "c-b6", "c-a2"]);
}

#[test]
fn inv_34_who_has_shares_already_stands_behind_who_has_none() {
    let teams =
        [team("a", 20, vec![waiting("a", 0, 1), waiting("a", 1, 1)]), team("b", 0, vec![waiting("b", 9, 1)])];
    assert_eq!(ids(&in_turn(&teams)), ["c-b9", "c-a0", "c-a1"]);
    assert_eq!(lacked_before(&waiting("b", 9, 1), &teams, true), 0);
    // A claim that is not in the lists yet stands where it will.
    assert_eq!(lacked_before(&waiting("b", 10, 1), &teams, true), 1);
    assert_eq!(lacked_before(&waiting("a", 10, 1), &teams, true), 3);
    assert_eq!(lacked_before(&waiting("c", 10, 1), &teams, true), 1, "the oldest first within a round");
}

#[test]
fn inv_23_who_has_a_part_of_its_runners_goes_before_all() {
    let gathering = holding(waiting("a", 7, 3), 1);
    // A ready claim that lost a runner has begun: its next one is one more of its team's.
    let refilled = Claim { state: ClaimState::Ready { since: NOW }, ..holding(waiting("b", 0, 2), 1) };
    let teams = [
        team("a", 3, vec![gathering.clone()]),
        team("b", 2, vec![refilled.clone()]),
        team("c", 0, vec![waiting("c", 8, 1)]),
    ];
    assert_eq!(ids(&in_turn(&teams)), ["c-a7", "c-c8", "c-b0"]);
    assert_eq!(lacked_before(&gathering, &teams, true), 0);
    assert_eq!(lacked_before(&refilled, &teams, true), 3);
}

#[test]
fn inv_23_whose_turn_it_is_takes_what_there_is_and_others_only_all_that_they_lack() {
    let (oldest, middle, youngest) = (waiting("a", 0, 3), waiting("a", 1, 2), waiting("a", 2, 1));
    let teams = [team("a", 0, vec![oldest.clone(), middle.clone(), youngest.clone()])];
    for (claim, before) in [(&oldest, 0), (&middle, 3), (&youngest, 5)] {
        assert_eq!(lacked_before(claim, &teams, true), before);
    }
    for (claim, before, idle, slots, expected) in [
        (&oldest, 0, 0, 0, Turn::Takes),
        (&oldest, 0, 1, 0, Turn::Takes),
        (&middle, 3, 4, 0, Turn::Waits),
        (&middle, 3, 5, 0, Turn::Takes),
        (&youngest, 5, 5, 0, Turn::Waits),
        (&youngest, 5, 6, 0, Turn::Takes),
        // What is idle is for those before it, even where slots are free: the provider may have nothing to give.
        (&youngest, 5, 5, 1, Turn::Launches),
        (&youngest, 5, 2, 4, Turn::Launches),
        (&youngest, 5, 2, 3, Turn::Waits),
        (&youngest, 1, 0, 2, Turn::Launches),
        (&youngest, u32::MAX, u32::MAX, 0, Turn::Takes),
    ] {
        let room = Room { idle, slots };
        assert_eq!(turn(claim, before, room), expected, "{before} lacked before, room for {room:?}");
    }
    let idle_only = Claim { ask: Ask { idle_only: true, ..youngest.ask.clone() }, ..youngest };
    assert_eq!(turn(&idle_only, 1, Room { idle: 0, slots: 9 }), Turn::Waits);
}

#[test]
fn where_runners_differ_only_a_claim_that_asks_for_the_same_comes_before() {
    let teams = [team("a", 0, vec![waiting("a", 0, 3)])];
    let mut younger = waiting("a", 1, 1);
    assert_eq!(lacked_before(&younger, &teams, false), 3);
    younger.ask.want.usage = Some(Usage::Spot);
    assert_eq!(lacked_before(&younger, &teams, false), 0);
    assert_eq!(lacked_before(&younger, &teams, true), 3);
}

fn some_teams() -> impl Strategy<Value = Vec<TeamWaiting>> {
    let one = (0..6_u32, prop::collection::vec((0..100_u64, 1..4_u32), 0..6));
    prop::collection::vec(one, 1..5).prop_map(|drawn| {
        let made = drawn.into_iter().enumerate().map(|(number, (shares, claims))| {
            let name = format!("t{number}");
            let mut claims: Vec<Claim> =
                claims.into_iter().map(|(age, count)| waiting(&name, age, count)).collect();
            claims.sort_by(|one, other| (one.opened_at, &one.id).cmp(&(other.opened_at, &other.id)));
            claims.dedup_by(|one, other| one.id == other.id);
            team(&name, shares, claims)
        });
        made.collect()
    })
}

proptest! {
    #[test]
    fn inv_34_nobody_is_given_a_share_while_another_who_has_fewer_waits(mut teams in some_teams()) {
        let mut last_of = std::collections::BTreeMap::new();
        while let Some(next) = in_turn(&teams).first().map(|claim| (*claim).clone()) {
            let has = |owner: &Owner| teams.iter().find(|team| team.owner == *owner).map_or(0, |team| team.shares);
            let shares = has(&next.key.owner);
            for other in teams.iter().filter(|team| !team.waiting.is_empty()) {
                prop_assert!(other.shares >= shares, "{} has {shares}, {} has {}", next.id, other.owner, other.shares);
            }
            let before = last_of.insert(next.key.owner.clone(), next.opened_at);
            prop_assert!(before.is_none_or(|before| before <= next.opened_at), "oldest first within a team");
            for team in teams.iter_mut().filter(|team| team.owner == next.key.owner) {
                team.waiting.retain(|claim| claim.id != next.id);
                team.shares += 1;
            }
        }
    }

    #[test]
    fn inv_23_the_order_is_one_for_all(teams in some_teams()) {
        let mut lacked = 0;
        for claim in in_turn(&teams) {
            prop_assert_eq!(lacked_before(claim, &teams, true), lacked);
            lacked += claim.short();
        }
    }
}
