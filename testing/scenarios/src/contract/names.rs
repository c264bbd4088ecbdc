//! Awkward names, straight at the provider.

use duroxide::providers::{SessionFetchConfig, TagFilter, WorkItem};

use super::kit::*;
use crate::{Harness, awkward};

/// Each awkward id is an instance of its own, in every call that names one.
pub async fn awkward_instances_are_apart(h: &Harness) {
    let ids = awkward::keys();
    for id in &ids {
        let store = h.store();
        send(&*store, start(id)).await;
        let (item, token, _) = turn_of(&*store, id).await;
        assert_eq!(item.messages, [start(id)]);
        let ack = Ack::first(id)
            .events([kv_set(id, 2, "k", id), noted(id, 3)])
            .work([activity(id, 4)]);
        ack.send(&*store, &token).await.unwrap();
        assert_eq!(work(&*store).await.0, activity(id, 4));
    }
    h.restart().await;
    let store = h.store();
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    assert_eq!(instances(&*store).await, sorted);
    for id in &ids {
        assert_eq!(store.read(id).await.unwrap().len(), 3, "{id:?}");
        assert_eq!(store.get_kv_value(id, "k").await.unwrap().as_ref(), Some(id));
        assert_eq!(
            store.get_instance_stats(id).await.unwrap().unwrap().kv_user_key_count,
            1
        );
        let deleted = h.admin(async |a| a.delete_instance(id, true).await).await.unwrap();
        assert_eq!(deleted.instances_deleted, 1, "{id:?}");
        assert!(store.read(id).await.unwrap().is_empty());
    }
    assert!(instances(&*store).await.is_empty());
}

/// Each awkward child id hangs under its awkward parent.
pub async fn awkward_families_hold_together(h: &Harness) {
    let store = h.store();
    let ids = awkward::keys();
    for (n, parent) in ids.iter().enumerate() {
        ended(&*store, &format!("root {n} {parent}")).await;
    }
    for (n, parent) in ids.iter().enumerate() {
        let (parent, child) = (format!("root {n} {parent}"), format!("{parent} child {n}"));
        send(&*store, start(&child)).await;
        let (_, token, _) = turn_of(&*store, &child).await;
        let mut ack = Ack::first(&child).status("Completed");
        ack.metadata.parent_instance_id = Some(parent.clone());
        ack.send(&*store, &token).await.unwrap();
        assert_eq!(
            h.admin(async |a| a.list_children(&parent).await).await.unwrap(),
            std::slice::from_ref(&child)
        );
        assert_eq!(
            h.admin(async |a| a.get_parent_id(&child).await).await.unwrap(),
            Some(parent.clone())
        );
        let deleted = h
            .admin(async |a| a.delete_instance(&parent, false).await)
            .await
            .unwrap();
        assert_eq!(deleted.instances_deleted, 2, "{parent:?}");
    }
    assert!(instances(&*store).await.is_empty());
}

/// Each awkward session and owner is one of its own.
pub async fn awkward_sessions_are_apart(h: &Harness) {
    let store = h.store();
    let names = awkward::keys();
    for (id, session) in (0..).zip(&names) {
        push(&*store, routed("i", id, Some(session), None)).await;
    }
    for (id, session) in (0..).zip(&names) {
        let owner = SessionFetchConfig {
            owner_id: session.clone(),
            lock_timeout: LEASE,
        };
        let fetched = store
            .fetch_work_item(LEASE, NOW, Some(&owner), &TagFilter::DefaultOnly)
            .await
            .unwrap();
        assert_eq!(fetched.unwrap().0, routed("i", id, Some(session), None));
    }
    for (id, session) in (0..).zip(&names) {
        push(&*store, routed("j", id, Some(session), None)).await;
    }
    let mut pairs: Vec<_> = (0..).zip(&names).collect();
    pairs.reverse();
    for (id, session) in pairs {
        let owner = SessionFetchConfig {
            owner_id: session.clone(),
            lock_timeout: LEASE,
        };
        let fetched = store
            .fetch_work_item(LEASE, NOW, Some(&owner), &TagFilter::DefaultOnly)
            .await
            .unwrap();
        assert_eq!(
            fetched.unwrap().0,
            routed("j", id, Some(session), None),
            "a session went to another's owner"
        );
        assert_eq!(
            store
                .renew_session_lock(&[session.as_str()], LEASE, LEASE)
                .await
                .unwrap(),
            1
        );
    }
}

