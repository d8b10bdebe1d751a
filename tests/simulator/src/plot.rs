//! A plot instead of chance: fair weather, one workflow, and a crash at a chosen place. Run for every place there is, it shows that each
//! crash is survived, and not only those that chance has found.

use super::calls::Kind;
use super::gate::Toward;
use super::planes::Standing;
use super::provider::Short;
use super::workload::Work;
use motorpool_domain::PoolName;
use std::collections::VecDeque;

#[derive(Debug, Clone, Default)]
pub(crate) enum Plot {
    /// From the seed.
    #[default]
    Drawn,
    Crashes(Vec<CrashAt>),
}

/// The `nth` gate at which a use case of this kind stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CrashAt {
    pub(crate) kind: Kind,
    pub(crate) at_launches_only: bool,
    pub(crate) nth: u64,
}

/// The first zone is empty and the second nearly so, for as long as the workflow asks: its launch goes through three calls.
pub(crate) const SHORT: [(u64, u64, Short); 2] =
    [(0, MINUTES_10, Short::Zone(0)), (0, MINUTES_10, Short::AllButOne(1))];
pub(crate) const ASKS_MS: u64 = 30_000;
pub(crate) const END_MS: u64 = 50 * 60_000;

const MINUTES_10: u64 = 10 * 60_000;
const COUNT: u32 = 4;

/// One that asks for several machines of the cloud, and must get them.
pub(crate) fn works() -> Vec<Work> {
    let pool = PoolName::parse("burst").expect("a pool's name");
    Work::in_the_calm(0, &pool, COUNT).into_iter().collect()
}

impl Plot {
    pub(crate) fn crashes(self) -> VecDeque<CrashAt> {
        match self {
            Self::Drawn => VecDeque::new(),
            Self::Crashes(crashes) => crashes.into(),
        }
    }
}

impl CrashAt {
    pub(crate) fn counts(&self, at: Standing) -> bool {
        at.kind == self.kind && (!self.at_launches_only || at.toward == Toward::Launch)
    }
}
