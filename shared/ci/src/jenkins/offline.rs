//! What a node's offline message says: who took it offline, and what was before. Jenkins keeps one message a node and nothing else of ours.
//!
//! An older Jenkins cuts a message off before its last ` : `, so none of ours has that.

const PAUSED: &str = "Motorpool paused this node";
const BEFORE: &str = "; before that it was offline: ";
/// Where somebody else brought the node online at the same moment, so that our call took it offline (see `nodes`).
pub(crate) const MEANT_ONLINE: &str = "Motorpool meant to bring this node online, and may do so at any time";
const LONGEST_REASON: usize = 300;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OfflineBy {
    /// By us, and by nobody else.
    Pause,
    /// By us, and by somebody before us, for this reason.
    PauseAfter(String),
    /// By a call of ours that was to do the opposite.
    Mistake,
    Others,
}

impl OfflineBy {
    pub(crate) fn read(reason: &str) -> Self {
        if reason == MEANT_ONLINE {
            return Self::Mistake;
        }
        match reason.strip_prefix(PAUSED) {
            Some("") => Self::Pause,
            Some(rest) => match rest.strip_prefix(BEFORE) {
                Some(before) => Self::PauseAfter(before.to_owned()),
                None => Self::Others,
            },
            None => Self::Others,
        }
    }
}

/// The message to pause a node with that is offline for this reason now, or not at all. Pausing it again makes no other message.
pub(crate) fn pause_message(now: Option<&str>) -> String {
    let before = match now.map(|reason| (OfflineBy::read(reason), reason)) {
        None | Some((OfflineBy::Pause | OfflineBy::Mistake, _)) => return PAUSED.to_owned(),
        Some((OfflineBy::PauseAfter(before), _)) => before,
        Some((OfflineBy::Others, reason)) => reason.to_owned(),
    };
    let before: String = before.replace(" : ", ": ").chars().take(LONGEST_REASON).collect();
    format!("{PAUSED}{BEFORE}{before}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_who_took_a_node_offline_and_what_was_before() {
        for (now, expected) in [
            (None, OfflineBy::Pause),
            (Some(MEANT_ONLINE), OfflineBy::Mistake),
            (Some("new disk"), OfflineBy::PauseAfter("new disk".to_owned())),
            (Some("ann : new disk"), OfflineBy::PauseAfter("ann: new disk".to_owned())),
            (Some(""), OfflineBy::PauseAfter(String::new())),
        ] {
            let message = pause_message(now);
            assert!(message.starts_with("Motorpool ") && !message.contains(" : "), "{message}");
            let read = OfflineBy::read(&message);
            assert_eq!(pause_message(Some(&message)), message, "again, it is the same");
            match now {
                Some(MEANT_ONLINE) => assert_eq!(read, OfflineBy::Pause),
                Some(_) | None => assert_eq!(read, expected, "{message}"),
            }
        }
        assert_eq!(OfflineBy::read(MEANT_ONLINE), OfflineBy::Mistake);
        for foreign in ["", "new disk", "Motorpool paused this node, or so they say", "motorpool"] {
            assert_eq!(OfflineBy::read(foreign), OfflineBy::Others, "{foreign}");
        }
        assert!(pause_message(Some(&"x".repeat(10_000))).len() < 400);
    }
}
