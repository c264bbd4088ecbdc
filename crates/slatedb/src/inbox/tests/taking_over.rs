//! Owners that come and go.

use super::super::mutation::Mutation;
use super::faulty::Kind;
use super::world::{OWNER, World};
use perennial_store::Clock;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn an_owner_that_stops_leaves_the_rest_to_the_next() {
    let world = World::new(Mutation::None, &[]);
    let client = world.client(0);
    for number in 1..=30 {
        world.send(&client, &format!("a {number:03}")).await.unwrap();
    }
    for stops in 0..10 {
        let owner = world.owner().await;
        world.clock.sleep(Duration::from_millis(70 * stops)).await;
        owner.intake.stop().await;
        let applied = world.applied("a").len();
        world.sleep(1).await;
        assert_eq!(world.applied("a").len(), applied, "it has stopped");
    }
    let owner = world.owner().await;
    world.until(10, || world.applied("a").len() == 30).await.unwrap();
    assert_eq!(world.violation("a"), None);
    owner.intake.stop().await;
    assert!(world.inbox().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_lost_its_store_makes_no_more_requests() {
    let world = World::new(Mutation::None, &[]);
    let owner = world.owner().await;
    let client = world.client(0);
    world.send(&client, "a 001").await.unwrap();
    world.until(10, || world.applied("a").len() == 1).await.unwrap();
    let next = world.owner().await;
    // It finds out when it works on the next message.
    let by_first = |kind| {
        let log = world.faulty.log();
        log.iter()
            .filter(|request| request.process == OWNER && request.kind == kind)
            .count()
    };
    let gets = by_first(Kind::Get);
    next.intake.stop().await;
    world.send(&client, "a 002").await.unwrap();
    world.until(10, || by_first(Kind::Get) > gets + 1).await.unwrap();
    world.sleep(1).await;
    let before = world.faulty.log().len();
    world.sleep(300).await;
    assert_eq!(world.faulty.log().len(), before, "it has stopped");
    assert_eq!(world.applied("a"), ["a 001"]);
    drop(owner);
}

#[tokio::test(start_paused = true)]
async fn an_owner_whose_store_is_closed_makes_no_more_requests() {
    let world = World::new(Mutation::None, &[]);
    let owner = world.owner().await;
    world.sleep(7).await;
    owner.close().await;
    let before = world.faulty.log().len();
    world.sleep(300).await;
    assert_eq!(world.faulty.log().len(), before);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_is_dropped_stops_at_once() {
    let world = World::new(Mutation::None, &[]);
    let owner = world.owner().await;
    world.sleep(7).await;
    drop(owner);
    let before = world.faulty.log().len();
    world.sleep(120).await;
    assert_eq!(world.faulty.log().len(), before);
}
