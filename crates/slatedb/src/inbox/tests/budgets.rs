//! How many requests messages cost.

use super::super::mutation::Mutation;
use super::faulty::{Fault, Kind};
use super::world::{OWNER, World};

/// The requests of a process since the log had `since` entries, of one kind; those of the bell apart.
fn count(world: &World, since: usize, process: u32, kind: Kind, is_bell: bool) -> usize {
    let log = world.faulty.log();
    let of_bell = |path: &str| path == "test/0/bell";
    let counted = log
        .iter()
        .skip(since)
        .filter(|request| request.process == process && request.kind == kind && of_bell(&request.path) == is_bell);
    counted.count()
}

#[tokio::test(start_paused = true)]
async fn a_lone_message_costs_two_puts_and_one_listing_one_get_and_one_delete() {
    let world = World::new(Mutation::None, &[]);
    let owner = world.owner().await;
    // Not at a time at which the inbox is listed anyway.
    world.sleep(300 + 20).await;
    let since = world.faulty.log().len();
    let client = world.client(0);
    world.send(&client, "a 001").await.unwrap();
    let took = world.until(10, || world.applied("a").len() == 1).await.unwrap();
    assert!(took.as_secs() <= 5, "{took:?}");
    world.sleep(20).await;
    let of_client = [false, true].map(|is_bell| count(&world, since, 0, Kind::Put, is_bell));
    assert_eq!(of_client, [1, 1]);
    let of_owner =
        [Kind::List, Kind::Get, Kind::Delete, Kind::Put].map(|kind| count(&world, since, OWNER, kind, false));
    assert_eq!(of_owner, [1, 1, 1, 0]);
    assert_eq!(owner.commits(), 1);
    owner.intake.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_hundred_messages_of_one_client_cost_one_ring() {
    let world = World::new(Mutation::None, &[]);
    let owner = world.owner().await;
    world.sleep(20).await;
    let since = world.faulty.log().len();
    let client = world.client(0);
    let messages: Vec<String> = (0..100).map(|number| format!("a {number:03}")).collect();
    let sent = futures::future::join_all(messages.iter().map(|message| world.send(&client, message)));
    assert!(sent.await.iter().all(Result::is_ok));
    world.until(20, || world.applied("a").len() == 100).await.unwrap();
    world.sleep(10).await;
    let puts: usize = [false, true]
        .map(|is_bell| count(&world, since, 0, Kind::Put, is_bell))
        .iter()
        .sum();
    assert_eq!(puts, 101);
    assert_eq!(count(&world, since, OWNER, Kind::Get, false), 100);
    assert!(count(&world, since, OWNER, Kind::List, false) <= 3);
    assert!(count(&world, since, OWNER, Kind::Delete, false) <= 4);
    assert_eq!(world.violation("a"), None);
    owner.intake.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_without_its_bell_is_applied_within_65_seconds() {
    let world = World::new(Mutation::None, &[]);
    let owner = world.owner().await;
    world.sleep(71).await;
    let client = world.client(0);
    world.faulty.plan(world.faulty.log().len() + 1, Fault::KillBefore);
    tokio::select! {
        _ = world.send(&client, "a 001") => panic!("the process is dead"),
        () = world.faulty.killed(0) => {}
    }
    let took = world.until(120, || world.applied("a").len() == 1).await.unwrap();
    assert!((30..=65).contains(&took.as_secs()), "{took:?}");
    owner.intake.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_owner_reads_the_bell_and_an_idle_client_does_nothing() {
    let world = World::new(Mutation::None, &[]);
    let owner = world.owner().await;
    let client = world.client(0);
    world.send(&client, "a 001").await.unwrap();
    world.sleep(90).await;
    let since = world.faulty.log().len();
    world.sleep(600).await;
    let looks = count(&world, since, OWNER, Kind::Get, true);
    let listings = count(&world, since, OWNER, Kind::List, false);
    assert_eq!(world.faulty.log().len() - since, looks + listings);
    assert!(looks <= 121 && listings <= 11, "{looks} {listings}");
    owner.intake.stop().await;
}

#[tokio::test(start_paused = true)]
async fn looks_are_frequent_while_messages_come_and_for_a_minute_after() {
    let world = World::new(Mutation::None, &[]);
    let owner = world.owner().await;
    world.sleep(20).await;
    let client = world.client(0);
    let since = world.faulty.log().len();
    for number in 0..20 {
        world.send(&client, &format!("a {number:03}")).await.unwrap();
        world.sleep(1).await;
    }
    let busy = count(&world, since, OWNER, Kind::Get, true);
    assert!(busy <= 81, "{busy}");
    let since = world.faulty.log().len();
    world.sleep(50).await;
    let recent = count(&world, since, OWNER, Kind::Get, true);
    assert!((45..=52).contains(&recent), "{recent}");
    owner.intake.stop().await;
}