/// Each awkward tag reaches only the workers that serve it.
pub async fn awkward_tags_are_apart(h: &Harness) {
    let store = h.store();
    let tags = awkward::keys();
    for (id, tag) in (0..).zip(&tags) {
        push(&*store, routed("i", id, None, Some(tag))).await;
    }
    assert!(
        try_work(&*store).await.is_none(),
        "tagged work was handed out as untagged"
    );
    let mut pairs: Vec<_> = (0..).zip(&tags).collect();
    pairs.reverse();
    for (id, tag) in pairs {
        let filter = TagFilter::tags([tag.clone()]);
        let fetched = store.fetch_work_item(LEASE, NOW, None, &filter).await.unwrap();
        assert_eq!(fetched.unwrap().0, routed("i", id, None, Some(tag)));
        assert!(
            store
                .fetch_work_item(LEASE, NOW, None, &filter)
                .await
                .unwrap()
                .is_none(),
            "{tag:?} matched another"
        );
    }
}

/// Each awkward key, and the empty one, holds its own value, over executions and restarts.
pub async fn awkward_keys_are_apart(h: &Harness) {
    let store = h.store();
    let mut keys = awkward::keys();
    keys.push(String::new());
    send(&*store, start("i")).await;
    let (_, token, _) = turn(&*store).await;
    let sets = (2..)
        .zip(&keys)
        .map(|(id, key)| kv_set("i", id, key, &format!("value of {key}")));
    Ack::first("i")
        .events(sets)
        .status("ContinuedAsNew")
        .messages([continued("i")])
        .send(&*store, &token)
        .await
        .unwrap();
    drop(store);
    h.restart().await;
    let store = h.store();
    let (item, ..) = turn_of(&*store, "i").await;
    assert_eq!(item.kv_snapshot.len(), keys.len());
    for key in &keys {
        let expected = Some(format!("value of {key}"));
        assert_eq!(store.get_kv_value("i", key).await.unwrap(), expected);
        assert_eq!(item.kv_snapshot.get(key).map(|entry| entry.value.clone()), expected);
    }
    assert_eq!(store.get_kv_value("i", "k").await.unwrap(), None);
}

/// Awkward text in every field of every kind of message comes back as it was.
pub async fn awkward_messages_come_back_unchanged(h: &Harness) {
    let store = h.store();
    running(&*store, "i").await;
    let mut sent = Vec::new();
    for text in awkward::keys() {
        let i = || "i".to_owned();
        sent.push(WorkItem::ExternalRaised {
            instance: i(),
            name: text.clone(),
            data: text.clone(),
        });
        sent.push(WorkItem::QueueMessage {
            instance: i(),
            name: text.clone(),
            data: text.clone(),
        });
        sent.push(WorkItem::CancelInstance {
            instance: i(),
            reason: text.clone(),
        });
        sent.push(WorkItem::ActivityCompleted {
            instance: i(),
            execution_id: 1,
            id: u64::MAX >> 1,
            result: text.clone(),
        });
        sent.push(WorkItem::SubOrchCompleted {
            parent_instance: i(),
            parent_execution_id: 1,
            parent_id: 3,
            result: text.clone(),
        });
        sent.push(WorkItem::ActivityFailed {
            instance: i(),
            execution_id: 1,
            id: 2,
            details: duroxide::ErrorDetails::Infrastructure {
                operation: text.clone(),
                message: text,
                retryable: true,
            },
        });
    }
    for message in &sent {
        send(&*store, message.clone()).await;
    }
    drop(store);
    h.restart().await;
    assert_eq!(all_of(h, "i", sent.len(), None).await.0, sent);
}
