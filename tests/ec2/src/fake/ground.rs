//! The fake as the ground of a stage, which has it to itself.

use super::{FakeEc2, State};
use crate::ground::{EndedBy, Ground, Seen};
use anyhow::{Context, Result, ensure};
use motorpool_backend_ec2::Ec2Backend;
use motorpool_control::ServerSecret;
use motorpool_domain::PoolName;
use motorpool_domain::pool::Pool;
use std::sync::Arc;
use std::time::Duration;

impl Ground for FakeEc2 {
    const KNOWS_TOKENS: bool = true;

    fn secret(&self) -> ServerSecret {
        ServerSecret::new(b"a server secret, for tests on a stage")
    }

    fn settle(&self, pool: Pool) -> Pool {
        pool
    }

    /// With nothing cached, as a control plane's that begins anew.
    async fn backend_for(&self, installation: &str) -> Arc<Ec2Backend> {
        Arc::new(self.backend(installation).await)
    }

    async fn made_for(&self, _: &str, _: &PoolName) -> Result<Vec<Seen>> {
        let all = self.instances().into_iter().map(|(instance, state)| Seen {
            id: instance.id,
            state,
            launch_index: instance.launch_index,
            tags: instance.tags,
            user_data: instance.user_data,
        });
        Ok(all.collect())
    }

    async fn state_of(&self, id: &str) -> Result<State> {
        let found = self.instances().into_iter().find(|(instance, _)| instance.id == id);
        Ok(found.with_context(|| format!("there was never an instance {id}"))?.1)
    }

    async fn end(&self, id: &str, by: EndedBy) -> Result<()> {
        let there = match by {
            EndedBy::Itself => self.power_off(id),
            EndedBy::TheProvider => self.interrupt(id),
            EndedBy::AFailure => self.die(id),
        };
        ensure!(there, "there was never an instance {id}");
        Ok(())
    }

    fn behind(&self) -> Duration {
        self.settings.visible_after + self.lock().lag.map_or(Duration::ZERO, |lag| lag.most)
    }

    fn most_alive(&self) -> Option<usize> {
        Some(FakeEc2::most_alive(self))
    }
}
