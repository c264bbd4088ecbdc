//! `duroxide::Client` in a process that reaches nothing but the bucket, and an owner on another runtime.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use duroxide::providers::{Provider, TagFilter, WorkItem};
use duroxide::runtime::registry::{ActivityRegistry, OrchestrationRegistry};
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{ActivityContext, Client, ClientError, OrchestrationContext, OrchestrationStatus};
use object_store::memory::InMemory;
use object_store::path::Path;
use perennial_kv::{MemoryDisk, MemoryStore, ReadOnlyStore, Settings};
use perennial_slatedb::{Bucket, Intake, IntakeSettings, Outgoing, OutgoingSettings, Shard};
use perennial_store::{Limits, MessageHandler, Store, SystemClock};
use perennial_workflow::{RemoteWorkflows, Workflows};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::runtime::{Builder, Handle};

const LONG: Duration = Duration::from_secs(60);
const SHARD: Shard = Shard(0);

/// A bucket, and the disk that stands for the database in it.
struct World {
    bucket: Bucket,
    disk: MemoryDisk,
    ids: Arc<AtomicU64>,
}

/// A process that owns the store and runs workflows. It has a runtime of its own.
struct Owner {
    runtime: tokio::runtime::Runtime,
    workflows: Workflows,
    intake: Intake,
    dispatchers: Arc<Runtime>,
}

async fn greet(_: ActivityContext, name: String) -> Result<String, String> {
    Ok(format!("Hello, {name}!"))
}

fn workflows() -> OrchestrationRegistry {
    let hello = |context: OrchestrationContext, name: String| async move {
        context.set_custom_status("greeting");
        context.set_kv_value("name", &name);
        let greeting = context.schedule_activity("greet", name).await?;
        context.set_kv_value("greeting", &greeting);
        Ok(greeting)
    };
    let collect = |context: OrchestrationContext, count: String| async move {
        let mut all = Vec::new();
        for _ in 0..count.parse::<usize>().map_err(|why| why.to_string())? {
            all.push(context.dequeue_event("numbers").await);
        }
        Ok(all.join(","))
    };
    let wait = |context: OrchestrationContext, _: String| async move { Ok(context.schedule_wait("go").await) };
    let again = |context: OrchestrationContext, left: String| async move {
        match left.parse::<u32>() {
            Ok(0) | Err(_) => Ok("done".to_owned()),
            Ok(left) => context.continue_as_new((left - 1).to_string()).await,
        }
    };
    let family = |context: OrchestrationContext, name: String| async move {
        context.schedule_sub_orchestration("hello", name).await
    };
    let fail = |_: OrchestrationContext, why: String| async move { Err::<String, _>(why) };
    OrchestrationRegistry::builder()
        .register("hello", hello)
        .register("collect", collect)
        .register("wait", wait)
        .register("again", again)
        .register("family", family)
        .register("fail", fail)
        .build()
}

impl World {
    fn new() -> Self {
        Self {
            bucket: Bucket::new(Arc::new(InMemory::new()), Path::from("test"), "memory"),
            disk: MemoryDisk::default(),
            ids: Arc::default(),
        }
    }

    /// A client that owns nothing.
    fn client(&self) -> RemoteWorkflows {
        let ids = Arc::clone(&self.ids);
        let random = Arc::new(move || u128::from(ids.fetch_add(1, Ordering::Relaxed)));
        let settings = OutgoingSettings::default();
        let clock = SystemClock::shared();
        let sender = Outgoing::start(&self.bucket, SHARD, settings, clock.clone(), random, &Handle::current());
        let store = ReadOnlyStore::new(self.disk.clone(), Limits::NONE);
        RemoteWorkflows::new(Arc::new(store), Arc::new(sender), clock)
    }

    /// A process that owns the store.
    async fn owner(&self) -> Owner {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let (bucket, disk) = (self.bucket.clone(), self.disk.clone());
        let started = runtime.spawn(async move {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::open_disk(&disk, Settings::default()).unwrap());
            let workflows = Workflows::open(store.clone(), perennial_workflow::Settings::default())
                .await
                .unwrap();
            let settings = IntakeSettings {
                look_idle: Duration::from_millis(20),
                look_recent: Duration::from_millis(20),
                look_busy: Duration::from_millis(5),
                ..IntakeSettings::default()
            };
            let handlers = [(
                Workflows::ENGINE,
                Arc::new(workflows.clone()) as Arc<dyn MessageHandler>,
            )];
            let clock = SystemClock::shared();
            let runtime = Handle::current();
            let intake = Intake::start(&bucket, SHARD, store, handlers, settings, clock, &runtime);
            let activities = ActivityRegistry::builder().register("greet", greet).build();
            let provider = Arc::new(workflows.clone());
            let options = RuntimeOptions::default();
            let dispatchers = Runtime::start_with_options(provider, activities, self::workflows(), options).await;
            (workflows, intake.await.unwrap(), dispatchers)
        });
        let (workflows, intake, dispatchers) = started.await.unwrap();
        Owner {
            runtime,
            workflows,
            intake,
            dispatchers,
        }
    }
}

