//! Large things, as ordinary things.

use duroxide::EventKind;
use duroxide::providers::WorkItem;

use super::kit::*;
use crate::Harness;

/// Ten thousand activities in one ack, all there, the first ones first.
pub async fn ten_thousand_activities_in_one_ack(h: &Harness) {
    let store = h.store();
    send(&*store, start("i")).await;
    let (_, token, _) = turn(&*store).await;
    let scheduled = |id| {
        let kind = EventKind::ActivityScheduled {
            name: "Work".to_owned(),
            input: format!("input {id}"),
            session_id: None,
            tag: None,
        };
        event("i", 1, id, kind)
    };
    let ack = Ack::first("i")
        .events((2..10_002).map(scheduled))
        .work((2..10_002).map(|id| activity("i", id)));
    ack.send(&*store, &token).await.unwrap();
    let depths = h.admin(async |a| a.get_queue_depths().await).await.unwrap();
    assert_eq!(depths.worker_queue, 10_000);
    let history = store.read("i").await.unwrap();
    assert_eq!(history.len(), 10_001);
    assert!(
        history.iter().zip(1..).all(|(event, id)| event.event_id == id),
        "the history is out of order"
    );
    drop(store);
    h.restart().await;
    let store = h.store();
    for id in 2..102 {
        let (item, token, _) = work(&*store).await;
        assert_eq!(item, activity("i", id));
        store.ack_work_item(&token, Some(completed("i", id))).await.unwrap();
    }
    let (messages, (item, token, _)) = all_of(h, "i", 100, None).await;
    assert_eq!(messages, (2..102).map(|id| completed("i", id)).collect::<Vec<_>>());
    assert_eq!(item.history.len(), 10_001);
    Ack::empty()
        .cancelled((2..10_002).map(|id| identity("i", id)))
        .send(&*store, &token)
        .await
        .unwrap();
    assert!(try_work(&*store).await.is_none(), "cancelled work is still there");
    assert_eq!(
        h.admin(async |a| a.get_queue_depths().await)
            .await
            .unwrap()
            .worker_queue,
        0
    );
}

/// Ten megabytes in each place that takes a payload.
pub async fn ten_megabytes_everywhere(h: &Harness) {
    let store = h.store();
    let big = |c: &str| c.repeat(10_000_000);
    let mut start = start("i");
    if let WorkItem::StartOrchestration { input, .. } = &mut start {
        *input = big("a");
    }
    send(&*store, start.clone()).await;
    let (item, token, _) = turn(&*store).await;
    assert!(item.messages == [start], "the start came back changed");
    let mut call = activity("i", 3);
    if let WorkItem::ActivityExecute { input, .. } = &mut call {
        *input = big("b");
    }
    let note = event(
        "i",
        1,
        2,
        EventKind::ExternalEvent {
            name: "big".to_owned(),
            data: big("c"),
        },
    );
    let ack = Ack::first("i")
        .events([note.clone()])
        .work([call.clone()])
        .messages([queued("i", &big("d"))]);
    ack.send(&*store, &token).await.unwrap();
    let (item, token, _) = work(&*store).await;
    assert!(item == call, "the work came back changed");
    let done = WorkItem::ActivityCompleted {
        instance: "i".to_owned(),
        execution_id: 1,
        id: 3,
        result: big("e"),
    };
    store.ack_work_item(&token, Some(done.clone())).await.unwrap();
    drop(store);
    h.restart().await;
    let store = h.store();
    let (item, token, _) = turn_of(&*store, "i").await;
    assert!(
        item.messages == [queued("i", &big("d")), done],
        "the messages came back changed"
    );
    assert!(item.history.get(1) == Some(&note), "the history came back changed");
    let mut last = Ack::empty().status("Completed");
    last.metadata.output = Some(big("f"));
    last.send(&*store, &token).await.unwrap();
    let info = h.admin(async |a| a.get_instance_info("i").await).await.unwrap();
    assert!(info.output == Some(big("f")), "the output came back changed");
}

/// A hundred and fifty values of 64 KB in one ack.
pub async fn a_hundred_and_fifty_values_in_one_ack(h: &Harness) {
    let store = h.store();
    send(&*store, start("i")).await;
    let (_, token, _) = turn(&*store).await;
    let value = |id: u64| format!("{id:04}").repeat(16 * 1024);
    let sets = (2..152).map(|id| kv_set("i", id, &format!("key {id}"), &value(id)));
    Ack::first("i")
        .events(sets)
        .status("Completed")
        .send(&*store, &token)
        .await
        .unwrap();
    drop(store);
    h.restart().await;
    let store = h.store();
    let values = store.get_kv_all_values("i").await.unwrap();
    assert_eq!(values.len(), 150);
    for id in 2..152 {
        assert!(
            values.get(&format!("key {id}")) == Some(&value(id)),
            "value {id} came back changed"
        );
    }
    let stats = store.get_instance_stats("i").await.unwrap().unwrap();
    assert_eq!(
        (stats.kv_user_key_count, stats.kv_total_value_bytes),
        (150, 150 * 64 * 1024)
    );
    send(&*store, raised("i", "x")).await;
    assert_eq!(turn_of(&*store, "i").await.0.kv_snapshot.len(), 150);
}

/// A thousand messages to a thousand other instances in one ack: each arrives, and arrives once.
pub async fn a_thousand_messages_to_others_in_one_ack(h: &Harness) {
    let store = h.store();
    send(&*store, start("i")).await;
    let (_, token, _) = turn(&*store).await;
    let names: Vec<_> = (0..1_000).map(|n| format!("child-{}", (n * 619) % 1_000)).collect();
    Ack::first("i")
        .messages(names.iter().map(|name| start(name)))
        .send(&*store, &token)
        .await
        .unwrap();
    let mut seen = Vec::new();
    // Where they go through an outbox, they arrive after the ack.
    while seen.len() < 1_000 {
        let fetched = store
            .fetch_orchestration_item(LONG_LEASE, ms(10_000), None)
            .await
            .unwrap();
        let (item, ..) = fetched.unwrap_or_else(|| panic!("only {} messages arrived", seen.len()));
        assert_eq!(item.messages.len(), 1);
        seen.push(item.instance);
    }
    assert!(
        store
            .fetch_orchestration_item(LONG_LEASE, ms(300), None)
            .await
            .unwrap()
            .is_none()
    );
    seen.sort_unstable();
    let mut names = names;
    names.sort_unstable();
    assert_eq!(seen, names);
}

/// Longer than a thousand turns take.
const LONG_LEASE: std::time::Duration = std::time::Duration::from_secs(600);

/// Messages to one other instance, from one ack, arrive in order.
pub async fn messages_to_another_instance_arrive_in_order(h: &Harness) {
    let store = h.store();
    running(&*store, "target").await;
    send(&*store, start("i")).await;
    let (_, token, _) = turn_of(&*store, "i").await;
    let messages = (0..300).map(|n| queued("target", &n.to_string()));
    Ack::first("i").messages(messages).send(&*store, &token).await.unwrap();
    let mut data = Vec::new();
    while data.len() < 300 {
        let fetched = store.fetch_orchestration_item(LEASE, SOON, None).await.unwrap();
        let (item, token, _) = fetched.unwrap_or_else(|| panic!("only {} messages arrived", data.len()));
        assert_eq!(item.instance, "target");
        data.extend(item.messages.iter().map(data_of).map(str::to_owned));
        Ack::empty().send(&*store, &token).await.unwrap();
    }
    assert_eq!(data, (0..300).map(|n| n.to_string()).collect::<Vec<_>>());
}
