//! Undecodable records: damage, or a variant of a later version.

use duroxide::providers::{Provider, TagFilter};

use super::kit::*;
use crate::{Harness, Program};

/// The next turn, within some tries: an undecodable message may cost a fetch, but not all of them.
async fn patient_turn(store: &dyn Provider) -> Turn {
    for _ in 0..20 {
        if let Ok(Some(turn)) = store.fetch_orchestration_item(LEASE, ms(100), None).await {
            return turn;
        }
    }
    panic!("no turn comes past the undecodable message");
}

/// The next work item, within some tries.
async fn patient_work(store: &dyn Provider) -> Work {
    for _ in 0..20 {
        if let Ok(Some(work)) = store
            .fetch_work_item(LEASE, ms(100), None, &TagFilter::DefaultOnly)
            .await
        {
            return work;
        }
    }
    panic!("no work comes past the undecodable item");
}

/// Fetching calms down: no error is returned for ever.
async fn assert_calm(store: &dyn Provider) {
    let mut last = String::new();
    for _ in 0..20 {
        let turn = store.fetch_orchestration_item(LEASE, ms(20), None).await;
        let work = store
            .fetch_work_item(LEASE, ms(20), None, &TagFilter::DefaultOnly)
            .await;
        if matches!((&turn, &work), (Ok(None), Ok(None))) {
            return;
        }
        last = format!("{turn:?} {work:?}");
    }
    panic!("an undecodable record keeps coming up: {last}");
}

/// An undecodable message does not stand in the way of other instances.
pub async fn an_undecodable_message_blocks_no_other_instance(h: &Harness) {
    let store = h.store();
    running(&*store, "bad").await;
    h.backend().plant_undecodable_message("bad").await;
    for instance in ["a", "b", "c"] {
        send(&*store, start(instance)).await;
    }
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let (item, token, _) = patient_turn(&*store).await;
        if item.instance == "bad" {
            Ack::empty().send(&*store, &token).await.unwrap();
            continue;
        }
        Ack::first(&item.instance)
            .status("Completed")
            .send(&*store, &token)
            .await
            .unwrap();
        seen.push(item.instance);
    }
    assert_eq!(seen, ["a", "b", "c"]);
    assert_calm(&*store).await;
}

/// The other messages of its instance are delivered, before it and behind it.
pub async fn an_undecodable_message_poisons_only_itself(h: &Harness) {
    let store = h.store();
    running(&*store, "i").await;
    send(&*store, queued("i", "before")).await;
    h.backend().plant_undecodable_message("i").await;
    send(&*store, queued("i", "behind")).await;
    let mut data = Vec::new();
    while data.len() < 2 {
        let (item, token, _) = patient_turn(&*store).await;
        assert_eq!(item.instance, "i");
        assert_eq!(item.history_error, None);
        data.extend(item.messages.iter().map(data_of).map(str::to_owned));
        Ack::empty().send(&*store, &token).await.unwrap();
    }
    assert_eq!(data, ["before", "behind"]);
    assert_calm(&*store).await;
    send(&*store, queued("i", "later")).await;
    assert_eq!(patient_turn(&*store).await.0.messages, [queued("i", "later")]);
}

/// Undecodable work does not stand in the way of other work, of its own instance or another.
pub async fn undecodable_work_poisons_only_itself(h: &Harness) {
    let store = h.store();
    running(&*store, "i").await;
    push(&*store, activity("i", 1)).await;
    h.backend().plant_undecodable_work("i").await;
    h.backend().plant_undecodable_work("j").await;
    push(&*store, activity("i", 2)).await;
    push(&*store, activity("j", 3)).await;
    for id in 1..=3 {
        let (item, token, attempt) = patient_work(&*store).await;
        assert_eq!((id_of(&item), attempt), (id, 1));
        store.ack_work_item(&token, None).await.unwrap();
    }
    assert_calm(&*store).await;
}

/// A runtime goes on past both kinds, over a restart too.
pub async fn a_runtime_goes_on_past_undecodable_records(h: &Harness) {
    let program = || {
        Program::new().with_echo().workflow("Flow", |ctx, input| async move {
            let word = ctx.dequeue_event("inbox").await;
            ctx.schedule_activity("Echo", format!("{input} {word}")).await
        })
    };
    h.runtime(program()).await;
    h.start("i", "Flow", "in").await;
    h.until_waiting("i", "inbox", 1).await;
    h.backend().plant_undecodable_message("i").await;
    h.backend().plant_undecodable_work("i").await;
    h.start("other", "Flow", "other").await;
    h.enqueue("other", "inbox", "on").await;
    assert_eq!(h.output("other").await, "other on");
    h.restart().await;
    h.runtime(program()).await;
    h.enqueue("i", "inbox", "on").await;
    assert_eq!(h.output("i").await, "in on");
}

/// An instance with undecodable records can be deleted, and they go with it.
pub async fn undecodable_records_are_deleted_with_their_instance(h: &Harness) {
    let store = h.store();
    running(&*store, "i").await;
    h.backend().plant_undecodable_message("i").await;
    h.backend().plant_undecodable_work("i").await;
    assert_eq!(
        h.admin(async |a| a.delete_instance("i", true).await)
            .await
            .unwrap()
            .instances_deleted,
        1
    );
    assert_calm(&*store).await;
    running(&*store, "i").await;
    assert_eq!(store.read("i").await.unwrap().len(), 1);
}