impl Owner {
    /// Ends in order.
    async fn stop(self) {
        let Self {
            runtime,
            workflows,
            intake,
            dispatchers,
        } = self;
        let stopped = runtime.spawn(async move {
            intake.stop().await;
            dispatchers.shutdown(Some(1_000)).await;
            workflows.close().await.unwrap();
        });
        stopped.await.unwrap();
        runtime.shutdown_background();
    }
}

#[tokio::test]
async fn a_client_starts_a_workflow_and_reads_everything_of_it() {
    let world = World::new();
    let owner = world.owner().await;
    let remote = world.client();
    let client = Client::new(Arc::new(remote.clone()));
    assert_eq!(
        client.get_orchestration_status("h1").await.unwrap(),
        OrchestrationStatus::NotFound
    );
    client.start_orchestration("h1", "hello", "world").await.unwrap();
    let status = remote.wait("h1", LONG).await.unwrap();
    let OrchestrationStatus::Completed {
        output, custom_status, ..
    } = status
    else {
        panic!("{status:?}")
    };
    assert_eq!(
        (output.as_str(), custom_status.as_deref()),
        ("Hello, world!", Some("greeting"))
    );
    assert_eq!(
        remote.result::<String>("h1", LONG).await.unwrap().unwrap(),
        "Hello, world!"
    );
    assert_eq!(
        client.get_kv_value("h1", "name").await.unwrap().as_deref(),
        Some("world")
    );
    assert_eq!(client.get_kv_all_values("h1").await.unwrap().len(), 2);
    let info = client.get_instance_info("h1").await.unwrap();
    assert_eq!(
        (info.status.as_str(), info.orchestration_name.as_str()),
        ("Completed", "hello")
    );
    let history = client.read_execution_history("h1", 1).await.unwrap();
    assert_eq!(history, owner.workflows.read("h1").await.unwrap());
    assert!(history.len() >= 4);
    let stats = client.get_orchestration_stats("h1").await.unwrap().unwrap();
    assert_eq!(stats.history_event_count, history.len() as u64);
    // Duroxide's own wait works, too.
    client.start_orchestration("h2", "hello", "again").await.unwrap();
    let status = client.wait_for_orchestration("h2", LONG).await.unwrap();
    assert!(matches!(status, OrchestrationStatus::Completed { .. }), "{status:?}");
    assert_eq!(client.list_all_instances().await.unwrap(), ["h1", "h2"]);
    assert_eq!(client.list_instances_by_status("Completed").await.unwrap().len(), 2);
    assert_eq!(client.get_system_metrics().await.unwrap().completed_instances, 2);
    let depths = client.get_queue_depths().await.unwrap();
    assert_eq!((depths.orchestrator_queue, depths.worker_queue), (0, 0));
    owner.stop().await;
}

#[tokio::test]
async fn events_arrive_once_and_in_the_order_in_which_they_were_sent() {
    let world = World::new();
    let owner = world.owner().await;
    let remote = world.client();
    let client = Client::new(Arc::new(remote.clone()));
    client.start_orchestration("c", "collect", "30").await.unwrap();
    for number in 0..30 {
        client.enqueue_event("c", "numbers", number.to_string()).await.unwrap();
    }
    let all: String = remote.result("c", LONG).await.unwrap().unwrap();
    let expected: Vec<String> = (0..30).map(|number| number.to_string()).collect();
    assert_eq!(all, expected.join(","));
    owner.stop().await;
}

