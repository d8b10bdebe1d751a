//! The routes, with the privileges that each needs and the parameters that it takes. In Proxmox VE's own order: who asks, whether there is such
//! a route, whether he may, whether the node can be reached, whether the parameters fit, and then the rest.

use serde_json::{Value, json};

use crate::access::Need;
use crate::actions::Action;
use crate::answer::Answer;
use crate::cluster::State;
use crate::request::Asked;
use crate::vms::{Storage, StorageKind};

/// What of a VM's configuration the model takes, and which privilege it needs.
const CONFIG: [(&str, &str); 8] = [
    ("name", "VM.Config.Options"),
    ("tags", "VM.Config.Options"),
    ("description", "VM.Config.Options"),
    ("memory", "VM.Config.Memory"),
    ("ciuser", "VM.Config.Cloudinit"),
    ("sshkeys", "VM.Config.Cloudinit"),
    ("ipconfig0", "VM.Config.Cloudinit"),
    ("digest", ""),
];
const BRIDGE: &str = "/sdn/zones/localnetwork/vmbr0";
const MODIFIED: &str = "detected modified configuration - file changed by other user? Try again.";

pub(crate) fn answer(state: &mut State, asked: &Asked) -> Answer {
    // A cookie would be taken for a ticket, and count for more than the token.
    let authorization = asked.headers.get("authorization").and_then(|value| value.to_str().ok());
    let token = match state.access.who(authorization.filter(|_| !asked.headers.contains_key("cookie"))) {
        Ok(token) => token,
        Err(why) => return Answer::error(401, why),
    };
    let segments: Vec<&str> = asked.segments.iter().map(String::as_str).collect();
    match (asked.method.as_str(), segments.as_slice()) {
        ("GET", ["version"]) => Answer::ok(json!({"version": "9.0.3", "release": "9.0", "repoid": "model"})),
        ("GET", ["nodes"]) => Answer::ok(nodes(state)),
        ("GET", ["cluster", "nextid"]) => {
            let free = (100..).find(|id| !state.vms.contains_key(id));
            Answer::ok(json!(free.map(|id: u32| id.to_string())))
        }
        (_, ["nodes", node, ..]) if !state.nodes.contains_key(*node) => {
            let why = "failed to get address info for";
            Answer::error(
                500,
                format!("hostname lookup '{node}' failed - {why}: {node}: Name or service not known"),
            )
        }
        (method, ["nodes", node, "qemu", id, rest @ ..]) => match id.parse() {
            Ok(id) => of_vm(state, asked, &token, method, node, id, rest),
            Err(_) => Answer::parameter("vmid", "type check ('integer') failed"),
        },
        ("GET", ["nodes", node, "qemu"]) => match reach(state, node) {
            Some(unreachable) => unreachable,
            None => Answer::ok(vms(state, node, &token)),
        },
        ("GET", ["nodes", node, "tasks"]) => match reach(state, node) {
            Some(unreachable) => unreachable,
            None => tasks(state, asked, &token, node),
        },
        ("GET", ["nodes", node, "tasks", upid, "status"]) => match reach(state, node) {
            Some(unreachable) => unreachable,
            None => task(state, &token, node, upid),
        },
        ("GET", ["nodes", node, "storage", storage, "status"]) => {
            let path = format!("/storage/{storage}");
            let needs = [Need { path, any_of: &["Datastore.Audit", "Datastore.AllocateSpace"] }];
            match barred(state, &token, &needs, node) {
                Some(answer) => answer,
                None => storage_status(state, storage),
            }
        }
        (method, _) => not_implemented(method, asked),
    }
}

