//! Which operations the embedded ledger offers: `x-amz-target` to the engine's typed method and back to JSON. Scan is
//! left out on purpose, and so is all that the ledger does not use.

use dynoxide::{Database, DynoxideError};
use serde::Serialize;
use serde::de::DeserializeOwned;

const TARGET_PREFIX: &str = "DynamoDB_20120810.";

/// The status and the JSON body of one answer.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
}

/// Serves one request, and blocks until it is on disk.
pub(super) fn serve(db: &Database, target: &str, body: &[u8]) -> Answer {
    let result = match target.strip_prefix(TARGET_PREFIX).unwrap_or_default() {
        "CreateTable" => call(body, |request| db.create_table(request)),
        "DescribeTable" => call(body, |request| db.describe_table(request)),
        "UpdateTimeToLive" => call(body, |request| db.update_time_to_live(request)),
        "DescribeTimeToLive" => call(body, |request| db.describe_time_to_live(request)),
        "GetItem" => call(body, |request| db.get_item(request)),
        "PutItem" => call(body, |request| db.put_item(request)),
        "UpdateItem" => call(body, |request| db.update_item(request)),
        "DeleteItem" => call(body, |request| db.delete_item(request)),
        "Query" => call(body, |request| db.query(request)),
        "BatchGetItem" => call(body, |request| db.batch_get_item(request)),
        // Each of its items is a commit of its own, as on AWS.
        "BatchWriteItem" => call(body, |request| db.batch_write_item(request)),
        "TransactGetItems" => call(body, |request| db.transact_get_items(request)),
        "TransactWriteItems" => call(body, |request| db.transact_write_items(request)),
        _ => return unknown_operation(target),
    };
    match result {
        Ok(body) => Answer { status: 200, body },
        Err(error) => {
            let answer = Answer::from(error);
            if answer.status >= 500 {
                tracing::error!(
                    target,
                    answer = answer.body,
                    "the embedded ledger could not serve a request"
                );
            }
            answer
        }
    }
}

impl From<DynoxideError> for Answer {
    fn from(error: DynoxideError) -> Self {
        Self { status: error.status_code(), body: error.to_json() }
    }
}

fn call<Request: DeserializeOwned, Response: Serialize>(
    body: &[u8],
    method: impl FnOnce(Request) -> dynoxide::Result<Response>,
) -> dynoxide::Result<String> {
    let request = serde_json::from_slice(body).map_err(|error| refused(&error))?;
    let response = method(request)?;
    serde_json::to_string(&response)
        .map_err(|error| DynoxideError::InternalServerError(format!("writing an answer as JSON: {error}")))
}

/// The engine checks some values while it reads them, and marks those messages with what kind of error they are.
fn refused(error: &serde_json::Error) -> DynoxideError {
    let message = error.to_string();
    match message.strip_prefix("VALIDATION:").or_else(|| message.strip_prefix("VALIDATION_REQUEST:")) {
        Some(invalid) => DynoxideError::ValidationException(invalid.to_owned()),
        None => DynoxideError::SerializationException(message),
    }
}

fn unknown_operation(target: &str) -> Answer {
    let body = serde_json::json!({
        "__type": "com.amazon.coral.service#UnknownOperationException",
        "message": format!("the embedded ledger does not offer the operation '{target}'"),
    });
    Answer { status: 400, body: body.to_string() }
}
