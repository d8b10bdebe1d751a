//! The refusals that follow from what a route takes and from whom it lets in. Those that are a route's own stand where its handler is.

use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{ContentBuilder, Ref, Response, ResponseBuilder};

pub(super) fn add(path: &str, operation: &mut Operation) {
    for (status, why) in of_every_route(path, operation) {
        operation.responses.responses.entry(status.to_owned()).or_insert_with(|| refusal(status, why).into());
    }
    let anything_else = "Anything else: what was attempted, why it did not happen, and what to do";
    operation.responses.responses.insert("default".to_owned(), refusal("default", anything_else).into());
}

fn of_every_route(path: &str, operation: &Operation) -> Vec<(&'static str, &'static str)> {
    let Operation { parameters, request_body, security, .. } = operation;
    let is_only_for = |who: &SecurityRequirement| security.as_deref().is_some_and(|all| all == [who.clone()]);
    let is_open = is_only_for(&SecurityRequirement::default());
    // Where nobody is named, operators and teams are meant. Only they have tokens that are good for some routes and not for others.
    let is_a_callers =
        security.is_none() || is_only_for(&SecurityRequirement::new("operator", Vec::<String>::new()));
    let takes_a_body = request_body.is_some();
    let takes_values = takes_a_body || parameters.as_ref().is_some_and(|all| !all.is_empty());
    [
        (takes_values, "400", "The request does not fit, or asks for what can't be"),
        (!is_open, "401", "The token or signature is missing or not known"),
        (is_a_callers, "403", "The token is not good for this"),
        (path.contains('{'), "404", "There is no such thing"),
        (takes_a_body, "408", "The body did not come in time"),
        (takes_a_body, "413", "The body is too long"),
        (takes_a_body, "415", "The body is not said to be JSON"),
        (true, "429", "Too many ask at this moment"),
        (true, "500", "The control plane failed, or took too long"),
    ]
    .into_iter()
    .filter_map(|(applies, status, why)| applies.then_some((status, why)))
    .collect()
}

fn refusal(status: &str, why: &str) -> Response {
    let envelope = ContentBuilder::new().schema(Some(Ref::from_schema_name("ErrorEnvelope"))).build();
    let response = ResponseBuilder::new().description(why).content("application/json", envelope);
    match status {
        "429" => response.header(
            "Retry-After",
            HeaderBuilder::new()
                .schema(Some(ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0))))
                .description(Some("After so many seconds it makes sense to ask again"))
                .build(),
        ),
        _ => response,
    }
    .build()
}
