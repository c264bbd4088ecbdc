//! Damage done on purpose: hooks for tests of how the engine takes it.

use crate::engine::Workflows;
use crate::records::page::Page;
use crate::records::{message, partition, work};
use crate::recover;
use crate::send::slot_of;
use perennial_store::{Commit, Draft, Key, Lane, Op, Place, Result, ScanQuery};
use std::sync::Arc;

/// Makes the stored history of an instance unreadable.
pub async fn corrupt_history(workflows: &Workflows, instance: &str) -> Result<()> {
    let engine = &workflows.engine;
    let query = ScanQuery::under(partition(instance), Page::root(), usize::MAX);
    let pages = engine.store.scan(&query).await?.records;
    let damage = |key: Key| Op::Put(Draft::new(key, "this is no page"));
    engine
        .store
        .commit(Commit::new(pages.into_iter().map(|page| damage(page.key)).collect()))
        .await?;
    engine.cache.forget(instance, slot_of(instance));
    Ok(())
}

/// The largest number of deliveries of a queued message of an instance.
pub fn max_attempts(workflows: &Workflows, instance: &str) -> u32 {
    workflows.engine.board.lock().0.turns().max_attempts(instance)
}

/// Queues a message whose body is `body`, readable or not.
pub async fn plant_message(workflows: &Workflows, instance: &str, body: &'static [u8]) -> Result<()> {
    let order = workflows.engine.next_order();
    plant(
        workflows,
        message::key(instance, order),
        body,
        Place {
            lane: message::LANE,
            order,
            due_ms: 0,
        },
    )
    .await
}

/// Queues an activity whose body is `body`, readable or not.
pub async fn plant_activity(workflows: &Workflows, instance: &str, body: &'static [u8]) -> Result<()> {
    let order = workflows.engine.next_order();
    let key = Key::new(partition(instance), work::root().number(1).number(1).number(order.0));
    plant(
        workflows,
        key,
        body,
        Place {
            lane: Lane::new(work::LANE),
            order,
            due_ms: 0,
        },
    )
    .await
}

async fn plant(workflows: &Workflows, key: Key, body: &'static [u8], place: Place) -> Result<()> {
    let engine = Arc::clone(&workflows.engine);
    engine
        .store
        .commit(Commit::new(vec![Op::Create(
            Draft::new(key.clone(), body).placed(place),
        )]))
        .await?;
    match engine.store.get(&key).await? {
        Some(record) => recover::admit(&engine, record, true).await,
        None => Ok(()),
    }
}

/// Lets go of the store without writing anything down, as a process that dies does.
pub async fn let_go(workflows: &Workflows) {
    let engine = &workflows.engine;
    engine.closed.store(true, std::sync::atomic::Ordering::Release);
    // A store that is closed twice has nothing left to say.
    engine.store.close().await.ok();
}
