//! `motorpool demo`: the main job on this machine, for real. A server, two local runners, one killed; every step is checked,
//! and the exit code is 0 only if each of them truly happened.

mod host;
mod litter;
mod timeline;

use crate::args::{ConnectArgs, DemoArgs};
use crate::client::Client;
use crate::clock::Stopwatch;
use crate::errors::Failure;
use crate::output::words;
use host::Host;
use motorpool_domain::runner::{Removal, StateName};
use motorpool_domain::{PoolName, RunnerId, Workflow};
use motorpool_wire::api::{ClaimView, ProvisionRequest, ReleaseRequest};
use std::collections::BTreeSet;
use std::time::Duration;
use timeline::Timeline;

const POOL: &str = "demo";
const COUNT: u32 = 2;
/// Far more than any step needs: only a step that hangs gets here.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn run(args: DemoArgs) -> Result<(), Failure> {
    let DemoArgs { keep, verbose, without_cleaning } = args;
    let mut host = Host::start(verbose, without_cleaning).await?;
    let story = Story { client: client(&host)?, pool: pool()?, timeline: Timeline::start() };
    let told = story.tell(&host).await;
    let ended = match &told {
        Ok(()) => story.clear_up(&host).await,
        Err(_) => Ok(()),
    };
    host.stop(keep).await?;
    told?;
    ended?;
    story.timeline.close();
    Ok(())
}

struct Story {
    client: Client,
    pool: PoolName,
    timeline: Timeline,
}

impl Story {
    async fn tell(&self, host: &Host) -> Result<(), Failure> {
        let say = &self.timeline;
        say.event(&format!("serve listens on {}, its pool is empty", host.url()));
        say.note("a new machine runs a pre-runner script first, which here sleeps for 2 s in place of a boot and an install");

        let cold_watch = Stopwatch::start();
        let cold = self.provision("demo-1").await?;
        let cold_time = cold_watch.elapsed();
        check(
            cold.runners.iter().all(|runner| !runner.warm),
            "the first runners were launched, not taken from a pool",
        )?;
        say.event(&format!(
            "demo-1 has {} cold: {} in {}",
            words::some(COUNT, "runner"),
            names(&cold),
            ms(cold_time)
        ));
        self.must_be_clean_for(host, &cold).await?;
        check(
            ids(&cold).iter().all(|runner| host.has_litter(runner)),
            "demo-1 left litter in each work directory",
        )?;
        say.note("demo-1 left litter in the work directory of each");

        let clean_watch = Stopwatch::start();
        self.release("demo-1").await?;
        self.wait_for_count(StateName::Idle, COUNT).await?;
        say.event(&format!("demo-1 gave them back; cleaned and idle after {}", ms(clean_watch.elapsed())));

        let warm_watch = Stopwatch::start();
        let warm = self.provision("demo-2").await?;
        let warm_time = warm_watch.elapsed();
        check(ids(&warm) == ids(&cold), "the second workflow got the same machines")?;
        check(warm.runners.iter().all(|runner| runner.warm), "they came warm from the pool")?;
        self.must_be_clean_for(host, &warm).await?;
        say.event(&format!(
            "demo-2 has the same two, warm and clean, in {}: it found no litter of demo-1",
            ms(warm_time)
        ));
        let longer = cold_time.as_secs_f64() / warm_time.as_secs_f64().max(0.001);
        say.note(&format!(
            "cold {} against warm {}: {longer:.1} times as long",
            ms(cold_time),
            ms(warm_time)
        ));

        self.lose_one(host, &warm).await
    }

    /// The claim's own use of each of its runners found the work directory clean.
    async fn must_be_clean_for(&self, host: &Host, claim: &ClaimView) -> Result<(), Failure> {
        for runner in ids(claim) {
            let found = self
                .until(&format!("{} has looked around on {runner}", claim.workflow), async || {
                    Ok(host.found_by(&claim.claim, &runner))
                })
                .await?;
            let clean = format!("{} found {runner} clean: there was {found:?}", claim.workflow);
            check(found == litter::NOTHING, &clean)?;
        }
        Ok(())
    }

