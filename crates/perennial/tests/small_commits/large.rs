//! Turns that are larger than a commit happen as a whole or not at all.

use crate::store::{FAULTS, Fault};
use crate::turns::*;
use crate::world::World;
use duroxide::EventKind;
use duroxide::providers::{OrchestrationItem, Provider, ProviderAdmin};

const KEYS: u64 = 130;
const CALLS: u64 = 40;
const CHILDREN: u64 = 60;

/// The first turn sets many keys, schedules many activities and starts many others; the last one clears half of the keys.
pub fn crowd(item: &OrchestrationItem) -> Reply {
    let mut reply = Reply::default();
    if item.instance != "root" {
        reply.status = Some("Completed");
        return reply;
    }
    let known = consumed(&item.history).len() + item.messages.len();
    if item.history.is_empty() {
        reply.kinds = (0..KEYS).map(set).collect();
        reply.work = (0..CALLS).map(|id| activity("root", 100 + id)).collect();
        reply.messages = (0..CHILDREN).map(|n| start(&format!("root::child {n}"))).collect();
    } else if known as u64 == 1 + CALLS {
        let clear = |key| EventKind::KeyValueCleared {
            key: format!("key {key}"),
        };
        reply.kinds = (0..KEYS).filter(|key| key % 2 == 0).map(clear).collect();
        reply.status = Some("Completed");
    }
    reply
}

async fn judge(world: &World) -> Result<(), String> {
    let mut heard = world.histories(&["root"]).await.remove("root").unwrap_or_default();
    heard.sort_unstable();
    let mut expected: Vec<String> = (0..CALLS).map(|id| format!("done {}", 100 + id)).collect();
    expected.push("start root".to_owned());
    expected.sort_unstable();
    if heard != expected {
        return Err(format!("the root heard {heard:?}"));
    }
    let values = world.workflows.get_kv_all_values("root").await.unwrap();
    let odd = |key: &u64| values.get(&format!("key {key}")) == Some(&format!("value {key}"));
    if values.len() as u64 != KEYS / 2 || !(0..KEYS).filter(|key| key % 2 == 1).all(|key| odd(&key)) {
        return Err(format!("the keys are {:?}", values.keys()));
    }
    for n in 0..CHILDREN {
        let child = format!("root::child {n}");
        let heard = world.histories(&[&child]).await.remove(&child).unwrap_or_default();
        if heard != [format!("start {child}")] {
            return Err(format!("{child} heard {heard:?}"));
        }
    }
    let metrics = world.workflows.get_system_metrics().await.unwrap();
    if metrics.total_instances != CHILDREN + 1 || metrics.completed_instances != CHILDREN + 1 {
        return Err(format!("the totals are {metrics:?}"));
    }
    match world.leftovers().await {
        left if left.is_empty() => Ok(()),
        left => Err(format!("{left:?} was left behind")),
    }
}

/// Runs the story while a commit fails.
pub async fn try_with(fault: Option<(usize, Fault)>) -> (usize, Result<(), String>) {
    let mut world = World::new().await;
    world
        .workflows
        .enqueue_for_orchestrator(start("root"), None)
        .await
        .unwrap();
    world.meet(fault).await;
    let store = world.store.clone();
    world.tell_on(crowd).await;
    let verdict = judge(&world).await;
    (store.commits(), verdict)
}

/// All commits of the first turn and the first deliveries; then every seventh.
fn interesting(commits: usize) -> impl Iterator<Item = usize> {
    (0..commits).filter(|at| *at < 12 || at % 7 == 0)
}

#[tokio::test(start_paused = true)]
async fn a_large_turn_happens_once_whatever_commit_goes_wrong() {
    let (commits, verdict) = try_with(None).await;
    assert_eq!(verdict, Ok(()));
    for fault in FAULTS {
        for at in interesting(commits) {
            let (_, verdict) = try_with(Some((at, fault))).await;
            assert_eq!(verdict, Ok(()), "{fault:?} at commit {at}");
        }
    }
}

/// A durable turn is visible as a whole, although the rest of it is not stored yet.
#[tokio::test(start_paused = true)]
async fn a_reader_of_a_pending_turn_sees_all_of_it() {
    for at in 2..4 {
        let mut world = World::new().await;
        world
            .workflows
            .enqueue_for_orchestrator(start("root"), None)
            .await
            .unwrap();
        world.meet(Some((at, Fault::Outage))).await;
        let fetched = world.workflows.fetch_orchestration_item(
            std::time::Duration::from_secs(5),
            std::time::Duration::ZERO,
            None,
        );
        let (item, token, _) = fetched.await.unwrap().unwrap();
        let reply = crowd(&item);
        let events = events(&item, reply.kinds);
        let written = events.len();
        world
            .workflows
            .ack_orchestration_item(
                &token,
                1,
                events,
                reply.work,
                reply.messages,
                metadata(None, None),
                Vec::new(),
            )
            .await
            .expect("the turn is durable, so it is acknowledged");
        let read = loop {
            // The store is unavailable for a while.
            if let Ok(read) = world.workflows.read("root").await {
                break read;
            }
        };
        assert_eq!(read.len(), written);
        assert_eq!(
            world.workflows.get_kv_all_values("root").await.unwrap().len() as u64,
            KEYS
        );
        world.tell_on(crowd).await;
        assert_eq!(judge(&world).await, Ok(()), "after an outage at commit {at}");
    }
}
