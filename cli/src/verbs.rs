//! The operator's verbs, one module each: ask the server, and say the answer in words. What is decided, the server decides.

pub(crate) mod alerts;
mod apply;
pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod claim;
pub(crate) mod claims;
pub(crate) mod completions;
pub(crate) mod man;
pub(crate) mod pools;
pub(crate) mod provision;
pub(crate) mod refresh;
pub(crate) mod release;
pub(crate) mod runners;
pub(crate) mod token;
pub(crate) mod why;

use motorpool_domain::PoolName;

use crate::client::Client;
use crate::errors::Failure;

/// The pool that was named, or all that there are.
async fn pools_asked(client: &Client, named: Option<&PoolName>) -> Result<Vec<PoolName>, Failure> {
    match named {
        Some(pool) => Ok(vec![pool.clone()]),
        None => Ok(client.pools().await?.value.pools.into_iter().map(|pool| pool.pool).collect()),
    }
}

/// Several documents as one: the lists under `items`, joined.
fn joined(items: &str, documents: impl IntoIterator<Item = serde_json::Value>) -> serde_json::Value {
    let all: Vec<serde_json::Value> = documents
        .into_iter()
        .filter_map(|mut document| {
            document.get_mut(items).and_then(|list| list.as_array_mut().map(std::mem::take))
        })
        .flatten()
        .collect();
    serde_json::json!({ items: all, "next": null })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn documents_join_in_the_shape_of_one() {
        let one = json!({"runners": [1, 2], "next": null});
        let two = json!({"runners": [3], "next": null});
        assert_eq!(joined("runners", [one, two]), json!({"runners": [1, 2, 3], "next": null}));
        assert_eq!(joined("runners", []), json!({"runners": [], "next": null}));
    }
}
