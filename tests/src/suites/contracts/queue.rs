//! What every queue must do, whatever carries its messages. No case assumes an order, or that one receive finds all:
//! SQS promises neither. Waits and visibilities are whole seconds, since SQS knows no others.
//!
//! [`queue_contract!`](crate::queue_contract) makes a test of each case.

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::future::Future;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use motorpool_control::ports::queue::{Queue, QueueName, Received};
use motorpool_domain::PoolName;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Makes a test of each case. `$open` is an async function that takes a fresh queue's name and gives an adapter on which
/// that queue can be used: `async fn(QueueName) -> Result<Arc<dyn Queue>>`.
#[macro_export]
macro_rules! queue_contract {
    ($adapter:ident, $open:path) => {
        $crate::queue_contract!(@cases $adapter, $open:
            sent_received_and_deleted,
            hidden_from_a_second_receiver,
            visible_again_after_its_visibility,
            given_back_visible_at_once,
            a_stale_receipt_touches_nothing,
            deleted_twice,
            a_long_poll_wakes_upon_a_send,
            an_empty_receive_waits_and_is_empty,
            at_most_ten_at_once,
            queues_are_apart,
            fault_16_each_message_goes_to_one_of_many_consumers,
            fault_18_a_poison_message_ends_as_a_dead_letter,
            fault_18_a_poison_notice_of_the_finalize_queue_is_set_aside_after_a_few_tries,
        );
    };
    (@cases $adapter:ident, $open:path: $($case:ident,)+) => {
        mod $adapter {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() -> ::anyhow::Result<()> {
                    let case = $crate::suites::contracts::queue::Case::open($open).await?;
                    $crate::suites::contracts::queue::$case(case).await
                }
            )+
        }
    };
}

/// Nobody comes near it, unless the machine hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Longer than any case lasts.
const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_secs(1);

/// A queue of its own for one case.
#[derive(Debug, Clone)]
pub struct Case {
    queue: Arc<dyn Queue>,
    name: QueueName,
}

impl Case {
    pub async fn open<F, Opened>(open: F) -> Result<Self>
    where
        F: Fn(QueueName) -> Opened,
        Opened: Future<Output = Result<Arc<dyn Queue>>>,
    {
        let name = fresh_name()?;
        Ok(Self { queue: open(name.clone()).await?, name })
    }

    async fn send(&self, body: impl Into<String>) -> Result<()> {
        Ok(self.queue.send(&self.name, body.into()).await?)
    }

    async fn delete(&self, message: &Received) -> Result<()> {
        Ok(self.queue.delete(&self.name, &message.receipt).await?)
    }

    async fn give_back(&self, message: &Received) -> Result<()> {
        Ok(self.queue.give_back(&self.name, &message.receipt).await?)
    }

    /// One message, however many receives it takes to find it.
    async fn one(&self, visibility: Duration) -> Result<Received> {
        let search = async {
            loop {
                let mut found = self.queue.receive(&self.name, 1, SHORT, visibility).await?;
                ensure!(found.len() <= 1, "asked for one message and got {}", found.len());
                if let Some(message) = found.pop() {
                    return Ok(message);
                }
            }
        };
        timeout(PATIENCE, search).await.context("no message came")?
    }

    /// A message that is there would be found: the wait is a long poll.
    async fn nothing_is_visible(&self) -> Result<()> {
        let found = self.queue.receive(&self.name, 10, SHORT, LONG).await?;
        ensure!(found.is_empty(), "nothing should be visible, but {found:?} is");
        Ok(())
    }
}

/// Random, since the queues of an earlier run may still be there.
fn fresh_name() -> Result<QueueName> {
    let random = RandomState::new().hash_one(std::process::id());
    Ok(QueueName::Idle(PoolName::parse(format!("contract-{random:016x}"))?))
}

