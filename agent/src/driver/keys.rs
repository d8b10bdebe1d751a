//! The agent's tokens as its requests carry them: the present one, and beside it the next while nobody knows which of the two is good. Which to use is
//! the machine's to say; here they are made, written down and forgotten.

use reqwest::header::InvalidHeaderValue;
use secrecy::ExposeSecret;

use crate::http::Authorization;
use crate::identity;
use crate::machine::{Input, Token};
use crate::state::{State, Store};

#[derive(Debug)]
pub(super) struct Keys {
    present: Authorization,
    next: Option<Authorization>,
}

impl Keys {
    pub(super) fn of(state: &State) -> Result<Self, InvalidHeaderValue> {
        let next = state.next_token.as_ref().map(Authorization::bearer).transpose()?;
        Ok(Self { present: Authorization::bearer(&state.token)?, next })
    }

    pub(super) fn which(&self, token: Token) -> Authorization {
        match (token, &self.next) {
            (Token::Next, Some(next)) => next.clone(),
            (Token::Next, None) | (Token::Present, _) => self.present.clone(),
        }
    }

    /// On the disk before anybody hears of it: what the control plane took must not be lost by a crash.
    pub(super) fn make(&mut self, state: &mut State, store: &Store) -> Input {
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
        Input::TokenMade { sha256 }
    }

    /// If it can't be written, both are on the disk still, and the next agent finds out which is good.
    pub(super) fn adopt(&mut self, state: &mut State, store: &Store) {
        let (Some(token), Some(next)) = (state.next_token.take(), self.next.take()) else { return };
        state.token = token;
        self.present = next;
        if let Err(error) = store.save(state) {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "the change of its token could not be saved"
            );
        }
    }
}
