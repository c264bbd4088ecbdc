//! Leases that are broken on purpose are found.

use super::mutation::{Mutation, mutate};
use super::world::*;
use super::*;
use perennial_bucket::{Condition, Fault, Method, Tags};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Breaks the leases of this thread while it lives.
struct Broken;

impl Drop for Broken {
    fn drop(&mut self) {
        mutate(None);
    }
}

/// Whether a check fails with a mutation. It must not fail without.
fn is_found<F: Future<Output = ()>>(mutation: Mutation, check: impl Fn() -> F) -> bool {
    in_virtual_time(check());
    let _broken = Broken;
    mutate(Some(mutation));
    catch_unwind(AssertUnwindSafe(|| in_virtual_time(check()))).is_err()
}

/// An owner that lives, and a standby: on a bucket whose tags are hashes.
async fn two_processes() {
    let world = World::with(Tags::Content, settings());
    let (owner, standby) = (world.process("owner"), world.process("standby"));
    let _held = owner.acquire_now().await;
    standby.stand_by();
    pass(secs(20)).await;
    world.check();
}

/// An owner that is frozen, and a standby.
async fn frozen_owner() {
    let world = World::new();
    let (owner, standby) = (world.process("owner"), world.process("standby"));
    let _held = owner.acquire_now().await;
    standby.stand_by();
    pass(secs(5)).await;
    owner.freeze();
    pass(secs(20)).await;
    world.check();
}

/// Every reply to the owner is late, then its bucket is away.
async fn late_replies() {
    for away_after_ms in (3_000..4_400).step_by(50) {
        let world = World::new();
        let (owner, standby) = (world.process("owner"), world.process("standby"));
        let _held = owner.acquire_now().await;
        standby.stand_by();
        owner.bucket.plan(|_| Some(Fault::DelayReply(ms(300))));
        pass(ms(away_after_ms)).await;
        owner.bucket.plan(|_| Some(Fault::Fail));
        pass(secs(5)).await;
        world.check();
    }
}

/// The looks of a standby take long to reach the bucket, but for the last one. They come at any time before and after the
/// owner's last renewal.
async fn late_looks() {
    for begins_ms in (0..1_400).step_by(40) {
        let world = World::new();
        let (owner, standby) = (world.process("owner"), world.process("standby"));
        let _held = owner.acquire_now().await;
        standby.bucket.plan(|request| match request.condition {
            Condition::IfNoneMatch(_) => Some(Fault::Delay(ms(320))),
            _ => None,
        });
        pass(ms(begins_ms)).await;
        standby.stand_by();
        pass(ms(5_000 - begins_ms)).await;
        owner.freeze();
        pass(secs(5)).await;
        world.check();
    }
}

/// A standby is stopped between its last look and its write, and another takes over meanwhile.
async fn late_write() {
    let world = World::new();
    let (owner, one, other) = (world.process("owner"), world.process("one"), world.process("other"));
    let held = owner.acquire_now().await;
    let (is_writing, mut writes) = tokio::sync::mpsc::unbounded_channel();
    one.bucket.plan(move |request| {
        let is_lease = request.method == Method::Put && request.path.as_ref().ends_with("/lease");
        is_lease.then(|| is_writing.send(()).ok());
        is_lease.then_some(Fault::Delay(ms(300)))
    });
    one.stand_by();
    pass(secs(3)).await;
    held.release().await.unwrap();
    writes.recv().await;
    other.stand_by();
    pass(secs(10)).await;
    world.check();
}

/// The client's own library repeats the owner's writes.
async fn repeated_writes() {
    let world = World::new();
    let owner = world.process("owner");
    let held = owner.acquire_now().await;
    owner
        .bucket
        .plan(|request| (request.method == Method::Put).then_some(Fault::Twice));
    pass(secs(10)).await;
    assert!(held.is_valid());
}

/// A standby is dropped right after it has taken the lease.
async fn dropped_standby() {
    let world = World::new();
    let (one, other) = (world.process("one"), world.process("other"));
    one.bucket.fail_at(1, Fault::LoseReply);
    let acquire = one.acquire(Wait::Forever);
    tokio::select! {
        _ = acquire => panic!("it was dropped too late"),
        () = one.bucket.wait_for(2) => {}
    }
    assert!(within(ms(1_500), other.acquire(Wait::Forever)).await.is_some());
}

/// A process with a wall clock that is days ahead begins.
async fn clock_ahead() {
    let world = World::new();
    let owner = world.process("owner");
    let _held = owner.acquire_now().await;
    let ahead = world.process("ahead");
    ahead.clocks.set_wall_error_ms(86_400_000);
    ahead.stand_by();
    pass(secs(10)).await;
    world.check();
}

#[test]
fn every_mutation_is_found() {
    assert!(is_found(Mutation::EqualContent, two_processes));
    assert!(is_found(Mutation::TakeEarly, frozen_owner));
    assert!(is_found(Mutation::ServeAfterLease, frozen_owner));
    assert!(is_found(Mutation::MeasureFromReply, late_replies));
    assert!(is_found(Mutation::SeenBeforeAsked, late_looks));
    assert!(is_found(Mutation::SkipVersion, late_write));
    assert!(is_found(Mutation::TrustRefusal, repeated_writes));
    assert!(is_found(Mutation::ForgetWithdrawal, dropped_standby));
    assert!(is_found(Mutation::TrustWallClock, clock_ahead));
}

/// The trap needs both: content that is equal, and tags that are a hash of it.
#[test]
fn equal_content_is_harmless_where_tags_are_numbers() {
    let two_processes = || async {
        let world = World::with(Tags::Counter, settings());
        let (owner, standby) = (world.process("owner"), world.process("standby"));
        let _held = owner.acquire_now().await;
        standby.stand_by();
        pass(secs(20)).await;
        world.check();
    };
    assert!(!is_found(Mutation::EqualContent, two_processes));
}
