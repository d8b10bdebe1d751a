//! Two control planes at work on one ledger at once, interleaved call by call: each order is one that the test chose.

use anyhow::{Result, ensure};
use motorpool_control::ports::ledger::Ledger;
use motorpool_control::{Caller, Control, Refused, SweepWish};
use motorpool_ledger::MemoryLedger;
use motorpool_queues::InProcessQueue;
use motorpool_tests::fakes::gating::{Gate, Stepped, two_over};
use motorpool_tests::harness::world::World;
use motorpool_wire::api::RefreshReport;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use std::sync::Arc;

const MIN_IDLE: u32 = 3;

/// A pool that lacks all of its idle runners, and two planes that have not looked yet.
struct TwoPlanes {
    world: World,
    other: Control,
    gates: [Gate; 2],
}

type Pass<'a> = Stepped<'a, Result<RefreshReport, Refused>>;

impl TwoPlanes {
    async fn new() -> Result<Self> {
        let records: Arc<dyn Ledger> = Arc::new(MemoryLedger::new());
        let [(ledger, gate), (other_ledger, other_gate)] = two_over(&records);
        let queue = Arc::new(InProcessQueue::default());
        let world = World::on(ledger, queue, json!({"min_idle": MIN_IDLE, "max": 10})).await?;
        let other = world.beside(&other_ledger);
        Ok(Self { world, other, gates: [gate, other_gate] })
    }

    /// A pass of each plane, neither begun.
    fn passes(&self) -> [Pass<'_>; 2] {
        let Self { world, other, gates: [gate, other_gate] } = self;
        [Stepped::new(gate, refresh(&world.control)), Stepped::new(other_gate, refresh(other))]
    }

    /// What was missing was launched once, and neither plane finds that anything is missing.
    async fn launched_once(&self, order: &str) -> Result<()> {
        let Self { world, other, gates: _ } = self;
        refresh(&world.control).await?;
        refresh(other).await?;
        let (used, there) = (world.used().await?, world.machines.there().len());
        ensure!(used == MIN_IDLE, "{order}: {used} slots are in use");
        ensure!(there == 3, "{order}: there are {there} machines");
        Ok(())
    }
}

async fn refresh(control: &Control) -> Result<RefreshReport, Refused> {
    control.refresh(&Caller::Operator, SweepWish::IfDue).await
}

#[tokio::test]
async fn inv_17_whenever_another_plane_tops_up_in_between_what_is_missing_is_launched_once() -> Result<()> {
    let mut steps = 0;
    loop {
        let planes = TwoPlanes::new().await?;
        let [mut one, other] = planes.passes();
        for _ in 0..steps {
            one.step().await;
        }
        let all = one.is_done();
        let between = other.finish().await?;
        let around = one.finish().await?;
        planes.launched_once(&format!("a pass after step {steps} of another")).await?;
        ensure!(between.launched + around.launched == MIN_IDLE, "step {steps}: {between:?}, {around:?}");
        if all {
            break;
        }
        steps += 1;
    }
    // Each call is two steps, and a pass that launches reads the pool, counts, writes intents and notes launches.
    ensure!(steps > 20, "a whole pass is {steps} steps: nothing was interleaved");
    Ok(())
}

#[tokio::test]
async fn inv_17_two_planes_that_top_up_by_turns_launch_what_is_missing_once() -> Result<()> {
    for first in [0, 1] {
        let planes = TwoPlanes::new().await?;
        let mut passes = planes.passes();
        passes.rotate_left(first);
        let [mut one, mut other] = passes;
        let mut by_turns = 0;
        while !(one.is_done() && other.is_done()) {
            by_turns += u32::from(!one.is_done() && !other.is_done());
            one.step().await;
            other.step().await;
        }
        one.finish().await?;
        other.finish().await?;
        ensure!(by_turns > 20, "only {by_turns} steps were by turns");
        planes.launched_once(&format!("by turns, plane {first} first")).await?;
    }
    Ok(())
}

#[tokio::test]
async fn inv_17_two_planes_that_top_up_in_any_order_launch_what_is_missing_once() -> Result<()> {
    for seed in 0..40 {
        let mut order = StdRng::seed_from_u64(seed);
        let planes = TwoPlanes::new().await?;
        let [mut one, mut other] = planes.passes();
        while !(one.is_done() && other.is_done()) {
            let next = if order.random_bool(0.5) { &mut one } else { &mut other };
            next.step().await;
        }
        one.finish().await?;
        other.finish().await?;
        planes.launched_once(&format!("in the order of seed {seed}")).await?;
    }
    Ok(())
}
