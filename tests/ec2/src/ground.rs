//! The EC2 that a stage stands on, as it is seen from outside of the backend. The fake is one, moto another: what is played on the one is
//! played on the other.

use crate::fake::State;
use anyhow::Result;
use motorpool_backend_ec2::Ec2Backend;
use motorpool_control::ServerSecret;
use motorpool_domain::pool::Pool;
use motorpool_domain::{LaunchId, PoolName, RunnerId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub trait Ground {
    /// Whether a call that comes again with its ClientToken makes nothing more.
    const KNOWS_TOKENS: bool;

    /// Of the stages that stand here: their installation follows from it.
    fn secret(&self) -> ServerSecret;

    /// The pool, as one of this EC2: with its image and its network, and with a name that no other stage here has.
    fn settle(&self, pool: Pool) -> Pool;

    fn backend_for(&self, installation: &str) -> impl Future<Output = Arc<Ec2Backend>>;

    /// All that were ever made for this pool, with their present state.
    fn made_for(&self, installation: &str, pool: &PoolName) -> impl Future<Output = Result<Vec<Seen>>>;

    /// Of any instance, whoever's it is.
    fn state_of(&self, id: &str) -> impl Future<Output = Result<State>>;

    /// It ends, and the control plane is not told.
    fn end(&self, id: &str, by: EndedBy) -> impl Future<Output = Result<()>>;

    /// The furthest that its listings are behind.
    fn behind(&self) -> Duration;

    /// The most that were ever alive at once, if anybody counted.
    fn most_alive(&self) -> Option<usize>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedBy {
    /// Its own system powers it off.
    Itself,
    /// EC2 takes a spot instance back.
    TheProvider,
    /// Its hardware fails.
    AFailure,
}

/// An instance as anybody sees it who asks EC2.
#[derive(Debug, Clone)]
pub struct Seen {
    pub id: String,
    pub state: State,
    pub launch_index: u32,
    pub tags: BTreeMap<String, String>,
    /// Decoded.
    pub user_data: String,
}

impl Seen {
    pub fn runner(&self) -> Option<RunnerId> {
        runner_of(&self.tags, self.launch_index)
    }

    /// What the machine was told, as its user data has it.
    pub fn launch_secret(&self) -> Option<String> {
        let at = self.user_data.find("mp_launch_")?;
        let rest = self.user_data.get(at..)?;
        Some(rest.chars().take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')).collect())
    }
}

/// The runner that an instance is for, by its tags and its place in the launch.
pub fn runner_of(tags: &BTreeMap<String, String>, launch_index: u32) -> Option<RunnerId> {
    let launch = LaunchId::parse(tags.get("motorpool:launch")?.as_str()).ok()?;
    let from: u32 = tags.get("motorpool:from")?.parse().ok()?;
    Some(RunnerId::of_launch(&launch, from + launch_index))
}
