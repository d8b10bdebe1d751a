//! Who calls: bearer tokens to callers, compared as hashes and in constant time. What a caller may do is decided in `control`.
//! A token is never logged, and never quoted in an answer.

use crate::envelope::Refusal;
use crate::log::{CallerKind, Mark};
use axum::extract::{FromRef, FromRequestParts};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap};
use motorpool_control::Caller;
use motorpool_domain::Owner;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

/// The tokens that open the API, as their SHA-256.
#[derive(Clone)]
pub struct Tokens {
    pub admin_sha256: [u8; 32],
    pub teams: Vec<(Owner, [u8; 32])>,
    /// How many requests of a team are served at once, where that is said of it: otherwise `HttpLimits::team_at_once`.
    pub at_once: BTreeMap<Owner, usize>,
}

/// The caller of a route for operators and teams.
#[derive(Debug, Clone)]
pub struct Authenticated(pub Caller);

/// Whose token a request brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenOf {
    Operator,
    /// Of the team at this place in `Tokens::teams`.
    Team(usize),
}

/// The caller of a route that shows what concerns all teams.
#[derive(Debug)]
pub struct Operator(pub Caller);

/// An agent's token as it came. Whose it is, only `control` can tell.
pub struct AgentToken(pub String);

/// Who asks about what is a runner's own: its agent, whose token only `control` can tell whose it is, or a caller.
#[derive(Debug)]
pub enum AgentOrCaller {
    Agent(AgentToken),
    Caller(Caller),
}

/// What a token is stored and compared as.
pub fn sha256(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// The hash as it stands in settings: 64 hexadecimal digits.
pub fn sha256_from_hex(text: &str) -> Option<[u8; 32]> {
    let mut sha256 = [0; 32];
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (index, byte) in sha256.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(sha256)
}

impl Tokens {
    pub fn caller(&self, token: &str) -> Option<Caller> {
        self.find(token).map(|(caller, _)| caller)
    }

    /// Compares `token` with every token that is known, whichever it is: the time taken tells nothing.
    fn find(&self, token: &str) -> Option<(Caller, TokenOf)> {
        let given = sha256(token);
        let mut found = 0_u32;
        for (number, (_, known)) in (2_u32..).zip(&self.teams) {
            found.conditional_assign(&number, given.ct_eq(known));
        }
        let admin: Choice = given.ct_eq(&self.admin_sha256);
        found.conditional_assign(&1, admin);
        match found {
            0 => None,
            1 => Some((Caller::Operator, TokenOf::Operator)),
            number => {
                let number = usize::try_from(number - 2).ok()?;
                let (owner, _) = self.teams.get(number)?;
                Some((Caller::Team(owner.clone()), TokenOf::Team(number)))
            }
        }
    }
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let teams: Vec<&Owner> = self.teams.iter().map(|(owner, _)| owner).collect();
        f.debug_struct("Tokens").field("teams", &teams).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for AgentToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AgentToken(…)")
    }
}

impl<S> FromRequestParts<S> for Authenticated
where
    S: Send + Sync,
    Arc<Tokens>: FromRef<S>,
{
    type Rejection = Refusal;

    /// The route's lane has asked already: a token is hashed once a request.
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        if let Some(known) = parts.extensions.remove::<Self>() {
            return Ok(known);
        }
        let tokens: Arc<Tokens> = FromRef::from_ref(state);
        authenticate(&parts.headers, &parts.extensions, &tokens).map(|(caller, _)| Self(caller))
    }
}

/// Who calls, by the token in the header; and whose token that is.
pub(crate) fn authenticate(
    headers: &HeaderMap,
    extensions: &Extensions,
    tokens: &Tokens,
) -> Result<(Caller, TokenOf), Refusal> {
    let token = bearer(headers)?;
    if ["mp_runner_", "mp_site_"].iter().any(|prefix| token.starts_with(prefix)) {
        Mark::note(extensions, CallerKind::Agent);
        return Err(Refusal::forbidden(
            "a runner's token does not open this route",
            "it is good for that runner's agent routes only; use the admin token or a team's",
        ));
    }
    let (caller, whose) = tokens.find(token).ok_or_else(|| {
        Refusal::unauthorized(
            "the token is not known here",
            "use the admin token ($MOTORPOOL_ADMIN_TOKEN, or the file admin-token in the server's data directory), \
             or a team's",
        )
    })?;
    Mark::note(
        extensions,
        match whose {
            TokenOf::Operator => CallerKind::Operator,
            TokenOf::Team(_) => CallerKind::Team,
        },
    );
    Ok((caller, whose))
}

impl<S> FromRequestParts<S> for Operator
where
    S: Send + Sync,
    Arc<Tokens>: FromRef<S>,
{
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let Authenticated(caller) = Authenticated::from_request_parts(parts, state).await?;
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
        let token = bearer(&parts.headers)?.to_owned();
        Mark::note(&parts.extensions, CallerKind::Agent);
        Ok(Self(token))
    }
}

impl<S> FromRequestParts<S> for AgentOrCaller
where
    S: Send + Sync,
    Arc<Tokens>: FromRef<S>,
{
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        if let Some(Authenticated(caller)) = parts.extensions.remove() {
            return Ok(Self::Caller(caller));
        }
        let tokens: Arc<Tokens> = FromRef::from_ref(state);
        match tokens.caller(bearer(&parts.headers)?) {
            Some(caller) => Ok(Self::Caller(caller)),
            None => AgentToken::from_request_parts(parts, state).await.map(Self::Agent),
        }
    }
}

pub(crate) fn bearer(headers: &HeaderMap) -> Result<&str, Refusal> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
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
