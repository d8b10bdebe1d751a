//! Machines of somebody else's behind the API: a task takes as long as they do, what they say is its exit status, and a guest may switch itself
//! off.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use motorpool_backend_proxmox::restore::{Failure, Goal, Outcome};
use motorpool_pve_tests::{Action, Machines};
use tokio::sync::Semaphore;

use crate::stage::Stage;

#[derive(Debug)]
struct Yard {
    running: Mutex<BTreeSet<u32>>,
    did: Mutex<Vec<Action>>,
    /// A permit for each thing that may be done.
    may: Semaphore,
    refuses: Option<&'static str>,
}

impl Yard {
    fn with(permits: usize, refuses: Option<&'static str>) -> Arc<Self> {
        let running = Mutex::new(BTreeSet::from([101]));
        Arc::new(Self { running, did: Mutex::default(), may: Semaphore::new(permits), refuses })
    }
}

#[async_trait]
impl Machines for Yard {
    async fn perform(&self, vm: u32, action: &Action) -> Result<(), String> {
        self.may.acquire().await.map_err(|closed| closed.to_string())?.forget();
        if let Some(why) = self.refuses.filter(|_| matches!(action, Action::Rollback { .. })) {
            return Err(why.to_owned());
        }
        match action {
            Action::Start => drop(self.running.lock().unwrap().insert(vm)),
            Action::Stop => drop(self.running.lock().unwrap().remove(&vm)),
            Action::Snapshot { .. }
            | Action::Rollback { .. }
            | Action::DeleteSnapshot { .. }
            | Action::Clone { .. } => {}
        }
        self.did.lock().unwrap().push(action.clone());
        Ok(())
    }

    fn runs(&self, vm: u32) -> Option<bool> {
        (vm == 101).then(|| self.running.lock().unwrap().contains(&vm))
    }
}

#[tokio::test]
async fn a_task_ends_when_its_machine_is_done() {
    let yard = Yard::with(1, None);
    let stage = Stage::over(yard.clone()).await;
    assert!(matches!(stage.run(Goal::Snapshot { memory: false }).await, Ok(Outcome::Done(_))));
    let upto = stage.cluster().state().lines().len() + 20;
    let let_go = async {
        while stage.cluster().state().lines().len() < upto {
            tokio::task::yield_now().await;
        }
        assert_eq!(yard.did.lock().unwrap().len(), 1, "the stop still takes its time");
        yard.may.add_permits(10);
    };
    let (outcome, ()) = tokio::join!(stage.run(Goal::Rollback), let_go);
    assert!(matches!(outcome, Ok(Outcome::Done(_))), "{outcome:?}");
    let did = yard.did.lock().unwrap();
    let kinds: Vec<&str> = did.iter().map(Action::kind).collect();
    assert_eq!(kinds, ["qmsnapshot", "qmstop", "qmrollback", "qmstart", "qmdelsnapshot"]);
}

#[tokio::test]
async fn a_guest_that_switched_itself_off_need_not_be_stopped() {
    let yard = Yard::with(10, None);
    let stage = Stage::over(yard.clone()).await;
    assert!(matches!(stage.run(Goal::Snapshot { memory: false }).await, Ok(Outcome::Done(_))));
    yard.running.lock().unwrap().clear();
    assert!(matches!(stage.run(Goal::Rollback).await, Ok(Outcome::Done(_))));
    assert_eq!(stage.cluster().state().count("qmstop"), 0);
}

#[tokio::test]
async fn what_a_machine_says_is_the_tasks_exit_status() {
    let stage = Stage::over(Yard::with(10, Some("qemu-img: the file is in use"))).await;
    assert!(matches!(stage.run(Goal::Snapshot { memory: false }).await, Ok(Outcome::Done(_))));
    let outcome = stage.run(Goal::Rollback).await;
    assert!(matches!(outcome, Ok(Outcome::Failed(Failure::LeftLocked { .. }))), "{outcome:?}");
    let state = stage.cluster().state();
    let rollback = state.tasks().iter().find(|task| task.kind == "qmrollback").unwrap();
    assert_eq!(rollback.exit_status.as_deref(), Some("qemu-img: the file is in use"));
}