fn of_vm(
    state: &mut State,
    asked: &Asked,
    token: &str,
    method: &str,
    node: &str,
    id: u32,
    rest: &[&str],
) -> Answer {
    let on_vm = |any_of: &'static [&'static str]| vec![Need { path: format!("/vms/{id}"), any_of }];
    let (needs, must, may): (Vec<Need>, &[&str], &[&str]) = match (method, rest) {
        ("GET", ["status", "current"] | ["config"] | ["snapshot"]) => (on_vm(&["VM.Audit"]), &[], &[]),
        ("GET", ["feature"]) => (on_vm(&["VM.Audit"]), &["feature"], &["snapname"]),
        ("POST", ["status", "start" | "stop"]) => (on_vm(&["VM.PowerMgmt"]), &[], &["timeout"]),
        ("POST", ["snapshot"]) => (on_vm(&["VM.Snapshot"]), &["snapname"], &["vmstate", "description"]),
        ("POST", ["snapshot", _, "rollback"]) => {
            let mut needs = on_vm(&["VM.Snapshot", "VM.Snapshot.Rollback"]);
            if asked.parameter("start") == "1" {
                needs.extend(on_vm(&["VM.PowerMgmt"]));
            }
            (needs, &[], &["start"])
        }
        ("DELETE", ["snapshot", _]) => (on_vm(&["VM.Snapshot"]), &[], &["force"]),
        ("POST", ["clone"]) => {
            (needs_of_clone(state, asked, id), &["newid"], &["name", "full", "storage", "target", "pool"])
        }
        ("PUT", ["config"]) => {
            let set =
                |name: &&(&str, &'static str)| !name.1.is_empty() && asked.parameters.contains_key(name.0);
            let needs =
                CONFIG.iter().filter(set).flat_map(|(_, privilege)| on_vm(std::slice::from_ref(privilege)));
            (needs.collect(), &[], &CONFIG.map(|(name, _)| name))
        }
        _ => return not_implemented(method, asked),
    };
    if let Some(answer) = barred(state, token, &needs, node).or_else(|| asked.misfit(must, may)) {
        return answer;
    }
    if state.vms.get(&id).is_none_or(|vm| vm.node != node) {
        return Answer::error(
            500,
            format!("Configuration file 'nodes/{node}/qemu-server/{id}.conf' does not exist"),
        );
    }
    let action = match (method, rest) {
        ("GET", ["status", ..]) => return Answer::ok(status(state, id)),
        ("GET", ["config"]) => return Answer::ok(state.vm(id).shown_config()),
        ("GET", ["snapshot"]) => return Answer::ok(state.vm(id).shown_snapshots()),
        ("GET", ["feature"]) => return feature(state, asked, id),
        ("PUT", ["config"]) => return set_config(state, asked, id),
        ("POST", ["status", "start"]) => Action::Start,
        ("POST", ["status", "stop"]) => Action::Stop,
        ("POST", ["snapshot", name, "rollback"]) => Action::Rollback { name: (*name).to_owned() },
        ("DELETE", ["snapshot", name]) => Action::DeleteSnapshot { name: (*name).to_owned() },
        ("POST", ["snapshot"]) => match snapshot_name(asked.parameter("snapname")) {
            Ok(name) => Action::Snapshot { name, memory: asked.parameter("vmstate") == "1" },
            Err(answer) => return answer,
        },
        ("POST", ["clone"]) => match asked.parameter("newid").parse() {
            Ok(to) if state.vms.contains_key(&to) => {
                return Answer::error(500, format!("unable to create VM {to}: config file already exists"));
            }
            Ok(to) => Action::Clone { to, name: asked.parameter("name").to_owned() },
            Err(_) => return Answer::parameter("newid", "type check ('integer') failed"),
        },
        _ => return not_implemented(method, asked),
    };
    Answer::ok(json!(state.begin(id, action, token)))
}

/// Why this is as far as it goes: a privilege is lacking, or the node can't be reached.
fn barred(state: &State, token: &str, needs: &[Need], node: &str) -> Option<Answer> {
    let lacks = state.access.lacks(token, needs).map(|why| Answer::error(403, why));
    lacks.or_else(|| reach(state, node))
}

fn reach(state: &State, node: &str) -> Option<Answer> {
    let reachable = state.nodes.get(node).copied().unwrap_or_default();
    (!reachable).then(|| Answer::error(595, "No route to host"))
}

fn not_implemented(method: &str, asked: &Asked) -> Answer {
    Answer::error(501, format!("Method '{method} /{}' not implemented", asked.segments.join("/")))
}

fn needs_of_clone(state: &State, asked: &Asked, id: u32) -> Vec<Need> {
    let own = state.vms.get(&id).map(|vm| vm.storage.clone()).unwrap_or_default();
    let storage = asked.parameters.get("storage").cloned().unwrap_or(own);
    vec![
        Need { path: format!("/vms/{id}"), any_of: &["VM.Clone"] },
        Need { path: format!("/vms/{}", asked.parameter("newid")), any_of: &["VM.Allocate"] },
        Need { path: format!("/storage/{storage}"), any_of: &["Datastore.AllocateSpace"] },
        Need { path: BRIDGE.to_owned(), any_of: &["SDN.Use"] },
    ]
}

fn nodes(state: &State) -> Value {
    let status = |up: bool| if up { "online" } else { "offline" };
    state
        .nodes
        .iter()
        .map(|(name, up)| json!({"node": name, "type": "node", "status": status(*up)}))
        .collect()
}

fn vms(state: &State, node: &str, token: &str) -> Value {
    let may_see =
        |id: &u32| state.access.may(token, &Need { path: format!("/vms/{id}"), any_of: &["VM.Audit"] });
    let there = state.vms.iter().filter(|(id, vm)| vm.node == node && may_see(id));
    there.map(|(id, vm)| json!({"vmid": id, "name": vm.name, "status": power(vm.running)})).collect()
}

