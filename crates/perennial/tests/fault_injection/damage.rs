//! Work that cannot be handed out does not block other work.

use crate::calls::*;
use duroxide::providers::Provider;
use perennial_kv::MemoryDisk;
use perennial_store::{Commit, Draft, Error, Key, Op, Partition, RecordId, ScanQuery, Store};

fn head_of(instance: &str) -> Key {
    Key::new(Partition::new(format!("wf:{instance}")), RecordId::of("head"))
}

#[tokio::test]
async fn a_delayed_start_and_an_event_before_it_block_no_other_instance() {
    let (store, _) = fresh(Default::default()).await;
    send(&store, start("late")).await;
    let (_, token, _) = turn(&store).await;
    store
        .abandon_orchestration_item(&token, Some(ms(400)), false)
        .await
        .unwrap();
    send(&store, raised("late", "data")).await;
    send(&store, start("other")).await;
    assert_eq!(turn(&store).await.0.instance, "other");
    assert!(try_turn(&store).await.is_none());
    let fetched = soon(store.fetch_orchestration_item(LEASE, LEASE, None)).await.unwrap();
    let (late, ..) = fetched.unwrap();
    assert_eq!((late.instance.as_str(), late.messages.len()), ("late", 2));
}

#[tokio::test]
async fn an_event_before_a_start_that_is_delayed_is_delivered_with_it() {
    let (store, _) = fresh(Default::default()).await;
    send(&store, raised("late", "data")).await;
    assert!(try_turn(&store).await.is_none());
    store
        .enqueue_for_orchestrator(start("late"), Some(ms(100)))
        .await
        .unwrap();
    assert!(try_turn(&store).await.is_none());
    let fetched = soon(store.fetch_orchestration_item(LEASE, LEASE, None)).await.unwrap();
    assert_eq!(fetched.unwrap().0.messages.len(), 2);
}

#[tokio::test]
async fn a_damaged_head_blocks_no_other_instance_whatever_arrives_for_it() {
    let disk = MemoryDisk::default();
    let (store, gate) = on(&disk, no_cache()).await;
    execute(&store, "broken", 1, None).await;
    let whole = gate.get(&head_of("broken")).await.unwrap().unwrap();
    let damaged = Draft::new(head_of("broken"), "no head");
    gate.commit(Commit::new(vec![Op::Put(damaged)])).await.unwrap();
    send(&store, start("broken")).await;
    send(&store, raised("broken", "data")).await;
    send(&store, start("other")).await;
    assert_eq!(turn(&store).await.0.instance, "other");
    send(&store, start("broken")).await;
    assert!(try_turn(&store).await.is_none());

    // Nothing is lost: a process that can read it again has it all.
    let mut healed = Draft::new(whole.key, whole.body);
    healed.listing = whole.listing;
    gate.commit(Commit::new(vec![Op::Put(healed)])).await.unwrap();
    store.close().await.unwrap();
    let (store, _) = on(&disk, no_cache()).await;
    let items = [turn(&store).await.0, turn(&store).await.0];
    let broken = items.iter().find(|item| item.instance == "broken").unwrap();
    assert_eq!(broken.messages.len(), 3);
}

#[tokio::test]
async fn a_store_is_closed_even_if_a_queued_record_cannot_be_read() {
    let (store, gate) = fresh(Default::default()).await;
    send(&store, start("i")).await;
    turn(&store).await;
    let query = ScanQuery::under(Partition::new("wf:i"), RecordId::of("msg"), 10);
    let record = gate.scan(&query).await.unwrap().records.remove(0);
    let place = record.place.unwrap();
    let damaged = Draft::new(record.key.clone(), "no message").placed(place);
    gate.commit(Commit::new(vec![Op::Put(damaged)])).await.unwrap();
    store.close().await.unwrap();
    assert!(matches!(gate.get(&record.key).await, Err(Error::Closed(_))));
}

#[tokio::test]
async fn a_dead_store_is_not_polled_again_and_again() {
    let disk = MemoryDisk::default();
    let (store, _) = on(&disk, Default::default()).await;
    send(&store, start("i")).await;
    store.close().await.unwrap();
    let (store, _) = on(&disk, Default::default()).await;
    disk.fail_writes("the disk is gone");
    store.enqueue_for_orchestrator(start("j"), None).await.unwrap_err();
    let mut fetch = std::pin::pin!(store.fetch_orchestration_item(LEASE, ms(300), None));
    tokio::select! {
        biased;
        early = &mut fetch => panic!("{early:?} came before the time was over"),
        () = pause(ms(100)) => {}
    }
    soon(fetch).await.unwrap_err();
    store.fetch_orchestration_item(LEASE, NOW, None).await.unwrap_err();
}
