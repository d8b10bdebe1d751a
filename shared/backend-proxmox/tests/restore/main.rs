//! The steps of an operation over a VM of a few lines: its driver is killed anywhere, answers are lost, calls arrive late, and the VM is rolled
//! back exactly once, never while it runs, and never started before that has ended.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends here"
)]

mod model;
mod tables;

use std::collections::BTreeSet;

use model::{Chance, Driven, Model, operation};
use motorpool_backend_proxmox::restore::{Ask, Goal, Outcome};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn inv_27_fault_27_a_reset_is_cut_off_anywhere_and_rolls_back_once(chances in chances()) {
        let mut model = Model::used();
        let driven = Driven::to_the_end(&mut model, operation(Goal::Rollback), &chances);
        prop_assert!(matches!(driven.outcome, Outcome::Done(_)), "{driven:?}");
        prop_assert_eq!(&model.broken, &Vec::<String>::new());
        prop_assert_eq!(model.effective_rollbacks, 1);
        prop_assert!(model.running && !model.dirty && model.snapshot.is_none(), "{:?}", model);
    }

    /// Whoever ends it is killed too, so that a second operation takes over with nothing noted.
    #[test]
    fn inv_27_a_second_operation_does_not_count_what_the_first_has_done(first in chances(), second in chances()) {
        let mut model = Model::used();
        Driven::to_the_end(&mut model, operation(Goal::Rollback), &first);
        model.next_job();
        Driven::to_the_end(&mut model, operation(Goal::Rollback), &second);
        prop_assert_eq!(&model.broken, &Vec::<String>::new());
        prop_assert_eq!(model.effective_rollbacks, 2);
        prop_assert!(!model.dirty);
    }

    #[test]
    fn fault_15_a_snapshot_is_taken_once_and_deleted_once(chances in chances()) {
        let mut model = Model::without_a_snapshot();
        let taken = Driven::to_the_end(&mut model, operation(Goal::Snapshot { memory: false }), &chances);
        prop_assert!(matches!(taken.outcome, Outcome::Done(_)), "{taken:?}");
        prop_assert_eq!(model.snapshots_taken, 1);
        let deleted = Driven::to_the_end(&mut model, operation(Goal::Delete), &chances);
        prop_assert!(matches!(deleted.outcome, Outcome::Done(_)), "{deleted:?}");
        prop_assert!(model.snapshot.is_none() && model.running);
        prop_assert_eq!(&model.broken, &Vec::<String>::new());
    }

    /// A task of the VM fails: the operation says which, and leaves the VM alone.
    #[test]
    fn inv_27_nothing_moves_on_behind_a_task_that_failed(chances in chances(), failing in 0_usize..4) {
        let mut model = Model::used();
        model.fails = Some(failing);
        let driven = Driven::to_the_end(&mut model, operation(Goal::Rollback), &chances);
        prop_assert!(matches!(driven.outcome, Outcome::Failed(_)), "{driven:?}");
        prop_assert_eq!(&model.broken, &Vec::<String>::new());
        prop_assert_eq!(model.begun(), failing + 1, "nothing is begun behind it");
    }
}

/// One chance, or two, at every step and the ones after it: each has befallen each of the four calls.
#[test]
fn inv_27_fault_27_every_chance_befalls_every_call() {
    let mut befell = BTreeSet::new();
    let plain = Driven::to_the_end(&mut Model::used(), operation(Goal::Rollback), &[]);
    for (first, second) in ALL.into_iter().flat_map(|first| ALL.map(|second| (first, second))) {
        for place in 0..plain.steps {
            for gap in 0..4 {
                let mut chances = vec![Chance::Nothing; place];
                chances.push(first);
                chances.extend(std::iter::repeat_n(Chance::Nothing, gap));
                chances.push(second);
                let mut model = Model::used();
                let driven = Driven::to_the_end(&mut model, operation(Goal::Rollback), &chances);
                assert!(matches!(driven.outcome, Outcome::Done(_)), "{chances:?}: {driven:?}");
                assert_eq!(model.broken, Vec::<String>::new(), "{chances:?}");
                assert_eq!(model.effective_rollbacks, 1, "{chances:?}");
                assert!(model.running && !model.dirty && model.snapshot.is_none(), "{chances:?}: {model:?}");
                befell.extend(driven.befell);
            }
        }
    }
    for call in [Ask::Stop, Ask::Rollback, Ask::Start, Ask::DeleteSnapshot] {
        for chance in IN_A_CALL {
            assert!(befell.contains(&format!("{chance:?} {call:?}")), "{chance:?} never befell {call:?}");
        }
    }
}

const IN_A_CALL: [Chance; 6] = [
    Chance::KilledInTheCall,
    Chance::KilledBeforeNoting,
    Chance::AnswerLost,
    Chance::CallLost,
    Chance::CallLate(1),
    Chance::CallLate(2),
];
const ALL: [Chance; 9] = [
    Chance::Nothing,
    Chance::KilledBefore,
    Chance::TaskIsSlow,
    Chance::KilledInTheCall,
    Chance::KilledBeforeNoting,
    Chance::AnswerLost,
    Chance::CallLost,
    Chance::CallLate(1),
    Chance::CallLate(2),
];

fn chances() -> impl Strategy<Value = Vec<Chance>> {
    let chance = prop_oneof![
        6 => Just(Chance::Nothing),
        2 => Just(Chance::KilledBefore),
        2 => Just(Chance::KilledInTheCall),
        2 => Just(Chance::KilledBeforeNoting),
        2 => Just(Chance::AnswerLost),
        2 => Just(Chance::CallLost),
        2 => (1_u8..4).prop_map(Chance::CallLate),
        2 => Just(Chance::TaskIsSlow),
    ];
    proptest::collection::vec(chance, 0..60)
}
