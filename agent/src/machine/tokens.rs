//! The agent's tokens: with each reset it changes to another, once nothing of its work is left. It knows them by their hashes alone, and makes none.

use motorpool_domain::runner::TaskOutcome;
use motorpool_wire::agent::SyncAnswer;

use super::{Effect, Machine};
use crate::clock::BootInstant;

/// Which of the tokens on the disk a request goes out with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    Present,
    Next,
}

#[derive(Debug)]
pub(super) struct Tokens {
    next: Next,
    /// What the request under way went out with.
    sent: Option<Sent>,
    /// The control plane asks for another.
    due: bool,
    /// The last answer had nothing to do.
    idle_answer: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// The present token alone.
    Present,
    /// The present token, and the name of the next.
    NamingNext,
    Next,
}

#[derive(Debug)]
enum Next {
    Nothing,
    BeingMade,
    /// On the disk. Whether the control plane has taken it is not known for sure before an answer says so: `first` is the one to try.
    Made {
        sha256: String,
        first: Token,
    },
}

impl Tokens {
    /// The last process may have named it, and died before it heard.
    pub(super) fn found(next: Option<String>) -> Self {
        let made = |sha256| Next::Made { sha256, first: Token::Next };
        Self { next: next.map_or(Next::Nothing, made), sent: None, due: false, idle_answer: false }
    }

    /// The next answer asks for it again: a disk that is full now will be so a moment later.
    pub(super) fn not_made(&mut self) {
        self.next = Next::Nothing;
        self.due = false;
    }

    /// With which token the request that goes out now comes, and which it names as its next.
    pub(super) fn send(&mut self) -> (Token, Option<String>) {
        // One that is under way gives way to this one: what came of it, nobody will hear.
        self.unanswered();
        let (sent, token, named) = match &self.next {
            Next::Nothing | Next::BeingMade => (Sent::Present, Token::Present, None),
            Next::Made { first: Token::Next, .. } => (Sent::Next, Token::Next, None),
            Next::Made { sha256, first: Token::Present } => {
                (Sent::NamingNext, Token::Present, Some(sha256.clone()))
            }
        };
        self.sent = Some(sent);
        (token, named)
    }

    pub(super) fn answered(&mut self, answer: &SyncAnswer, effects: &mut Vec<Effect>) {
        let sent = self.sent.take();
        if let Next::Made { first, .. } = &mut self.next {
            if sent == Some(Sent::Next) || answer.token_taken {
                self.next = Next::Nothing;
                effects.push(Effect::AdoptToken);
            } else {
                *first = Token::Present;
            }
        }
        self.due = answer.token_due;
        self.idle_answer = answer.task.is_none();
    }

    /// What named the next token may have arrived: it is tried first.
    pub(super) fn unanswered(&mut self) {
        if let (Some(Sent::NamingNext), Next::Made { first, .. }) = (self.sent.take(), &mut self.next) {
            *first = Token::Next;
        }
    }

    /// Tells whether the other one is worth a try at once: the next was not taken, so the present one is good.
    pub(super) fn refused(&mut self) -> bool {
        let sent = self.sent.take();
        let Next::Made { first, .. } = &mut self.next else { return false };
        *first = match sent {
            Some(Sent::Next) => Token::Present,
            Some(Sent::Present | Sent::NamingNext) | None => Token::Next,
        };
        sent == Some(Sent::Next)
    }
}

impl Machine {
    pub(super) fn token_made(&mut self, sha256: String, now: BootInstant) {
        self.tokens.next = Next::Made { sha256, first: Token::Present };
        self.contact.report_at(now);
    }

    /// Not while anything could read it that must not have it: what the last holder left running is gone, and cleaned up, where that was asked for.
    pub(super) fn make_token_if_due(&mut self, effects: &mut Vec<Effect>) {
        let clean = self
            .memory
            .results
            .iter()
            .any(|result| result.kind.cleans() && result.outcome == TaskOutcome::Done);
        let rests = self.task.is_none() && self.run.is_none() && self.memory.registered.is_none();
        if self.tokens.due
            && rests
            && (clean || self.tokens.idle_answer)
            && matches!(self.tokens.next, Next::Nothing)
        {
            self.tokens.next = Next::BeingMade;
            effects.push(Effect::MakeToken);
        }
    }
}
