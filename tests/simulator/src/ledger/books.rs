//! The books behind the simulated ledger: the engine under test, in memory or embedded, and an index of it that lags behind.

use super::write::Write;
use futures_util::FutureExt;
use motorpool_control::ports::ledger::{Ledger, LedgerError};
use motorpool_control::ports::tx::{Committed, Stored};
use motorpool_domain::record::Path;
use motorpool_ledger::MemoryLedger;
use motorpool_ledger::sqlite::SqliteLedger;
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;
use tokio::runtime::Runtime;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Memory,
    /// SQLite in a file, as `serve` has it.
    Embedded,
}

#[derive(Debug)]
pub(crate) struct Books {
    engine: Opened,
    late: Mutex<Late>,
}

#[derive(Debug)]
enum Opened {
    Memory(MemoryLedger),
    Embedded {
        ledger: SqliteLedger,
        runtime: Runtime,
        /// The same calls, for comparison: the two must answer alike (invariant 25).
        twin: MemoryLedger,
        /// Lives as long as its ledger.
        _dir: TempDir,
    },
}

/// A ledger to which each write comes some seconds late.
#[derive(Debug, Default)]
struct Late {
    ledger: MemoryLedger,
    coming: VecDeque<(u64, Write)>,
}

impl Books {
    pub(crate) fn open(engine: Engine) -> Self {
        let engine = match engine {
            Engine::Memory => Opened::Memory(MemoryLedger::new()),
            Engine::Embedded => {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("a runtime for the embedded ledger");
                let dir = tempfile::tempdir().expect("a directory for the embedded ledger");
                let ledger = SqliteLedger::open(dir.path()).expect("an embedded ledger");
                Opened::Embedded { ledger, runtime, twin: MemoryLedger::new(), _dir: dir }
            }
        };
        Self { engine, late: Mutex::default() }
    }

    pub(crate) fn ledger(&self) -> &dyn Ledger {
        match &self.engine {
            Opened::Memory(ledger) => ledger,
            Opened::Embedded { ledger, .. } => ledger,
        }
    }

    /// Completes a call at once: in simulated time it takes none. Whoever waits does so at a gate.
    pub(crate) fn now<T>(&self, call: impl Future<Output = T>) -> T {
        match &self.engine {
            Opened::Memory(_) => call.now_or_never().expect("the ledger in memory answers at once"),
            Opened::Embedded { runtime, .. } => runtime.block_on(call),
        }
    }

    /// What stands at these paths.
    pub(crate) fn at(&self, paths: &[Path]) -> BTreeMap<Path, Stored> {
        let found = self.now(self.ledger().get(paths)).expect("the books can be read");
        found.into_iter().flatten().map(|stored| (stored.path.clone(), stored)).collect()
    }

    /// The answer; and that of the twin, if there is one and it says something else.
    pub(crate) fn apply(
        &self,
        write: &Write,
        now_ms: u64,
    ) -> Result<(Committed, Option<Committed>), LedgerError> {
        let answer = self.now(write.apply(self.ledger()))?;
        let twin = match &self.engine {
            Opened::Memory(_) => None,
            Opened::Embedded { twin, .. } => Some(self.now(write.apply(twin))?),
        };
        if answer == Committed::Done {
            let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
            late.coming.push_back((now_ms, write.clone()));
        }
        let differs = twin.filter(|twin| *twin != answer);
        Ok((answer, differs))
    }

    /// Asks the index as it was at `then_ms`, or later if somebody has seen it later already.
    pub(crate) fn late<T>(&self, then_ms: u64, ask: impl FnOnce(&MemoryLedger) -> T) -> T {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        while late.coming.front().is_some_and(|(at_ms, _)| *at_ms <= then_ms) {
            if let Some((_, write)) = late.coming.pop_front() {
                write
                    .apply(&late.ledger)
                    .now_or_never()
                    .expect("the ledger in memory answers at once")
                    .expect("what one ledger took, the other takes");
            }
        }
        ask(&late.ledger)
    }
}
