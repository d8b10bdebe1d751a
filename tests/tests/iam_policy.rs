//! The policies for the control plane allow every call that the EC2 backend, the ledger and the queues make, and no other.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

const CALLS: [&str; 5] = ["describe_", "run_instances", "terminate_", "create_", "modify_"];
const LEDGER_CALLS: [&str; 16] = [
    "batch_",
    "change_",
    "create_",
    "delete_",
    "describe_",
    "get_item",
    "get_queue",
    "list_",
    "purge_",
    "put_",
    "query",
    "receive_message",
    "scan",
    "send_message",
    "transact_",
    "update_",
];

#[test]
fn it_allows_what_the_backend_calls_and_no_more() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let policy = std::fs::read(root.join("infra/iam/control-plane-policy.json"))?;
    let policy: Value = serde_json::from_slice(&policy)?;
    let mut allowed = BTreeSet::new();
    for statement in policy["Statement"].as_array().context("statements")? {
        ensure!(statement["Effect"] == "Allow", "{statement}");
        let actions = match &statement["Action"] {
            Value::Array(actions) => actions.clone(),
            one => vec![one.clone()],
        };
        for action in actions {
            let action = action.as_str().context("an action")?.to_owned();
            // What changes something is bound to our tag, or to what a launch is made of.
            let bound = statement.get("Condition").is_some()
                || action.starts_with("ec2:Describe")
                || statement["Sid"] == "LaunchInto";
            ensure!(bound, "{action} is not bound by a condition");
            allowed.extend(action.strip_prefix("ec2:").map(str::to_owned));
        }
    }

    let mut called = BTreeSet::new();
    for file in std::fs::read_dir(root.join("shared/backend-ec2/src"))? {
        let text = std::fs::read_to_string(file?.path())?;
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '(');
        let words = words.filter_map(|word| word.strip_suffix('(')).chain(text.split("::"));
        called.extend(words.filter(|word| CALLS.iter().any(|call| word.starts_with(call))).map(in_capitals));
    }
    called.retain(|call| !call.is_empty());
    ensure!(called == allowed, "called: {called:?}\nallowed: {allowed:?}");
    Ok(())
}

#[test]
fn the_ledgers_allows_what_ledger_and_queues_call_and_no_more() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let policy = std::fs::read(root.join("infra/iam/ledger-policy.json"))?;
    let policy: Value = serde_json::from_slice(&policy)?;
    let mut allowed = BTreeSet::new();
    for statement in policy["Statement"].as_array().context("statements")? {
        let resources = statement["Resource"].to_string();
        ensure!(statement["Effect"] == "Allow" && resources.contains("motorpool"), "{statement}");
        let actions = statement["Action"].as_array().context("actions")?;
        allowed.extend(actions.iter().filter_map(Value::as_str).map(str::to_owned));
    }

    let mut called = BTreeSet::new();
    let mut sources = vec![root.join("shared/queues/src/sqs.rs")];
    for file in std::fs::read_dir(root.join("shared/ledger/src/dynamodb"))? {
        sources.push(file?.path());
    }
    for source in sources {
        let service = if source.ends_with("sqs.rs") { "sqs" } else { "dynamodb" };
        let text = std::fs::read_to_string(&source)?;
        let words = text.split(|c: char| !c.is_ascii_lowercase() && !"_.()".contains(c));
        let methods = words.flat_map(|word| word.split('.')).filter_map(|word| word.strip_suffix("()"));
        let calls = methods.filter(|method| LEDGER_CALLS.iter().any(|call| method.starts_with(call)));
        called.extend(calls.map(|call| format!("{service}:{}", in_capitals(call))));
    }
    // A request of its own kind, and one that is allowed by what it is made of: puts and updates.
    called.insert("dynamodb:CreateTable".to_owned());
    ensure!(called.remove("dynamodb:TransactWriteItems"), "{called:?}");
    ensure!(called == allowed, "called: {called:?}\nallowed: {allowed:?}");
    Ok(())
}

/// `run_instances` as AWS writes it.
fn in_capitals(call: &str) -> String {
    let plain = call.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let words = call.split('_').filter(|_| plain);
    words
        .map(|word| word.get(..1).unwrap_or_default().to_uppercase() + word.get(1..).unwrap_or_default())
        .collect()
}
