//! A command that was run, and whose end could not be written down.

use anyhow::{Result, ensure};
use async_trait::async_trait;
use motorpool_control::ports::channels::{AgentChannels, ExecError};
use motorpool_control::ports::ledger::{Children, Ledger, LedgerError, Placed, Span, Touch};
use motorpool_control::ports::tx::{Committed, Stored, Tx};
use motorpool_control::{Caller, Page};
use motorpool_domain::record::{Key, Path};
use motorpool_domain::{RunnerId, Timestamp};
use motorpool_ledger::MemoryLedger;
use motorpool_queues::InProcessQueue;
use motorpool_tests::harness::world::{World, first_member};
use motorpool_wire::channel::{ExecAnswer, ExecRequest};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// It can't write while a test says so.
#[derive(Debug, Default)]
struct Full {
    inner: MemoryLedger,
    is_full: AtomicBool,
}

#[async_trait]
impl Ledger for Full {
    async fn get(&self, paths: &[Path]) -> Result<Vec<Option<Stored>>, LedgerError> {
        self.inner.get(paths).await
    }

    async fn commit(&self, tx: &Tx) -> Result<Committed, LedgerError> {
        match self.is_full.load(Ordering::Relaxed) {
            true => Err(LedgerError::failed("write anything", "the disk is full")),
            false => self.inner.commit(tx).await,
        }
    }

    async fn touch(&self, touch: &Touch) -> Result<(), LedgerError> {
        self.inner.touch(touch).await
    }

    async fn list(&self, span: &Span, at_most: usize) -> Result<Vec<Placed>, LedgerError> {
        self.inner.list(span, at_most).await
    }

    async fn count(&self, span: &Span, at_most: usize) -> Result<usize, LedgerError> {
        self.inner.count(span, at_most).await
    }

    async fn children(&self, of: &Children, at_most: usize) -> Result<Vec<Stored>, LedgerError> {
        self.inner.children(of, at_most).await
    }

    async fn due(&self, now: Timestamp, at_most: usize) -> Result<Vec<Path>, LedgerError> {
        self.inner.due(now, at_most).await
    }

    async fn ping(&self) -> Result<(), LedgerError> {
        self.inner.ping().await
    }
}

/// An agent that runs what it is told, in whose time the ledger may become full.
#[derive(Debug)]
struct Runs {
    ledger: Arc<Full>,
    fills: bool,
    ran: AtomicUsize,
}

#[async_trait]
impl AgentChannels for Runs {
    fn is_connected(&self, _: &RunnerId) -> bool {
        true
    }

    async fn exec(&self, _: &RunnerId, _: &str, _: Duration) -> Result<ExecAnswer, ExecError> {
        self.ran.fetch_add(1, Ordering::Relaxed);
        self.ledger.is_full.store(self.fills, Ordering::Relaxed);
        Ok(ExecAnswer { exit_code: 3, stdout: "out".to_owned(), stderr: String::new() })
    }
}

#[tokio::test]
async fn how_a_command_ended_is_answered_though_it_can_not_be_written_down() -> Result<()> {
    let ledger = Arc::new(Full::default());
    let settings = json!({"idle_minutes": 60, "allow_exec": true});
    let world = World::on(Arc::clone(&ledger) as _, Arc::new(InProcessQueue::default()), settings).await?;
    let runner = first_member(&world.ready("gh-1", 1).await?)?;
    let request = ExecRequest { cmd: "make".to_owned(), timeout: None };
    for (fills, told) in [(false, vec!["exec", "exec ended"]), (true, vec!["exec", "exec ended", "exec"])] {
        // The same command at the same moment would be the same entry, come twice.
        world.clock.turn(Duration::from_secs(1));
        let agent = Runs { ledger: Arc::clone(&ledger), fills, ran: AtomicUsize::new(0) };
        let answer = world.control.exec(&Caller::Operator, &runner, &request, &agent).await;
        ensure!(
            answer.as_ref().is_ok_and(|answer| answer.exit_code == 3 && answer.stdout == "out"),
            "{answer:?}"
        );
        ensure!(agent.ran.load(Ordering::Relaxed) == 1);
        let log = world.store.audit(&Key::from(&runner), Page::first(200)).await?;
        let mut noted: Vec<_> = log.items.iter().map(|entry| entry.what.as_str()).collect();
        noted.retain(|what| what.starts_with("exec"));
        noted.sort_unstable();
        let mut told = told;
        told.sort_unstable();
        ensure!(noted == told, "{noted:?}");
    }

    // What can't be written down before is not run.
    let agent = Runs { ledger, fills: true, ran: AtomicUsize::new(0) };
    let refused = world.control.exec(&Caller::Operator, &runner, &request, &agent).await;
    ensure!(refused.is_err() && agent.ran.load(Ordering::Relaxed) == 0, "{refused:?}");
    Ok(())
}
