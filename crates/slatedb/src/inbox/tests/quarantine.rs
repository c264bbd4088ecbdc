//! Messages that cannot be applied.

use super::super::envelope::Object;
use super::super::mutation::Mutation;
use super::super::names::Incarnation;
use super::super::settings::OutgoingSettings;
use super::world::{ENGINE, World};
use bytes::Bytes;
use object_store::path::Path;
use perennial_store::{Clock, Error, MessageSender};

fn path(incarnation: Incarnation, number: u64) -> Path {
    incarnation.message(&Path::from("test/0/inbox"), number)
}

fn content(engine: &str, payload: &str) -> Bytes {
    let object = Object::new(engine, Bytes::from(payload.to_owned()), None).unwrap();
    object.content().into()
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_applied_is_kept_aside_and_passed() {
    let world = World::new(Mutation::None, &[]);
    let incarnation = Incarnation::new(world.clock.now_ms(), 7);
    let messages = [
        content(ENGINE, "a 001"),
        Bytes::from_static(b"no message at all"),
        content("unknown", "a 002"),
        Bytes::from(vec![b'x'; 17 << 20]),
        content(ENGINE, "invalid"),
        content(ENGINE, "refuse me"),
        content(ENGINE, "a 003"),
    ];
    for (number, message) in (1..).zip(&messages) {
        world.put(&path(incarnation, number), message).await;
    }
    world.put(&Path::from("test/0/inbox/readme.txt"), b"hello").await;
    let owner = world.owner().await;
    world.sleep(5).await;
    assert_eq!(world.applied("a"), ["a 001", "a 003"]);
    assert!(world.inbox().await.is_empty());
    let kept = world.quarantine().await;
    let name = |number| format!("test/0/inbox-quarantine/{incarnation}/{number:020}");
    let expected: Vec<Path> = [2, 3, 4, 5].map(|number| Path::from(name(number))).into();
    assert_eq!(kept[..4], expected);
    assert_eq!(kept[4..], [Path::from("test/0/inbox-quarantine/readme.txt")]);
    assert_eq!(world.get(&kept[0]).await, messages[1]);
    // One commit for each message, whatever became of it.
    assert_eq!(owner.commits(), messages.len() as u64);
    owner.intake.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_missing_is_waited_for() {
    let world = World::new(Mutation::None, &[]);
    let incarnation = Incarnation::new(world.clock.now_ms(), 7);
    world.put(&path(incarnation, 1), &content(ENGINE, "a 001")).await;
    world.put(&path(incarnation, 3), &content(ENGINE, "a 003")).await;
    let owner = world.owner().await;
    world.sleep(130).await;
    assert_eq!(world.applied("a"), ["a 001"]);
    world.put(&path(incarnation, 2), &content(ENGINE, "a 002")).await;
    world.sleep(65).await;
    assert_eq!(world.applied("a"), ["a 001", "a 002", "a 003"]);
    owner.intake.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_too_large_is_refused_by_the_client() {
    let world = World::new(Mutation::None, &[]);
    let client = world.client_with(
        0,
        OutgoingSettings {
            message_bytes: 10,
            ..OutgoingSettings::default()
        },
        world.clock.clone(),
    );
    client.send(ENGINE, Bytes::from("x".repeat(10))).await.unwrap();
    let refused = client.send(ENGINE, Bytes::from("x".repeat(11))).await;
    assert!(
        matches!(
            refused,
            Err(Error::TooLarge {
                actual: 11,
                limit: 10,
                ..
            })
        ),
        "{refused:?}"
    );
}
