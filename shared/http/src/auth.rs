//! Who calls: bearer tokens to callers, compared as hashes and in constant time. What a caller may do is decided in `control`.
//! A token is never logged, and never quoted in an answer.

use crate::envelope::Refusal;
use crate::log::{Mark, Who};
use axum::extract::{FromRef, FromRequestParts};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use motorpool_control::Caller;
use motorpool_domain::Owner;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

/// The tokens that open the API, as their SHA-256.
#[derive(Clone)]
pub struct Gate {
    pub admin_sha256: [u8; 32],
    pub teams: Vec<(Owner, [u8; 32])>,
}

/// The caller of a route for operators and teams.
#[derive(Debug)]
pub struct Known(pub Caller);

/// The caller of a route that shows what concerns all teams.
#[derive(Debug)]
pub struct Operator(pub Caller);

/// An agent's token as it came. Whose it is, only `control` can tell.
pub struct AgentToken(pub String);

/// What a token is stored and compared as.
pub fn sha256(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

impl Gate {
    /// Looks at every token it knows, whichever it is: the time taken tells nothing.
    pub fn caller(&self, token: &str) -> Option<Caller> {
        let asked = sha256(token);
        let mut found = 0_u32;
        for (place, (_, known)) in (2_u32..).zip(&self.teams) {
            found.conditional_assign(&place, asked.ct_eq(known));
        }
        let admin: Choice = asked.ct_eq(&self.admin_sha256);
        found.conditional_assign(&1, admin);
        match found {
            0 => None,
            1 => Some(Caller::Operator),
            place => {
                let (owner, _) = self.teams.get(usize::try_from(place - 2).ok()?)?;
                Some(Caller::Team(owner.clone()))
            }
        }
    }
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let teams: Vec<&Owner> = self.teams.iter().map(|(owner, _)| owner).collect();
        f.debug_struct("Gate").field("teams", &teams).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for AgentToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AgentToken(…)")
    }
}

impl<S> FromRequestParts<S> for Known
where
    S: Send + Sync,
    Arc<Gate>: FromRef<S>,
{
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let token = bearer(parts)?;
        if ["mp_runner_", "mp_site_"].iter().any(|prefix| token.starts_with(prefix)) {
            Mark::note(&parts.extensions, Who::Agent);
            return Err(Refusal::forbidden(
                "a runner's token does not open this route",
                "it is good for that runner's agent routes only; use the admin token or a team's",
            ));
        }
        let gate: Arc<Gate> = FromRef::from_ref(state);
        let caller = gate.caller(token).ok_or_else(|| {
            Refusal::unauthorized(
                "the token is not known here",
                "use the admin token ($MOTORPOOL_ADMIN_TOKEN, or the file admin-token in the server's data directory), \
                 or a team's",
            )
        })?;
        Mark::note(
            &parts.extensions,
            match &caller {
                Caller::Operator => Who::Operator,
                Caller::Team(_) => Who::Team,
            },
        );
        Ok(Self(caller))
    }
}

impl<S> FromRequestParts<S> for Operator
where
    S: Send + Sync,
    Arc<Gate>: FromRef<S>,
{
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let Known(caller) = Known::from_request_parts(parts, state).await?;
        match caller {
            Caller::Operator => Ok(Self(caller)),
            Caller::Team(owner) => Err(Refusal::forbidden(
                format!("team {owner} may not see what concerns all teams"),
                "this needs the operator's admin token",
            )),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for AgentToken {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let token = bearer(parts)?.to_owned();
        Mark::note(&parts.extensions, Who::Agent);
        Ok(Self(token))
    }
}

fn bearer(parts: &Parts) -> Result<&str, Refusal> {
    let mut values = parts.headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else {
        return Err(Refusal::unauthorized(
            "the request carries no token",
            "send it as the header Authorization: Bearer TOKEN",
        ));
    };
    let token = value.to_str().ok().and_then(|text| {
        let (scheme, token) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
    });
    match (token, values.next()) {
        (Some(token), None) if !token.is_empty() => Ok(token),
        (Some(_) | None, Some(_) | None) => Err(Refusal::unauthorized(
            "the header Authorization is not one bearer token",
            "send it once, as Authorization: Bearer TOKEN",
        )),
    }
}
