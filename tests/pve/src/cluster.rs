//! The cluster: what there is, its clock, and what tests do to it. Each request takes the clock on a little, so a task ends after so many
//! looks; a test may turn it further.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::access::Access;
use crate::actions::Action;
use crate::answer::Answer;
use crate::faults::{Fault, Faults};
use crate::machines::Machines;
use crate::request::Asked;
use crate::routes;
use crate::tasks::ModelTask;
use crate::vms::{ModelVm, Storage, StorageKind};

pub const TOKEN: &str = "motorpool@pve!site";
pub const SECRET: &str = "canary-5f1c9f0e-of-the-token";

/// Milliseconds that a request takes.
const REQUEST_MS: u64 = 100;
const GIB: u64 = 1 << 30;

#[derive(Debug, Clone)]
pub struct Cluster {
    state: Arc<Mutex<State>>,
    machines: Option<Arc<dyn Machines>>,
}

#[derive(Debug)]
pub struct State {
    pub(crate) now_ms: u64,
    /// By name, and whether it can be reached.
    pub(crate) nodes: BTreeMap<String, bool>,
    pub(crate) vms: BTreeMap<u32, ModelVm>,
    pub(crate) storages: BTreeMap<String, Storage>,
    pub(crate) access: Access,
    pub(crate) tasks: Vec<ModelTask>,
    pub(crate) faults: Faults,
    /// Errors say what they are in the body too, as they do since 2025.
    pub(crate) speaks_in_body: bool,
    /// The number of a task, the VM and what is to be done, for the machines behind it.
    pub(crate) to_perform: Vec<(u64, u32, Action)>,
    pub(crate) has_machines: bool,
    lines: Vec<String>,
}

impl Default for Cluster {
    fn default() -> Self {
        Self { state: Arc::new(Mutex::new(State::new())), machines: None }
    }
}

impl Cluster {
    pub fn with_machines(machines: Arc<dyn Machines>) -> Self {
        let cluster = Self { machines: Some(machines), ..Self::default() };
        cluster.state().has_machines = true;
        cluster
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with the lock")
    }

    /// The answer, whether errors say what they are in the body, and whether the answer is lost on its way.
    pub(crate) fn answer(&self, asked: &Asked) -> (Answer, bool, bool) {
        let mut state = self.state();
        state.advance_ms(REQUEST_MS);
        if let Some(machines) = &self.machines {
            for (id, vm) in &mut state.vms {
                vm.running = machines.runs(*id).unwrap_or(vm.running);
            }
        }
        let line = asked.line();
        state.lines.push(line.clone());
        let answer = match state.faults.answer_to(&line) {
            Some((status, reason)) => Answer::error(status, reason),
            None => routes::answer(&mut state, asked),
        };
        let lost = state.faults.loses_the_answer(&line);
        let begun = std::mem::take(&mut state.to_perform);
        let in_body = state.speaks_in_body;
        drop(state);
        for (task, vm, action) in begun {
            self.perform(task, vm, action);
        }
        (answer, in_body, lost)
    }

    fn perform(&self, task: u64, vm: u32, action: Action) {
        let (Some(machines), cluster) = (self.machines.clone(), self.clone()) else { return };
        tokio::spawn(async move {
            let done = machines.perform(vm, &action).await;
            cluster.state().finish(task, done.err());
        });
    }
}

