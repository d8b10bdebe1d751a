//! The tokens on a host's disk: the present one, the next while nobody knows which of the two is good, and those that were copied before they were
//! forgotten.

use super::{Host, Phase};
use crate::calls::Call;
use crate::faults::Fault;
use crate::ground::Ground;
use motorpool_agent::machine::{Input, Token};
use motorpool_control::token_sha256;
use std::sync::Arc;

/// Each by its number.
#[derive(Debug)]
pub(super) struct Tokens {
    made: u32,
    present: u32,
    next: Option<u32>,
    /// What the host has forgotten, and somebody else may not have.
    forgotten: Vec<u32>,
    /// Hooks that ask with the present token, and have no answer.
    lent: u32,
    /// Another token is to be made once they have all given it back.
    is_wanted_back: bool,
}

impl Default for Tokens {
    fn default() -> Self {
        Self { made: 1, present: 1, next: None, forgotten: Vec::new(), lent: 0, is_wanted_back: false }
    }
}

impl Tokens {
    fn make(&mut self) -> u32 {
        self.made += 1;
        self.made
    }

    /// Who was lent a token by the last process is not waited for by the next.
    pub(super) fn forget_loans(&mut self) {
        (self.lent, self.is_wanted_back) = (0, false);
    }

    /// With another secret comes another token.
    pub(super) fn begin_anew(&mut self) {
        self.forgotten.extend([self.present].into_iter().chain(self.next.take()));
        self.present = self.make();
    }
}

/// Of 10,000 times at which a token is made or taken: its process dies just then.
const DIES: u32 = 700;

impl Host {
    pub(crate) fn token(&self) -> String {
        self.nth_token(self.tokens.present)
    }

    pub(super) fn next_token(&self) -> Option<String> {
        self.tokens.next.map(|nth| self.nth_token(nth))
    }

    pub(super) fn which(&self, token: Token) -> String {
        match token {
            Token::Present => self.token(),
            Token::Next => self.next_token().unwrap_or_else(|| self.token()),
        }
    }

    /// One that this host had, and that was copied from it then.
    pub(crate) fn copied_token(&self, ground: &Ground) -> Option<String> {
        ground.chance().one_of(&self.tokens.forgotten).map(|nth| self.nth_token(*nth))
    }

    /// For a hook. While it is not known which of two tokens is good, nobody has one.
    pub(crate) fn lend(&mut self) -> Option<String> {
        let is_sure = self.tokens.next.is_none() && !self.tokens.is_wanted_back;
        if !is_sure || !matches!(self.phase, Phase::Working(_)) {
            return None;
        }
        self.tokens.lent += 1;
        Some(self.token())
    }

    pub(crate) fn take_back(&mut self, ground: &Arc<Ground>) -> Option<(u64, Call)> {
        self.tokens.lent = self.tokens.lent.saturating_sub(1);
        if self.tokens.lent > 0 || !std::mem::take(&mut self.tokens.is_wanted_back) {
            return None;
        }
        self.make_token(ground)
    }

    /// Another for each process.
    pub(crate) fn session(&self) -> String {
        format!("session {}.{}", self.machine, self.life)
    }

    fn nth_token(&self, nth: u32) -> String {
        format!("mp_runner_{}_{nth}", self.machine)
    }

    /// It is on the disk from now on, whether its process lives to name it or not.
    pub(super) fn make_token(&mut self, ground: &Arc<Ground>) -> Option<(u64, Call)> {
        if self.tokens.lent > 0 {
            self.tokens.is_wanted_back = true;
            return None;
        }
        let made = self.tokens.make();
        self.tokens.next = Some(made);
        if self.dies_with_two_tokens(ground) {
            return None;
        }
        let sha256 = token_sha256(&self.nth_token(made));
        self.step(ground, Input::TokenMade { sha256 })
    }

    /// Unless its process dies before it has forgotten the old one.
    pub(super) fn adopt_token(&mut self, ground: &Ground) {
        if !self.dies_with_two_tokens(ground)
            && let Some(next) = self.tokens.next.take()
        {
            self.tokens.forgotten.push(self.tokens.present);
            self.tokens.present = next;
            ground.fired(Fault::TokenChanged);
        }
    }

    fn dies_with_two_tokens(&mut self, ground: &Ground) -> bool {
        let works = matches!(self.phase, Phase::Working(_));
        let dies = works && !ground.weather.calm(ground.now_ms()) && self.chance.hits(DIES);
        if dies {
            ground.fired(Fault::AgentDiesWithTwoTokens);
            self.tell(ground, || "its agent dies, with two tokens on its disk".to_owned());
            self.start_agent(ground);
        }
        dies
    }
}
