//! What an owner can do with its lease, and how it learns that it has none.

use super::world::*;
use super::*;
use crate::{Bucket, Shard};
use futures::FutureExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use perennial_bucket::{Fault, Method};
use serde_json::{Map, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Builder;

fn details(text: &str) -> Map<String, serde_json::Value> {
    [("listens on".to_owned(), json!(text))].into_iter().collect()
}

#[tokio::test(start_paused = true)]
async fn a_successor_inherits_the_epoch_and_sees_what_was_shown() {
    let world = World::new();
    let (one, other) = (world.process("one"), world.process("other"));
    let held = one.acquire_now().await;
    assert!(held.predecessor().is_none());
    let shown = Shown {
        writer_epoch: Some(7),
        details: details("port 80"),
    };
    held.show(shown.clone()).await.unwrap();
    let seen = other.candidate.look().await.unwrap().unwrap();
    assert_eq!((&seen.document.shown, &seen.document.owner), (&shown, held.owner()));
    // Renewals keep it.
    pass(secs(5)).await;
    held.release().await.unwrap();

    let next = other.acquire_now().await;
    let predecessor = next.predecessor().unwrap();
    assert_eq!((&predecessor.shown, predecessor.generation), (&shown, 1));
    assert_eq!(predecessor.state, State::Released);
    let document = one.candidate.look().await.unwrap().unwrap().document;
    assert_eq!(document.shown.writer_epoch, Some(7));
    assert!(document.shown.details.is_empty());
    assert_eq!((document.generation, document.state), (2, State::Held));
}

#[tokio::test(start_paused = true)]
async fn what_is_too_large_is_not_shown() {
    let world = World::new();
    let held = world.process("one").acquire_now().await;
    // Few bytes, but many more when they are written for people.
    let numbers = json!(vec![1; 10_000]);
    let shown = Shown {
        writer_epoch: None,
        details: [("numbers".to_owned(), numbers)].into_iter().collect(),
    };
    let refused = held.show(shown).await;
    assert!(
        matches!(refused, Err(Error::TooLarge { bytes }) if bytes > 65_536),
        "{refused:?}"
    );
    held.show(Shown::default()).await.unwrap();
    assert!(held.is_valid());
}

#[tokio::test(start_paused = true)]
async fn showing_survives_every_fault() {
    for fault in Fault::all(ms(700)) {
        let world = World::new();
        let one = world.process("one");
        let held = one.acquire_now().await;
        one.bucket.fail_at(one.bucket.requested(), fault.clone());
        let shown = Shown {
            writer_epoch: Some(3),
            details: details("x"),
        };
        held.show(shown.clone())
            .await
            .unwrap_or_else(|error| panic!("{fault:?}: {error}"));
        let seen = one.candidate.look().await.unwrap().unwrap();
        assert_eq!(seen.document.shown, shown, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_dropped_is_not_renewed() {
    let world = World::new();
    let one = world.process("one");
    let held = one.acquire_now().await;
    let handle = held.handle();
    assert!(handle.lost().now_or_never().is_none());
    drop(held);
    assert_eq!(handle.check(), Err(Ended::Dropped));
    assert_eq!(handle.lost().now_or_never(), Some(Ended::Dropped));
    let before = one.bucket.counts();
    pass(secs(60)).await;
    assert_eq!(one.bucket.counts(), before);
}

#[tokio::test(start_paused = true)]
async fn all_are_told_why_a_lease_was_lost() {
    let world = World::new();
    let (one, other) = (world.process("one"), world.process("other"));
    let held = one.acquire_now().await;
    let (handle, mut watch) = (held.handle(), held.watch());
    assert!(watch.borrow().is_none());
    one.freeze();
    other.stand_by();
    assert_eq!(world.owned(secs(1)).await.as_deref(), Some("one"));
    pass(secs(10)).await;
    one.thaw();
    let lost = handle.lost().await;
    watch.changed().await.unwrap();
    assert_eq!(watch.borrow().as_ref(), Some(&lost));
    let refused = held.show(Shown::default()).await;
    assert_eq!(refused, Err(Error::Ended(lost)));
    // It is another's: there is nothing to release.
    held.release().await.unwrap();
    assert_eq!(world.owner().as_deref(), Some("other"));
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_is_overruled_learns_by_whom() {
    let world = World::new();
    let (one, other) = (world.process("one"), world.process("other"));
    let held = one.acquire_now().await;
    // Another program has written the lease, against the rules.
    let mut document = one.candidate.look().await.unwrap().unwrap().document;
    document.owner.host = "elsewhere".to_owned();
    document.nonce = "another".to_owned();
    document.generation = 9;
    let bytes = document.encode().unwrap();
    object_store::ObjectStoreExt::put(&world.bucket(), &Path::from("app/0/lease"), bytes.into())
        .await
        .unwrap();
    let lost = held.lost().await;
    assert!(matches!(&lost, Ended::TakenOver { owner, generation: 9 } if owner.host == "elsewhere"));
    assert!(
        lost.to_string().contains("on host \"elsewhere\" has taken over"),
        "{lost}"
    );
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_says_so_and_the_lease_runs_out() {
    let world = World::new();
    let (one, other) = (world.process("one"), world.process("other"));
    let held = one.acquire_now().await;
    one.bucket.plan(|_| Some(Fault::Hang));
    let failed = within(secs(10), held.release()).await.unwrap();
    assert!(matches!(failed, Err(Error::NotReleased { .. })), "{failed:?}");
    other.acquire(Wait::For(LENGTH)).await.unwrap();
    world.check();
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_dropped_goes_on() {
    let world = World::new();
    let (one, other) = (world.process("one"), world.process("other"));
    let held = one.acquire_now().await;
    let before = one.bucket.requested();
    let mut release = Box::pin(held.release());
    assert!((&mut release).now_or_never().is_none());
    drop(release);
    one.bucket.wait_for(before + 1).await;
    pass(ms(100)).await;
    other.acquire_now().await;
    world.check();
}

#[tokio::test(start_paused = true)]
async fn a_release_does_not_wait_for_a_renewal_that_hangs() {
    let world = World::with(perennial_bucket::Tags::Counter, Settings::default());
    let one = world.process("one");
    let held = one.acquire_now().await;
    let next = one.bucket.requested();
    one.bucket.fail_at(next, Fault::HangAfter);
    one.bucket.wait_for(next + 1).await;
    pass(ms(50)).await;
    let before = world.now();
    held.release().await.unwrap();
    assert!(world.now() - before < ms(200), "{:?}", world.now() - before);
    let document = one.candidate.look().await.unwrap().unwrap().document;
    assert_eq!(document.state, State::Released);
}

/// The machine's own clocks and runtimes: the runtime of the caller does not matter, that of the lease does.
#[test]
fn a_lease_lives_on_the_runtime_that_it_was_given() {
    let runtime = || Builder::new_current_thread().enable_time().build().unwrap();
    let own = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap();
    let bucket = Bucket::new(Arc::new(InMemory::new()), Path::from("app"), "memory");
    let mut settings = Settings::of_length(secs(1));
    settings.renew_every = ms(20);
    let candidate = Candidate::new(&bucket, Shard(0), settings, Machine::this(), own.handle().clone()).unwrap();
    let caller = runtime();
    let held = caller.block_on(candidate.acquire(Wait::For(Duration::ZERO))).unwrap();
    drop(caller);
    let handle = held.handle();
    let first = handle.deadline().unwrap();
    // It is renewed although the runtime of the caller has ended.
    while handle.deadline().unwrap() == first {
        std::thread::yield_now();
    }
    own.shutdown_background();
    assert_eq!(runtime().block_on(handle.lost()), Ended::Stopped);
    assert!(!held.is_valid());
    let after = runtime().block_on(candidate.acquire(Wait::Forever));
    assert!(matches!(after, Err(Error::Stopped)));
    let unreleased = runtime().block_on(held.release());
    assert_eq!(unreleased, Err(Error::Stopped));
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_acquired_with_two_requests_and_released_with_one() {
    let world = World::new();
    let one = world.process("one");
    let held = one.acquire_now().await;
    held.release().await.unwrap();
    let counts = one.bucket.counts();
    assert_eq!(
        (counts.of(Method::Get), counts.of(Method::Put), counts.total()),
        (1, 2, 3)
    );
}
