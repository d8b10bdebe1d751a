//! The OpenAPI document: what holds for the whole API. Each route describes itself where its handler is.

use motorpool_wire::error::ErrorEnvelope;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, ContentBuilder, OpenApi, PathItem, Ref, ResponseBuilder};
use utoipa::{Modify, OpenApi as _};

/// The document without its routes.
pub(crate) fn base() -> OpenApi {
    Document::openapi()
}

/// Adds what is true of every route: an answer that is not listed is the error envelope.
pub(crate) fn finish(document: &mut OpenApi) {
    let error = ResponseBuilder::new()
        .description("Anything else: what was attempted, why it did not happen, and what to do")
        .content(
            "application/json",
            ContentBuilder::new().schema(Some(Ref::from_schema_name("ErrorEnvelope"))).build(),
        )
        .build();
    for item in document.paths.paths.values_mut() {
        // All the methods that this API has.
        let PathItem { get, put, post, delete, .. } = item;
        for operation in [get, put, post, delete].into_iter().flatten() {
            operation.responses.responses.insert("default".to_owned(), error.clone().into());
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
struct Document;

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
    }
}
