//! The one definition of a queue on SQS and of its dead-letter queue: names and attributes, for whoever makes them. It makes
//! nothing itself. Attributes are called as in SQS's API, which is also how a deployment's template calls them.

use motorpool_control::ports::queue::QueueName;

/// Of the queue itself, without [`REDRIVE_POLICY`]. The visibility is for who does not say his own, as a function's event source does not.
pub fn attributes(queue: &QueueName) -> [(&'static str, String); 3] {
    [
        // In seconds: an hour. A runner that stays idle is announced again and again, and an older notice says nothing more.
        ("MessageRetentionPeriod", "3600".to_owned()),
        ("VisibilityTimeout", queue.hidden().as_secs().to_string()),
        ("SqsManagedSseEnabled", "true".to_owned()),
    ]
}

/// Of its dead-letter queue. 14 days, the most that SQS keeps: a person must have had the time to look.
pub const DEAD_LETTER_ATTRIBUTES: [(&str, &str); 2] =
    [("MessageRetentionPeriod", "1209600"), ("SqsManagedSseEnabled", "true")];

/// The attribute that ties the two together; its value is [`redrive_policy`].
pub const REDRIVE_POLICY: &str = "RedrivePolicy";

/// What a queue and its dead-letter queue are called on SQS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    pub queue: String,
    pub dead_letters: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "SQS has no queue called '{name}': a name is at most 80 letters, digits, '-' and '_'; choose another prefix"
)]
pub struct BadName {
    pub name: String,
}

const LONGEST_NAME: usize = 80;

/// Several pools of runners may share an account: the prefix keeps them apart.
pub fn names(prefix: &str, queue: &QueueName) -> Result<Names, BadName> {
    let queue = match queue {
        QueueName::Idle(pool) => format!("{prefix}-idle-{pool}"),
        QueueName::Finalize => format!("{prefix}-finalize"),
    };
    let dead_letters = format!("{queue}-dead");
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if dead_letters.len() > LONGEST_NAME || !dead_letters.chars().all(allowed) {
        return Err(BadName { name: dead_letters });
    }
    Ok(Names { queue, dead_letters })
}

pub fn redrive_policy(queue: &QueueName, dead_letters_arn: &str) -> String {
    let max_receives = queue.max_receives();
    serde_json::json!({"deadLetterTargetArn": dead_letters_arn, "maxReceiveCount": max_receives}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use motorpool_domain::PoolName;

    fn idle(pool: &str) -> QueueName {
        QueueName::Idle(PoolName::parse(pool).unwrap())
    }

    #[test]
    fn a_queue_and_its_dead_letters_are_named_after_the_pool() {
        let Names { queue, dead_letters } = names("motorpool", &idle("small")).unwrap();
        assert_eq!(
            (queue.as_str(), dead_letters.as_str()),
            ("motorpool-idle-small", "motorpool-idle-small-dead")
        );
    }

    #[test]
    fn a_name_that_sqs_refuses_is_refused_with_its_name() {
        let longest = idle(&"x".repeat(48));
        assert!(names(&"p".repeat(21), &longest).is_ok());
        let refused = names(&"p".repeat(22), &longest).unwrap_err();
        assert_eq!(refused.name.len(), 81);
        for prefix in ["a b", "a.b", "ä", "a/b"] {
            assert!(names(prefix, &idle("small")).is_err(), "{prefix}");
        }
    }

    #[test]
    fn the_redrive_policy_counts_as_the_port_says() {
        for (queue, most) in [(idle("small"), 50), (QueueName::Finalize, 5)] {
            let policy = format!(r#"{{"deadLetterTargetArn":"arn:x","maxReceiveCount":{most}}}"#);
            assert_eq!(redrive_policy(&queue, "arn:x"), policy);
        }
    }

    /// A message that is hidden after its last try is still there when it is to be set aside.
    #[test]
    fn a_message_is_kept_for_longer_than_its_tries_take() {
        for queue in [idle("small"), QueueName::Finalize] {
            let kept = attributes(&queue)
                .iter()
                .find(|(name, _)| *name == "MessageRetentionPeriod")
                .unwrap()
                .1
                .clone();
            let tries = queue.hidden() * queue.max_receives();
            assert!(tries.as_secs() < kept.parse().unwrap(), "{queue}");
        }
    }
}
