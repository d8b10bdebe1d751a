//! The queues on SQS. A queue that is missing is made from the one definition; nobody waits for a message but SQS itself.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::Config;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::operation::receive_message::ReceiveMessageError;
use aws_sdk_sqs::types::{Message, MessageSystemAttributeName, QueueAttributeName};
use aws_types::SdkConfig;
use motorpool_control::ports::queue::{Queue, QueueError, QueueName, Receipt, Received};

use crate::definition::{self, Names};

/// SQS's own bounds.
const MOST_AT_ONCE: usize = 10;
const LONGEST_WAIT: Duration = Duration::from_secs(20);
const LONGEST_VISIBILITY: Duration = Duration::from_secs(12 * 3600);

/// While dead letters are read they are hidden, so that the next receive finds others; they are shown again at once.
const READING_DEAD_LETTERS: Duration = Duration::from_secs(30);
/// Any wait at all makes SQS ask every server that may have a message.
const ASK_ALL_SERVERS: Duration = Duration::from_secs(1);

/// All queues of one prefix.
#[derive(Debug)]
pub struct SqsQueues {
    client: Client,
    prefix: String,
    /// Looked up once: each look-up is a call.
    urls: Mutex<HashMap<QueueName, String>>,
}

impl SqsQueues {
    /// Calls nobody yet.
    pub fn on_aws(config: &SdkConfig, prefix: &str) -> Self {
        Self { client: Client::new(config), prefix: prefix.to_owned(), urls: Mutex::default() }
    }
}

#[async_trait]
impl Queue for SqsQueues {
    async fn send(&self, queue: &QueueName, body: String) -> Result<(), QueueError> {
        let send = |url| self.client.send_message().queue_url(url).message_body(&body).send();
        self.on_queue(queue, "take another message", send).await?;
        Ok(())
    }

    async fn receive(
        &self,
        queue: &QueueName,
        most: usize,
        wait: Duration,
        visibility: Duration,
    ) -> Result<Vec<Received>, QueueError> {
        let attempted = "give its messages";
        if most == 0 {
            return Ok(Vec::new());
        }
        let messages =
            self.on_queue(queue, attempted, |url| self.messages(url, most, wait, visibility)).await?;
        let received = messages.into_iter().map(received).collect::<Option<Vec<_>>>();
        received.ok_or_else(|| failed(queue, attempted)(Incomplete.into()))
    }

    async fn delete(&self, queue: &QueueName, receipt: &Receipt) -> Result<(), QueueError> {
        let url = self.url(queue).await?;
        let deleted = self.client.delete_message().queue_url(&url).receipt_handle(&receipt.0).send().await;
        self.unless_too_late(queue, "delete a message", deleted.map(|_| ()))
    }

    async fn give_back(&self, queue: &QueueName, receipt: &Receipt) -> Result<(), QueueError> {
        let url = self.url(queue).await?;
        let given = self.client.change_message_visibility().queue_url(&url).receipt_handle(&receipt.0);
        self.unless_too_late(
            queue,
            "take a message back",
            given.visibility_timeout(0).send().await.map(|_| ()),
        )
    }

    /// Read and shown again: they stay for a person. SQS gives some of them first; among those the oldest comes first.
    async fn dead_letters(&self, queue: &QueueName, most: usize) -> Result<Vec<String>, QueueError> {
        let attempted = "give its dead letters";
        let Names { dead_letters, .. } = self.names(queue)?;
        let Some(url) = self.look_up(queue, &dead_letters).await? else { return Ok(Vec::new()) };
        let mut found: HashMap<Option<String>, Message> = HashMap::new();
        while found.len() < most {
            let batch = self
                .messages(url.clone(), most - found.len(), ASK_ALL_SERVERS, READING_DEAD_LETTERS)
                .await
                .map_err(|error| failed(queue, attempted)(error.into()))?;
            if batch.is_empty() {
                break;
            }
            // One that comes twice, since reading took long, is the same letter.
            found.extend(batch.into_iter().map(|message| (message.message_id.clone(), message)));
        }
        for receipt in found.values().filter_map(Message::receipt_handle) {
            let shown = self.client.change_message_visibility().queue_url(&url).receipt_handle(receipt);
            if let Err(error) = shown.visibility_timeout(0).send().await {
                tracing::debug!(%queue, code = error.code(), "a dead letter that was read stays hidden for a while");
            }
        }
        let mut letters: Vec<Message> = found.into_values().collect();
        letters.sort_by_key(sent_at);
        Ok(letters.into_iter().filter_map(|message| message.body).collect())
    }
}

