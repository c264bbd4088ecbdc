//! The client's side.

use super::super::mutation::Mutation;
use super::super::settings::OutgoingSettings;
use super::faulty::{Fault, Kind};
use super::world::{ENGINE, World};
use bytes::Bytes;
use perennial_store::{Clock, Error, MessageSender};
use std::time::Duration;

/// The folders of the inbox, which are incarnations, and how many messages each has.
async fn incarnations(world: &World) -> Vec<usize> {
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    for object in world.inbox().await {
        *counts
            .entry(object.parts().nth(3).unwrap().as_ref().to_owned())
            .or_default() += 1;
    }
    counts.into_values().collect()
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_is_dropped_does_not_tear_its_message() {
    let world = World::new(Mutation::None, &[]);
    let client = world.client(0);
    {
        let sending = client.send(ENGINE, Bytes::from("a 001"));
        let dropped = futures::future::select(sending, world.clock.sleep(Duration::from_millis(1)));
        dropped.await;
    }
    client.send(ENGINE, Bytes::from("a 002")).await.unwrap();
    assert_eq!(incarnations(&world).await, [2]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_dropped_sends_what_waits_and_rings() {
    let world = World::new(Mutation::None, &[]);
    let client = world.client(0);
    let sending = tokio::spawn(async move { client.send(ENGINE, Bytes::from("a 001")).await });
    tokio::task::yield_now().await;
    sending.abort();
    world.sleep(1).await;
    assert_eq!(incarnations(&world).await, [1]);
    assert_eq!(
        world
            .faulty
            .log()
            .iter()
            .filter(|request| request.path == "test/0/bell")
            .count(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn giving_up_on_a_message_ends_the_incarnation() {
    let world = World::new(Mutation::None, &[]);
    let settings = OutgoingSettings {
        deadline: Duration::from_secs(5),
        ..OutgoingSettings::default()
    };
    let client = world.client_with(0, settings, world.clock.clone());
    client.send(ENGINE, Bytes::from("a 001")).await.unwrap();
    world.faulty.plan(world.faulty.log().len(), Fault::HangAfter);
    let given_up = client.send(ENGINE, Bytes::from("a 002")).await.unwrap_err();
    assert!(matches!(given_up, Error::UnknownOutcome(_)), "{given_up}");
    assert!(
        given_up
            .to_string()
            .contains("unknown whether the message will be applied"),
        "{given_up}"
    );
    client.send(ENGINE, Bytes::from("a 003")).await.unwrap();
    assert_eq!(incarnations(&world).await, [2, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_never_had_its_turn_was_surely_not_sent() {
    let world = World::new(Mutation::None, &[]);
    let settings = OutgoingSettings {
        deadline: Duration::from_secs(5),
        ..OutgoingSettings::default()
    };
    let client = world.client_with(0, settings, world.clock.clone());
    world.faulty.plan(0, Fault::HangBefore);
    let both = futures::future::join(
        client.send(ENGINE, Bytes::from("a 001")),
        client.send(ENGINE, Bytes::from("a 002")),
    );
    let (first, second) = both.await;
    assert!(matches!(first, Err(Error::UnknownOutcome(_))), "{first:?}");
    assert!(matches!(second, Err(Error::Unavailable(_))), "{second:?}");
    assert!(world.inbox().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_incarnation_is_used_for_a_day_and_never_longer_if_the_clock_is_put_back() {
    let world = World::new(Mutation::None, &[]);
    let clock = world.clock.off(0);
    let client = world.client_with(0, OutgoingSettings::default(), clock.clone());
    let send = || client.send(ENGINE, Bytes::from("a 001"));
    send().await.unwrap();
    world.sleep(24 * 3600 - 10).await;
    send().await.unwrap();
    assert_eq!(incarnations(&world).await, [2]);
    world.sleep(20).await;
    send().await.unwrap();
    assert_eq!(incarnations(&world).await, [2, 1]);
    clock.step(-3_600_000);
    send().await.unwrap();
    assert_eq!(incarnations(&world).await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn messages_of_a_new_incarnation_are_applied_after_those_of_the_one_before() {
    let world = World::new(Mutation::None, &[]);
    let client = world.client(0);
    for number in 1..=20 {
        world.send(&client, &format!("a {number:03}")).await.unwrap();
    }
    world.sleep(25 * 3600).await;
    world.send(&client, "a 021").await.unwrap();
    assert_eq!(incarnations(&world).await, [20, 1]);
    let owner = world.owner().await;
    world.until(20, || world.applied("a").len() == 21).await.unwrap();
    assert_eq!(world.violation("a"), None);
    owner.intake.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_another_process_took_is_left_to_it() {
    let world = World::new(Mutation::None, &[]);
    // A copy of the machine that draws the same numbers.
    let settings = OutgoingSettings::default();
    let same = |process| {
        let random = std::sync::Arc::new({
            let count = std::sync::atomic::AtomicU64::new(0);
            move || match count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
                0 => 1,
                _ => u128::from(process),
            }
        });
        let runtime = tokio::runtime::Handle::current();
        let bucket = world.bucket(process);
        super::super::Outgoing::start(
            &bucket,
            super::world::SHARD,
            settings.clone(),
            world.clock.clone(),
            random,
            &runtime,
        )
    };
    let (one, other) = (same(8), same(9));
    let both = futures::future::join(
        one.send(ENGINE, Bytes::from("a 001")),
        other.send(ENGINE, Bytes::from("b 001")),
    );
    let (one, other) = both.await;
    assert!(one.is_ok() && other.is_ok(), "{one:?} {other:?}");
    let owner = world.owner().await;
    world.sleep(5).await;
    assert_eq!((world.applied("a").len(), world.applied("b").len()), (1, 1));
    owner.intake.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_bell_that_fails_does_not_fail_the_message_and_is_rung_again() {
    let world = World::new(Mutation::None, &[]);
    let client = world.client(0);
    world.faulty.plan(1, Fault::Before);
    client.send(ENGINE, Bytes::from("a 001")).await.unwrap();
    world.sleep(1).await;
    let log = world.faulty.log();
    let rings = log.iter().filter(|request| request.path == "test/0/bell");
    assert!(rings.clone().all(|request| request.kind == Kind::Put));
    assert_eq!(rings.count(), 2);
}
