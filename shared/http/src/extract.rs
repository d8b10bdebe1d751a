//! Requests to types: JSON bodies, ids in paths, queries. What is refused here is refused in words that say what to send.

use crate::envelope::{Refusal, SEE_DOCUMENT};
use crate::lane::{too_long, unreadable};
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use motorpool_domain::IdError;
use motorpool_wire::error::ErrorCode;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use std::error::Error;
use std::str::FromStr;

/// A JSON body. How long it may be, the lane says in which the route is mounted.
#[derive(Debug)]
pub struct Body<T>(pub T);

/// A body as it came, for whoever must look at it before it is read.
#[derive(Debug)]
pub struct Raw(pub Bytes);

/// The one id in the route's path.
#[derive(Debug)]
pub struct Id<T>(pub T);

/// The query, as a type.
#[derive(Debug)]
pub struct QueryParams<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        must_be_json(request.headers())?;
        let bytes = Bytes::from_request(request, state).await.map_err(unread)?;
        parse(&bytes).map(Self)
    }
}

impl<S: Send + Sync> FromRequest<S> for Raw {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        Bytes::from_request(request, state).await.map(Self).map_err(unread)
    }
}

impl<T: FromStr<Err = IdError>, S: Send + Sync> FromRequestParts<S> for Id<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Refusal::invalid(rejection.body_text(), "correct the path"))?;
        Ok(Self(text.parse()?))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let Query(params) = Query::try_from_uri(&parts.uri).map_err(|rejection| {
            let why = rejection.source().map_or_else(|| rejection.body_text(), ToString::to_string);
            Refusal::invalid(format!("the query is not right: {why}"), SEE_DOCUMENT)
        })?;
        Ok(Self(params))
    }
}

pub(crate) fn must_be_json(headers: &HeaderMap) -> Result<(), Refusal> {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let message = if kind.is_empty() {
        "the request does not say what its body is".to_owned()
    } else {
        format!("the body is said to be {kind}, and only JSON is read")
    };
    Err(Refusal::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ErrorCode::InvalidRequest,
        message,
        "send JSON with the header Content-Type: application/json",
    ))
}

fn unread(rejection: BytesRejection) -> Refusal {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return too_long();
    }
    unreadable(&rejection.body_text())
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(Refusal::invalid("the body is empty", format!("send a JSON object; {SEE_DOCUMENT}")));
    }
    // A list of the right values in the right order would be read as an object too.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(Refusal::invalid("the body is not a JSON object", format!("send one; {SEE_DOCUMENT}")));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        wrong_json(&path, error.inner())
    })?;
    json.end().map_err(|error| wrong_json(".", &error))?;
    Ok(value)
}

fn wrong_json(path: &str, error: &serde_json::Error) -> Refusal {
    let at = format!(" at line {} column {}", error.line(), error.column());
    let text = error.to_string();
    let what = text.strip_suffix(&at).unwrap_or(&text);
    // The path of the body itself is written as one dot, which tells nobody anything.
    let field = if path == "." { String::new() } else { format!(" at {path}") };
    let place = format!("{field} (line {}, column {})", error.line(), error.column());
    match error.classify() {
        Category::Data => Refusal::invalid(
            format!("the body does not fit{place}: {what}"),
            format!("leave out or correct what it names; {SEE_DOCUMENT}"),
        ),
        Category::Syntax | Category::Eof | Category::Io => Refusal::invalid(
            format!("the body is not JSON that can be read{place}: {what}"),
            "send one JSON object, with at most 127 levels in one another",
        ),
    }
}