impl SqsQueues {
    /// Calls with the queue's address. If the queue has gone since that was looked up, it is made anew and called once more.
    async fn on_queue<T, E, Answer>(
        &self,
        queue: &QueueName,
        attempted: &'static str,
        call: impl Fn(String) -> Answer,
    ) -> Result<T, QueueError>
    where
        Answer: Future<Output = Result<T, SdkError<E>>>,
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        let url = self.url(queue).await?;
        let answer = match call(url).await {
            Err(error) if is_missing(&error) => {
                self.urls().remove(queue);
                call(self.url(queue).await?).await
            }
            answer => answer,
        };
        answer.map_err(|error| failed(queue, attempted)(error.into()))
    }

    /// Who comes too late has nothing left to do: the message is another's by now, or gone, perhaps with its queue.
    fn unless_too_late<E>(
        &self,
        queue: &QueueName,
        attempted: &'static str,
        answer: Result<(), SdkError<E>>,
    ) -> Result<(), QueueError>
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        match answer {
            Err(error) if is_missing(&error) => {
                self.urls().remove(queue);
                Ok(())
            }
            Err(error) if error.code().is_some_and(|code| TOO_LATE.contains(&code)) => Ok(()),
            answer => answer.map_err(|error| failed(queue, attempted)(error.into())),
        }
    }

    async fn messages(
        &self,
        url: String,
        most: usize,
        wait: Duration,
        visibility: Duration,
    ) -> Result<Vec<Message>, SdkError<ReceiveMessageError>> {
        let wait = wait.min(LONGEST_WAIT);
        // Hidden for no less than asked for, where SQS knows whole seconds only; and the wait is no longer.
        let hidden = visibility.min(LONGEST_VISIBILITY);
        let hidden = hidden.as_secs() + u64::from(hidden.subsec_nanos() > 0);
        let receive = self
            .client
            .receive_message()
            .queue_url(url)
            .max_number_of_messages(small(most.min(MOST_AT_ONCE)))
            .wait_time_seconds(small(wait.as_secs()))
            .visibility_timeout(small(hidden))
            .message_system_attribute_names(MessageSystemAttributeName::ApproximateReceiveCount)
            .message_system_attribute_names(MessageSystemAttributeName::SentTimestamp);
        let answer = receive.customize().config_override(self.patient(wait)).send().await?;
        Ok(answer.messages.unwrap_or_default())
    }

    /// The configured time-outs are for calls that are answered at once: a long poll has its wait on top.
    fn patient(&self, wait: Duration) -> aws_sdk_sqs::config::Builder {
        let Some(configured) = self.client.config().timeout_config() else { return Config::builder() };
        let longer = |limit: Option<Duration>| limit.map(|limit| limit + wait);
        let mut timeouts = configured.to_builder();
        timeouts
            .set_read_timeout(longer(configured.read_timeout()))
            .set_operation_timeout(longer(configured.operation_timeout()))
            .set_operation_attempt_timeout(longer(configured.operation_attempt_timeout()));
        let timeouts: TimeoutConfig = timeouts.build();
        Config::builder().timeout_config(timeouts)
    }

    async fn url(&self, queue: &QueueName) -> Result<String, QueueError> {
        if let Some(url) = self.urls().get(queue) {
            return Ok(url.clone());
        }
        let names = self.names(queue)?;
        let url = match self.look_up(queue, &names.queue).await? {
            Some(url) => url,
            None => self.make(queue, &names).await?,
        };
        self.urls().insert(queue.clone(), url.clone());
        Ok(url)
    }

    async fn look_up(&self, queue: &QueueName, name: &str) -> Result<Option<String>, QueueError> {
        match self.client.get_queue_url().queue_name(name).send().await {
            Ok(answer) => Ok(answer.queue_url),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(failed(queue, "be looked up")(error.into())),
        }
    }

    /// Any number of processes may do so at once: SQS answers with the queue that is there.
    async fn make(&self, queue: &QueueName, names: &Names) -> Result<String, QueueError> {
        let failed = failed(queue, "be made");
        let own = definition::DEAD_LETTER_ATTRIBUTES.map(|(name, value)| (name, value.to_owned()));
        let dead_letters = self.make_one(queue, &names.dead_letters, own.into()).await?;
        let described = self
            .client
            .get_queue_attributes()
            .queue_url(&dead_letters)
            .attribute_names(QueueAttributeName::QueueArn)
            .send()
            .await
            .map_err(|error| failed(error.into()))?;
        let arn = described.attributes().and_then(|found| found.get(&QueueAttributeName::QueueArn));
        let arn = arn.ok_or_else(|| failed(Incomplete.into()))?;
        let mut own = definition::attributes(queue).to_vec();
        own.push((definition::REDRIVE_POLICY, definition::redrive_policy(queue, arn)));
        let url = self.make_one(queue, &names.queue, own).await?;
        tracing::info!(%queue, name = names.queue, "a queue was missing, and is made");
        Ok(url)
    }

    async fn make_one(
        &self,
        queue: &QueueName,
        name: &str,
        attributes: Vec<(&str, String)>,
    ) -> Result<String, QueueError> {
        let attributes =
            attributes.into_iter().map(|(name, value)| (QueueAttributeName::from(name), value)).collect();
        let make = self.client.create_queue().queue_name(name).set_attributes(Some(attributes));
        let url = match make.send().await {
            Ok(answer) => answer.queue_url,
            // It is there, with attributes that somebody changed on purpose.
            Err(error) if error.as_service_error().is_some_and(|e| e.is_queue_name_exists()) => {
                self.look_up(queue, name).await?
            }
            Err(error) => return Err(failed(queue, "be made")(error.into())),
        };
        url.ok_or_else(|| failed(queue, "be made")(Incomplete.into()))
    }

    fn names(&self, queue: &QueueName) -> Result<Names, QueueError> {
        definition::names(&self.prefix, queue).map_err(|bad| failed(queue, "be named")(bad.into()))
    }

    /// Never held across an await.
    fn urls(&self) -> MutexGuard<'_, HashMap<QueueName, String>> {
        self.urls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What SQS says of a receipt that is no longer good. Standard queues mostly say nothing.
