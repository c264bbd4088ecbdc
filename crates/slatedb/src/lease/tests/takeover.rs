//! The owner is gone without a word: when others take over.

use super::world::*;
use super::*;
use object_store::ObjectStoreExt;
use object_store::path::Path;
use perennial_bucket::Tags;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_standby_takes_over_after_the_length_and_not_long_after() {
    // The owner dies at different moments between two renewals and two looks.
    for died_after_ms in (3_000..5_000).step_by(97) {
        let world = World::new();
        let (owner, standby) = (world.process("owner"), world.process("standby"));
        let _held = owner.acquire_now().await;
        standby.stand_by();
        pass(ms(died_after_ms)).await;
        owner.freeze();
        pass(secs(10)).await;
        let (last, taken) = (*owner.writes().last().unwrap(), standby.writes()[0]);
        assert!(taken - last >= LENGTH, "{last:?} to {taken:?}");
        assert!(taken - last <= LENGTH + secs(2), "{last:?} to {taken:?}");
        assert!(world.longest_gap() <= LENGTH + secs(2));
        world.check();
    }
}

#[tokio::test(start_paused = true)]
async fn two_standbys_and_one_of_them_takes_over() {
    let world = World::new();
    let owner = world.process("owner");
    let standbys = ["two", "three"].map(|name| world.process(name));
    let _held = owner.acquire_now().await;
    for standby in &standbys {
        standby.stand_by();
    }
    pass(secs(5)).await;
    owner.freeze();
    pass(secs(10)).await;
    let taken = standbys.iter().filter(|standby| standby.held.lock().is_some());
    assert_eq!(taken.count(), 1);
    assert!(world.longest_gap() <= LENGTH + secs(5));
    world.check();
}

#[tokio::test(start_paused = true)]
async fn a_restart_an_hour_after_a_crash_does_not_wait() {
    let world = World::with(Tags::Counter, Settings::default());
    let owner = world.process("owner");
    let held = owner.acquire_now().await;
    pass(secs(60)).await;
    owner.freeze();
    pass(secs(3_600)).await;
    let restarted = world.process("restarted");
    let before = world.now();
    let again = restarted.acquire_now().await;
    assert!(world.now() - before <= ms(100), "{:?}", world.now() - before);
    assert_eq!(again.generation(), 2);
    // Look, probe, its time, take.
    assert_eq!(restarted.bucket.counts().total(), 4);
    assert!(!held.is_valid());
    world.check();
}

#[tokio::test(start_paused = true)]
async fn a_restart_soon_after_a_crash_waits_for_the_rest_of_the_lease() {
    // How long after the crash it begins, and when it takes over at the earliest and latest.
    for (begins_s, earliest_s, latest_s) in [(1, 30, 33), (20, 30, 38), (33, 33, 37), (37, 37, 38)] {
        let world = World::with(Tags::Counter, Settings::default());
        let owner = world.process("owner");
        let _held = owner.acquire_now().await;
        let renewed = world.now();
        owner.freeze();
        pass(secs(begins_s)).await;
        let restarted = world.process("restarted");
        restarted.acquire(Wait::For(secs(30))).await.unwrap();
        let taken = world.now() - renewed;
        assert!(
            taken >= secs(earliest_s) && taken <= secs(latest_s),
            "after {begins_s} s: {taken:?}"
        );
        world.check();
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_length_of_a_lease_outlasts_a_dead_owner() {
    for begins_ms in (0..2_000).step_by(331) {
        let world = World::new();
        let owner = world.process("owner");
        let _held = owner.acquire_now().await;
        pass(secs(3)).await;
        owner.freeze();
        pass(ms(begins_ms)).await;
        let next = world.process("next");
        next.acquire(Wait::For(LENGTH)).await.unwrap();
        world.check();
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_whose_bucket_was_away_takes_its_own_lease_back_at_once() {
    let world = World::new();
    let owner = world.process("owner");
    let held = owner.acquire_now().await;
    owner.bucket.plan(|_| Some(perennial_bucket::Fault::Fail));
    let why = held.lost().await;
    assert!(
        matches!(&why, Ended::Expired { why } if why.contains("connection reset")),
        "{why:?}"
    );
    drop(held);
    owner.bucket.heal();
    let before = world.now();
    let again = owner.acquire_now().await;
    assert!(world.now() - before < ms(50));
    assert_eq!(again.generation(), 2);
    world.check();
}

#[tokio::test(start_paused = true)]
async fn the_length_is_that_of_the_owner() {
    let world = World::with(Tags::Counter, Settings::of_length(secs(20)));
    let owner = world.process("owner");
    let _held = owner.acquire_now().await;
    owner.freeze();
    let standby = world.process_with_settings("standby", settings());
    standby.stand_by();
    pass(secs(19)).await;
    assert!(standby.held.lock().is_none());
    pass(secs(5)).await;
    assert!(standby.held.lock().is_some());
    world.check();
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_deleted_is_waited_for_by_those_who_saw_it() {
    let world = World::new();
    let (owner, standby) = (world.process("owner"), world.process("standby"));
    let held = owner.acquire_now().await;
    standby.stand_by();
    // Nobody renews: the standby finds it deleted before its owner does.
    owner.bucket.plan(|_| Some(perennial_bucket::Fault::Fail));
    pass(ms(1_100)).await;
    world.bucket().delete(&Path::from("app/0/lease")).await.unwrap();
    assert!(held.is_valid());
    assert_eq!(world.owned(secs(1)).await.as_deref(), Some("owner"));
    pass(secs(5)).await;
    assert_eq!(world.owner().as_deref(), Some("standby"));
    world.check();
}

#[tokio::test(start_paused = true)]
async fn an_owner_whose_lease_was_deleted_stops() {
    let world = World::new();
    let owner = world.process("owner");
    let held = owner.acquire_now().await;
    world.bucket().delete(&Path::from("app/0/lease")).await.unwrap();
    let lost = within(LENGTH, held.lost()).await;
    assert_eq!(lost, Some(Ended::Deleted));
    assert!(!held.is_valid() && held.remaining() == Duration::ZERO && held.deadline().is_none());
}
