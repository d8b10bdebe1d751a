//! Fault 3: a control plane is cut off before and after each write and each call to the CI system of create, of finalize and of all that follows
//! until the machine is clean, at every one of them in turn. Another one comes, whose queue is empty, and brings it to the same end.

use crate::workshop::{Workshop, in_ci};
use anyhow::{Context, Result, bail, ensure};
use async_trait::async_trait;
use motorpool_control::ports::ci::{
    Ci, CiError, CiJob, CiSystems, CiTrouble, ListedRunner, Paused, Rate, Registered, RegistrationOrder,
};
use motorpool_control::{Control, Parts};
use motorpool_domain::CheckpointName;
use motorpool_domain::ci::{CiSystem, JobStatus};
use motorpool_domain::runner::ProofKind;
use motorpool_queues::InProcessQueue;
use motorpool_tests::fakes::ci::TestCi;
use motorpool_tests::fakes::cutting::{Cuts, Cutting};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;

const MACHINE: &str = "mac-1";
const JOB: &str = "7";
/// Each is followed by a pass of refresh.
const LOOKS: usize = 20;
/// How long the checkpoint of a job may stay open here.
const LASTS_S: u64 = 60;
const STEP_S: u64 = 20;

#[tokio::test]
async fn inv_26_fault_03_a_job_that_failed_is_reset_once_wherever_the_control_plane_crashes() -> Result<()> {
    at_every_point(Story {
        said: Some("failure"),
        in_ci: JobStatus::Failure,
        ends: "reset",
        proof: ProofKind::Reset,
    })
    .await
}

#[tokio::test]
async fn inv_26_fault_03_what_a_good_job_left_is_cleaned_once_wherever_the_control_plane_crashes()
-> Result<()> {
    at_every_point(Story {
        said: Some("success"),
        in_ci: JobStatus::Success,
        ends: "deleted",
        proof: ProofKind::Cleanup,
    })
    .await
}

#[tokio::test]
async fn inv_26_fault_03_what_nobody_ends_is_collected_once_wherever_the_control_plane_crashes() -> Result<()>
{
    at_every_point(Story { said: None, in_ci: JobStatus::Running, ends: "gc_reset", proof: ProofKind::Reset })
        .await
}

/// What the hook, if it speaks at all, and the CI system say of the job, and what must become of its checkpoint and its machine.
#[derive(Debug, Clone, Copy)]
struct Story {
    said: Option<&'static str>,
    in_ci: JobStatus,
    ends: &'static str,
    proof: ProofKind,
}

async fn at_every_point(story: Story) -> Result<()> {
    let whole = told(story, None).await.context("without a crash")?;
    let kinds: BTreeSet<&str> = whole.iter().map(String::as_str).collect();
    println!("{} points: {kinds:?}", whole.len());
    let of_its_end = match story.said {
        Some(_) => ["a commit of checkpoint, runner", "a call to tell of a job"],
        None => ["a commit of checkpoint", "a commit of runner"],
    };
    let of_all = ["a commit of runner, checkpoint", "a call to pause a runner", "a call to unpause a runner"];
    for needed in of_all.into_iter().chain(of_its_end) {
        for when in ["before", "after"] {
            let point = format!("{when} {needed}");
            ensure!(kinds.contains(point.as_str()), "no crash {point}");
        }
    }
    for (number, point) in whole.iter().enumerate() {
        told(story, Some(number)).await.with_context(|| format!("a crash {point}, point {number}"))?;
    }
    Ok(())
}

/// The story with a crash at this point, which must be reached: every point that was passed.
async fn told(story: Story, crash_at: Option<usize>) -> Result<Vec<String>> {
    // A finalized checkpoint that nobody is woken for is looked at with each heartbeat.
    let settings = json!({"heartbeat_seconds": 30, "checkpoint_seconds": LASTS_S});
    let mut shop = Workshop::open(settings, &[MACHINE]).await?;
    let cuts = Cuts::new(crash_at);
    shop.control = plane_that_crashes(&shop, &cuts);
    let mut crashes = 0;

    let begins = async |shop: &Workshop| Ok(shop.create(MACHINE, JOB).await?.name);
    let name = repeated(&mut shop, &cuts, &mut crashes, begins).await?;
    let of_job = shop.world.store.checkpoints_of_job(&JOB.parse()?, 10).await?;
    ensure!(of_job.len() == 1 && of_job.iter().all(|one| one.name == name), "{of_job:?}, answered {name}");

    shop.ci.job(JOB, story.in_ci);
    let ends = async |shop: &Workshop| match story.said {
        Some(said) => shop.finalize(MACHINE, &name, said).await.map(drop),
        None => its_time_passes(shop).await,
    };
    repeated(&mut shop, &cuts, &mut crashes, ends).await?;
    repeated(&mut shop, &cuts, &mut crashes, async |shop: &Workshop| comes_to_rest(shop, &name).await)
        .await?;

    let passed = cuts.passed();
    ensure!(crashes == usize::from(crash_at.is_some()), "{crashes} crashes in {} points", passed.len());
    let (runner, checkpoint) = (shop.runner(MACHINE).await?, shop.checkpoint(&name).await?);
    ensure!(checkpoint.state.as_str() == story.ends, "{checkpoint:?}");
    ensure!(runner.epoch.0 == 3 && shop.releases(MACHINE).await? == 1, "cleaned more than once: {runner:?}");
    ensure!(runner.proof.as_ref().map(|proof| proof.how) == Some(story.proof), "{runner:?}");
    Ok(passed)
}