const TOO_LATE: [&str; 4] = [
    "ReceiptHandleIsInvalid",
    "InvalidParameterValue",
    "MessageNotInflight",
    "AWS.SimpleQueueService.MessageNotInflight",
];

const MISSING: [&str; 2] = ["QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"];

fn is_missing<E: ProvideErrorMetadata>(error: &SdkError<E>) -> bool {
    error.code().is_some_and(|code| MISSING.contains(&code))
}

fn received(message: Message) -> Option<Received> {
    let receives = system_attribute(&message, &MessageSystemAttributeName::ApproximateReceiveCount)?;
    Some(Received { receives, body: message.body?, receipt: Receipt(message.receipt_handle?) })
}

/// In milliseconds since 1970.
fn sent_at(message: &Message) -> Option<u64> {
    system_attribute(message, &MessageSystemAttributeName::SentTimestamp)
}

fn system_attribute<T: std::str::FromStr>(message: &Message, name: &MessageSystemAttributeName) -> Option<T> {
    message.attributes()?.get(name)?.parse().ok()
}

/// What is bounded far below that.
fn small(number: impl TryInto<i32>) -> i32 {
    number.try_into().unwrap_or(i32::MAX)
}

#[derive(Debug)]
struct Incomplete;

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the answer of SQS lacks what was asked for")
    }
}

impl Error for Incomplete {}

fn failed(queue: &QueueName, attempted: &'static str) -> impl Fn(Box<dyn Error + Send + Sync>) -> QueueError {
    move |source| QueueError { queue: queue.clone(), attempted, source }
}
