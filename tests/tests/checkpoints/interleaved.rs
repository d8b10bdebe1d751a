//! Two control planes that hear of one job's end at once, interleaved call by call: each order is one that the test chose.

use crate::workshop::Workshop;
use anyhow::{Result, bail, ensure};
use motorpool_control::ports::ledger::Ledger;
use motorpool_control::{Caller, Control, JobWord, Parts, SweepWish};
use motorpool_domain::CheckpointName;
use motorpool_domain::checkpoint::{CompletedJob, JobOutcome};
use motorpool_domain::ci::{CiSystem, JobStatus};
use motorpool_ledger::MemoryLedger;
use motorpool_queues::InProcessQueue;
use motorpool_tests::fakes::gating::{Gate, Stepped, two_over};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

const MAC: &str = "mac-1";
const JOB: &str = "1";

/// Who says that the job has ended, or acts upon it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Hook,
    Webhook,
    Poller,
    /// A worker of the finalize queue, and the agent.
    Cleaner,
}

/// A job on a machine, and two control planes.
struct Scene {
    shop: Workshop,
    other: Control,
    gates: [Gate; 2],
    name: CheckpointName,
}

type Work<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

impl Scene {
    /// By its CI system's word, the job ended so; the poller may ask.
    async fn with_a_job(ended: JobStatus) -> Result<Self> {
        let records: Arc<dyn Ledger> = Arc::new(MemoryLedger::new());
        let [(ledger, gate), (other_ledger, other_gate)] = two_over(&records);
        let queue = Arc::new(InProcessQueue::default());
        let shop = Workshop::open_on(ledger, queue, json!({}), &[MAC]).await?;
        let parts = Parts { ledger: other_ledger, ci: shop.systems(), ..shop.world.parts() };
        let other = Control::new(parts);
        let name = shop.create(MAC, JOB).await?.name;
        shop.turn(130);
        shop.ci.job(JOB, ended);
        Ok(Self { shop, other, gates: [gate, other_gate], name })
    }

    fn work(&self, plane: usize, by: By) -> Work<'_> {
        let control: &Control = if plane == 0 { &self.shop.control } else { &self.other };
        match by {
            By::Hook => {
                Box::pin(async { self.shop.finalize_at(control, MAC, &self.name, "failure").await.map(drop) })
            }
            By::Webhook => Box::pin(async {
                let word = control.job_completed(CiSystem::GitLab, &failed()?).await?;
                ensure!(word != JobWord::Unknown, "it is this job's");
                Ok(())
            }),
            By::Poller => {
                Box::pin(async { Ok(control.refresh(&Caller::Operator, SweepWish::IfDue).await.map(drop)?) })
            }
            By::Cleaner => Box::pin(async { self.shop.works_at(control, MAC).await }),
        }
    }

    /// The works of the two planes, neither begun.
    fn both(&self, by: [By; 2]) -> [Stepped<'_, Result<()>>; 2] {
        let [one, two] = &self.gates;
        [Stepped::new(one, self.work(0, by[0])), Stepped::new(two, self.work(1, by[1]))]
    }

    async fn one_reset(&self, order: &str) -> Result<()> {
        for control in [&*self.shop.control, &self.other] {
            control.attend_to_notices(Duration::ZERO).await?;
        }
        self.shop.works(MAC).await?;
        let (releases, runner) = (self.shop.releases(MAC).await?, self.shop.runner(MAC).await?);
        ensure!(releases == 1 && runner.epoch.0 == 3, "{order}: {releases} releases, {runner:?}");
        let ended = self.shop.checkpoint(&self.name).await?;
        ensure!(ended.state.as_str() == "reset", "{order}: {ended:?}");
        Ok(())
    }

    /// Invariant 29: a failure that was taken is followed by a reset, and one that came too late changes nothing.
    async fn cleaned_as_it_ended(&self, order: &str) -> Result<bool> {
        self.shop.works(MAC).await?;
        let (ended, runner) = (self.shop.checkpoint(&self.name).await?, self.shop.runner(MAC).await?);
        let task = runner.proof.and_then(|proof| proof.task).map(|task| task.to_string());
        let status = ended.finalized.map(|finalized| finalized.status);
        match (status, task.as_deref(), ended.state.as_str()) {
            (Some(JobOutcome::Failure), Some("3-reset-1"), "reset") => Ok(true),
            (Some(JobOutcome::Success), Some("3-cleanup-1"), "deleted") => Ok(false),
            other => bail!("{order}: {other:?}"),
        }
    }
}