/// A step that a crash cuts off is asked for again: hooks repeat, and so do agents and schedules.
async fn repeated<T>(
    shop: &mut Workshop,
    cuts: &Cuts,
    crashes: &mut usize,
    step: impl AsyncFn(&Workshop) -> Result<T>,
) -> Result<T> {
    if let Some(done) = cuts.run(step(shop)).await {
        return done;
    }
    *crashes += 1;
    let queue = Arc::new(InProcessQueue::default());
    shop.control = Arc::new(Control::new(Parts { ci: shop.systems(), queue, ..shop.world.parts() }));
    step(shop).await
}

/// The machine's agent is there all the while.
async fn its_time_passes(shop: &Workshop) -> Result<()> {
    for _ in 0..LASTS_S / STEP_S {
        shop.turn(STEP_S);
        shop.works(MACHINE).await?;
        shop.refresh().await?;
    }
    Ok(())
}

/// Agent, notices and refresh, until the machine takes jobs again and its checkpoint is at its end.
async fn comes_to_rest(shop: &Workshop, name: &CheckpointName) -> Result<()> {
    for _ in 0..LOOKS {
        shop.works(MACHINE).await?;
        let is_open = shop.state(MACHINE).await? == "idle" && !shop.ci.is_paused(&in_ci(MACHINE));
        if is_open && !shop.checkpoint(name).await?.state.is_active() {
            return Ok(());
        }
        shop.turn(20);
        shop.refresh().await?;
    }
    bail!("it did not come to rest: {:?}, {:?}", shop.runner(MACHINE).await?, shop.checkpoint(name).await?)
}

fn plane_that_crashes(shop: &Workshop, cuts: &Arc<Cuts>) -> Arc<Control> {
    let parts = shop.world.parts();
    let ledger = Arc::new(Cutting::new(Arc::clone(&parts.ledger), cuts));
    let ci = CutOff { inner: Arc::clone(&shop.ci), cuts: Arc::clone(cuts) };
    let ci = CiSystems::default().with(CiSystem::GitLab, Arc::new(ci));
    Arc::new(Control::new(Parts { ledger, ci, ..parts }))
}

/// The CI system, as a control plane knows it that may be cut off around each call.
#[derive(Debug)]
struct CutOff {
    inner: Arc<TestCi>,
    cuts: Arc<Cuts>,
}

impl CutOff {
    async fn around<T: Send>(&self, call: &str, answer: impl Future<Output = T> + Send) -> T {
        self.cuts.pass(format!("before a call to {call}")).await;
        let answer = answer.await;
        self.cuts.pass(format!("after a call to {call}")).await;
        answer
    }
}

#[async_trait]
impl Ci for CutOff {
    async fn register(&self, order: &RegistrationOrder<'_>) -> Result<Registered, CiError> {
        self.inner.register(order).await
    }

    async fn remove(&self, scope: &str, id: &str) -> Result<(), CiError> {
        self.inner.remove(scope, id).await
    }

    async fn list(&self, scope: &str, prefix: &str) -> Result<Vec<ListedRunner>, CiError> {
        self.inner.list(scope, prefix).await
    }

    async fn job_status(&self, job: &CiJob) -> Result<JobStatus, CiError> {
        self.around("tell of a job", self.inner.job_status(job)).await
    }

    async fn pause(&self, scope: &str, runner: &str) -> Result<Paused, CiError> {
        self.around("pause a runner", self.inner.pause(scope, runner)).await
    }

    async fn unpause(&self, scope: &str, runner: &str) -> Result<(), CiError> {
        self.around("unpause a runner", self.inner.unpause(scope, runner)).await
    }

    fn rate(&self) -> Option<Rate> {
        self.inner.rate()
    }

    fn trouble(&self, scope: &str) -> Option<CiTrouble> {
        self.inner.trouble(scope)
    }
}
