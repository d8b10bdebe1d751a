//! Gates: a control plane whose calls to the ledger wait, before each call and before its answer, until the test lets it go on. So two
//! planes are interleaved call by call, in an order that the test chooses.

use super::around::{Around, Call, Surrounded};
use motorpool_control::ports::ledger::Ledger;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use tokio::sync::watch;

/// A ledger of its own for each of two planes, over the same records; each has its calls wait at its gate.
pub fn two_over(ledger: &Arc<dyn Ledger>) -> [(Arc<dyn Ledger>, Gate); 2] {
    let gated = || {
        let gate = Gate::default();
        let gated = Surrounded { inner: Arc::clone(ledger), around: gate.clone() };
        (Arc::new(gated) as Arc<dyn Ledger>, gate)
    };
    [gated(), gated()]
}

/// Open at first.
#[derive(Debug, Clone)]
pub struct Gate(Arc<Turnstile>);

#[derive(Debug)]
struct Turnstile {
    /// Whoever has a ticket below this may pass.
    allowed: watch::Sender<u64>,
    next_ticket: AtomicU64,
    /// Calls that have passed and are not answered yet.
    under_way: AtomicU64,
}

impl Default for Gate {
    fn default() -> Self {
        let allowed = watch::Sender::new(u64::MAX);
        Self(Arc::new(Turnstile { allowed, next_ticket: AtomicU64::new(0), under_way: AtomicU64::new(0) }))
    }
}

impl Gate {
    async fn pass(&self) {
        let ticket = self.0.next_ticket.fetch_add(1, Ordering::SeqCst);
        let mut allowed = self.0.allowed.subscribe();
        // The sender lives as long as this gate.
        let _passed = allowed.wait_for(|allowed| ticket < *allowed).await;
    }

    fn close(&self) {
        self.0.allowed.send_replace(self.0.next_ticket.load(Ordering::SeqCst));
    }

    fn let_one_pass(&self) {
        self.0.allowed.send_modify(|allowed| *allowed = allowed.saturating_add(1));
    }

    fn open(&self) {
        self.0.allowed.send_replace(u64::MAX);
    }
}

impl Around for Gate {
    async fn around<T: Send>(&self, _: Call<'_>, answer: impl Future<Output = T> + Send) -> T {
        self.pass().await;
        self.0.under_way.fetch_add(1, Ordering::SeqCst);
        let answer = answer.await;
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
        self.pass().await;
        answer
    }
}

/// One plane's work, taken step by step. The plane's other ports must answer at once: only calls to the ledger are waited for.
pub struct Stepped<'a, T> {
    gate: Gate,
    work: Pin<Box<dyn Future<Output = T> + Send + 'a>>,
    done: Option<T>,
}

impl<'a, T> Stepped<'a, T> {
    /// Closes the gate of the plane that does `work`.
    pub fn new(gate: &Gate, work: impl Future<Output = T> + Send + 'a) -> Self {
        gate.close();
        // Whoever is polled again and again without a pause would be made to wait by the runtime, and not by its gate.
        Self { gate: gate.clone(), work: Box::pin(tokio::task::unconstrained(work)), done: None }
    }

    pub fn is_done(&self) -> bool {
        self.done.is_some()
    }

    /// Lets the work pass the gate once, and returns when it waits there again or is done.
    pub async fn step(&mut self) {
        let Self { gate, work, done } = self;
        if done.is_some() {
            return;
        }
        gate.let_one_pass();
        std::future::poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(outcome) => {
                *done = Some(outcome);
                Poll::Ready(())
            }
            Poll::Pending if gate.0.under_way.load(Ordering::SeqCst) == 0 => Poll::Ready(()),
            Poll::Pending => Poll::Pending,
        })
        .await;
    }

    /// Opens the gate, and goes on to the end.
    pub async fn finish(self) -> T {
        let Self { gate, work, done } = self;
        gate.open();
        match done {
            Some(outcome) => outcome,
            None => work.await,
        }
    }
}
