//! The OpenAPI document: what holds for the whole API. Each route describes itself where its handler is.

mod bounds;
mod refusals;

use crate::routes;
use axum::body::Bytes;
use motorpool_wire::error::ErrorEnvelope;
use std::sync::OnceLock;
use utoipa::openapi::path::Parameter;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, OpenApi, PathItem, RefOr};
use utoipa::{Modify, OpenApi as _};

/// The document as it is sent. It is written once, when it is first asked for: anybody may ask, and it is long.
#[derive(Debug, Default)]
pub(crate) struct Document(OnceLock<Option<Bytes>>);

impl Document {
    pub(crate) fn json(&self) -> Option<Bytes> {
        self.0.get_or_init(|| whole().to_json().ok().map(Bytes::from)).clone()
    }
}

pub(crate) fn whole() -> OpenApi {
    let mut document = Frame::openapi();
    document.merge(routes::described());
    finish(&mut document);
    document
}

/// Adds what the routes do not say of themselves.
fn finish(document: &mut OpenApi) {
    bounds::add(document);
    for (path, item) in &mut document.paths.paths {
        // All the methods that this API has.
        let PathItem { get, put, post, patch, delete, .. } = item;
        for operation in [get, put, post, patch, delete].into_iter().flatten() {
            refusals::add(path, operation);
            for parameter in operation.parameters.iter_mut().flatten() {
                if let RefOr::T(Parameter { schema: Some(schema), .. }) = parameter {
                    bounds::bound(schema);
                }
            }
        }
    }
}

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Motorpool",
        description = "Every CI job gets a clean, ready machine in seconds, and no machine is ever forgotten."
    ),
    components(schemas(ErrorEnvelope)),
    security(("operator" = []), ("team" = [])),
    modifiers(&SecuritySchemes)
)]
struct Frame;

struct SecuritySchemes;

impl Modify for SecuritySchemes {
    fn modify(&self, document: &mut OpenApi) {
        let components = document.components.get_or_insert_with(Components::new);
        for (name, description) in [
            ("operator", "The admin token."),
            ("team", "A team's token: good for what that team owns."),
            ("runner", "A runner's own token: good for that runner's agent alone."),
        ] {
            let scheme =
                HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(description)).build();
            components.add_security_scheme(name, SecurityScheme::Http(scheme));
        }
        for (name, header, description) in [
            (
                "github",
                "X-Hub-Signature-256",
                "GitHub's signature over the body: `sha256=` and 64 hex digits.",
            ),
            ("gitlab_token", "X-Gitlab-Token", "The secret token of GitLab's webhook."),
            (
                "gitlab_signature",
                "webhook-signature",
                "GitLab's signature over id, time and body: `v1,` and base64.",
            ),
        ] {
            let key = ApiKeyValue::with_description(header, description);
            components.add_security_scheme(name, SecurityScheme::ApiKey(ApiKey::Header(key)));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    fn document() -> Value {
        serde_json::to_value(crate::document()).unwrap()
    }

    fn operations(document: &Value) -> Vec<(&String, &Value)> {
        let paths = document["paths"].as_object().unwrap();
        paths
            .iter()
            .flat_map(|(path, item)| {
                item.as_object().unwrap().values().map(move |operation| (path, operation))
            })
            .collect()
    }

    #[test]
    fn each_text_in_a_path_or_query_has_its_pattern_and_each_number_its_bounds() {
        let document = document();
        for (path, operation) in operations(&document) {
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let schema = &parameter["schema"];
                let bounded = match schema["type"].as_str() {
                    Some("string") => schema["pattern"].is_string() || schema["enum"].is_array(),
                    Some("integer") => schema["minimum"].is_number() && schema["maximum"].is_number(),
                    Some("boolean") => true,
                    other => panic!("{path}: {other:?}"),
                };
                assert!(bounded, "{path}: {parameter}");
            }
        }
    }

    #[test]
    fn each_route_lists_the_refusals_that_follow_from_what_it_takes() {
        let document = document();
        for (path, operation) in operations(&document) {
            let lists = |status: &str| !operation["responses"][status].is_null();
            let is_open = operation["security"] == serde_json::json!([{}]);
            assert!(lists("429") && lists("500") && lists("default"), "{path}");
            assert_eq!(lists("401"), !is_open || path.ends_with("/bootstrap"), "{path}");
            assert_eq!(lists("413"), operation["requestBody"].is_object(), "{path}");
        }
    }

    #[test]
    fn a_span_in_minutes_excludes_the_same_in_seconds() {
        let document = document();
        let settings = &document["components"]["schemas"]["PoolSettings"];
        let spans =
            settings["properties"].as_object().unwrap().keys().filter(|name| name.ends_with("_minutes"));
        assert_eq!(settings["allOf"].as_array().unwrap().len(), spans.count());
        assert_eq!(settings["allOf"][0]["not"]["required"][0], "checkpoint_minutes");
    }
}