fn status(state: &State, id: u32) -> Value {
    let vm = state.vm(id);
    let mut shown = json!({
        "vmid": id, "name": vm.name, "status": power(vm.running), "qmpstatus": power(vm.running), "ha": {"managed": 0},
    });
    if let Some(lock) = &vm.lock {
        shown["lock"] = json!(lock);
    }
    shown
}

fn power(running: bool) -> &'static str {
    if running { "running" } else { "stopped" }
}

fn feature(state: &State, asked: &Asked, id: u32) -> Answer {
    if !["snapshot", "clone", "copy"].contains(&asked.parameter("feature")) {
        return Answer::parameter(
            "feature",
            "value does not have a value in the enumeration 'snapshot, clone, copy'",
        );
    }
    let vm = state.vm(id);
    let has = state.storages.get(&vm.storage).is_some_and(|storage| storage.kind != StorageKind::PlainLvm);
    Answer::ok(json!({"hasFeature": u8::from(has), "nodes": if has { vec![&vm.node] } else { vec![] }}))
}

fn set_config(state: &mut State, asked: &Asked, id: u32) -> Answer {
    let vm = state.vm_mut(id);
    if asked.parameters.get("digest").is_some_and(|digest| *digest != vm.digest()) {
        return Answer::error(500, MODIFIED);
    }
    if let Some(lock) = &vm.lock {
        return Answer::error(500, format!("VM is locked ({lock})"));
    }
    let raw = |text: &str| text.contains([' ', '+', '/', '@', '\n']);
    if asked.parameters.get("sshkeys").is_some_and(|keys| raw(keys)) {
        return Answer::parameter("sshkeys", "invalid format - invalid urlencoded string");
    }
    let set = asked.parameters.iter().filter(|(name, _)| *name != "digest");
    vm.config.extend(set.map(|(name, value)| (name.clone(), value.clone())));
    Answer::ok(Value::Null)
}

fn snapshot_name(name: &str) -> Result<String, Answer> {
    let inside = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if name == "current" {
        return Err(Answer::parameter("snapname", "can't use name 'current'"));
    }
    if name.len() > 40 {
        return Err(Answer::parameter("snapname", "value may only be 40 characters long"));
    }
    if name.len() < 2 || !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.bytes().all(inside) {
        let why = format!("invalid format - invalid configuration ID '{name}'");
        return Err(Answer::parameter("snapname", &why));
    }
    Ok(name.to_owned())
}

fn storage_status(state: &State, name: &str) -> Answer {
    let Some(Storage { kind: _, total, used, active }) = state.storages.get(name) else {
        return Answer::error(500, format!("storage '{name}' does not exist"));
    };
    if !active {
        return Answer::ok(
            json!({"type": "lvmthin", "active": 0, "enabled": 1, "total": 0, "used": 0, "avail": 0}),
        );
    }
    Answer::ok(json!({
        "type": "lvmthin", "content": "images", "active": 1, "enabled": 1, "shared": 0,
        "total": total, "used": used, "avail": total - used,
    }))
}

fn may_audit(state: &State, token: &str, node: &str) -> bool {
    state.access.may(token, &Need { path: format!("/nodes/{node}"), any_of: &["Sys.Audit"] })
}

fn tasks(state: &State, asked: &Asked, token: &str, node: &str) -> Answer {
    const MAY: [&str; 7] = ["vmid", "source", "limit", "start", "typefilter", "since", "errors"];
    if let Some(misfit) = asked.misfit(&[], &MAY) {
        return misfit;
    }
    let parameter = |name: &str| asked.parameters.get(name);
    let sees_all = may_audit(state, token, node);
    let limit = parameter("limit").and_then(|text| text.parse().ok()).unwrap_or(50);
    let source = parameter("source").map_or("archive", String::as_str);
    let listed = state.tasks.iter().rev().filter(|task| {
        task.node == node
            && (sees_all || task.user == token)
            && parameter("vmid").is_none_or(|vm| *vm == task.vm.to_string())
            && parameter("typefilter").is_none_or(|kind| *kind == task.kind)
            && match source {
                "active" => task.running(),
                "all" => true,
                _ => !task.running(),
            }
    });
    Answer::ok(listed.take(limit).map(crate::tasks::ModelTask::listed).collect())
}

fn task(state: &State, token: &str, node: &str, upid: &str) -> Answer {
    if upid.split(':').count() != 9 {
        return Answer::parameter("upid", "unable to parse worker upid");
    }
    match state.tasks.iter().find(|task| task.upid == upid && task.node == node) {
        None => Answer::parameter("upid", "no such task"),
        Some(task) if task.user != token && !may_audit(state, token, node) => {
            Answer::error(403, format!("Permission check failed (/nodes/{node}, Sys.Audit)"))
        }
        Some(task) => Answer::ok(task.shown()),
    }
}
