//! What the macros of utoipa can't say of a schema: the largest number that a type of ours holds, and which settings exclude each other.

use serde_json::{Value, json};
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::schema::{ArrayItems, KnownFormat, Object, Schema, SchemaFormat};
use utoipa::openapi::{OpenApi, RefOr};

pub(super) fn add(document: &mut OpenApi) {
    let schemas = document.components.iter_mut().flat_map(|components| &mut components.schemas);
    for (name, schema) in schemas {
        bound(schema);
        if let (RefOr::T(Schema::Object(settings)), "PoolSettings") = (schema, name.as_str()) {
            settings.extensions = Some(Extensions::from_iter([("allOf", one_unit_a_span(settings))]));
        }
    }
}

/// Every number of the API is unsigned, which no format of OpenAPI says.
pub(super) fn bound(schema: &mut RefOr<Schema>) {
    let RefOr::T(schema) = schema else { return };
    match schema {
        Schema::Object(object) => {
            for (signed, unsigned, most) in [
                (KnownFormat::Int32, "uint32", u64::from(u32::MAX)),
                (KnownFormat::Int64, "uint64", u64::MAX),
            ] {
                if object.format == Some(SchemaFormat::KnownFormat(signed)) {
                    object.format = Some(SchemaFormat::Custom(unsigned.to_owned()));
                    object.maximum.get_or_insert(most.into());
                }
            }
            object.properties.values_mut().for_each(bound);
        }
        Schema::Array(array) => {
            if let ArrayItems::RefOrSchema(items) = &mut array.items {
                bound(items);
            }
        }
        Schema::OneOf(choice) => choice.items.iter_mut().for_each(bound),
        Schema::AllOf(parts) => parts.items.iter_mut().for_each(bound),
        Schema::AnyOf(choice) => choice.items.iter_mut().for_each(bound),
        _ => {}
    }
}

/// A span is given in minutes or in seconds. One that is null is not given.
fn one_unit_a_span(settings: &Object) -> Value {
    let pairs = settings.properties.keys().filter_map(|minutes| {
        let seconds = format!("{}_seconds", minutes.strip_suffix("_minutes")?);
        settings.properties.contains_key(&seconds).then(|| [minutes.clone(), seconds])
    });
    let given = json!({"type": "integer"});
    pairs
        .map(|[minutes, seconds]| {
            json!({"not": {"required": [minutes, seconds], "properties": {minutes: given, seconds: given}}})
        })
        .collect()
}
