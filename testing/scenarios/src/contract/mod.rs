//! Points of the provider contract that neither the runtime's own suite nor a workflow would show.
//!
//! Each talks to the provider as the runtime does, and says what must hold whatever the store.

pub mod crashes;
pub mod dropped;
pub mod history;
mod kit;
pub mod leases;
pub mod limits;
pub mod names;
pub mod order;
pub mod orphans;
pub mod retention;
pub mod sessions;
pub mod undecodable;
pub mod wakeups;
pub mod work;

/// Names of all points, as `module::function`.
pub const NAMES: &[&str] = crate::__contract_list! { __names () };

#[doc(hidden)]
#[macro_export]
macro_rules! __contract_list {
    ($then:ident ($($arg:tt)*)) => {
        $crate::$then! {
            contract ($($arg)*)
            orphans {
                an_event_for_a_missing_instance_blocks_no_other
                hundreds_of_events_for_missing_instances_block_no_other
                early_messages_are_delivered_with_the_start
                early_messages_wait_over_a_restart
                an_early_cancellation_takes_effect
                an_event_makes_no_instance
                only_the_first_ack_makes_the_instance
                queue_messages_for_a_missing_instance_are_dropped
                a_completion_for_a_missing_instance_is_accepted
            }
            dropped {
                a_dropped_waiter_takes_no_turn
                a_dropped_waiter_takes_no_work
                a_fetch_dropped_at_any_point_leaves_the_turn
                a_fetch_dropped_at_any_point_leaves_the_work
                fetches_cut_off_by_a_time_limit_lose_nothing
                a_dropped_fetch_is_no_attempt
                the_waiters_that_stay_get_everything
                a_killed_runtime_holds_nothing_back
            }
            leases {
                an_expired_turn_token_is_dead
                an_expired_work_token_is_dead
                a_turn_taken_over_is_out_of_reach
                work_taken_over_is_out_of_reach
                an_expired_turn_may_be_given_back
                a_lease_begins_at_the_hand_out
                a_renewed_lease_lives_from_the_renewal
                a_token_works_once
                an_invented_token_is_an_error
                of_two_acks_at_once_one_counts
            }
            order {
                instances_are_served_in_order_of_arrival
                three_hundred_messages_come_in_one_turn_in_order
                work_is_served_in_order_of_arrival
                a_turn_brings_all_that_waits
                what_is_given_back_keeps_its_place
                a_delayed_head_blocks_no_other
                a_delayed_message_does_not_hold_back_the_others
                due_things_are_served_by_arrival
                the_order_survives_a_restart
                fetchers_at_once_get_different_things
                senders_at_once_lose_nothing
            }
            wakeups {
                an_arrival_wakes
                an_ack_wakes
                the_end_of_a_turn_wakes_for_what_came_meanwhile
                what_comes_due_wakes
                the_end_of_a_lease_wakes
                what_is_given_back_wakes
                the_end_of_a_session_wakes
                other_tags_do_not_swallow_a_wake_up
                other_sessions_do_not_swallow_a_wake_up
                other_versions_do_not_swallow_a_wake_up
                many_arrivals_wake_many_waiters
                nothing_wakes_a_waiter_for_nothing
            }
            sessions {
                a_session_is_global_across_instances
                a_foreign_session_blocks_no_other
                a_parked_slot_hides_no_session_work
                a_fetch_without_sessions_comes_back_early
                an_expired_item_stays_with_its_session
                an_expired_session_moves_as_a_whole
            }
            history {
                a_taken_event_id_is_refused_and_a_free_one_accepted
                a_refused_ack_leaves_no_trace
                an_ack_after_a_forced_deletion_leaves_nothing
                a_first_ack_after_deletion_and_rebirth_is_refused
                a_turn_sees_what_earlier_turns_wrote
                an_empty_ack_only_consumes
            }
            work {
                cancelled_work_is_taken_from_its_holder
                only_the_named_work_is_cancelled
                an_old_holder_does_not_complete_the_new_work
                attempts_are_counted_and_taken_back
                work_is_not_merged
                work_comes_back_as_it_was_sent
            }
            retention {
                a_continued_instance_runs_and_survives_deletion
                bulk_deletion_obeys_the_time
                bulk_deletion_goes_by_the_end
                bulk_deletion_obeys_the_limit
                an_empty_list_selects_nothing
                pruning_obeys_the_time
                bulk_pruning_obeys_the_limit
                bulk_pruning_obeys_the_time
                pruning_takes_nothing_that_is_needed
            }
            limits {
                ten_thousand_activities_in_one_ack
                ten_megabytes_everywhere
                a_hundred_and_fifty_values_in_one_ack
                a_thousand_messages_to_others_in_one_ack
                messages_to_another_instance_arrive_in_order
            }
            names {
                awkward_instances_are_apart
                awkward_families_hold_together
                awkward_sessions_are_apart
                awkward_tags_are_apart
                awkward_keys_are_apart
                awkward_messages_come_back_unchanged
            }
            undecodable {
                an_undecodable_message_blocks_no_other_instance
                an_undecodable_message_poisons_only_itself
                undecodable_work_poisons_only_itself
                a_runtime_goes_on_past_undecodable_records
                undecodable_records_are_deleted_with_their_instance
            }
            crashes {
                one_delivery_is_remembered
                three_deliveries_are_remembered
                crashing_again_and_again_ends
                a_forgiven_attempt_stays_forgiven
                an_acknowledged_turn_survives
                completed_work_stays_completed
                an_accepted_message_survives
                a_deleted_instance_stays_deleted
                what_was_held_comes_back
            }
        }
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn everything_is_in_the_list() {
        crate::macros::assert_lists_all(super::NAMES, "src/contract");
    }
}
