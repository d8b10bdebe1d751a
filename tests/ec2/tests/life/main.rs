//! The whole life of runners on EC2: cold, warm, expired in every state, interrupted during a job, lost and found. Every flow is played on the
//! fake, on the fake with listings that lag and go back, and once over moto, which somebody else wrote; what needs the fake's powers (`scarce`)
//! on the fake alone.

mod died;
mod expired;
mod notified;
mod scarce;
mod silent;
mod strays;
mod unseen;
mod used;

use anyhow::{Context, Result, ensure};
use futures_util::future::BoxFuture;
use motorpool_control::Control;
use motorpool_domain::pool::{Clean, Pool};
use motorpool_domain::runner::{Runner, RunnerState};
use motorpool_domain::spec::Usage;
use motorpool_ec2_tests::ground::Ground;
use motorpool_ec2_tests::moto::Moto;
use motorpool_ec2_tests::samples::{ec2_rules, pool};
use motorpool_ec2_tests::stage::Stage;
use motorpool_ec2_tests::{FakeEc2, Lagged};
use motorpool_wire::api::ClaimView;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// On the fake, at first with listings that are true, and then with such as lag, by several seeds.
macro_rules! on_the_fake {
    ($($file:ident::$flow:ident),+ $(,)?) => {
        mod on_the_fake {
            $(
                #[tokio::test]
                async fn $flow() -> anyhow::Result<()> {
                    crate::$file::$flow(&crate::Fakes).await
                }
            )+
        }

        mod on_the_fake_with_listings_that_lag {
            use anyhow::Context;

            $(
                #[tokio::test]
                async fn $flow() -> anyhow::Result<()> {
                    let mut lagged = motorpool_ec2_tests::Lagged::default();
                    for seed in crate::LaggingFakes::SEEDS {
                        let fakes = crate::LaggingFakes::new(seed);
                        crate::$file::$flow(&fakes).await.with_context(|| format!("with seed {seed}"))?;
                        lagged = lagged.and(fakes.lagged());
                    }
                    anyhow::ensure!(lagged.hidden + lagged.outdated > 0, "no listing lagged");
                    Ok(())
                }
            )+
        }
    };
}

/// One list, two grounds. On moto it is one test: what it takes seconds to tell is asked for once, and its stages share a clock. Spot prices
/// are asked for again every ten minutes of that clock, so flows that take longer are played with on-demand instances.
macro_rules! flows {
    (
        everywhere: $($file:ident::$flow:ident),+;
        with_the_fakes_powers: $($its_file:ident::$its_flow:ident),+ $(;)?
    ) => {
        on_the_fake![$($file::$flow,)+ $($its_file::$its_flow,)+];

        #[tokio::test]
        async fn every_flow_on_moto() -> Result<()> {
            let moto = Moto::new().await?;
            let mut failed = Vec::new();
            $({
                // Each in a place of its own: together they are too large for the stack.
                fn on_the_heap(moto: &Arc<Moto>) -> BoxFuture<'_, Result<()>> {
                    Box::pin($file::$flow(moto))
                }
                if let Err(error) = on_the_heap(&moto).await {
                    failed.push(format!("{}: {error:?}", stringify!($flow)));
                }
            })+
            ensure!(failed.is_empty(), "{}", failed.join("\n"));
            Ok(())
        }
    };
}

flows! {
    everywhere:
    used::cold_then_released_then_warm_then_idle_for_too_long,
    used::every_instance_is_tagged_for_its_claim_and_told_nothing_but_its_launch,
    expired::expired_in_every_state_and_no_instance_stays,
    expired::one_that_is_told_to_go_keeps_its_slot_until_it_is_seen_to_be_gone,
    expired::a_cleaning_that_never_ends_is_given_up_and_its_machine_goes_when_a_person_says_so,
    silent::an_idle_one_that_falls_silent_goes,
    silent::one_that_falls_silent_under_its_job_has_its_claims_time_and_no_more,
    notified::fault_12_an_interruption_during_a_job_brings_a_replacement_and_a_why,
    notified::fault_12_a_rebalance_notice_during_a_job_brings_a_replacement_and_lets_the_job_end,
    notified::fault_12_a_rebalance_notice_on_an_idle_runner_ends_it,
    died::one_that_dies_before_it_joins_is_replaced,
    died::one_that_dies_under_its_job_is_replaced_and_the_claim_says_why,
    died::one_that_dies_idle_is_found_by_the_sweep,
    strays::inv_16_what_is_of_nobody_ends_and_what_is_anothers_stays,
    strays::inv_16_a_launch_whose_answer_was_lost_ends_by_its_tags_when_its_time_is_over,
    strays::inv_16_a_launch_that_is_asked_for_again_leaves_one_machine;
    with_the_fakes_powers:
    scarce::one_call_is_made_for_the_whole_shortfall,
    scarce::fault_13_22_partial_launches_go_on_and_the_next_claim_walks_another_ladder,
    scarce::fault_22_a_zone_without_addresses_and_a_quota_are_passed_over_as_a_whole,
    scarce::fault_11_a_throttled_launch_waits_and_uses_up_nothing,
    scarce::inv_16_a_launch_whose_answer_was_lost_is_found_again;
}

