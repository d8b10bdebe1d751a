//! What GitHub is asked for: a runner's name, group and labels, within GitHub's bounds.

use std::collections::BTreeSet;

use motorpool_control::ports::ci::RegistrationOrder;
use serde_json::{Value, json};

use crate::error::CallError;

const LONGEST_NAME: usize = 64;
const LONGEST_LABEL: usize = 256;
const MOST_LABELS: usize = 100;
/// Before a workflow's name, so that no workflow can name itself as another's label, or as one of GitHub's own.
const WORKFLOW: &str = "motorpool-workflow-";
/// Relative to where the runner program is; GitHub's own default.
const WORK_FOLDER: &str = "_work";

pub(crate) fn body(order: &RegistrationOrder<'_>) -> Result<Value, CallError> {
    let RegistrationOrder { binding, name, label: _, workflow: _ } = order;
    if name.is_empty() || name.len() > LONGEST_NAME {
        return Err(CallError::Refused(format!(
            "GitHub takes no runner of the name {name:?}: it may have {LONGEST_NAME} characters; give the machine a shorter id"
        )));
    }
    Ok(json!({
        "name": name,
        "runner_group_id": binding.group_id,
        "labels": labels(order)?,
        "work_folder": WORK_FOLDER,
    }))
}

/// The claim's own, the pool's, the workflow's. To GitHub, labels that differ in case alone are the same.
fn labels(order: &RegistrationOrder<'_>) -> Result<Vec<String>, CallError> {
    let RegistrationOrder { binding, name: _, label, workflow } = order;
    let mut labels = vec![label.as_str().to_owned()];
    labels.extend(binding.labels.iter().cloned());
    labels.push(workflow_label(workflow));
    let mut seen = BTreeSet::new();
    labels.retain(|label| seen.insert(label.to_ascii_lowercase()));
    if labels.len() > MOST_LABELS {
        return Err(CallError::Refused(format!(
            "GitHub takes {MOST_LABELS} labels a runner, and the pool with its claim has {}: remove some from the pool's `labels`",
            labels.len()
        )));
    }
    if let Some(wrong) =
        labels.iter().find(|label| label.is_empty() || label.len() > LONGEST_LABEL || label.contains(','))
    {
        return Err(CallError::Refused(format!(
            "GitHub takes no label {wrong:?}: a label has 1 to {LONGEST_LABEL} characters and no comma"
        )));
    }
    Ok(labels)
}

/// The label by which people find a workflow's runners: a name that does not fit is made to fit rather than refused.
fn workflow_label(workflow: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '-' };
    WORKFLOW.chars().chain(workflow.chars().map(plain)).take(LONGEST_LABEL).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use motorpool_domain::Label;
    use motorpool_domain::ci::{CiBinding, CiSystem};

    fn labels_of(pool: &[&str], workflow: &str) -> Result<Vec<String>, CallError> {
        let binding = CiBinding {
            system: CiSystem::GitHub,
            scope: "my-org".to_owned(),
            group_id: 1,
            labels: pool.iter().map(|label| (*label).to_owned()).collect(),
            minimum_version: None,
        };
        let label = Label::parse("motorpool-c-1").unwrap();
        labels(&RegistrationOrder { binding: &binding, name: "mp-x", label: &label, workflow })
    }

    #[test]
    fn a_runner_has_the_labels_of_claim_pool_and_workflow_each_once() {
        let found = labels_of(&["gpu", "GPU", "Motorpool-C-1"], "gh-123.2").unwrap();
        assert_eq!(found, ["motorpool-c-1", "gpu", "motorpool-workflow-gh-123.2"]);
    }

    #[test]
    fn a_workflow_cannot_take_another_label() {
        let found = labels_of(&[], "self-hosted").unwrap();
        assert_eq!(found, ["motorpool-c-1", "motorpool-workflow-self-hosted"]);
        let odd = labels_of(&[], "me/repo:run@1,linux").unwrap();
        assert_eq!(odd[1], "motorpool-workflow-me-repo-run-1-linux");
        assert_eq!(labels_of(&[], &"x".repeat(400)).unwrap()[1].len(), LONGEST_LABEL);
    }

    #[test]
    fn labels_beyond_githubs_bounds_are_refused_with_the_bound() {
        let many: Vec<String> = (0..100).map(|n| format!("l{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for (bad, bound) in [(many.as_slice(), "100 labels"), (&["a,b"], "no comma"), (&[""], "1 to 256")] {
            let Err(CallError::Refused(why)) = labels_of(bad, "w") else { panic!("{bad:?} was taken") };
            assert!(why.contains(bound), "{why}");
        }
    }
}
