//! The steps of an operation over a VM of a few lines: its driver is killed anywhere, and the VM is taken back exactly once, never while it has a
//! process, and runs in a new generation.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test that cannot go on ends here"
)]

mod model;
mod tables;

use std::collections::BTreeSet;

use model::{Chance, Driven, Model, ROLLBACKS, operation};
use motorpool_backend_qemu::restore::{Afterwards, Failure, Goal, Memory};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn inv_27_fault_27_a_rollback_is_cut_off_anywhere_and_takes_back_once(
        goal in prop::sample::select(&ROLLBACKS), chances in chances(),
    ) {
        let mut model = Model::used();
        let driven = Driven::to_the_end(&mut model, &operation("t-1", goal), &chances);
        came_back(&model, &driven, goal)?;
    }

    /// Whoever ordered the first gave up on it, wherever it was: the second takes over, and counts nothing that the first has done.
    #[test]
    fn inv_27_a_second_operation_takes_back_what_ran_after_the_first(
        goals in (prop::sample::select(&KEEPING), prop::sample::select(&ROLLBACKS)), first in chances(), second in chances(),
    ) {
        let mut model = Model::used();
        Driven::to_the_end(&mut model, &operation("t-1", goals.0), &first);
        let before = model.generation.number;
        let driven = Driven::to_the_end(&mut model, &operation("t-2", goals.1), &second);
        prop_assert!(driven.end.is_ok(), "{driven:?}");
        prop_assert_eq!(&model.broken, &Vec::<String>::new());
        prop_assert_eq!(model.effective_rollbacks, 2);
        prop_assert!(model.runs() && model.generation.number > before);
    }

    /// Its order came twice: nothing is taken back under whoever uses the VM by now.
    #[test]
    fn inv_07_the_same_operation_again_changes_nothing(goal in prop::sample::select(&ROLLBACKS), chances in chances()) {
        let mut model = Model::used();
        let once = operation("t-1", goal);
        Driven::to_the_end(&mut model, &once, &[]);
        let generation = model.generation.clone();
        let driven = Driven::to_the_end(&mut model, &once, &chances);
        prop_assert!(driven.end.is_ok(), "{driven:?}");
        prop_assert_eq!((model.effective_rollbacks, &model.generation), (1, &generation));
    }

    #[test]
    fn fault_15_a_snapshot_is_taken_once_and_deleted_once(
        memory in prop::sample::select(&[Memory::Included, Memory::DiskOnly]), runs in any::<bool>(), chances in chances(),
    ) {
        let mut model = Model::without_a_snapshot();
        let runs = runs || memory == Memory::Included;
        if !runs {
            model.process = None;
        }
        let taken = Driven::to_the_end(&mut model, &operation("t-1", Goal::Snapshot(memory)), &chances);
        prop_assert!(taken.end.is_ok(), "{taken:?}");
        prop_assert_eq!((model.saves, model.snapshot), (1, Some(memory)));
        let deleted = Driven::to_the_end(&mut model, &operation("t-2", Goal::Delete), &chances);
        prop_assert!(deleted.end.is_ok(), "{deleted:?}");
        prop_assert_eq!((model.deletions, model.snapshot), (1, None));
        prop_assert_eq!(&model.broken, &Vec::<String>::new());
        prop_assert_eq!(model.process.is_some(), runs);
    }

    /// A job of QEMU's fails: the operation says why, and another try is another operation.
    #[test]
    fn a_job_that_failed_is_the_end_of_its_operation_and_not_of_the_next(chances in chances()) {
        let mut model = Model::without_a_snapshot();
        model.job_fails = true;
        let goal = Goal::Snapshot(Memory::Included);
        let failed = Driven::to_the_end(&mut model, &operation("t-1", goal), &chances);
        prop_assert!(matches!(failed.end, Err(Failure::Job { .. })), "{failed:?}");
        model.job_fails = false;
        let taken = Driven::to_the_end(&mut model, &operation("t-2", goal), &chances);
        prop_assert!(taken.end.is_ok(), "{taken:?}");
        prop_assert_eq!(&model.broken, &Vec::<String>::new());
        prop_assert_eq!(model.saves, 1);
    }
}

/// One chance, or two, at every step and the ones after it: each has befallen each step.
#[test]
fn inv_27_fault_27_every_chance_befalls_every_step() {
    let mut befell = BTreeSet::new();
    for goal in ROLLBACKS {
        let plain = Driven::to_the_end(&mut Model::used(), &operation("t-1", goal), &[]);
        for (first, second) in ALL.into_iter().flat_map(|first| ALL.map(|second| (first, second))) {
            for place in 0..plain.steps {
                for gap in 0..4 {
                    let mut chances = vec![Chance::Nothing; place];
                    chances.push(first);
                    chances.extend(std::iter::repeat_n(Chance::Nothing, gap));
                    chances.push(second);
                    let mut model = Model::used();
                    let driven = Driven::to_the_end(&mut model, &operation("t-1", goal), &chances);
                    came_back(&model, &driven, goal).unwrap();
                    befell.extend(driven.befell);
                }
            }
        }
    }
    for step in ["CutOff", "RestoreDisk", "Launch", "GoOn", "Delete"] {
        for chance in &ALL[2..] {
            assert!(befell.contains(&format!("{chance:?} {step}")), "{chance:?} never befell {step}");
        }
    }
}

fn came_back(model: &Model, driven: &Driven, goal: Goal) -> Result<(), TestCaseError> {
    prop_assert!(driven.end.is_ok(), "{driven:?}");
    prop_assert_eq!(&model.broken, &Vec::<String>::new());
    prop_assert_eq!(model.effective_rollbacks, 1);
    prop_assert!(model.runs() && model.generation.number > 3, "{:?}", model);
    prop_assert_eq!(driven.end.clone().unwrap().generation, model.generation.number);
    prop_assert_eq!(model.snapshot.is_some(), KEEPING.contains(&goal));
    Ok(())
}

const KEEPING: [Goal; 2] =
    [Goal::Rollback(Memory::Included, Afterwards::Keep), Goal::Rollback(Memory::DiskOnly, Afterwards::Keep)];

const ALL: [Chance; 9] = [
    Chance::Nothing,
    Chance::KilledBefore,
    Chance::KilledAfter,
    Chance::KilledInTheMiddle(1),
    Chance::KilledInTheMiddle(3),
    Chance::KilledBetween,
    Chance::AnswerLost,
    Chance::OrderLost,
    Chance::Slow(2),
];

fn chances() -> impl Strategy<Value = Vec<Chance>> {
    let chance = prop_oneof![
        6 => Just(Chance::Nothing),
        2 => Just(Chance::KilledBefore),
        2 => Just(Chance::KilledAfter),
        2 => (1_u8..4).prop_map(Chance::KilledInTheMiddle),
        2 => Just(Chance::KilledBetween),
        1 => Just(Chance::AnswerLost),
        1 => Just(Chance::OrderLost),
        2 => (1_u8..4).prop_map(Chance::Slow),
    ];
    proptest::collection::vec(chance, 0..60)
}