impl State {
    /// Two nodes; VM 101, which runs, on storage with snapshots; the template 9000; one token that may do all that a site needs.
    fn new() -> Self {
        let storage = |kind, used| Storage { kind, total: 100 * GIB, used: used * GIB, active: true };
        let mut state = Self {
            now_ms: 1_732_900_000_000,
            nodes: [("pve1".to_owned(), true), ("pve2".to_owned(), true)].into(),
            vms: BTreeMap::new(),
            storages: [
                ("local-lvm".to_owned(), storage(StorageKind::LvmThin, 71)),
                ("tank".to_owned(), storage(StorageKind::Zfs, 10)),
                ("plain".to_owned(), storage(StorageKind::PlainLvm, 10)),
            ]
            .into(),
            access: Access::default(),
            tasks: Vec::new(),
            faults: Faults::default(),
            speaks_in_body: true,
            to_perform: Vec::new(),
            has_machines: false,
            lines: Vec::new(),
        };
        state.add_vm(101, "pve1", "local-lvm").running = true;
        state.add_vm(9000, "pve1", "local-lvm").template = true;
        state.access.add(TOKEN, SECRET);
        let vms = [
            "VM.Audit",
            "VM.Snapshot",
            "VM.Snapshot.Rollback",
            "VM.PowerMgmt",
            "VM.Clone",
            "VM.Allocate",
            "VM.Config.Options",
            "VM.Config.Memory",
            "VM.Config.Cloudinit",
        ];
        state.access.grant(TOKEN, "/vms", &vms);
        state.access.grant(TOKEN, "/storage", &["Datastore.Audit", "Datastore.AllocateSpace"]);
        state.access.grant(TOKEN, "/sdn/zones/localnetwork", &["SDN.Use"]);
        state
    }

    pub fn add_vm(&mut self, id: u32, node: &str, storage: &str) -> &mut ModelVm {
        self.vms.entry(id).or_insert_with(|| ModelVm::new(node, &format!("vm-{id}"), storage))
    }

    pub fn vm(&self, id: u32) -> &ModelVm {
        self.vms.get(&id).expect("a VM of the model")
    }

    pub fn vm_mut(&mut self, id: u32) -> &mut ModelVm {
        self.vms.get_mut(&id).expect("a VM of the model")
    }

    pub fn remove_vm(&mut self, id: u32) {
        self.vms.remove(&id);
    }

    /// A job on it leaves this behind.
    pub fn write(&mut self, id: u32, file: &str) {
        let vm = self.vm_mut(id);
        assert!(vm.running, "a VM that is off writes nothing");
        vm.files.insert(file.to_owned());
    }

    pub fn add_node(&mut self, node: &str) {
        self.set_reachable(node, true);
    }

    pub fn set_reachable(&mut self, node: &str, reachable: bool) {
        self.nodes.insert(node.to_owned(), reachable);
    }

    pub fn set_active(&mut self, storage: &str, active: bool) {
        self.storages.get_mut(storage).expect("a storage of the model").active = active;
    }

    /// As Proxmox VE was before 2025.
    pub fn speak_in_reasons_alone(&mut self) {
        self.speaks_in_body = false;
    }

    pub fn order(&mut self, fault: Fault) {
        self.faults.order(fault);
    }

    pub fn add_token(&mut self, token: &str, secret: &str, path: &str, privileges: &[&str]) {
        self.access.add(token, secret);
        self.access.grant(token, path, privileges);
    }

    pub fn grant(&mut self, token: &str, path: &str, privileges: &[&str]) {
        self.access.grant(token, path, privileges);
    }

    pub fn take_away(&mut self, token: &str, privilege: &str) {
        self.access.take_away(token, privilege);
    }

    pub fn tasks(&self) -> &[ModelTask] {
        &self.tasks
    }

    /// How many tasks of this kind there were.
    pub fn count(&self, kind: &str) -> usize {
        self.tasks.iter().filter(|task| task.kind == kind).count()
    }

    /// What was asked so far, as `POST nodes/pve1/qemu/101/snapshot`.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Somebody else begins a task that changes nothing in the model, and goes on until [`State::end_task`].
    pub fn anothers_task(&mut self, id: u32, kind: &str, user: &str) -> String {
        let (number, node) = (self.tasks.len() as u64, self.vm(id).node.clone());
        let task = ModelTask::new(number, self.now_ms, &node, id, kind, user);
        let upid = task.upid.clone();
        self.tasks.push(task);
        upid
    }

    pub fn end_task(&mut self, upid: &str, exit_status: &str) {
        let now = self.now_ms / 1_000;
        let task = self.tasks.iter_mut().find(|task| task.upid == upid).expect("a task of the model");
        (task.exit_status, task.ended_s) = (Some(exit_status.to_owned()), Some(now));
    }

    /// What is due by then happens in its order.
    pub fn advance_ms(&mut self, ms: u64) {
        self.now_ms += ms;
        self.settle();
    }
}
