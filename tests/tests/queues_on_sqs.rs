//! What the queues on SQS do beyond the contract: they make what is missing, once, and again if it went. Their own calls go through
//! the adapter; what happens behind its back is done over plain HTTP.

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use motorpool_control::ports::queue::{Queue, QueueName};
use motorpool_domain::PoolName;
use motorpool_queues::SqsQueues;
use motorpool_queues::definition::{self, Names};
use motorpool_tests::harness::emulated_aws::{self, sqs, url_of};
use motorpool_tests::harness::wait::until;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(600);

#[tokio::test]
async fn queues_that_many_make_at_once_are_one() -> Result<()> {
    let (prefix, idle) = (emulated_aws::fresh_name("many"), idle()?);
    let config = emulated_aws::config().await?;
    // Each has a cache of its own, as each process has.
    let many: Vec<SqsQueues> = (0..8).map(|_| SqsQueues::on_aws(&config, &prefix)).collect();
    let sends = many.iter().enumerate().map(|(n, queues)| queues.send(&idle, n.to_string()));
    try_join_all(sends).await?;
    let sent: BTreeSet<String> = (0..many.len()).map(|n| n.to_string()).collect();
    let mut found = BTreeSet::new();
    let one = many.first().context("nobody")?;
    while found.len() < sent.len() {
        let some = one.receive(&idle, 10, WAIT, LONG).await?;
        ensure!(!some.is_empty(), "only {found:?} came");
        found.extend(some.into_iter().map(|message| message.body));
    }
    ensure!(found == sent, "{found:?}");
    Ok(())
}

#[tokio::test]
async fn a_queue_is_made_as_defined() -> Result<()> {
    let prefix = emulated_aws::fresh_name("made");
    let queues = SqsQueues::on_aws(&emulated_aws::config().await?, &prefix);
    for (of, visibility, tries) in [(idle()?, "60", "50"), (QueueName::Finalize, "360", "5")] {
        ensure!(queues.dead_letters(&of, 10).await?.is_empty(), "one that is missing has no dead letters");
        queues.send(&of, "a".to_owned()).await?;
        let Names { queue, dead_letters } = definition::names(&prefix, &of)?;
        let (made, dead) = (attributes(&queue).await?, attributes(&dead_letters).await?);
        for (name, value) in definition::attributes(&of) {
            ensure!(made[name] == value, "{name} of {queue} is {}", made[name]);
        }
        ensure!(made["VisibilityTimeout"] == visibility, "{made}");
        for (name, value) in definition::DEAD_LETTER_ATTRIBUTES {
            ensure!(dead[name] == value, "{name} of {dead_letters} is {}", dead[name]);
        }
        let policy: Value =
            serde_json::from_str(made[definition::REDRIVE_POLICY].as_str().context("no policy")?)?;
        ensure!(policy["deadLetterTargetArn"] == dead["QueueArn"], "{policy}");
        ensure!(policy["maxReceiveCount"].to_string().trim_matches('"') == tries, "{policy}");
    }
    Ok(())
}

#[tokio::test]
async fn fault_02_a_queue_that_was_deleted_is_made_anew() -> Result<()> {
    let (prefix, idle) = (emulated_aws::fresh_name("gone"), idle()?);
    let queues = SqsQueues::on_aws(&emulated_aws::config().await?, &prefix);
    queues.send(&idle, "lost with its queue".to_owned()).await?;
    let lost = queues.receive(&idle, 1, WAIT, LONG).await?.pop().context("nothing came")?;
    let name = definition::names(&prefix, &idle)?.queue;

    delete(&name).await?;
    queues.send(&idle, "the next".to_owned()).await?;
    let found = queues.receive(&idle, 10, WAIT, LONG).await?;
    ensure!(found.iter().map(|message| message.body.as_str()).eq(["the next"]), "{found:?}");

    delete(&name).await?;
    queues.delete(&idle, &lost.receipt).await.context("there is nothing left to delete")?;
    delete_if_there(&name).await?;
    queues.give_back(&idle, &lost.receipt).await.context("there is nothing left to give back")?;
    ensure!(queues.receive(&idle, 10, Duration::ZERO, LONG).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_prefix_that_sqs_refuses_is_named() -> Result<()> {
    let queues = SqsQueues::on_aws(&emulated_aws::config().await?, "not a name");
    let error = queues.send(&idle()?, "a".to_owned()).await.err().context("it was taken")?;
    ensure!(error.to_string() == "the queue idle-small could not be named", "{error}");
    let why = error.source.to_string();
    ensure!(why.contains("'not a name-idle-small-dead'"), "{why}");
    Ok(())
}

fn idle() -> Result<QueueName> {
    Ok(QueueName::Idle(PoolName::parse("small")?))
}

async fn attributes(name: &str) -> Result<Value> {
    let url = url_of(name).await?.with_context(|| format!("{name} is missing"))?;
    let mut answer = sqs("GetQueueAttributes", json!({"QueueUrl": url, "AttributeNames": ["All"]})).await?;
    Ok(answer["Attributes"].take())
}

async fn delete(name: &str) -> Result<()> {
    ensure!(delete_if_there(name).await?, "{name} is missing");
    Ok(())
}

/// It may be looked up for a while after its end.
async fn delete_if_there(name: &str) -> Result<bool> {
    let Some(url) = url_of(name).await? else { return Ok(false) };
    sqs("DeleteQueue", json!({"QueueUrl": url})).await?;
    until(&format!("{name} is gone"), async || Ok(url_of(name).await?.is_none().then_some(()))).await?;
    Ok(true)
}