#[tokio::test]
async fn a_client_raises_events_and_cancels() {
    let world = World::new();
    let owner = world.owner().await;
    let remote = world.client();
    let client = Client::new(Arc::new(remote.clone()));
    client.start_orchestration("w1", "wait", "").await.unwrap();
    client.start_orchestration("w2", "wait", "").await.unwrap();
    // An event is lost that comes before the workflow waits for it.
    let is_waiting = |history: &[duroxide::Event]| {
        let subscribed = |event: &duroxide::Event| matches!(event.kind, duroxide::EventKind::ExternalSubscribed { .. });
        history.iter().any(subscribed)
    };
    while !is_waiting(&remote.read("w1").await.unwrap()) {
        tokio::task::yield_now().await;
    }
    client.raise_event("w1", "go", "now").await.unwrap();
    client.cancel_instance("w2", "enough").await.unwrap();
    assert_eq!(remote.result::<String>("w1", LONG).await.unwrap().unwrap(), "now");
    let cancelled = remote.result::<String>("w2", LONG).await.unwrap().unwrap_err();
    assert!(cancelled.contains("enough"), "{cancelled}");
    client.start_orchestration("f", "fail", "because").await.unwrap();
    let failed = remote.result::<String>("f", LONG).await.unwrap().unwrap_err();
    assert!(failed.contains("because"), "{failed}");
    owner.stop().await;
}

#[tokio::test]
async fn what_is_sent_without_an_owner_waits_for_one() {
    let world = World::new();
    // The store exists.
    world.owner().await.stop().await;
    let remote = world.client();
    let client = Client::new(Arc::new(remote.clone()));
    client.start_orchestration("later", "hello", "late").await.unwrap();
    // A second start of the same instance changes nothing.
    client.start_orchestration("later", "hello", "twice").await.unwrap();
    let nothing = remote.wait("later", Duration::ZERO).await.unwrap_err();
    assert!(matches!(nothing, ClientError::Timeout), "{nothing}");
    let owner = world.owner().await;
    assert_eq!(
        remote.result::<String>("later", LONG).await.unwrap().unwrap(),
        "Hello, late!"
    );
    owner.stop().await;
}

#[tokio::test]
async fn executions_and_families_are_read_as_their_owner_reads_them() {
    let world = World::new();
    let owner = world.owner().await;
    let remote = world.client();
    let client = Client::new(Arc::new(remote.clone()));
    client.start_orchestration("again", "again", "3").await.unwrap();
    client.start_orchestration("family", "family", "child").await.unwrap();
    remote.wait("again", LONG).await.unwrap();
    remote.wait("family", LONG).await.unwrap();
    assert_eq!(client.list_executions("again").await.unwrap(), [1, 2, 3, 4]);
    for execution in 1..=4 {
        let history = client.read_execution_history("again", execution).await.unwrap();
        let expected = owner.workflows.read_with_execution("again", execution).await.unwrap();
        assert!(!history.is_empty() && history == expected, "{execution}");
        let info = client.get_execution_info("again", execution).await.unwrap();
        assert_eq!(info.event_count, history.len());
    }
    let tree = client.get_instance_tree("family").await.unwrap();
    assert_eq!(tree.all_ids.len(), 2);
    owner.stop().await;
}

#[tokio::test]
async fn what_only_an_owner_can_do_is_refused_with_the_reason() {
    let world = World::new();
    let owner = world.owner().await;
    let remote = world.client();
    let client = Client::new(Arc::new(remote.clone()));
    let fetched = remote
        .fetch_orchestration_item(LONG, Duration::ZERO, None)
        .await
        .unwrap_err();
    let worked = remote
        .fetch_work_item(LONG, Duration::ZERO, None, &TagFilter::Any)
        .await
        .unwrap_err();
    for refused in [fetched, worked] {
        assert!(
            !refused.is_retryable() && refused.message.contains("client of a store"),
            "{refused}"
        );
    }
    let deleted = client.delete_instance("h", false).await.unwrap_err();
    assert!(deleted.to_string().contains("client of a store"), "{deleted}");
    let long = "x".repeat(remote.longest_instance_id() + 1);
    let refused = client.start_orchestration(long, "hello", "").await.unwrap_err();
    assert!(refused.to_string().contains("choose a shorter one"), "{refused}");
    let activity = WorkItem::ActivityExecute {
        instance: "i".to_owned(),
        execution_id: 1,
        id: 1,
        name: "greet".to_owned(),
        input: String::new(),
        session_id: None,
        tag: None,
    };
    assert!(remote.enqueue_for_orchestrator(activity, None).await.is_err());
    remote.close().await.unwrap();
    let closed = client.get_orchestration_status("h").await;
    assert!(closed.is_err(), "{closed:?}");
    owner.stop().await;
}
