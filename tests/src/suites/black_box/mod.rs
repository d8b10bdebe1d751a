//! The black-box suite of the pool layer: cases that know a target only by its address and its tokens, so that the same suite
//! runs against `serve` and against any other deployment of the same routes. It starts nothing.
//!
//! Each case makes what it needs under names of its own, so that cases can have one target one after the other. Not at the
//! same time: some count what is there.

pub mod agents;
pub mod audit_why;
pub mod checkpoint_answers;
pub mod checkpoints;
pub mod claims;
pub mod limits;
pub mod openapi;
pub mod picking;
pub mod pools;
pub mod provisioning;
pub mod refusals;
pub mod refusals_agents;
pub mod refusals_callers;
pub mod refusals_tokens;
pub mod refusals_values;
pub mod registry;
pub mod release;
pub mod runners;
mod target;
mod watch;

pub use target::{METAL, METAL_MAX, SMALL, SMALL_MAX, TEAM_A, TEAM_B, Target};
pub use watch::Watch;

/// Hands every case to a macro as `subject: case, case;`, so that a new deployment need not list them again.
#[macro_export]
macro_rules! with_black_box_cases {
    ($each:ident) => {
        $each! {
            provisioning:
                a_claim_has_its_fixed_shape_from_pending_to_released,
                one_runner_is_asked_for_if_no_count_is_given,
                asking_again_gives_the_same_answer,
                asking_otherwise_is_a_conflict_that_names_the_claim,
                an_ended_claims_key_opens_a_new_one,
                a_claim_is_known_by_owner_workflow_and_pool,
                a_claim_that_waits_says_why_and_gets_what_comes,
                idle_runners_come_before_new_ones,
                the_maximum_holds_and_who_waits_is_next,
                a_claim_released_while_its_runner_starts_leaves_an_idle_runner,
                refreshing_by_hand_tells_what_it_did;
            picking:
                by_instance_type,
                by_resource_class,
                by_all_at_once,
                what_does_not_fit_is_given_back,
                a_runner_that_comes_goes_to_a_claim_that_it_fits;
            claims:
                an_empty_pool_is_told_and_nothing_changes,
                one_idle_runner_is_taken_now,
                following_ends_as_soon_as_the_claim_is_ready,
                following_tells_what_is_when_the_time_is_over,
                following_ends_when_the_claim_is_released,
                a_claim_that_waits_too_long_fails_and_says_why,
                claims_are_listed_page_by_page,
                a_team_sees_its_own_claims;
            release:
                a_released_runner_is_cleaned_and_idle_again,
                releasing_again_is_harmless,
                a_claim_that_waits_can_be_released,
                a_workflow_gives_back_all_that_it_holds_or_one_pools,
                an_operator_releases_for_a_team,
                what_nobody_holds_cannot_be_released;
            pools:
                a_pool_is_made_shown_changed_and_deleted,
                a_pool_of_the_file_is_changed_there_alone,
                a_pool_with_runners_is_not_deleted,
                a_pool_that_claims_wait_for_is_not_deleted,
                a_pool_with_runners_can_be_changed,
                a_pool_with_runners_keeps_its_backend,
                settings_that_cannot_hold_are_refused_by_name,
                teams_see_pools_and_their_counts;
            runners:
                a_registered_machine_gets_its_secret_once,
                a_machine_is_registered_only_where_it_can_be,
                runners_are_listed_page_by_page_and_by_state,
                a_free_runner_is_removed_and_gives_its_slot_back,
                a_held_runner_is_not_removed,
                a_drained_runner_goes_once_its_holder_is_done,
                a_runner_taken_by_force_is_replaced,
                a_runner_that_cannot_be_cleaned_waits_for_a_person,
                a_runner_that_cannot_deregister_waits_for_a_person,
                a_reset_that_cannot_deregister_is_tried_again;
            agents:
                a_kept_runners_whole_life,
                a_secret_is_redeemed_by_one_token_alone,
                what_an_agent_sends_at_bootstrap_is_checked,
                a_waiting_sync_is_answered_when_there_is_work,
                a_runner_that_cannot_register_is_cleaned_and_its_claim_picks_again,
                a_machine_that_starts_anew_loses_its_holder,
                a_pool_that_keeps_asks_for_no_cleaning;
            audit_why:
                a_runners_log_tells_its_life,
                why_tells_a_claims_story,
                why_tells_what_a_claim_waits_for,
                refuse_09_why_tells_nothing_of_the_next_holder,
                a_pools_log_tells_who_defined_it,
                what_can_fail_has_a_result_and_a_duration,
                a_log_is_asked_for_by_subject;
            checkpoints:
                a_job_s_checkpoint_is_created_with_its_runner_running,
                inv_26_the_same_job_again_gets_the_same_checkpoint,
                inv_12_a_second_job_is_refused_while_one_is_active,
                finalize_is_queued_once_and_told_again,
                after_a_failure_the_machine_is_reset_and_after_a_success_cleaned,
                inv_29_a_failure_overrides_a_success_until_the_cleaning_has_begun,
                a_machine_that_is_not_ready_after_its_reset_waits_for_a_person,
                in_a_pool_of_claims_a_checkpoint_is_the_hold_s,
                a_pool_of_hooks_is_not_claimed,
                readiness_tells_whether_a_job_may_come,
                refuse_08_a_checkpoint_is_its_runner_s_alone,
                the_operator_may_look_at_any_checkpoint,
                a_signed_webhook_finalizes_a_checkpoint,
                refuse_12_and_13_what_a_hook_sends_is_checked;
            checkpoint_answers:
                a_machine_rests_between_two_jobs,
                who_noticed_the_end_of_a_job_is_recorded,
                an_agent_that_is_not_connected_is_told_of,
                refuse_10_a_token_that_was_replaced_by_a_reset_opens_no_hook_s_route;
            registry:
                a_machine_registered_with_a_token_is_handed_it_once,
                a_token_is_for_who_needs_no_agent,
                an_active_runner_is_not_registered_again,
                a_whole_job_over_plain_http,
                a_job_whose_end_others_tell_leaves_an_idle_runner,
                removed_runners_are_listed_where_they_are_asked_for,
                all_pools_runners_are_listed_page_by_page,
                what_is_said_of_a_machine_is_changed,
                a_command_that_is_changed_is_run_the_next_time,
                refuse_10_a_renewed_token_makes_the_old_one_void,
                refuse_10_a_machine_that_comes_back_has_another_token,
                refuse_11_a_call_of_an_earlier_life_changes_nothing,
                refuse_08_a_fixed_token_is_good_for_its_runner_alone,
                refuse_12_what_is_the_control_plane_s_own_is_not_changed,
                refuse_13_commands_are_text_and_steer_nothing;
            openapi:
                the_document_has_every_route_of_the_design,
                the_document_refers_only_to_what_it_has,
                answers_have_the_documents_fields,
                the_service_tells_how_it_is;
            refusals:
                a_provision_with_bad_values_is_refused,
                refuse_18_unknown_and_missing_fields_are_named,
                a_machine_without_hardware_is_refused,
                refuse_18_what_is_not_json_is_refused,
                a_body_of_another_kind_is_refused,
                unknown_paths_and_methods_are_refused;
            refusals_values:
                refuse_13_ids_hold_nothing_that_a_shell_or_a_path_knows,
                refuse_13_paths_and_queries_hold_nothing_that_a_shell_or_a_path_knows,
                refuse_12_state_epoch_owner_and_token_are_not_assigned;
            refusals_callers:
                a_missing_wrong_or_malformed_token_opens_nothing,
                a_header_that_is_not_one_bearer_token_opens_nothing,
                refuse_01_webhooks_are_not_taken_without_a_secret,
                a_teams_token_does_not_open_the_operators_routes,
                refuse_09_a_teams_claim_is_closed_to_another,
                refuse_08_a_runners_token_opens_no_other_route,
                refuse_08_a_runners_token_is_good_for_that_runner_alone,
                refuse_08_what_looks_like_a_runners_token_is_told_where_it_belongs;
            refusals_agents:
                refuse_10_an_old_token_is_void_after_rotation,
                refuse_10_a_removed_runner_is_told_to_end,
                refuse_10_a_removed_machine_that_never_joined_stays_out,
                refuse_11_another_epochs_message_changes_nothing,
                refuse_11_what_was_never_asked_for_counts_for_nothing,
                refuse_18_a_long_report_is_cut,
                refuse_25_what_steers_a_terminal_is_not_kept;
            refusals_tokens:
                refuse_10_a_token_changes_with_each_reset,
                refuse_22_a_copied_token_takes_a_kept_machine_out_of_its_pool_once,
                refuse_22_on_every_route_of_an_agent,
                refuse_22_of_two_with_the_same_token_the_second_gets_nothing,
                inv_21_a_request_that_was_overtaken_is_refused_and_changes_nothing,
                refuse_10_a_secret_that_is_renewed_while_a_token_changes_voids_both;
            limits:
                refuse_18_an_oversized_body_is_refused,
                a_sync_may_be_longer_than_other_bodies,
                refuse_18_a_flood_is_served_or_told_to_come_back,
                many_who_ask_the_same_get_the_same_claim;
        }
    };
}
