//! Pools, orders and records that tests begin with.

use crate::fake::catalogue::{IMAGE, SECURITY_GROUP, SUBNETS};
use motorpool_control::ports::backend::{LaunchOrder, Machine, Ordered};
use motorpool_domain::ladder::{AskedBy, CapacityOption, LaunchCall};
use motorpool_domain::pool::{Architecture, BackendKind, Clean, Ec2Rules, Pool, Rules};
use motorpool_domain::runner::{NewRunner, Runner, RunnerState};
use motorpool_domain::samples;
use motorpool_domain::spec::{Offer, TypeGlobs, Usage};
use motorpool_domain::{ClaimId, LaunchId, RunnerId, Timestamp, Workflow};
use std::collections::BTreeMap;

/// What a pool on the fake is made of: `c* m*`, x86_64, a subnet in each zone.
pub fn ec2_rules() -> Ec2Rules {
    Ec2Rules {
        instance_types: TypeGlobs::general(),
        architecture: Architecture::X86_64,
        on_demand_fallback: false,
        image: IMAGE.to_owned(),
        subnets: SUBNETS.iter().map(|id| (*id).to_owned()).collect(),
        security_groups: vec![SECURITY_GROUP.to_owned()],
        disk_gb: 50,
        instance_profile: None,
        tags: BTreeMap::new(),
        agent: None,
        runner_program: None,
    }
}

/// A pool for two CPUs and 4 GB, by claims, of machines that are replaced.
pub fn pool(name: &str, usage: Usage, max: u32, ec2: Ec2Rules) -> Pool {
    let offer = Offer { instance_type: "ec2".to_owned(), usage, ..samples::offer() };
    let (backend, clean) = (BackendKind::Ec2, Clean::Replace);
    samples::pool(name, Rules { backend, clean, max, offer, ec2: Some(ec2), ..samples::rules() })
}

pub fn launch_id(word: &str) -> LaunchId {
    LaunchId::parse(format!("l-{word}")).expect("a launch's id")
}

/// The first call of a launch, for a claim.
pub fn attempt(count: u32, rung: CapacityOption) -> LaunchCall {
    let asked_by = AskedBy {
        claim: ClaimId::parse("c-0123").expect("a claim's id"),
        workflow: Workflow::parse("gh-123.2").expect("a workflow"),
    };
    LaunchCall::first(count, rung, Some(asked_by))
}

/// The launch secret of every order that is made here.
pub const LAUNCH_SECRET: &str = "mp_launch_c0ffee5ec2e7";

pub fn order<'a>(pool: &'a Pool, launch: &'a LaunchId, attempt: &'a LaunchCall) -> LaunchOrder<'a> {
    let ordered = |runner| Ordered { runner, secret: "mp_launch_of_one_machine".to_owned() };
    let machines = attempt.runners(launch).into_iter().map(ordered).collect();
    LaunchOrder { pool, launch, attempt, machines, launch_secret: LAUNCH_SECRET.to_owned() }
}

/// The record of a launched runner; `machine` is what is noted of its launch, if anything is.
pub fn runner(
    pool: &Pool,
    launch: &LaunchId,
    index: u32,
    machine: Option<&Machine>,
    now: Timestamp,
) -> Runner {
    let new = NewRunner {
        pool: pool.name.clone(),
        launch: launch.clone(),
        index,
        offer: pool.rules.offer.clone(),
        ..samples::new_runner(RunnerId::of_launch(launch, index).as_str(), now)
    };
    let mut runner = Runner::intent(new, now);
    if let Some(machine) = machine {
        runner.provider_id = Some(machine.provider_id.clone());
        runner.state = RunnerState::Created { hold: None, launched_at: Some(now), attempt: None };
    }
    runner
}

/// The same on its way out.
pub fn terminating(runner: &Runner, now: Timestamp) -> Runner {
    let state = RunnerState::Terminating { why: "the test is over".to_owned(), told: 1 };
    Runner { state, entered_at: now, ..runner.clone() }
}