fn failed() -> Result<CompletedJob> {
    Ok(CompletedJob {
        id: JOB.parse()?,
        projects: Vec::new(),
        attempt: None,
        runners: Vec::new(),
        ended_at: None,
        status: JobOutcome::Failure,
    })
}

/// After each step of one, all of the other. `said`: by the hook, before either begins.
async fn whenever(by: [By; 2], said: bool) -> Result<()> {
    let mut steps = 0;
    loop {
        let scene = Scene::with_a_job(JobStatus::Failure).await?;
        if said {
            scene.shop.finalize(MAC, &scene.name, "failure").await?;
        }
        let [mut one, two] = scene.both(by);
        for _ in 0..steps {
            one.step().await;
        }
        let all = one.is_done();
        two.finish().await?;
        one.finish().await?;
        scene.one_reset(&format!("{:?} after step {steps} of {:?}", by[1], by[0])).await?;
        if all {
            break;
        }
        steps += 1;
    }
    // Each call is two steps, and whoever finalizes reads checkpoint and runner and writes both.
    ensure!(steps > 4, "{by:?}: {steps} steps, so nothing was interleaved");
    Ok(())
}

const PAIRS: [[By; 2]; 8] = [
    [By::Hook, By::Hook],
    [By::Hook, By::Webhook],
    [By::Webhook, By::Hook],
    [By::Hook, By::Poller],
    [By::Poller, By::Hook],
    [By::Webhook, By::Poller],
    [By::Poller, By::Webhook],
    [By::Poller, By::Poller],
];

#[tokio::test]
async fn inv_11_whenever_another_says_it_in_between_a_jobs_end_is_one_reset() -> Result<()> {
    for by in PAIRS {
        whenever(by, false).await?;
    }
    Ok(())
}

#[tokio::test]
async fn inv_11_fault_06_in_any_order_a_jobs_end_is_one_reset() -> Result<()> {
    for (number, by) in PAIRS.into_iter().enumerate() {
        for seed in 0..15 {
            let mut order = StdRng::seed_from_u64(seed);
            let scene = Scene::with_a_job(JobStatus::Failure).await?;
            let [mut one, mut two] = scene.both(by);
            while !(one.is_done() && two.is_done()) {
                let next = if order.random_bool(0.5) { &mut one } else { &mut two };
                next.step().await;
            }
            one.finish().await?;
            two.finish().await?;
            scene.one_reset(&format!("pair {number} in the order of seed {seed}")).await?;
        }
    }
    Ok(())
}

/// Two workers, each with a notice of the machine, or one and refresh: the machine is cleaned once.
#[tokio::test]
async fn fault_06_two_who_attend_to_a_machine_at_once_have_it_cleaned_once() -> Result<()> {
    for by in [[By::Cleaner, By::Poller], [By::Poller, By::Cleaner], [By::Cleaner, By::Hook]] {
        whenever(by, true).await?;
    }
    Ok(())
}

#[tokio::test]
async fn inv_29_a_failure_that_comes_at_any_moment_of_the_cleaning_counts_or_changes_nothing() -> Result<()> {
    let (mut steps, mut in_time, mut too_late) = (0, 0, 0);
    loop {
        let scene = Scene::with_a_job(JobStatus::Success).await?;
        scene.shop.finalize(MAC, &scene.name, "success").await?;
        let [mut cleaner, word] = scene.both([By::Cleaner, By::Webhook]);
        for _ in 0..steps {
            cleaner.step().await;
        }
        let all = cleaner.is_done();
        // Once the checkpoint has come to its end, nobody knows the job any more.
        let _heard = word.finish().await;
        cleaner.finish().await?;
        match scene.cleaned_as_it_ended(&format!("a failure after step {steps}")).await? {
            true => in_time += 1,
            false => too_late += 1,
        }
        if all {
            break;
        }
        steps += 1;
    }
    ensure!(in_time > 4 && too_late > 4, "{in_time} in time and {too_late} too late, of {steps} steps");
    Ok(())
}
