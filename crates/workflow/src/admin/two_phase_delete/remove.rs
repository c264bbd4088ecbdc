//! Carrying a deletion out.

use super::mark::head_of;
use crate::admin::{delete, totals};
use crate::engine::Engine;
use crate::instance;
use crate::outbox;
use crate::records::execution::Ended;
use crate::records::head::Head;
use crate::records::{message, partition};
use crate::send::slot_of;
use crate::tuning::{REMOVE_RETRY_AFTER, REMOVE_TRIES};
use perennial_store::{Commit, Error, Op, Order, Record, Result, Version};
use std::collections::HashMap;
use std::sync::Arc;

/// Removes every instance of a deletion that is decided, the coordinator last.
pub async fn carry_out(engine: &Arc<Engine>, coordinator: &str, by: &str) -> Result<()> {
    let Some((head, _)) = head_of(&*engine.store, coordinator).await? else {
        return Ok(());
    };
    let Some(mark) = head.deletion.filter(|mark| mark.by == by && mark.decided) else {
        return Ok(());
    };
    for member in &mark.members {
        remove(engine, member, by).await?;
    }
    remove(engine, coordinator, by).await
}

/// Removes a marked instance, head last. Every operation is on the version that was read, so nothing is removed from an
/// instance of the same name that was started since.
async fn remove(engine: &Arc<Engine>, instance: &str, by: &str) -> Result<()> {
    for _ in 0..REMOVE_TRIES {
        let Some((head, version)) = deletion(engine, instance, by).await? else {
            engine.cache.forget(instance, slot_of(instance));
            return Ok(());
        };
        let flushed = !outbox::is_needed(engine) || outbox::flush(engine, &partition(instance)).await?;
        if flushed && take(engine, instance, &head, version).await? {
            engine.cache.forget(instance, slot_of(instance));
            return Ok(());
        }
        engine.clock.sleep(REMOVE_RETRY_AFTER).await;
    }
    let why = format!("{instance} is too busy to be removed: trying again later");
    Err(Error::Unavailable(why))
}

/// The head of an instance, if it bears the mark of this deletion. On a shared store, a read that does not show the mark may
/// be older than the mark: trusting it would leave the instance behind.
async fn deletion(engine: &Engine, instance: &str, by: &str) -> Result<Option<(Head, Version)>> {
    let is_marked = |(head, _): &(Head, Version)| head.deletion.as_ref().is_some_and(|mark| mark.by == by);
    let found = head_of(&*engine.store, instance).await?.filter(is_marked);
    if found.is_some() || engine.mode.is_surely_absent(engine, Head::key(instance)).await? {
        return Ok(found);
    }
    Ok(head_of(&*engine.store, instance).await?.filter(is_marked))
}

/// Removes all records of an instance; `false` if something came in between.
async fn take(engine: &Arc<Engine>, instance: &str, head: &Head, version: Version) -> Result<bool> {
    let partition = partition(instance);
    let mut events = HashMap::new();
    if head.execution.id > 1 {
        let ended = instance::executions(&*engine.store, &partition).await?.into_iter();
        let before = ended.filter(|ended| ended.execution.id != head.execution.id);
        events.extend(before.map(|ended| (Ended::key(&partition, ended.execution.id), ended.execution.events)));
    }
    let limit = engine.store.limits().ops_per_commit;
    let _deleting = engine.board.deleting(vec![Arc::from(instance)]);
    let mut records = delete::everything_else(engine, &partition).await?;
    loop {
        let later = records.split_off(limit.min(records.len()));
        let batch = std::mem::replace(&mut records, later);
        let is_last = batch.len() < limit;
        let orders: Vec<Order> = batch
            .iter()
            .filter_map(|record| delete::queued_order(&record.key))
            .collect();
        let mut commit = Commit::default();
        for record in batch {
            if let Some(events) = events.get(&record.key) {
                totals::count_pruning(&mut commit, 1, *events);
            }
            commit.ops.push(removal(engine, instance, record).await?);
        }
        if is_last {
            commit.ops.push(Op::Delete(Head::key(instance), version.clone()));
            totals::count_deletion(&mut commit, head, 1, head.execution.events);
        }
        let tombs = commit.ops.iter().any(|op| op.draft().is_some());
        match engine.commit(commit).await {
            Ok(_) => evict(engine, instance, &orders),
            Err(Error::Conflict { .. }) => return Ok(false),
            Err(other) => return Err(other),
        }
        if tombs {
            engine.housekeeper.call(engine);
        }
        if is_last {
            return Ok(true);
        }
    }
}

/// The operation that removes a record at the version that was read.
async fn removal(engine: &Engine, instance: &str, Record { key, version, .. }: Record) -> Result<Op> {
    let Some(order) = message::order_of(&key.id) else {
        return Ok(Op::Delete(key, version));
    };
    Ok(match outbox::removal_op(engine, instance, key, order).await? {
        Op::Put(tomb) => Op::Replace(tomb, version),
        op => Op::Delete(op.key().clone(), version),
    })
}

/// Removes what was deleted from the board, with every claim on it. Work that arrived after the deletion stays.
pub fn evict(engine: &Engine, instance: &str, deleted: &[Order]) {
    let (mut board, _) = engine.board.lock();
    board.evict(&Arc::from(instance), deleted);
    for order in deleted {
        board.withdraw(*order);
    }
}
