//! The cost of the hot path, counted: commits, syncs and reads of the store.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use duroxide::providers::Provider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{OrchestrationStatus, Runtime, RuntimeOptions};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use perennial_fjall::FjallStore;
use perennial_kv::Stats;
use perennial_store::Store;
use perennial_workflow::{Settings, Workflows};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

struct Fixture {
    store: Arc<FjallStore>,
    workflows: Workflows,
    runtime: Arc<Runtime>,
    client: Client,
    _directory: TempDir,
}

impl Fixture {
    /// A runtime whose dispatchers wait.
    async fn new(slots: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let store = Arc::new(perennial_fjall::open(path, perennial_fjall::Settings::default()).unwrap());
        let workflows = Workflows::open(Arc::clone(&store) as Arc<dyn Store>, Settings::default())
            .await
            .unwrap();
        let provider: Arc<dyn Provider> = Arc::new(workflows.clone());
        let greet = |_: ActivityContext, name: String| async move { Ok(format!("Hello, {name}!")) };
        let activities = ActivityRegistry::builder().register("Greet", greet).build();
        let hello = |ctx: OrchestrationContext, name: String| async move { ctx.schedule_activity("Greet", name).await };
        let fan = |ctx: OrchestrationContext, width: String| async move {
            let width: usize = width.parse().map_err(|_| "no number")?;
            let all = (0..width)
                .map(|n| ctx.schedule_activity("Greet", n.to_string()))
                .collect();
            let greetings = ctx.join(all).await;
            Ok(greetings.into_iter().filter(Result::is_ok).count().to_string())
        };
        let registry = OrchestrationRegistry::builder()
            .register("Hello", hello)
            .register("Fan", fan)
            .build();
        let options = RuntimeOptions {
            orchestration_concurrency: slots,
            worker_concurrency: slots,
            ..RuntimeOptions::default()
        };
        let runtime = Runtime::start_with_options(Arc::clone(&provider), activities, registry, options).await;
        // A first workflow proves that all is set up; the dispatchers wait again when it is over.
        let client = Client::new(provider);
        let fixture = Self {
            store,
            workflows,
            runtime,
            client,
            _directory: directory,
        };
        fixture.run("warm-up", "Hello", "you").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        fixture
    }

    async fn run(&self, instance: &str, workflow: &str, input: &str) -> String {
        self.client
            .start_orchestration(instance, workflow, input)
            .await
            .unwrap();
        match self
            .client
            .wait_for_orchestration(instance, Duration::from_secs(20))
            .await
            .unwrap()
        {
            OrchestrationStatus::Completed { output, .. } => output,
            other => panic!("{instance} ended as {other:?}"),
        }
    }

    async fn cost(&self, instance: &str, workflow: &str, input: &str, result: &str) -> Stats {
        let before = self.store.stats();
        assert_eq!(self.run(instance, workflow, input).await, result);
        tokio::time::sleep(Duration::from_millis(50)).await;
        minus(self.store.stats(), before)
    }

    async fn end(self) {
        self.runtime.shutdown(None).await;
    }
}

fn minus(after: Stats, before: Stats) -> Stats {
    Stats {
        commits_durable: after.commits_durable - before.commits_durable,
        commits_relaxed: after.commits_relaxed - before.commits_relaxed,
        groups: after.groups - before.groups,
        syncs: after.syncs - before.syncs,
        gets: after.gets - before.gets,
        scans: after.scans - before.scans,
        dues: after.dues - before.dues,
        lists: after.lists - before.lists,
        damaged: after.damaged - before.damaged,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hello_world_takes_four_durable_commits_and_no_read() {
    let fixture = Fixture::new(2).await;
    let cost = fixture.cost("hello", "Hello", "world", "Hello, world!").await;
    let expected = Stats {
        commits_durable: 4,
        groups: 4,
        syncs: 4,
        ..Stats::default()
    };
    assert_eq!(cost, expected);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_runtime_makes_no_store_call_at_all() {
    let fixture = Fixture::new(2).await;
    let before = fixture.store.stats();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(fixture.store.stats(), before);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fan_out_100_takes_at_most_205_commits_with_two_slots() {
    let fixture = Fixture::new(2).await;
    let cost = fixture.cost("fan", "Fan", "100", "100").await;
    println!("fan-out 100 at 2+2: {cost:?}");
    assert!((103..=205).contains(&cost.commits_durable), "{cost:?}");
    assert_eq!(
        (cost.commits_relaxed, cost.gets, cost.scans, cost.dues, cost.lists),
        (0, 0, 0, 0, 0)
    );
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fan_out_100_takes_at_most_125_commits_with_32_slots() {
    let fixture = Fixture::new(32).await;
    let cost = fixture.cost("fan", "Fan", "100", "100").await;
    println!("fan-out 100 at 32+32: {cost:?}");
    assert!((103..=125).contains(&cost.commits_durable), "{cost:?}");
    assert!(
        cost.syncs < cost.commits_durable / 2,
        "commits that wait together share a sync: {cost:?}"
    );
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_an_instance_that_is_in_memory_reads_nothing() {
    let fixture = Fixture::new(2).await;
    let before = fixture.store.stats();
    assert!(!fixture.workflows.read("warm-up").await.unwrap().is_empty());
    assert_eq!(fixture.workflows.get_custom_status("warm-up", 0).await.unwrap(), None);
    assert_eq!(fixture.store.stats(), before);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starting_a_runtime_scans_nothing() {
    let fixture = Fixture::new(2).await;
    fixture.runtime.clone().shutdown(None).await;
    let before = fixture.store.stats();
    let provider: Arc<dyn Provider> = Arc::new(fixture.workflows.clone());
    let none = OrchestrationRegistry::builder().build();
    let runtime = Runtime::start_with_store(provider, ActivityRegistry::builder().build(), none).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(fixture.store.stats(), before);
    runtime.shutdown(None).await;
}
