//! What every ledger does, whatever it keeps its rows in. Each case is given an empty ledger of its own. A case reads an index as soon as it
//! has written: an adapter whose indexes are late is to be opened so that they are not.

#[path = "../adapters/mod.rs"]
mod adapters;
mod children;
mod conditions;
mod counters;
mod documents;
mod due;
mod fixtures;
mod lists;
mod marks;
mod spans;
mod whole;

use adapters::each_adapter;

/// Makes a test of each case over this adapter.
macro_rules! contract {
    ($adapter:ident) => {
        contract!(@cases $adapter:
            documents::a_row_is_read_as_written,
            documents::rows_are_read_in_the_order_asked_for,
            documents::a_path_is_not_taken_for_another,
            documents::a_put_drops_counter_and_marks,
            documents::a_replacement_keeps_counter_and_marks,
            documents::what_comes_after_a_deletion_begins_anew,
            documents::a_document_may_be_of_another_schema_and_kept_for_a_while,
            documents::the_ledger_answers,
            conditions::inv_02_a_put_is_on_its_condition,
            conditions::inv_02_a_check_is_on_its_condition_and_writes_nothing,
            conditions::inv_02_a_replacement_is_of_exactly_this_version,
            conditions::inv_02_a_deletion_is_of_exactly_this_version,
            conditions::inv_02_a_counter_that_moved_refuses_a_replacement,
            conditions::inv_02_a_counter_that_moved_refuses_a_deletion,
            conditions::inv_02_a_version_of_defaults_is_not_absence,
            conditions::inv_02_of_32_writers_from_one_version_one_wins,
            conditions::inv_03_of_16_that_put_what_is_absent_one_wins,
            counters::inv_17_a_sum_is_within_its_bounds,
            counters::inv_02_an_addition_may_need_the_row_to_be_as_it_was_seen,
            counters::inv_17_of_20_adders_at_once_none_goes_beyond,
            counters::inv_17_additions_at_once_are_all_counted,
            counters::a_bound_may_be_the_greatest_number,
            counters::nothing_is_within_bounds_that_are_the_wrong_way_round,
            counters::an_addition_changes_nothing_but_the_counter,
            whole::inv_02_one_failed_condition_keeps_all_from_being_written,
            whole::each_operation_answers_for_itself,
            whole::operations_of_all_kinds_are_written_together,
            whole::conditions_are_of_what_was_there_before_the_transaction,
            whole::a_log_is_written_with_the_rest_or_not_at_all,
            whole::a_log_alone_is_written_over_what_was_there,
            whole::inv_07_fault_15_a_transaction_again_is_refused_by_its_own_writes,
            whole::a_transaction_of_a_hundred_writes_is_taken,
            whole::what_is_no_transaction_is_an_error_and_changes_nothing,
            marks::a_mark_is_noted_beside_the_document,
            marks::inv_21_a_mark_of_another_epoch_is_not_noted,
            marks::fault_08_a_mark_after_the_end_is_not_noted,
            marks::a_mark_on_nothing_makes_nothing,
            marks::a_state_of_no_name_is_a_state,
            marks::a_mark_moves_no_index,
            marks::marks_are_not_lost_to_writes_at_the_same_time,
            lists::a_row_stands_in_several_lists,
            lists::places_change_and_shrink_and_vanish,
            lists::a_put_leaves_the_places_of_the_row_before,
            lists::a_deleted_row_stands_nowhere,
            lists::a_refused_write_moves_no_place,
            lists::a_row_stands_twice_in_one_list,
            lists::two_rows_stand_at_one_place,
            lists::a_child_stands_in_a_list,
            lists::a_list_shows_rows_as_they_are,
            spans::a_list_is_in_the_order_of_bytes,
            spans::a_span_includes_both_ends,
            spans::a_span_of_nothing_is_empty,
            spans::lists_of_similar_names_are_apart,
            spans::a_list_is_read_up_to_a_bound,
            spans::a_list_is_counted_up_to_a_bound,
            spans::a_long_list_is_read_whole,
            children::children_are_read_by_name_up_and_down,
            children::children_are_read_between_names,
            children::children_are_read_up_to_a_bound,
            children::children_are_of_one_key_and_not_the_record_itself,
            children::children_are_as_they_are_now,
            children::many_children_are_read_whole,
            due::what_is_due_comes_in_order,
            due::what_is_due_is_read_up_to_a_bound,
            due::what_is_due_moves_with_its_row,
            due::what_is_never_due_is_not_found,
            due::only_a_document_moves_what_is_due,
            due::a_child_may_be_due,
            due::much_that_is_due_comes_in_order,
        );
    };
    (@cases $adapter:ident: $($room:ident::$case:ident,)+) => {
        mod $adapter {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() -> ::anyhow::Result<()> {
                    let opened = crate::adapters::$adapter().await?;
                    crate::$room::$case(opened.ledger.clone()).await
                }
            )+
        }
    };
}

each_adapter!(contract);
