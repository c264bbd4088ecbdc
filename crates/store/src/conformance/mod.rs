//! The suite that every store passes, for authors of stores anywhere.
//!
//! Implement how to make, reopen and (if possible) damage a store, and let the macro write the tests:
//!
//! ```text
//! use perennial_store::conformance::StoreFactory;
//!
//! struct Factory { /* where the data is */ }
//!
//! #[async_trait::async_trait]
//! impl StoreFactory for Factory {
//!     async fn create(&self) -> Arc<dyn Store> { /* a new, empty store */ }
//!     async fn reopen(&self, store: Arc<dyn Store>) -> Arc<dyn Store> { /* the same data, a new handle */ }
//! }
//!
//! perennial_store::conformance_tests!(Factory::new());
//! ```
//!
//! The expression is evaluated once for each test, so every test has a factory and a store of its own. The crate that
//! uses the macro needs `tokio` with the features `macros` and `rt-multi-thread`.

// A test suite: a broken rule must panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

pub mod atomicity;
pub mod commits;
pub mod counters;
pub mod damage;
pub mod dropped;
pub mod due;
pub mod durability;
mod helpers;
pub mod keys;
pub mod limits;
pub mod listings;
pub mod order;
pub mod races;
pub mod relaxed;
pub mod scans;
pub mod signals;
pub mod versions;

use crate::{Key, Store};
use async_trait::async_trait;
use std::sync::Arc;

/// Makes the store that a test runs on.
#[async_trait]
pub trait StoreFactory: Send + Sync {
    /// A new, empty store. Called once.
    async fn create(&self) -> Arc<dyn Store>;

    /// Closes the store, of which the test has no other handle, and opens the same data again.
    async fn reopen(&self, store: Arc<dyn Store>) -> Arc<dyn Store>;

    /// Closes the store, damages the stored bytes of a record, and opens the same data again. `None` if that is not
    /// possible here; then the rules about damage are not tested.
    async fn damage(&self, store: Arc<dyn Store>, key: &Key) -> Option<Arc<dyn Store>> {
        let _ = (store, key);
        None
    }

    /// Keeps every commit of the store from becoming durable until what is returned is dropped. `None` if that is not
    /// possible here; then it is not tested what callers see of a commit that is ordered and not durable.
    fn hold(&self) -> Option<Box<dyn Send>> {
        None
    }
}

/// Writes one test for each rule of the contract. See [the module](crate::conformance).
#[macro_export]
macro_rules! conformance_tests {
    ($factory:expr) => {
        $crate::conformance_tests! { @ ($factory)
            commits: create_makes_a_record_that_was_not_there,
            commits: create_refuses_a_record_that_is_there,
            commits: put_writes_whatever_was_there,
            commits: replace_wants_the_version_that_is_there,
            commits: delete_wants_the_version_that_is_there,
            commits: remove_needs_nothing_to_be_there,
            commits: absent_changes_nothing_and_can_fail,
            commits: the_first_operation_that_does_not_apply_is_named,
            commits: a_commit_may_not_name_a_record_twice,
            commits: a_commit_of_nothing_succeeds,
            commits: attributes_come_back_as_they_were_written,
            commits: bodies_of_all_sizes_come_back,
            commits: json_keeps_its_value,
            commits: bytes_that_are_not_json_are_kept,
            atomicity: one_failed_condition_undoes_everything,
            atomicity: all_operations_appear_together,
            atomicity: several_partitions_are_atomic_where_the_limits_allow,
            versions: every_write_has_a_new_version,
            versions: a_version_never_returns_after_deletion,
            versions: a_version_never_returns_after_reopening,
            versions: a_stale_version_is_refused_for_ever,
            versions: a_version_of_another_kind_of_store_matches_nothing,
            versions: the_epoch_grows_with_every_opening,
            keys: any_text_names_a_partition_and_a_record,
            keys: long_names_work,
            keys: neighbouring_names_do_not_mix,
            scans: records_come_in_order_of_their_ids,
            scans: a_scan_goes_on_where_the_page_ended,
            scans: under_takes_an_id_and_what_is_below_it,
            scans: after_need_not_exist,
            scans: keys_only_leaves_the_bodies_out,
            scans: queued_and_listed_records_are_scanned_like_others,
            scans: a_scan_of_nothing_is_empty,
            due: records_come_in_order_of_arrival,
            due: hidden_records_wait_for_their_time,
            due: time_may_be_asked_for_in_any_order,
            due: the_end_of_time_takes_everything,
            due: topics_are_chosen,
            due: slots_are_chosen,
            due: pages_go_on_after_an_order,
            due: more_says_that_the_limit_left_something_out,
            due: rewriting_keeps_the_place_and_may_hide_it,
            due: a_record_leaves_the_queue_when_it_is_deleted_or_loses_its_place,
            due: lanes_do_not_mix,
            due: the_queue_survives_reopening,
            listings: records_are_listed_by_kind,
            listings: every_filter_filters,
            listings: filters_combine,
            listings: the_index_follows_every_change,
            listings: pages_cover_everything_once,
            listings: a_listed_record_may_queue_too,
            listings: listings_survive_reopening,
            listings: any_text_is_a_status_or_a_parent,
            counters: totals_add_up,
            counters: a_failed_commit_adds_nothing,
            counters: totals_survive_reopening,
            durability: what_was_answered_is_there_after_reopening,
            durability: deleted_records_stay_deleted_after_reopening,
            durability: large_bodies_survive_reopening,
            durability: a_closed_store_refuses_everything,
            relaxed: a_relaxed_commit_is_seen_once_it_is_answered,
            relaxed: relaxed_and_durable_commits_take_effect_in_order,
            relaxed: a_relaxed_commit_is_checked_like_any_other,
            relaxed: closing_makes_relaxed_commits_durable,
            relaxed: many_relaxed_rewrites_end_in_the_last,
            order: the_call_is_made_once_with_the_versions_of_the_commit,
            order: calls_are_made_in_the_order_of_the_commits,
            order: calls_of_commits_that_race_are_made_in_their_order,
            order: a_commit_returns_after_the_calls_of_the_commits_before_it,
            order: when_its_call_is_made_a_commit_can_be_read,
            order: a_call_may_order_the_next_commit,
            order: nothing_is_seen_of_an_ordered_commit_before_it_is_durable,
            order: a_later_commit_builds_on_an_ordered_one,
            order: a_refused_commit_gives_its_call_back,
            order: a_closed_store_orders_nothing,
            order: closing_makes_ordered_commits_durable_and_their_calls,
            order: dropping_the_future_loses_no_call,
            order: a_call_that_panics_ends_nothing,
            dropped: a_future_that_was_never_polled_does_nothing,
            dropped: dropping_a_polled_commit_neither_undoes_nor_tears_it,
            races: of_many_that_replace_one_version_exactly_one_wins,
            races: of_many_that_create_one_record_exactly_one_wins,
            races: every_increment_counts,
            races: readers_never_see_half_a_commit,
            limits: the_limits_are_kept,
            damage: a_damaged_record_stands_in_nobodys_way,
            damage: a_damaged_record_can_be_replaced_or_removed,
            signals: a_placed_record_is_told_of,
        }
    };
    (@ ($factory:expr) $($module:ident : $test:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                let factory = $factory;
                $crate::conformance::$module::$test(&factory).await;
            }
        )*
    };
}
