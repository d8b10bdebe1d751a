//! How a task begins, in which order Proxmox VE checks what it checks, and what is so when it has ended.

use crate::actions::Action;
use crate::cluster::State;
use crate::tasks::{Ends, ModelTask};
use crate::vms::{ModelSnapshot, ModelVm, StorageKind};

impl State {
    /// The task's id, which is answered before anything is known of its end.
    pub(crate) fn begin(&mut self, id: u32, action: Action, user: &str) -> String {
        let (number, node) = (self.tasks.len() as u64, self.vm(id).node.clone());
        let mut task = ModelTask::new(number, self.now_ms, &node, id, action.kind(), user);
        let upid = task.upid.clone();
        match self.prepare(id, &action) {
            Err(exit_status) => {
                (task.exit_status, task.ended_s) = (Some(exit_status), Some(self.now_ms / 1_000));
            }
            Ok(()) => {
                task.ordered_end = self.faults.end_of(&action);
                if self.has_machines && task.ordered_end.is_none() {
                    self.to_perform.push((number, id, action.clone()));
                } else {
                    task.ends = Ends::AtMs(self.now_ms + action.takes_ms());
                }
                task.action = Some(action);
            }
        }
        self.tasks.push(task);
        upid
    }

    /// All tasks whose time has come, in the order in which they end.
    pub(crate) fn settle(&mut self) {
        loop {
            let due = self.tasks.iter().filter(|task| task.running()).filter_map(|task| match task.ends {
                Ends::AtMs(at) if at <= self.now_ms => Some((at, task.number)),
                Ends::AtMs(_) | Ends::WhenTold => None,
            });
            let Some((_, number)) = due.min() else { return };
            self.finish(number, None);
        }
    }

    /// With what went wrong, if something did.
    pub(crate) fn finish(&mut self, number: u64, wrong: Option<String>) {
        let now_s = self.now_ms / 1_000;
        let Some(task) = self.tasks.iter_mut().find(|task| task.number == number && task.running()) else {
            return;
        };
        let exit_status = wrong.or_else(|| task.ordered_end.take()).unwrap_or_else(|| "OK".to_owned());
        let well = exit_status == "OK" || exit_status.starts_with("WARNINGS");
        (task.exit_status, task.ended_s) = (Some(exit_status), Some(now_s));
        let (id, action) = (task.vm, task.action.clone());
        let (Some(action), Some(vm)) = (action, self.vms.get_mut(&id)) else { return };
        if well {
            done(vm, &action)
        } else {
            undone(vm, &action)
        }
        if let Action::Clone { to, .. } = &action {
            match self.vms.get_mut(to) {
                Some(new) if well => new.lock = None,
                Some(_) => drop(self.vms.remove(to)),
                None => {}
            }
        }
    }

    /// In its order: what fails here changes nothing.
    fn prepare(&mut self, id: u32, action: &Action) -> Result<(), String> {
        let kind = self.storages.get(&self.vm(id).storage).map(|storage| storage.kind);
        let now_s = self.now_ms / 1_000;
        let vm = self.vm_mut(id);
        match action {
            Action::Start => {
                unlocked(vm)?;
                if vm.running {
                    return Err(format!("VM {id} already running"));
                }
            }
            Action::Stop => unlocked(vm)?,
            Action::Snapshot { name, memory } => {
                unlocked(vm)?;
                if vm.snapshot(name).is_some() {
                    return Err(format!("snapshot name '{name}' already used"));
                }
                if kind == Some(StorageKind::PlainLvm) {
                    return Err("snapshot feature is not available".to_owned());
                }
                let snapshot = ModelSnapshot {
                    name: name.clone(),
                    taken_at: now_s,
                    parent: vm.parent.clone(),
                    memory: *memory && vm.running,
                    state: Some("prepare".to_owned()),
                    config: vm.config.clone(),
                    files: vm.files.clone(),
                };
                vm.snapshots.push(snapshot);
            }
            Action::Rollback { name } => prepare_rollback(vm, id, name, kind)?,
            Action::DeleteSnapshot { name } => {
                if vm.snapshot(name).is_none() {
                    return Err(format!("snapshot '{name}' does not exist"));
                }
                unlocked(vm)?;
                for snapshot in vm.snapshots.iter_mut().filter(|snapshot| snapshot.name == *name) {
                    snapshot.state = Some("delete".to_owned());
                }
            }
            Action::Clone { to, name } => {
                let mut new = ModelVm::new(&vm.node, name, &vm.storage);
                (new.files, new.lock) = (vm.files.clone(), Some("clone".to_owned()));
                self.vms.insert(*to, new);
                return Ok(());
            }
        }
        vm.lock = action.lock().map(str::to_owned);
        Ok(())
    }
}

fn prepare_rollback(vm: &mut ModelVm, id: u32, name: &str, kind: Option<StorageKind>) -> Result<(), String> {
    let Some(snapshot) = vm.snapshot(name) else { return Err(format!("snapshot '{name}' does not exist")) };
    let newest = vm.snapshots.last().map(|newest| newest.name.as_str());
    if kind == Some(StorageKind::Zfs) && newest != Some(name) {
        return Err(format!(
            "can't rollback, '{name}' is not most recent snapshot on '{}:vm-{id}-disk-0'",
            vm.storage
        ));
    }
    if let Some(state) = &snapshot.state {
        return Err(format!("unable to rollback to incomplete snapshot (snapstate = {state})"));
    }
    unlocked(vm)?;
    if vm.running {
        // Proxmox VE ends it hard, and goes on if that took less than five seconds.
        (vm.running, vm.rollbacks_while_running) = (false, vm.rollbacks_while_running + 1);
    }
    Ok(())
}

fn unlocked(vm: &ModelVm) -> Result<(), String> {
    match &vm.lock {
        Some(lock) => Err(format!("VM is locked ({lock})")),
        None => Ok(()),
    }
}

fn done(vm: &mut ModelVm, action: &Action) {
    match action {
        Action::Start => vm.boot(),
        Action::Stop => vm.running = false,
        Action::Snapshot { name, .. } => {
            for snapshot in vm.snapshots.iter_mut().filter(|snapshot| snapshot.name == *name) {
                snapshot.state = None;
            }
            vm.parent = Some(name.clone());
        }
        Action::Rollback { name } => {
            let Some(snapshot) = vm.snapshot(name).cloned() else { return };
            (vm.files, vm.config, vm.parent) = (snapshot.files, snapshot.config, Some(name.clone()));
            vm.rollbacks += 1;
            // With the memory comes what ran.
            vm.running = snapshot.memory;
        }
        Action::DeleteSnapshot { name } => {
            let parent = vm.snapshot(name).and_then(|gone| gone.parent.clone());
            vm.snapshots.retain(|snapshot| snapshot.name != *name);
            for child in &mut vm.snapshots {
                if child.parent.as_ref() == Some(name) {
                    child.parent.clone_from(&parent);
                }
            }
            if vm.parent.as_ref() == Some(name) {
                vm.parent = parent;
            }
        }
        Action::Clone { .. } => return,
    }
    vm.lock = None;
}

/// What is left of a task that failed on its way.
fn undone(vm: &mut ModelVm, action: &Action) {
    match action {
        Action::Start | Action::Stop | Action::Clone { .. } => {}
        // It is cleaned up.
        Action::Snapshot { name, .. } => {
            vm.snapshots.retain(|snapshot| snapshot.name != *name);
            vm.lock = None;
        }
        // The lock stays for a person, as does the half of a snapshot.
        Action::Rollback { .. } | Action::DeleteSnapshot { .. } => {}
    }
}