/// A delete that came too late, since the machine was busy, is tried again with more time.
pub async fn sent_received_and_deleted(case: Case) -> Result<()> {
    let body = r#"{"runner":"r-1","note":"größer < ‘kleiner’ & \"quoted\"\n"}"#;
    case.send(body).await?;
    for (visibility, receives) in [(SHORT, 1), (SHORT * 4, 3), (SHORT * 16, 5)] {
        let message = case.one(visibility).await?;
        ensure!(message.body == body, "the body changed: {:?}", message.body);
        ensure!(message.receives == receives, "receive {receives} is counted as {}", message.receives);
        case.delete(&message).await?;
        // Were it not deleted, it would come again within this wait.
        let again = case.queue.receive(&case.name, 10, visibility + SHORT * 2, LONG).await?;
        let Some(again) = again.first() else { return Ok(()) };
        case.give_back(again).await?;
    }
    bail!("a deleted message comes again and again")
}

pub async fn hidden_from_a_second_receiver(case: Case) -> Result<()> {
    case.send("a").await?;
    let message = case.one(LONG).await?;
    case.nothing_is_visible().await?;
    case.delete(&message).await
}

pub async fn visible_again_after_its_visibility(case: Case) -> Result<()> {
    case.send("a").await?;
    let first = case.one(SHORT).await?;
    let second = case.one(LONG).await?;
    ensure!(second.body == first.body);
    ensure!(second.receives == 2, "a second receive is counted as {}", second.receives);
    ensure!(second.receipt != first.receipt, "each receive has a receipt of its own");
    Ok(())
}

pub async fn given_back_visible_at_once(case: Case) -> Result<()> {
    case.send("a").await?;
    let first = case.one(LONG).await?;
    case.give_back(&first).await?;
    // With the first visibility it would stay hidden for longer than anybody waits here.
    let second = case.one(LONG).await?;
    ensure!(second.body == first.body);
    ensure!(second.receives == 2, "a receive counts though it was given back; found {}", second.receives);
    Ok(())
}

/// Both calls succeed: the caller was late, and there is nothing for it to do.
pub async fn a_stale_receipt_touches_nothing(case: Case) -> Result<()> {
    case.send("a").await?;
    let stale = case.one(SHORT).await?;
    let present = case.one(LONG).await?;
    case.give_back(&stale).await?;
    case.nothing_is_visible().await?;
    case.delete(&stale).await?;
    case.give_back(&present).await?;
    let last = case.one(LONG).await?;
    ensure!(last.receives == 3, "the third receive is counted as {}", last.receives);
    Ok(())
}

pub async fn deleted_twice(case: Case) -> Result<()> {
    case.send("a").await?;
    let message = case.one(LONG).await?;
    case.delete(&message).await?;
    case.delete(&message).await?;
    // Too late: there is nothing left to give back.
    case.give_back(&message).await?;
    case.nothing_is_visible().await?;
    case.send("b").await?;
    ensure!(case.one(LONG).await?.body == "b", "the queue goes on");
    Ok(())
}

pub async fn a_long_poll_wakes_upon_a_send(case: Case) -> Result<()> {
    let (begun, begins) = oneshot::channel();
    let poll = tokio::spawn({
        let case = case.clone();
        async move {
            let _sender_waits = begun.send(());
            case.queue.receive(&case.name, 10, Duration::from_secs(20), LONG).await
        }
    });
    begins.await?;
    // No proof that the poll waits already, and none is needed: either way this one receive must find the message.
    tokio::task::yield_now().await;
    case.send("a").await?;
    let found = timeout(PATIENCE, poll).await.context("the long poll did not end")???;
    ensure!(found.iter().map(|message| message.body.as_str()).eq(["a"]), "the long poll found {found:?}");
    Ok(())
}

pub async fn an_empty_receive_waits_and_is_empty(case: Case) -> Result<()> {
    let mut receive = std::pin::pin!(case.queue.receive(&case.name, 10, SHORT * 2, LONG));
    let waits = tokio::select! {
        biased;
        () = tokio::time::sleep(SHORT) => true,
        _ = &mut receive => false,
    };
    ensure!(waits, "the receive ended before half of its wait was over");
    let found = timeout(PATIENCE, receive).await.context("the receive did not end")??;
    ensure!(found.is_empty(), "an empty queue gave {found:?}");
    Ok(())
}

pub async fn at_most_ten_at_once(case: Case) -> Result<()> {
    for n in 0..25 {
        case.send(n.to_string()).await?;
    }
    let mut found = Vec::new();
    let drain = async {
        while found.len() < 25 {
            for most in [100, 10, 3] {
                let some = case.queue.receive(&case.name, most, SHORT, LONG).await?;
                ensure!(some.len() <= most.min(10), "asked for {most} and got {}", some.len());
                found.extend(some);
            }
        }
        Ok(())
    };
    timeout(PATIENCE, drain).await.context("not all messages came")??;
    ensure!(found.len() == 25, "25 messages became {}", found.len());
    Ok(())
}

