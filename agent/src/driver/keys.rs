//! The agent's tokens as its requests carry them: the present one, and beside it the next while nobody knows which of the two is good. Which to use is
//! the machine's to say; here they are made, written down and forgotten.

use std::sync::Arc;

use reqwest::header::InvalidHeaderValue;
use secrecy::ExposeSecret;
use tokio::sync::{OwnedRwLockWriteGuard, RwLock};

use crate::http::Authorization;
use crate::identity;
use crate::machine::{Input, Token};
use crate::state::{State, Store};

/// The present token for calls beside the machine's own, which tell nothing of the agent's session: one of them that came to the control plane after
/// its token was replaced would look like a thief's. So whoever calls holds this for reading until he is answered, and nobody has it from before
/// the next token is made until it is known which of the two is good.
pub(crate) type LentToken = Arc<RwLock<Authorization>>;

/// The lent token, taken back.
pub(super) type TakenBack = OwnedRwLockWriteGuard<Authorization>;

#[derive(Debug)]
pub(super) struct Keys {
    present: Authorization,
    next: Option<Authorization>,
    lent: LentToken,
    /// While there is a next one.
    taken_back: Option<TakenBack>,
}

impl Keys {
    pub(super) fn of(state: &State) -> Result<Self, InvalidHeaderValue> {
        let next = state.next_token.as_ref().map(Authorization::bearer).transpose()?;
        let present = Authorization::bearer(&state.token)?;
        let lent = Arc::new(RwLock::new(present.clone()));
        let taken_back = next.as_ref().and_then(|_| Arc::clone(&lent).try_write_owned().ok());
        Ok(Self { present, next, lent, taken_back })
    }

    pub(super) fn lend(&self) -> LentToken {
        Arc::clone(&self.lent)
    }

    /// Returns once nobody uses the present token beside the machine, and from then on nobody can. Safe to cancel.
    pub(super) fn take_back(&self) -> impl Future<Output = TakenBack> + use<> {
        Arc::clone(&self.lent).write_owned()
    }

    pub(super) fn which(&self, token: Token) -> Authorization {
        match (token, &self.next) {
            (Token::Next, Some(next)) => next.clone(),
            (Token::Next, None) | (Token::Present, _) => self.present.clone(),
        }
    }

    /// On the disk before anybody hears of it: what the control plane took must not be lost by a crash.
    pub(super) fn make(&mut self, taken_back: TakenBack, state: &mut State, store: &Store) -> Input {
        let token = identity::new_token();
        let sha256 = identity::sha256_hex(token.expose_secret());
        let Ok(next) = Authorization::bearer(&token) else { return Input::TokenNotMade };
        state.next_token = Some(token);
        if let Err(error) = store.save(state) {
            tracing::error!(error = &error as &dyn std::error::Error, "another token could not be saved");
            state.next_token = None;
            return Input::TokenNotMade;
        }
        self.next = Some(next);
        self.taken_back = Some(taken_back);
        Input::TokenMade { sha256 }
    }

    /// If it can't be written, both are on the disk still, and the next agent finds out which is good.
    pub(super) fn adopt(&mut self, state: &mut State, store: &Store) {
        let (Some(token), Some(next)) = (state.next_token.take(), self.next.take()) else { return };
        state.token = token;
        self.present = next;
        if let Some(mut lent) = self.taken_back.take() {
            lent.clone_from(&self.present);
        }
        if let Err(error) = store.save(state) {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "the change of its token could not be saved"
            );
        }
    }
}
