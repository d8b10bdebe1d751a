//! What every ledger must do, whatever it keeps its records in. Each case is given an empty ledger of its own.
//!
//! [`ledger_contract!`](crate::ledger_contract) makes a test of each case.

pub mod alerts;
pub mod claims;
pub mod due;
pub mod fixtures;
pub mod listings;
pub mod log;
pub mod opening;
pub mod pools;
pub mod release;
pub mod runners;
pub mod slots;
pub mod take;
pub mod teams;
pub mod together;
pub mod tokens;
pub mod trace;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;

use motorpool_control::store::Store;
use tempfile::TempDir;

/// Makes a test of each case. `$open` is an async function that takes a fresh table's name, creates the table if the
/// adapter has one, and gives the ledger over it: `async fn(String) -> Result<Opened>`.
#[macro_export]
macro_rules! ledger_contract {
    ($adapter:ident, $open:path) => {
        $crate::ledger_contract!(@cases $adapter, $open:
            pools::a_pool_is_read_as_written,
            pools::pools_are_listed_by_name,
            pools::rules_change_and_the_counter_stays,
            pools::only_an_unused_pool_is_deleted,
            pools::inv_02_only_an_unused_pool_is_written_where_that_is_asked_for,
            pools::inv_02_a_pool_is_written_only_as_it_was_seen,
            pools::inv_02_of_20_writes_of_a_pool_at_once_one_wins,
            pools::refresh_remembers_and_the_ledger_answers,
            runners::a_runner_is_read_as_written,
            runners::many_runners_are_read_in_the_order_asked_for,
            runners::inv_02_a_write_from_a_stale_revision_state_or_epoch_is_lost,
            runners::inv_02_of_32_writers_from_one_record_one_wins,
            runners::a_write_to_a_missing_runner_says_so,
            runners::inv_21_a_heartbeat_of_an_old_epoch_changes_nothing,
            runners::fault_08_a_heartbeat_after_the_end_changes_nothing,
            runners::heartbeats_and_announcements_survive_writes_and_epochs,
            runners::heartbeats_are_not_lost_to_writes_at_the_same_time,
            claims::a_claim_is_opened_and_found,
            claims::the_latest_claim_on_each_pool_is_found,
            claims::a_key_has_one_claim,
            claims::an_ended_claim_is_replaced_once,
            claims::inv_03_of_16_that_open_one_key_one_wins,
            claims::inv_07_fault_15_opening_again_is_done_and_changes_nothing,
            claims::inv_02_a_write_from_a_stale_claim_is_lost,
            take::a_runner_is_taken_and_listed,
            take::inv_03_of_32_takers_of_one_runner_one_wins,
            take::inv_03_an_ended_claim_takes_nothing,
            take::inv_02_a_claim_that_gained_another_takes_nothing,
            take::inv_02_a_runner_that_is_not_free_is_not_taken,
            take::inv_03_a_runner_on_its_way_for_nobody_is_taken_once,
            take::inv_02_one_taken_idle_is_lost_to_who_saw_it_on_its_way,
            take::inv_07_fault_15_taking_again_is_done_and_changes_nothing,
            take::inv_01_taking_again_after_a_reset_is_lost,
            opening::a_claim_is_opened_with_its_first_runner,
            opening::inv_03_of_16_that_open_one_key_with_a_runner_each_one_wins,
            opening::a_key_that_is_taken_keeps_the_runner_idle,
            opening::an_ended_claims_key_is_taken_with_a_runner,
            opening::inv_07_fault_15_opening_with_a_runner_again_is_done_and_changes_nothing,
            opening::a_claim_is_opened_with_its_intents_or_not_at_all,
            slots::inv_15_intents_are_written_with_their_claim,
            slots::inv_17_intents_beyond_the_maximum_are_refused_whole,
            slots::inv_17_a_launch_is_written_on_the_definition_that_it_was_decided_on,
            slots::inv_17_of_20_launches_at_once_none_goes_beyond_the_maximum,
            slots::inv_17_a_launch_decided_on_a_count_needs_that_count,
            slots::inv_17_a_terminated_runner_gives_its_slot_back_once,
            slots::inv_02_intents_of_a_claim_that_moved_on_are_refused_whole,
            slots::inv_01_a_live_runner_is_not_replaced,
            slots::inv_01_a_terminated_runner_is_replaced_by_a_higher_epoch,
            slots::inv_07_fault_15_launching_again_is_done_and_changes_nothing,
            slots::a_launch_of_too_many_or_of_one_twice_is_an_error,
            together::runners_are_written_together_each_with_its_log,
            together::inv_02_one_stale_record_keeps_all_from_being_written,
            together::inv_02_of_16_that_write_the_same_runners_one_wins,
            together::inv_07_fault_15_writing_together_again_is_done_and_changes_nothing,
            together::what_can_not_be_written_together_is_an_error,
            together::fault_22_a_shortage_is_remembered_until_it_is_over,
            release::a_claim_ends_and_lets_go_of_its_runners_in_one_write,
            release::inv_02_a_release_of_what_has_moved_on_is_lost_whole,
            release::inv_07_fault_15_releasing_again_is_done_and_changes_nothing,
            release::inv_02_of_16_releases_at_once_all_mean_the_same_write,
            tokens::a_runner_is_found_by_its_token_and_by_no_other,
            tokens::refuse_10_a_runner_born_with_a_token_is_found_by_it_in_that_life_alone,
            tokens::refuse_10_a_token_that_was_replaced_or_whose_runner_is_over_finds_nobody,
            due::what_is_due_comes_in_order_and_bounded,
            due::what_is_terminal_or_a_persons_is_never_due,
            due::a_look_comes_before_the_threshold,
            due::looking_again_from_a_stale_record_changes_nothing,
            due::a_heartbeat_never_moves_what_is_due,
            due::an_ended_claim_is_due_until_it_is_settled,
            listings::runners_are_listed_by_state,
            listings::runners_are_listed_in_pages,
            listings::runners_are_counted_up_to_a_bound,
            listings::claims_are_listed_oldest_first,
            listings::claims_are_listed_in_pages,
            teams::whoever_waits_is_found_team_by_team,
            teams::a_teams_claims_are_listed_and_counted_apart,
            listings::a_bad_page_is_an_error,
            alerts::an_alert_is_read_as_written,
            alerts::inv_02_an_alert_is_written_only_as_it_was_read,
            alerts::inv_02_of_16_that_raise_one_incident_one_opens_it,
            alerts::inv_02_of_16_that_would_tell_one_does,
            alerts::an_alert_is_due_when_something_is_to_be_told_or_looked_at,
            alerts::open_alerts_are_listed_by_age_and_those_that_are_over_behind_them,
            log::the_log_is_newest_first_and_in_pages,
            log::inv_02_a_lost_write_leaves_no_entry,
            log::a_transaction_logs_on_every_record_it_changes,
            log::a_note_is_kept_once,
            trace::inv_25_the_same_calls_give_the_same_answers_as_in_memory,
        );
    };
    (@cases $adapter:ident, $open:path: $($room:ident::$case:ident,)+) => {
        mod $adapter {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() -> ::anyhow::Result<()> {
                    let opened = $open($crate::suites::contracts::ledger::fresh_table()).await?;
                    $crate::suites::contracts::ledger::$room::$case(opened.ledger.clone()).await
                }
            )+
        }
    };
}

/// A ledger, and what must live as long as it does.
#[derive(Debug)]
pub struct Opened {
    pub ledger: Arc<Store>,
    pub dir: Option<TempDir>,
}

/// Random, since the tables of an earlier run may still be there.
pub fn fresh_table() -> String {
    format!("contract-{:016x}", RandomState::new().hash_one(std::process::id()))
}
