//! Faults 18 and 19 on SQS itself: its own dead-letter queue takes a notice that nobody can use, and one that is sent back from there days later finds
//! nothing to do.

use crate::dead_letters::incidents;
use crate::workshop::{Workshop, in_ci};
use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use motorpool_control::ports::queue::{Queue, QueueError, QueueName, Receipt, Received};
use motorpool_control::{Caller, SweepWish};
use motorpool_ledger::MemoryLedger;
use motorpool_queues::SqsQueues;
use motorpool_queues::definition::{self, Names};
use motorpool_tests::harness::emulated_aws::{self, sqs, url_of};
use motorpool_tests::harness::wait::until;
use serde_json::json;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const FINALIZE: QueueName = QueueName::Finalize;
/// Long enough for SQS to ask all of its servers.
const WAIT: Duration = Duration::from_secs(1);

/// The queues on SQS, where a test need not wait until what nobody deleted is visible again.
#[derive(Debug)]
struct Visible {
    inner: SqsQueues,
    prefix: String,
    in_hand: Mutex<Vec<Received>>,
}

impl Visible {
    async fn open() -> Result<Arc<Self>> {
        let prefix = emulated_aws::fresh_name("dead");
        let inner = SqsQueues::on_aws(&emulated_aws::config().await?, &prefix);
        Ok(Arc::new(Self { inner, prefix, in_hand: Mutex::default() }))
    }

    /// What was received and not deleted is visible again, as after its time. What of it was received for the last time, by its count.
    async fn time_passes(&self) -> Result<Option<u32>> {
        let in_hand = std::mem::take(&mut *self.in_hand());
        for message in &in_hand {
            self.inner.give_back(&FINALIZE, &message.receipt).await?;
        }
        Ok(in_hand.iter().map(|message| message.receives).max())
    }

    fn in_hand(&self) -> MutexGuard<'_, Vec<Received>> {
        self.in_hand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As a person does it who thinks that the trouble is over: each dead letter goes back to the queue that it came from.
    async fn redrive(&self) -> Result<()> {
        let Names { queue, dead_letters } = definition::names(&self.prefix, &FINALIZE)?;
        let (to, from) = (
            url_of(&queue).await?.context("no queue")?,
            url_of(&dead_letters).await?.context("no dead letters")?,
        );
        let answer = sqs("ReceiveMessage", json!({"QueueUrl": from, "MaxNumberOfMessages": 10})).await?;
        let letters = answer["Messages"].as_array().context("nothing to send back")?;
        for letter in letters {
            sqs("SendMessage", json!({"QueueUrl": to, "MessageBody": letter["Body"]})).await?;
            sqs("DeleteMessage", json!({"QueueUrl": from, "ReceiptHandle": letter["ReceiptHandle"]})).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Queue for Visible {
    async fn send(&self, queue: &QueueName, body: String) -> Result<(), QueueError> {
        self.inner.send(queue, body).await
    }

    async fn receive(
        &self,
        queue: &QueueName,
        most: usize,
        wait: Duration,
        visibility: Duration,
    ) -> Result<Vec<Received>, QueueError> {
        let received = self.inner.receive(queue, most, wait, visibility).await?;
        self.in_hand().extend(received.iter().cloned());
        Ok(received)
    }

    async fn delete(&self, queue: &QueueName, receipt: &Receipt) -> Result<(), QueueError> {
        self.in_hand().retain(|message| message.receipt != *receipt);
        self.inner.delete(queue, receipt).await
    }

    async fn give_back(&self, queue: &QueueName, receipt: &Receipt) -> Result<(), QueueError> {
        self.in_hand().retain(|message| message.receipt != *receipt);
        self.inner.give_back(queue, receipt).await
    }

    async fn dead_letters(&self, queue: &QueueName, most: usize) -> Result<Vec<String>, QueueError> {
        self.inner.dead_letters(queue, most).await
    }
}

async fn shop(queue: &Arc<Visible>) -> Result<Workshop> {
    let queue = Arc::clone(queue) as Arc<dyn Queue>;
    Workshop::open_on(
        Arc::new(MemoryLedger::default()),
        queue,
        json!({"max_runtime_minutes": 10_000}),
        &["mac-1"],
    )
    .await
}

/// Each try is in a batch with a notice that is good.
#[tokio::test]
async fn fault_18_on_sqs_a_poison_notice_is_set_aside_after_a_few_tries_and_the_rest_goes_on() -> Result<()> {
    let queue = Visible::open().await?;
    let shop = shop(&queue).await?;
    queue.send(&FINALIZE, "poison".to_owned()).await?;
    for one_more in 1..=FINALIZE.max_receives() {
        ensure!(queue.dead_letters(&FINALIZE, 1).await?.is_empty(), "it is set aside too early");
        shop.turn(6);
        let name = shop.create("mac-1", &one_more.to_string()).await?.name;
        shop.finalize("mac-1", &name, "failure").await?;
        until("the machine is clean", async || {
            shop.works("mac-1").await?;
            Ok((shop.checkpoint(&name).await?.state.as_str() == "reset").then_some(()))
        })
        .await?;
        ensure!(!shop.ci.is_paused(&in_ci("mac-1")));
        ensure!(queue.time_passes().await? == Some(one_more), "the poison came once in each round");
    }
    until("SQS has set it aside", async || {
        ensure!(shop.control.attend_to_notices(WAIT).await? == 0, "it comes no more");
        Ok((queue.dead_letters(&FINALIZE, 10).await? == ["poison"]).then_some(()))
    })
    .await?;
    for _ in 0..3 {
        shop.control.refresh(&Caller::Operator, SweepWish::Now).await?;
        shop.turn(30);
    }
    let found = incidents(&shop.control).await?;
    ensure!(found == [(Some("finalize".to_owned()), "open".to_owned(), 1)], "one, raised once: {found:?}");
    Ok(())
}

/// Whoever had the notice died each time; refresh has done what it asked for, and days later a person sends it back.
#[tokio::test]
async fn fault_19_on_sqs_a_dead_letter_that_is_sent_back_days_later_changes_nothing() -> Result<()> {
    let queue = Visible::open().await?;
    let shop = shop(&queue).await?;
    let first = shop.create("mac-1", "1").await?.name;
    shop.finalize("mac-1", &first, "failure").await?;
    until("its notice is a dead letter", async || {
        let _nobody_acts = queue.receive(&FINALIZE, 10, WAIT, FINALIZE.hidden()).await?;
        queue.time_passes().await?;
        Ok((!queue.dead_letters(&FINALIZE, 1).await?.is_empty()).then_some(()))
    })
    .await?;
    shop.refresh().await?;
    until("the machine is clean", async || {
        shop.works("mac-1").await?;
        Ok((shop.checkpoint(&first).await?.state.as_str() == "reset").then_some(()))
    })
    .await?;
    let ended = shop.checkpoint(&first).await?;
    shop.turn(3 * 24 * 3_600);
    shop.create("mac-1", "2").await?;
    let before = shop.runner("mac-1").await?;
    queue.redrive().await?;
    until("it comes", async || Ok((shop.control.attend_to_notices(WAIT).await? > 0).then_some(()))).await?;
    ensure!(queue.in_hand().is_empty(), "and is done with");
    let after = shop.runner("mac-1").await?;
    ensure!(after == before && shop.checkpoint(&first).await? == ended, "{before:?}\n{after:?}");
    ensure!(queue.dead_letters(&FINALIZE, 1).await?.is_empty());
    Ok(())
}