pub async fn queues_are_apart(case: Case) -> Result<()> {
    case.send("a").await?;
    let other = QueueName::Idle(PoolName::parse("contract-never-sent-to")?);
    // An adapter may know the other queue, or refuse it: it may not answer with this one's message.
    if let Ok(found) = case.queue.receive(&other, 10, SHORT, LONG).await {
        ensure!(found.is_empty(), "a message came to another queue: {found:?}");
    }
    case.one(LONG).await?;
    Ok(())
}

/// Each deletes what it got a while later: until then it is hidden, and so nobody else gets it.
pub async fn fault_16_each_message_goes_to_one_of_many_consumers(case: Case) -> Result<()> {
    const MESSAGES: usize = 500;
    const CONSUMERS: usize = 8;
    let received = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..CONSUMERS {
        let (case, received) = (case.clone(), Arc::clone(&received));
        tasks.spawn(async move {
            let mut mine = Vec::new();
            while received.load(Ordering::SeqCst) < MESSAGES {
                let found = case.queue.receive(&case.name, 10, SHORT, LONG).await?;
                received.fetch_add(found.len(), Ordering::SeqCst);
                tokio::task::yield_now().await;
                for message in &found {
                    case.delete(message).await?;
                }
                mine.extend(found);
            }
            Ok::<_, anyhow::Error>(mine)
        });
    }
    for n in 0..MESSAGES {
        case.send(n.to_string()).await?;
    }
    let consumed = async {
        let mut times: BTreeMap<String, usize> = BTreeMap::new();
        while let Some(mine) = tasks.join_next().await {
            for message in mine?? {
                *times.entry(message.body).or_default() += 1;
            }
        }
        Ok::<_, anyhow::Error>(times)
    };
    let times = timeout(PATIENCE, consumed).await.context("not all messages came")??;
    let twice: Vec<_> = times.iter().filter(|(_body, times)| **times > 1).collect();
    ensure!(twice.is_empty(), "came more than once, though hidden or deleted: {twice:?}");
    ensure!(times.len() == MESSAGES, "only {} of {MESSAGES} messages came", times.len());
    case.nothing_is_visible().await
}

/// Half of the receives are given back: they count like the others. The rest of the queue goes on.
pub async fn fault_18_a_poison_message_ends_as_a_dead_letter(case: Case) -> Result<()> {
    case.send("poison").await?;
    for n in 1..=case.name.max_receives() {
        let visibility = if n % 2 == 0 { LONG } else { Duration::ZERO };
        let message = case.one(visibility).await?;
        ensure!(message.receives == n, "receive {n} is counted as {}", message.receives);
        if n % 2 == 0 {
            case.give_back(&message).await?;
        }
    }
    case.nothing_is_visible().await?;
    let buried = async {
        loop {
            let dead = case.queue.dead_letters(&case.name, 10).await?;
            if !dead.is_empty() {
                return Ok::<_, anyhow::Error>(dead);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let dead = timeout(PATIENCE, buried).await.context("no dead letter came")??;
    ensure!(dead == ["poison"], "the dead letters are {dead:?}");
    let again = case.queue.dead_letters(&case.name, 10).await?;
    ensure!(again == dead, "whoever reads them leaves them where they are; found {again:?}");
    ensure!(case.queue.dead_letters(&case.name, 0).await?.is_empty(), "no more than asked for");
    case.send("good").await?;
    ensure!(case.one(LONG).await?.body == "good", "the rest goes on");
    Ok(())
}

/// Every adapter has names of its own for each case, and so another finalize queue.
pub async fn fault_18_a_poison_notice_of_the_finalize_queue_is_set_aside_after_a_few_tries(
    case: Case,
) -> Result<()> {
    let most = QueueName::Finalize.max_receives();
    ensure!(most < case.name.max_receives() && most <= 10, "{most} are not a few");
    fault_18_a_poison_message_ends_as_a_dead_letter(Case { name: QueueName::Finalize, ..case }).await
}
