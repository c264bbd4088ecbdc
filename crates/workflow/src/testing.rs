//! Deliberate damage, and a view inside: hooks for tests and for the simulator.

use crate::instance;
pub use crate::mutation::{Mutation, is as is_broken, mutate};
use crate::records::page::Page;
use crate::records::{message, partition, work};
use crate::recover;
use crate::send::slot_of;
use crate::workflows::Workflows;
use perennial_store::{Commit, Draft, Error, Key, Limits, Op, Place, Result, ScanQuery, Store};

/// The limits that a store must advertise: with [`Mutation::SplitCommit`], no limit on operations, so that the engine leaves
/// the splitting to [`parts`].
pub fn advertised(limits: Limits) -> Limits {
    let ops_per_commit = match is_broken(Mutation::SplitCommit) {
        true => usize::MAX,
        false => limits.ops_per_commit,
    };
    Limits {
        ops_per_commit,
        ..limits
    }
}

/// The commits that a store must make of one: with [`Mutation::SplitCommit`], as many as its operations take.
pub fn parts(mut commit: Commit, limits: &Limits) -> Vec<Commit> {
    let mut parts = Vec::new();
    while is_broken(Mutation::SplitCommit) && commit.ops.len() > limits.ops_per_commit {
        let later = commit.ops.split_off(limits.ops_per_commit);
        parts.push(Commit {
            ops: std::mem::replace(&mut commit.ops, later),
            counters: std::mem::take(&mut commit.counters),
            durability: commit.durability,
        });
    }
    parts.push(commit);
    parts
}

/// An error of a part that follows `before` operations of the commit that it is of.
pub fn of_part(error: Error, before: usize) -> Error {
    match error {
        Error::Conflict { op, reason } => Error::Conflict {
            op: op + before,
            reason,
        },
        error => error,
    }
}

/// Makes the stored history of an instance unreadable.
pub async fn corrupt_history(workflows: &Workflows, instance: &str) -> Result<()> {
    let engine = workflows.engine();
    engine.outstanding.all().await;
    let query = ScanQuery::under(partition(instance), Page::root(), usize::MAX);
    let pages = engine.store.scan(&query).await?.records;
    let damage = |key: Key| Op::Put(Draft::new(key, "this is no page"));
    engine
        .store
        .commit(Commit::new(pages.into_iter().map(|page| damage(page.key)).collect()))
        .await?;
    engine.cache.forget(instance, slot_of(instance));
    engine.board.lock().0.take_reservation(instance);
    Ok(())
}

/// The largest number of deliveries of a queued message of an instance.
pub fn max_attempts(workflows: &Workflows, instance: &str) -> u32 {
    let cached = workflows.engine().cache.peek(instance);
    let deliveries = cached.and_then(|snapshot| Some(snapshot.head.as_ref()?.0.deliveries));
    let engine = workflows.engine();
    engine.board.lock().0.turns().max_attempts(instance) + deliveries.unwrap_or_default()
}

/// Queues a message whose body is `body`, readable or not.
pub async fn plant_message(workflows: &Workflows, instance: &str, body: &'static [u8]) -> Result<()> {
    let order = workflows.engine().next_order();
    plant(
        workflows,
        message::key(instance, &message::id(order, None)),
        body,
        Place {
            lane: workflows.engine().lanes.turn(),
            order,
            due_ms: 0,
        },
    )
    .await
}

/// Queues an activity whose body is `body`, readable or not.
pub async fn plant_activity(workflows: &Workflows, instance: &str, body: &'static [u8]) -> Result<()> {
    let order = workflows.engine().next_order();
    let key = Key::new(partition(instance), work::root().number(1).number(1).number(order.0));
    plant(
        workflows,
        key,
        body,
        Place {
            lane: workflows.engine().lanes.work(None),
            order,
            due_ms: 0,
        },
    )
    .await
}

async fn plant(workflows: &Workflows, key: Key, body: &'static [u8], place: Place) -> Result<()> {
    let engine = workflows.engine();
    engine
        .store
        .commit(Commit::new(vec![Op::Create(
            Draft::new(key.clone(), body).placed(place),
        )]))
        .await?;
    match engine.store.get(&key).await? {
        // The poller of a running runtime may be faster.
        Some(record) => match recover::admit(&engine, record, true).await {
            Err(perennial_store::Error::Conflict { .. }) if engine.mode.is_shared() => Ok(()),
            outcome => outcome,
        },
        None => Ok(()),
    }
}

/// Drops the store without writing anything, as a process that dies does.
pub async fn let_go(workflows: &Workflows) {
    let engine = workflows.engine();
    engine.closed.store(true, std::sync::atomic::Ordering::Release);
    // An error of a store that is closed twice does not matter.
    engine.store.close().await.ok();
}

/// What the board holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Residue {
    /// Messages, ready or not.
    pub messages: usize,
    /// Activities, ready or not.
    pub activities: usize,
    /// Claims, good or lapsed.
    pub claims: usize,
    /// Instances that have a mailbox.
    pub mailboxes: usize,
}

/// What the board holds: nothing, when all work is done.
pub fn residue(workflows: &Workflows) -> Residue {
    let engine = workflows.engine();
    let (board, _) = engine.board.lock();
    Residue {
        messages: board.turns().len(),
        activities: board.work().len(),
        claims: board.claims(),
        mailboxes: board.turns().mailboxes.len(),
    }
}

/// The board's auxiliary collections: nothing that grows, when all work is done.
pub fn bookkeeping(workflows: &Workflows) -> [(&'static str, usize); 5] {
    let engine = workflows.engine();
    let (mut board, now_ms) = engine.board.lock();
    board.advance(now_ms);
    board.bookkeeping()
}

/// How many callers wait for instances to end.
pub fn waiting(workflows: &Workflows) -> usize {
    workflows.engine().cache.watchers.len()
}

/// Whether the cached snapshot of an instance equals what `store` holds; says how it differs. Where no commit can be under
/// way, `is_idle`, the versions must agree too.
pub async fn compare_cached(
    workflows: &Workflows,
    store: &dyn Store,
    instance: &str,
    is_idle: bool,
) -> std::result::Result<(), String> {
    let Some(cached) = workflows.engine().cache.peek(instance) else {
        return Ok(());
    };
    let stored = instance::load(store, instance).await.map_err(|why| why.to_string())?;
    let version = |snapshot: &instance::Snapshot| snapshot.head.as_ref().map(|(_, version)| version.clone());
    let turns = |snapshot: &instance::Snapshot| snapshot.head.as_ref().map_or(0, |(head, _)| head.turns);
    let executions = |snapshot: &instance::Snapshot| snapshot.head.as_ref().map_or(0, |(head, _)| head.execution.id);
    let is_ahead =
        (executions(&cached), turns(&cached)) > (executions(&stored), turns(&stored)) && stored.head.is_some();
    if !is_idle && !is_ahead && version(&cached) != version(&stored) {
        return Ok(());
    }
    if *cached == stored {
        return Ok(());
    }
    Err(format!("of {instance} {cached:?} is cached and {stored:?} is stored"))
}
