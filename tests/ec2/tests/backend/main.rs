//! The EC2 backend over the fake: what it asks for, and what it makes of the answers.

mod checking;
mod ladder;
mod launching;
mod machines;
mod refusals;

use motorpool_backend_ec2::Ec2Backend;
use motorpool_control::ports::backend::{Backend, LaunchError, Machine};
use motorpool_domain::ladder::{CapacityOption, LaunchCall};
use motorpool_domain::pool::Pool;
use motorpool_domain::spec::{Usage, Want};
use motorpool_ec2_tests::samples::{attempt, ec2_rules, launch_id, order, pool};
use motorpool_ec2_tests::{FakeEc2, TurnedClock};
use std::sync::Arc;

const INSTALLATION: &str = "0a1b2c";

/// An EC2, a backend on it, and a spot pool with on-demand behind it.
struct Ground {
    clock: Arc<TurnedClock>,
    fake: FakeEc2,
    backend: Ec2Backend,
    pool: Pool,
}

impl Ground {
    async fn new() -> Self {
        let clock = Arc::new(TurnedClock::default());
        let fake = FakeEc2::new(clock.clone());
        Self::on(fake, clock).await
    }

    async fn on(fake: FakeEc2, clock: Arc<TurnedClock>) -> Self {
        let mut rules = ec2_rules();
        rules.on_demand_fallback = true;
        let backend = fake.backend(INSTALLATION).await;
        Self { clock, fake, backend, pool: pool("small", Usage::Spot, 50, rules) }
    }

    async fn ladder(&self) -> Vec<CapacityOption> {
        self.backend.ladder(&self.pool, &Want::default()).await.expect("a ladder")
    }

    /// The best rung.
    async fn rung(&self) -> CapacityOption {
        self.ladder().await.remove(0)
    }

    async fn launch(&self, word: &str, attempt: &LaunchCall) -> Result<Vec<Machine>, LaunchError> {
        let launch = launch_id(word);
        self.backend.launch(&order(&self.pool, &launch, attempt)).await
    }

    /// On the best rung, all that are asked for.
    async fn launched(&self, word: &str, count: u32) -> Vec<Machine> {
        let attempt = attempt(count, self.rung().await);
        let machines = self.launch(word, &attempt).await.expect("machines");
        assert_eq!(machines.len(), usize::try_from(count).unwrap());
        machines
    }
}

fn runners(machines: &[Machine]) -> Vec<&str> {
    machines.iter().map(|machine| machine.runner.as_str()).collect()
}
