//! Messages that come back after days.

use super::super::mutation::Mutation;
use super::faults::in_virtual_time;
use super::world::World;

const HOUR: u64 = 60 * 60;

/// Applies a message that comes back after hours and days, as a request may that hung somewhere; returns how often it was applied.
pub(super) async fn zombies(mutation: Mutation) -> usize {
    let world = World::new(mutation, &[]);
    let owner = world.owner().await;
    let client = world.client(0);
    // Listings are needed before the owner has taken it.
    let sending = world.send(&client, "a 001");
    sending.await.unwrap();
    let path = world.inbox().await.first().cloned().unwrap();
    let content = world.get(&path).await;
    world.until(10, || world.applied("a").len() == 1).await.unwrap();
    drop(client);
    let mut hours = 0;
    for at in [2, 25, 47, 49, 71, 73, 75, 100] {
        world.sleep((at - hours) * HOUR).await;
        hours = at;
        world.put(&path, &content).await;
        world.sleep(130).await;
        assert!(world.inbox().await.is_empty(), "after {at} hours");
    }
    owner.intake.stop().await;
    world.applied("a").len()
}

#[test]
fn a_message_that_comes_back_after_days_is_not_applied_again() {
    assert_eq!(in_virtual_time(zombies(Mutation::None)), 1);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_comes_back_is_refused_by_an_owner_whose_clock_is_behind() {
    let world = World::new(Mutation::None, &[]);
    let owner = world.owner().await;
    let client = world.client(0);
    world.send(&client, "a 001").await.unwrap();
    let path = world.inbox().await.first().cloned().unwrap();
    let content = world.get(&path).await;
    world.until(10, || world.applied("a").len() == 1).await.unwrap();
    world.sleep(74 * HOUR).await;
    owner.intake.stop().await;
    drop(owner);
    assert!(
        world
            .disk
            .keys()
            .iter()
            .all(|key| !key.id.as_str().starts_with("cursor"))
    );
    world.put(&path, &content).await;
    let behind = world.clock.off(-40 * 3_600_000);
    let owner = world.owner_with(behind).await;
    world.sleep(10).await;
    assert_eq!((world.applied("a").len(), world.inbox().await.len()), (1, 0));
    assert_eq!(world.quarantine().await.len(), 1);
    owner.intake.stop().await;
}

#[tokio::test(start_paused = true)]
async fn messages_that_waited_for_two_days_are_refused_by_name_and_kept() {
    let world = World::new(Mutation::None, &[]);
    let client = world.client(0);
    world.send(&client, "a 001").await.unwrap();
    world.sleep(20 * HOUR).await;
    world.send(&client, "a 002").await.unwrap();
    world.sleep(27 * HOUR).await;
    // A new incarnation, whose message must wait for those of the one before.
    world.send(&client, "a 003").await.unwrap();
    world.sleep(2 * HOUR).await;
    let owner = world.owner().await;
    world.sleep(70).await;
    assert_eq!(world.applied("a"), ["a 003"]);
    assert_eq!((world.inbox().await.len(), world.quarantine().await.len()), (0, 2));
    owner.intake.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_incarnation_that_has_a_cursor_is_served_however_old_it_is() {
    let world = World::new(Mutation::None, &[]);
    let client = world.client(0);
    let owner = world.owner().await;
    world.send(&client, "a 001").await.unwrap();
    world.until(10, || world.applied("a").len() == 1).await.unwrap();
    owner.intake.stop().await;
    drop(owner);
    world.send(&client, "a 002").await.unwrap();
    world.sleep(60 * HOUR).await;
    let owner = world.owner().await;
    world.until(10, || world.applied("a").len() == 2).await.unwrap();
    owner.intake.stop().await;
}