    /// Kills an agent as a power cut would, and watches the pool notice, replace and refill.
    async fn lose_one(&self, host: &Host, claim: &ClaimView) -> Result<(), Failure> {
        let say = &self.timeline;
        let victim = claim.runners.first().map(|member| member.runner.clone());
        let victim = victim.ok_or_else(|| Failure::failed("demo-2 has no runner", ""))?;
        let watch = Stopwatch::start();
        let pid = host.kill_agent(&victim)?;
        say.event(&format!("killed the agent of {victim} (process {pid}) with SIGKILL"));

        let record = self
            .until(&format!("the pool notices that {victim} is gone"), async || {
                let record = self.client.runner(&victim).await?.value;
                Ok((record.state == StateName::Terminated).then_some(record))
            })
            .await?;
        let why = record.why.unwrap_or_default();
        say.event(&format!("the pool noticed after {}: {why}", words::span(watch.elapsed())));

        let full = self
            .until("the claim is whole again", async || {
                let now = self.client.claim(&claim.claim, Duration::from_secs(1)).await?.value;
                let runs = |state| state == StateName::Running;
                let whole =
                    now.short == 0 && now.runners.iter().filter(|member| runs(member.state)).count() == 2;
                Ok((now.state == "ready" && whole && !ids(&now).contains(&victim)).then_some(now))
            })
            .await?;
        check(ids(&full).len() == 2, "the claim has two runners again")?;
        say.event(&format!("demo-2 is whole again after {}: {}", words::span(watch.elapsed()), names(&full)));
        check(host.agent_is_gone(&victim), "nothing is left of the killed agent")
    }

    async fn clear_up(&self, host: &Host) -> Result<(), Failure> {
        self.release("demo-2").await?;
        self.wait_for_count(StateName::Idle, COUNT).await?;
        let runners = self.client.runners(&self.pool, None, false).await?.value.runners;
        for runner in &runners {
            self.client.remove_runner(&runner.runner, Removal::IfFree).await?;
        }
        self.until("every machine is gone", async || {
            let pool = self.client.pool(&self.pool).await?.value;
            Ok((pool.used == 0).then_some(()))
        })
        .await?;
        for runner in &runners {
            check(host.agent_is_gone(&runner.runner), "no agent is left behind")?;
        }
        self.timeline.event("demo-2 gave them back, the pool was emptied: no machine and no process is left");
        Ok(())
    }

    async fn provision(&self, workflow: &str) -> Result<ClaimView, Failure> {
        let request = ProvisionRequest {
            workflow: workflow_id(workflow)?,
            pool: self.pool.clone(),
            count: COUNT,
            max_runtime_minutes: None,
            usage: None,
            allowed_instance_types: None,
            resource_class: None,
        };
        let claim = self.client.provision(&request).await?.value.claim;
        self.until(&format!("{workflow} is ready"), async || {
            let now = self.client.claim(&claim, Duration::from_secs(10)).await?.value;
            match now.state.as_str() {
                "pending" => Ok(None),
                "ready" => Ok(Some(now)),
                other => Err(Failure::failed(format!("{workflow} is {other}: {}", now.why), "")),
            }
        })
        .await
    }

    async fn release(&self, workflow: &str) -> Result<(), Failure> {
        let request = ReleaseRequest { workflow: workflow_id(workflow)?, pool: None, owner: None };
        self.client.release(&request).await.map(|_| ())
    }

    async fn wait_for_count(&self, state: StateName, count: u32) -> Result<(), Failure> {
        self.until(&format!("{count} runners are {state}"), async || {
            let pool = self.client.pool(&self.pool).await?.value;
            Ok((pool.counts.get(state.as_str()) == Some(&count)).then_some(()))
        })
        .await
    }

    /// Asks until there is an answer; a step that never comes is a failed demo.
    async fn until<T>(
        &self,
        what: &str,
        ask: impl AsyncFn() -> Result<Option<T>, Failure>,
    ) -> Result<T, Failure> {
        let watch = Stopwatch::start();
        while watch.elapsed() < PATIENCE {
            if let Some(answer) = ask().await? {
                return Ok(answer);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err(Failure::failed(
            format!("waited {} in vain until {what}", words::span(PATIENCE)),
            "run it again with --verbose --keep, and read the log",
        ))
    }
}

/// Seconds would hide how short it is.
fn ms(span: Duration) -> String {
    format!("{} ms", span.as_millis())
}

fn check(truth: bool, what: &str) -> Result<(), Failure> {
    if truth { Ok(()) } else { Err(Failure::failed(format!("not so: {what}"), "")) }
}

fn ids(claim: &ClaimView) -> BTreeSet<RunnerId> {
    claim.runners.iter().map(|member| member.runner.clone()).collect()
}

fn names(claim: &ClaimView) -> String {
    let names: Vec<&str> = claim.runners.iter().map(|member| member.runner.as_str()).collect();
    names.join(", ")
}

fn pool() -> Result<PoolName, Failure> {
    PoolName::parse(POOL).map_err(|error| Failure::failed(error.to_string(), ""))
}

fn workflow_id(name: &str) -> Result<Workflow, Failure> {
    Workflow::parse(name).map_err(|error| Failure::failed(error.to_string(), ""))
}

fn client(host: &Host) -> Result<Client, Failure> {
    Client::new(&ConnectArgs {
        server: Some(host.url().to_owned()),
        token_file: Some(host.token_file()),
        ca_file: None,
        data_dir: None,
        insecure_http: false,
    })
}
