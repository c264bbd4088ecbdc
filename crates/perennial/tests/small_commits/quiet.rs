//! An engine without work makes no call.

use crate::messages::conversation;
use crate::store::Fault;
use crate::turns::*;
use crate::world::World;
use duroxide::providers::Provider;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn an_idle_engine_makes_no_call_at_all() {
    let world = World::new().await;
    world
        .workflows
        .enqueue_for_orchestrator(start("root"), None)
        .await
        .unwrap();
    assert!(world.tell(conversation).await.is_ok());
    let before = world.store.calls();
    world.clock.sleep(Duration::from_secs(24 * 3600)).await;
    assert_eq!(world.store.calls(), before, "nothing was left to be done");
}

/// Tombstones are looked after until the last one is gone, and not a moment longer.
#[tokio::test(start_paused = true)]
async fn housekeeping_ends_with_its_work() {
    let mut looked_after = false;
    for at in 0..30 {
        let mut world = World::new().await;
        world
            .workflows
            .enqueue_for_orchestrator(start("root"), None)
            .await
            .unwrap();
        // A courier that is cut off for a while leaves tombstones behind.
        world.meet(Some((at, Fault::Outage))).await;
        world.tell(conversation).await.ok();
        looked_after |= !world.queued("msg/").is_empty();
        world.clock.sleep(Duration::from_secs(2 * 3600)).await;
        assert_eq!(
            world.queued("msg/"),
            Vec::<String>::new(),
            "after an outage at commit {at}"
        );
        let before = world.store.calls();
        world.clock.sleep(Duration::from_secs(24 * 3600)).await;
        assert_eq!(world.store.calls(), before, "after an outage at commit {at}");
    }
    assert!(looked_after, "there never was a tombstone");
}
