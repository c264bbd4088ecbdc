//! What the owner does with a message of a client: one commit, together with the cursor.
#![allow(clippy::unwrap_used)]

use async_trait::async_trait;
use bytes::Bytes;
use duroxide::providers::{Provider, ProviderAdmin, WorkItem};
use perennial_kv::{MemoryDisk, MemoryStore, ReadOnlyStore, Settings, SharedMemory};
use perennial_store::{
    Applied, ConflictReason, Draft, Error, Key, Limits, MessageHandler, MessageSender, Op, Partition, RecordId, Result,
    Store, SystemClock,
};
use perennial_workflow::{RemoteWorkflows, Workflows};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Keeps what a client sends.
#[derive(Default)]
struct Kept(Mutex<Vec<Bytes>>);

#[async_trait]
impl MessageSender for Kept {
    async fn send(&self, engine: &'static str, payload: Bytes) -> Result<()> {
        assert_eq!(engine, Workflows::ENGINE);
        self.0.lock().unwrap().push(payload);
        Ok(())
    }
}

fn start(instance: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration: "flow".to_owned(),
        input: String::new(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

/// What a client sends for an item, whose limits are these.
async fn payload(item: WorkItem, delay: Option<Duration>) -> Bytes {
    let kept = Arc::new(Kept::default());
    let store = ReadOnlyStore::new(MemoryDisk::default(), Limits::NONE);
    let remote = RemoteWorkflows::new(Arc::new(store), kept.clone(), SystemClock::shared());
    remote.enqueue_for_orchestrator(item, delay).await.unwrap();
    kept.0.lock().unwrap().remove(0)
}

fn cursor_key() -> Key {
    Key::new(Partition::new("%inbox"), RecordId::of("cursor"))
}

fn create() -> Op {
    Op::Create(Draft::new(cursor_key(), "1"))
}

async fn open(store: Arc<dyn Store>) -> Workflows {
    Workflows::open(store, perennial_workflow::Settings::default())
        .await
        .unwrap()
}

async fn queued(workflows: &Workflows) -> usize {
    workflows.get_queue_depths().await.unwrap().orchestrator_queue
}

#[tokio::test]
async fn a_message_and_its_cursor_are_one_commit() {
    let store = Arc::new(MemoryStore::open(Settings::default()).unwrap());
    let workflows = open(store.clone()).await;
    let message = payload(start("a"), None).await;
    let before = store.stats().commits_durable;
    let Applied::Done(version) = workflows.apply(message.clone(), create()).await.unwrap() else {
        panic!("it should have been applied");
    };
    assert_eq!(store.stats().commits_durable, before + 1);
    let cursor = store.get(&cursor_key()).await.unwrap().unwrap();
    assert_eq!(version, Some(cursor.version.clone()));
    assert_eq!(queued(&workflows).await, 1);
    // It was applied before: nothing happens.
    let again = workflows.apply(message.clone(), create()).await.unwrap_err();
    assert!(
        matches!(
            again,
            Error::Conflict {
                reason: ConflictReason::Exists,
                ..
            }
        ),
        "{again}"
    );
    assert_eq!(queued(&workflows).await, 1);
    // The next one, of an instance that exists by now, and one of an instance that does not.
    let (item, _, _) = fetch(&workflows).await;
    assert_eq!(item, "a");
    let next = Op::Replace(Draft::new(cursor_key(), "2"), cursor.version);
    let cancel = WorkItem::CancelInstance {
        instance: "b".to_owned(),
        reason: String::new(),
    };
    let applied = workflows.apply(payload(cancel, None).await, next).await.unwrap();
    assert!(matches!(applied, Applied::Done(Some(_))), "{applied:?}");
    assert_eq!(store.get(&cursor_key()).await.unwrap().unwrap().body, "2");
    assert_eq!(store.stats().commits_durable, before + 2);
}

async fn fetch(workflows: &Workflows) -> (String, String, u32) {
    let fetched = workflows.fetch_orchestration_item(Duration::from_secs(5), Duration::from_secs(5), None);
    let (item, token, attempt) = fetched.await.unwrap().unwrap();
    (item.instance, token, attempt)
}

#[tokio::test]
async fn a_message_is_seen_after_its_delay() {
    let workflows = open(Arc::new(MemoryStore::open(Settings::default()).unwrap())).await;
    let message = payload(start("a"), Some(Duration::from_secs(3600))).await;
    workflows.apply(message, create()).await.unwrap();
    let fetched = workflows
        .fetch_orchestration_item(Duration::from_secs(5), Duration::ZERO, None)
        .await;
    assert!(fetched.unwrap().is_none());
}

#[tokio::test]
async fn what_the_engine_refuses_is_told_and_nothing_is_committed() {
    let store = Arc::new(MemoryStore::open(Settings::default()).unwrap());
    let workflows = open(store.clone()).await;
    let long = "x".repeat(workflows.longest_instance_id() + 1);
    // A client that does not know the limit.
    let text = String::from_utf8(payload(start("short"), None).await.to_vec()).unwrap();
    let message = Bytes::from(text.replace("short", &long));
    let before = store.stats().commits_durable;
    let refused = workflows.apply(message, create()).await.unwrap();
    assert!(
        matches!(&refused, Applied::Refused(why) if why.contains("shorter")),
        "{refused:?}"
    );
    for garbage in ["", "{}", "hello"] {
        let invalid = workflows.apply(Bytes::from(garbage), create()).await.unwrap_err();
        assert!(matches!(invalid, Error::Invalid(_)), "{invalid}");
    }
    assert_eq!(store.stats().commits_durable, before);
    assert_eq!(store.get(&cursor_key()).await.unwrap(), None);
}

#[tokio::test]
async fn a_store_that_many_processes_share_takes_no_such_messages() {
    let database = SharedMemory::new(Limits::NONE).unwrap();
    let workflows = open(database.open()).await;
    let message = payload(start("a"), None).await;
    assert!(matches!(
        workflows.apply(message, create()).await,
        Err(Error::Invalid(_))
    ));
}