/// Where flows are played: each asks for the stages that it needs.
trait Grounds {
    type Ec2: Ground;

    async fn stage(&self, pool: Pool) -> Result<Stage<Self::Ec2>>;
}

/// A new fake for each stage.
struct Fakes;

impl Grounds for Fakes {
    type Ec2 = FakeEc2;

    async fn stage(&self, pool: Pool) -> Result<Stage> {
        Stage::new(pool).await
    }
}

/// The same, with listings that lag.
struct LaggingFakes {
    seed: u64,
    made: Mutex<Vec<FakeEc2>>,
}

impl LaggingFakes {
    const SEEDS: std::ops::Range<u64> = 0..8;
    /// Longer than it takes to boot or to shut down. Shorter than a silence, so that who is missed is not found by that alone.
    const MOST: Duration = Duration::from_secs(45);

    fn new(seed: u64) -> Self {
        Self { seed, made: Mutex::default() }
    }

    fn lagged(&self) -> Lagged {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.iter().map(FakeEc2::lagged).fold(Lagged::default(), Lagged::and)
    }
}

impl Grounds for LaggingFakes {
    type Ec2 = FakeEc2;

    async fn stage(&self, pool: Pool) -> Result<Stage> {
        let stage = Stage::lagging(pool, self.seed, Self::MOST).await?;
        self.made.lock().unwrap_or_else(PoisonError::into_inner).push(stage.ec2.clone());
        Ok(stage)
    }
}

impl Grounds for Arc<Moto> {
    type Ec2 = Self;

    async fn stage(&self, pool: Pool) -> Result<Stage<Self>> {
        Moto::stage(self, pool).await
    }
}

/// A pool of instances that are cleaned and used again.
fn cleaned(usage: Usage, max: u32) -> Pool {
    let mut pool = pool("small", usage, max, ec2_rules());
    pool.rules.clean = Clean::Cleanup;
    pool
}

async fn open<P: Grounds>(grounds: &P, pool: Pool) -> Result<(Stage<P::Ec2>, Control)> {
    let stage = grounds.stage(pool).await?;
    let plane = stage.plane().await;
    Ok((stage, plane))
}

async fn ready<G: Ground>(
    stage: &Stage<G>,
    plane: &Control,
    workflow: &str,
    count: u32,
) -> Result<ClaimView> {
    stage.provision(plane, workflow, count).await?;
    for _ in 0..10 {
        stage.tick(plane).await?;
        let claim = stage.provision(plane, workflow, count).await?;
        if claim.state == "ready" && claim.short == 0 {
            return Ok(claim);
        }
    }
    anyhow::bail!("{workflow} did not become ready")
}

/// One that was used, given back and cleaned.
async fn idle<G: Ground>(stage: &Stage<G>, plane: &Control) -> Result<Runner> {
    ready(stage, plane, "gh-1", 1).await?;
    stage.release(plane, "gh-1").await?;
    stage.tick(plane).await?;
    let runner = only(stage).await?;
    ensure!(runner.state == RunnerState::Idle, "{:?} is not idle", runner.state);
    Ok(runner)
}

async fn only<G: Ground>(stage: &Stage<G>) -> Result<Runner> {
    let [runner] =
        <[Runner; 1]>::try_from(stage.runners().await?).map_err(|all| anyhow::anyhow!("{all:?}"))?;
    Ok(runner)
}

async fn machine<G: Ground>(stage: &Stage<G>) -> Result<String> {
    only(stage).await?.provider_id.context("its record names no machine")
}
