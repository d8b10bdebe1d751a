//! A request as it came: its path in segments, its parameters from query or form.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderMap;

use crate::answer::Answer;

#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) method: String,
    /// Below `/api2/json`, decoded.
    pub(crate) segments: Vec<String>,
    pub(crate) parameters: BTreeMap<String, String>,
    pub(crate) headers: HeaderMap,
}

impl Asked {
    /// `POST nodes/pve1/qemu/101/snapshot`
    pub(crate) fn line(&self) -> String {
        format!("{} {}", self.method, self.segments.join("/"))
    }

    pub(crate) async fn read(request: Request<Body>) -> Result<Self, Answer> {
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, 512 << 10)
            .await
            .map_err(|_| Answer::error(501, "for data too large"))?;
        let (method, path) = (parts.method.as_str().to_owned(), parts.uri.path());
        let Some(below) = path.strip_prefix("/api2/json/") else {
            return Err(Answer::error(404, format!("no such file '{path}'")));
        };
        let writes = ["POST", "PUT"].contains(&method.as_str());
        if !writes && !body.is_empty() {
            return Err(Answer::error(501, format!("Unexpected content for method '{method}'")));
        }
        let mut pairs = parts.uri.query().unwrap_or_default().as_bytes().to_vec();
        if writes && !body.is_empty() {
            let kind =
                parts.headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
            if !kind.starts_with("application/x-www-form-urlencoded") {
                return Err(Answer::error(501, format!("upload '{kind}' not implemented")));
            }
            pairs = body.to_vec();
        }
        Ok(Self {
            method,
            segments: below.trim_matches('/').split('/').map(decoded).collect(),
            parameters: form_urlencoded::parse(&pairs).into_owned().collect(),
            headers: parts.headers,
        })
    }

    /// What is wrong with the parameters, if anything is: those that must be there, and those that may.
    pub(crate) fn misfit(&self, must: &[&str], may: &[&str]) -> Option<Answer> {
        let unknown = self
            .parameters
            .keys()
            .find(|name| !must.contains(&name.as_str()) && !may.contains(&name.as_str()));
        if let Some(name) = unknown {
            let why = "property is not defined in schema and the schema does not allow additional properties";
            return Some(Answer::parameter(name, why));
        }
        let lacking = must.iter().find(|name| !self.parameters.contains_key(**name))?;
        Some(Answer::parameter(lacking, "property is missing and it is not optional"))
    }

    pub(crate) fn parameter(&self, name: &str) -> &str {
        self.parameters.get(name).map(String::as_str).unwrap_or_default()
    }
}

/// A segment's percent signs; a plus stays one.
fn decoded(segment: &str) -> String {
    let pairs = format!("x={}", segment.replace('+', "%2B"));
    form_urlencoded::parse(pairs.as_bytes()).next().map(|(_, value)| value.into_owned()).unwrap_or_default()
}
