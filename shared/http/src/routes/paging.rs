//! Pages of lists: how long, and from where.

use crate::envelope::Refusal;
use motorpool_control::Page;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

const USUAL: u32 = 100;
const LONGEST: u32 = 500;

pub(super) fn page(limit: Option<u32>, after: Option<String>) -> Result<Page, Refusal> {
    let at_most = limit.unwrap_or(USUAL);
    if !(1..=LONGEST).contains(&at_most) {
        return Err(Refusal::invalid(
            format!("limit must be 1 to {LONGEST}, and is {at_most}"),
            "ask for the rest with after, as the answer's next says",
        ));
    }
    Ok(Page { at_most, after })
}

/// How `limit` looks in the document.
pub(super) enum PageLength {}

impl PartialSchema for PageLength {
    fn schema() -> RefOr<Schema> {
        let length = ObjectBuilder::new().schema_type(Type::Integer).default(Some(USUAL.into()));
        length.minimum(Some(1)).maximum(Some(LONGEST)).into()
    }
}

impl ToSchema for PageLength {}
