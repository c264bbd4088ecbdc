//! Each deliberate defect is found.

use super::super::mutation::Mutation;
use super::faults::{self, in_virtual_time};
use super::forgetting;
use super::world::World;
use std::time::Duration;

#[test]
fn a_message_that_is_deleted_before_it_is_durable_is_found() {
    let found = faults::sweep(Mutation::DeleteBeforeDurable).unwrap_err();
    assert!(found.contains("lost"), "{found}");
}

#[test]
fn a_gap_that_is_skipped_is_found() {
    let found = faults::sweep(Mutation::SkipGap).unwrap_err();
    assert!(found.contains("lost"), "{found}");
}

#[test]
fn a_message_that_is_applied_twice_is_found() {
    let found = faults::sweep(Mutation::ApplyTwice).unwrap_err();
    assert!(found.contains("twice"), "{found}");
}

#[test]
fn a_bell_with_the_same_content_is_found() {
    let ended = in_virtual_time(async { faults::run(&World::new(Mutation::SameRing, &[])).await }).unwrap();
    assert!(ended.took > Duration::from_secs(10), "{:?}", ended.took);
}

#[test]
fn a_cursor_that_is_forgotten_too_early_is_found() {
    let applied = in_virtual_time(async { forgetting::zombies(Mutation::ForgetCursorsEarly).await });
    assert!(applied > 1, "applied {applied} times");
}
