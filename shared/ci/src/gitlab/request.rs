//! What GitLab is asked to make: a runner with its tags, within GitLab's bounds.

use std::collections::BTreeSet;

use motorpool_control::ports::ci::RegistrationOrder;
use serde_json::{Map, Value, json};

use super::scope::Scope;
use crate::error::CallError;

const MOST_TAGS: usize = 50;
const LONGEST_TAG: usize = 255;

pub(crate) fn body(order: &RegistrationOrder<'_>, scope: Scope) -> Result<Value, CallError> {
    let RegistrationOrder { binding, name, label, workflow } = order;
    let mut tags = vec![label.as_str().to_owned()];
    tags.extend(binding.labels.iter().cloned());
    let mut seen = BTreeSet::new();
    tags.retain(|tag| seen.insert(tag.clone()));
    if tags.len() > MOST_TAGS
        || tags.iter().any(|tag| tag.is_empty() || tag.len() > LONGEST_TAG || tag.contains(','))
    {
        return Err(CallError::Refused(format!(
            "GitLab takes {MOST_TAGS} tags a runner, of 1 to {LONGEST_TAG} characters without comma: change the pool's `labels`"
        )));
    }
    let mut body = Map::new();
    let mut set = |key: &str, value: Value| body.insert(key.to_owned(), value);
    set("runner_type", json!(scope.runner_type()));
    set("description", json!(name));
    set("maintenance_note", json!(format!("Motorpool, for the workflow {workflow}")));
    set("tag_list", json!(tags));
    // A job that names no tag has not asked for this claim's runner.
    set("run_untagged", json!(false));
    match scope {
        Scope::Instance => {}
        Scope::Group(id) => {
            set("group_id", json!(id));
        }
        Scope::Project(id) => {
            set("project_id", json!(id));
            // Nobody takes the runner over to another project.
            set("locked", json!(true));
        }
    }
    Ok(Value::Object(body))
}
