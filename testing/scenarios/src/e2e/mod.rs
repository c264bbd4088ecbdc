//! Whole workflows under a real runtime: each scenario is a function on a [`Harness`](crate::Harness).

pub mod cancellation;
pub mod children;
pub mod continue_as_new;
pub mod control_flow;
pub mod deletion;
pub mod events;
pub mod fan_out;
pub mod hello;
pub mod kv;
pub mod large;
pub mod management;
pub mod names;
pub mod poison;
pub mod pruning;
pub mod queues;
pub mod restarts;
pub mod retry;
pub mod sessions;
pub mod status;
pub mod tags;
pub mod timers;
pub mod unregistered;
pub mod versions;

/// Names of all scenarios, as `module::function`.
pub const NAMES: &[&str] = crate::__e2e_list! { __names () };

#[doc(hidden)]
#[macro_export]
macro_rules! __e2e_list {
    ($then:ident ($($arg:tt)*)) => {
        $crate::$then! {
            e2e ($($arg)*)
            hello {
                one_activity_makes_a_result
                a_workflow_without_steps_completes
                any_text_comes_through_unchanged
                steps_run_one_after_the_other
                typed_values_round_trip
                recorded_system_calls_are_stable_over_replays
                a_second_start_of_an_id_is_ignored
                an_activity_knows_its_workflow
                a_status_tells_where_an_instance_is
                instances_do_not_mix
            }
            control_flow {
                a_branch_takes_one_way
                a_loop_ends_when_its_steps_say_so
                an_unhandled_error_fails_the_workflow
                a_handled_error_is_compensated
                errors_pass_through_helper_functions
                a_panicking_activity_is_a_failed_activity
                a_panicking_workflow_has_failed
                changed_code_is_detected
            }
            retry {
                a_retry_succeeds_on_the_third_try
                a_retry_gives_up_with_the_last_error
                a_growing_back_off_waits
                a_try_that_takes_too_long_is_not_repeated
                retries_side_by_side_keep_their_own_counts
            }
            fan_out {
                results_stand_in_the_order_of_the_calls
                one_failure_leaves_the_other_results
                different_kinds_join
                a_thousand_activities_at_once
                a_second_wave_uses_the_first
            }
            timers {
                a_timer_never_fires_early
                a_timer_of_no_length_fires
                timers_fire_by_due_time
                many_timers_all_fire
                an_activity_beats_a_timer
                a_timer_beats_an_activity
                the_first_of_three_wins
                a_long_timer_holds_nothing_up
            }
            events {
                an_event_resumes_its_workflow_only
                events_of_one_name_arrive_in_order
                events_of_other_names_do_not_disturb
                typed_events_round_trip
                an_event_in_time_beats_the_timer
                a_late_event_changes_nothing
                events_and_activities_alternate
            }
            queues {
                messages_are_read_in_order
                queues_do_not_mix
                a_queue_is_not_an_event
                a_reader_that_gave_up_takes_no_message
                messages_for_a_missing_instance_are_dropped
                messages_sent_right_after_the_start_are_kept
                three_hundred_messages_are_read_in_order
                a_request_is_answered_through_the_kv_store
            }
            children {
                a_childs_result_comes_back
                a_child_may_have_a_chosen_id
                four_generations
                twenty_children_at_once
                a_childs_failure_reaches_the_parent
                cancelling_a_parent_cancels_its_children
                cancelling_a_child_is_seen_by_the_parent
                a_child_that_loses_a_race_is_cancelled
                a_detached_start_outlives_its_parent
                a_child_that_continues_as_new_still_answers
                a_parent_that_continues_as_new_starts_new_children
                a_child_beats_a_timer
            }
            continue_as_new {
                each_execution_keeps_its_history
                fifty_executions_in_a_row
                unread_messages_are_carried_on
                one_message_per_execution
                an_event_reaches_the_current_execution
                a_continued_instance_is_running
                late_results_of_an_old_execution_are_ignored
                a_continuation_may_change_the_version
                a_later_execution_can_be_cancelled
            }
            versions {
                a_start_gets_the_latest_or_the_named_version
                a_policy_pins_the_version
                children_get_the_latest_or_the_named_version
                running_work_keeps_its_version_over_an_upgrade
                old_and_new_runtimes_share_one_store
                a_runtime_leaves_what_it_cannot_replay
            }
            sessions {
                a_session_stays_with_one_runtime
                instances_share_a_session
                another_runtime_takes_over
                a_returning_runtime_keeps_its_sessions
                session_steps_and_free_steps_mix
                a_session_survives_continue_as_new
                a_runtime_holds_no_more_sessions_than_allowed
            }
            tags {
                two_runtimes_split_the_work_by_tag
                a_generalist_takes_everything
                a_runtime_may_take_untagged_work_and_a_tag
                tagged_work_waits_for_its_worker
                turns_and_work_may_live_apart
            }
            kv {
                values_are_set_overwritten_and_cleared
                a_client_reads_while_the_workflow_runs
                values_survive_continue_as_new
                clearing_everything_leaves_what_comes_after
                a_counter_counts_every_turn
                a_workflow_reads_anothers_values
                a_hundred_and_fifty_keys_in_one_turn
                a_value_of_64_kb
                values_of_a_failed_workflow_remain
                old_values_can_be_thrown_out
            }
            status {
                a_client_sees_each_change
                the_last_update_of_a_turn_counts
                a_status_can_be_taken_back
                a_failed_workflow_keeps_its_status
                a_status_survives_continue_as_new
                statistics_are_exact
                statistics_count_carried_messages
                a_status_of_256_kb
            }
            poison {
                a_turn_tried_too_often_fails_the_workflow
                a_turn_within_its_attempts_runs
                an_activity_tried_too_often_fails
                a_poisoned_child_fails_its_parent
                a_poisoned_successor_leaves_earlier_executions
            }
            unregistered {
                an_activity_waits_for_its_release
                a_workflow_finds_the_runtime_that_knows_it
                a_version_waits_for_its_release
                a_missing_activity_is_given_up
                a_missing_workflow_is_given_up
            }
            cancellation {
                a_waiting_workflow_stops
                a_completed_workflow_stays_completed
                a_workflow_can_be_cancelled_before_it_runs
                the_first_cancellation_gives_the_reason
                a_running_activity_is_told_to_stop
                an_activity_that_loses_a_race_is_told_to_stop
                a_deaf_activity_is_cut_off
                waiting_work_of_a_cancelled_workflow_never_runs
            }
            deletion {
                a_deleted_instance_leaves_nothing
                an_unknown_instance_cannot_be_deleted
                a_running_instance_is_deleted_only_by_force
                a_running_activity_brings_nothing_back
                a_tree_is_deleted_as_a_whole
                bulk_deletion_leaves_running_and_unnamed_ones
            }
            pruning {
                the_newest_executions_are_kept
                the_current_execution_is_never_pruned
                many_instances_are_pruned_at_once
                a_workflow_prunes_itself
            }
            restarts {
                a_new_runtime_goes_on
                a_reopened_store_goes_on
                a_crashed_store_goes_on
                everything_reads_the_same_after_a_restart
                a_timer_fires_after_a_restart
                what_is_sent_while_nothing_runs_arrives
                an_activity_cut_short_runs_again
                two_clients_see_the_same
                two_runtimes_share_the_work
            }
            large {
                ten_megabytes_come_through
                many_payloads_of_one_turn
                two_hundred_turns
                a_megabyte_in_every_kind_of_message
            }
            names {
                awkward_instance_ids
                awkward_kv_keys
                awkward_session_ids
                awkward_tags
                awkward_names
            }
            management {
                instances_are_listed_by_status
                an_instance_is_described
                queue_depths_count_what_waits
            }
        }
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn everything_is_in_the_list() {
        crate::macros::assert_lists_all(super::NAMES, "src/e2e");
    }
}
