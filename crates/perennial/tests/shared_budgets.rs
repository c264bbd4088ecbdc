//! The cost of work on a store that many processes share, counted: every call is a request to a database.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use async_trait::async_trait;
use duroxide::providers::{ExecutionMetadata, Provider};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{OrchestrationStatus, Runtime, RuntimeOptions};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use perennial_kv::SharedMemory;
use perennial_scenarios::calls::{NOW, activity, identity, raised, send, start, started, turn_within};
use perennial_store::{
    Commit, Committed, Counter, Cursor, DuePage, DueQuery, Key, Limits, ListFilter, ListPage, Op, Record, Result,
    ScanPage, ScanQuery, Sharing, Signals, Store,
};
use perennial_workflow::{Settings, Workflows};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A database with latency, which records its requests.
struct Distant {
    inner: Arc<dyn Store>,
    log: Mutex<Vec<String>>,
}

const ROUND_TRIP: Duration = Duration::from_millis(5);

impl Distant {
    async fn request(&self, what: String) {
        self.log.lock().unwrap().push(what);
        tokio::time::sleep(ROUND_TRIP).await;
    }

    fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().unwrap())
    }
}

fn name(op: &Op) -> String {
    let sign = match op {
        Op::Create(_) => "+",
        Op::Put(_) => "=",
        Op::Replace(..) => "~",
        Op::Delete(..) | Op::Remove(_) => "-",
        Op::Absent(_) => "?",
    };
    let id = op.key().id.as_str();
    format!("{sign}{}", id.split('/').next().unwrap_or(id))
}

#[async_trait]
impl Store for Distant {
    fn limits(&self) -> Limits {
        self.inner.limits()
    }
    fn sharing(&self) -> Sharing {
        self.inner.sharing()
    }
    fn epoch(&self) -> u64 {
        self.inner.epoch()
    }
    async fn commit(&self, commit: Commit) -> Result<Committed> {
        let ops: Vec<String> = commit.ops.iter().map(name).collect();
        let outcome = self.inner.commit(commit).await;
        let failed = if outcome.is_err() { " FAILED" } else { "" };
        self.request(format!("commit {}{failed}", ops.join(" "))).await;
        outcome
    }
    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        self.request(format!("get {}", key.id)).await;
        self.inner.get(key).await
    }
    async fn scan(&self, query: &ScanQuery) -> Result<ScanPage> {
        self.request(format!("scan {:?}", query.under)).await;
        self.inner.scan(query).await
    }
    async fn due(&self, query: &DueQuery) -> Result<DuePage> {
        self.request(format!("due {}", query.lane)).await;
        self.inner.due(query).await
    }
    async fn list(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<ListPage> {
        self.request("list".to_string()).await;
        self.inner.list(filter, after, limit).await
    }
    async fn counters(&self) -> Result<Vec<(Counter, i64)>> {
        self.request("tally".to_string()).await;
        self.inner.counters().await
    }
    fn signals(&self) -> Signals {
        self.inner.signals()
    }
    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}

struct Process {
    store: Arc<Distant>,
    client: Client,
    runtime: Option<Arc<Runtime>>,
}

impl Process {
    async fn new(database: &SharedMemory, slots: usize) -> Self {
        let store = Arc::new(Distant {
            inner: database.open(),
            log: Mutex::default(),
        });
        let workflows = Workflows::open(Arc::clone(&store) as Arc<dyn Store>, Settings::default())
            .await
            .unwrap();
        let provider: Arc<dyn Provider> = Arc::new(workflows);
        let client = Client::new(Arc::clone(&provider));
        let mut process = Self {
            store,
            client,
            runtime: None,
        };
        if slots > 0 {
            process.runtime = Some(runtime(provider, slots).await);
            process.run("warm-up", "Hello", "you").await;
            // The dispatchers wait again, and poll rarely.
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
        process
    }

    async fn run(&self, instance: &str, workflow: &str, input: &str) -> String {
        let started = self.client.start_orchestration(instance, workflow, input).await;
        started.unwrap();
        let ended = self
            .client
            .wait_for_orchestration(instance, Duration::from_secs(20))
            .await;
        match ended.unwrap() {
            OrchestrationStatus::Completed { output, .. } => output,
            other => panic!("{instance} ended as {other:?}"),
        }
    }

    /// The requests of a workflow, without the polls for work, which have their own cadence.
    async fn cost(&self, instance: &str, workflow: &str, input: &str) -> Vec<String> {
        self.store.take_log();
        self.run(instance, workflow, input).await;
        tokio::time::sleep(Duration::from_millis(60)).await;
        self.requests()
    }

    fn requests(&self) -> Vec<String> {
        let mut log = self.store.take_log();
        log.retain(|request| !request.starts_with("due"));
        log
    }

    async fn end(self) {
        if let Some(runtime) = self.runtime {
            runtime.shutdown(None).await;
        }
    }
}

async fn runtime(provider: Arc<dyn Provider>, slots: usize) -> Arc<Runtime> {
    let greet = |_: ActivityContext, name: String| async move { Ok(format!("Hello, {name}!")) };
    let activities = ActivityRegistry::builder().register("Greet", greet).build();
    let hello = |ctx: OrchestrationContext, name: String| async move { ctx.schedule_activity("Greet", name).await };
    let parent =
        |ctx: OrchestrationContext, name: String| async move { ctx.schedule_sub_orchestration("Hello", name).await };
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
        .register("Parent", parent)
        .register("Fan", fan)
        .build();
    let options = RuntimeOptions {
        orchestration_concurrency: slots,
        worker_concurrency: slots,
        ..RuntimeOptions::default()
    };
    Runtime::start_with_options(provider, activities, registry, options).await
}

fn database() -> SharedMemory {
    SharedMemory::new(perennial_kv::Settings::CLOUD_LIMITS).unwrap()
}

fn show(what: &str, requests: &[String]) {
    println!("{what}: {} requests", requests.len());
    for request in requests {
        println!("    {}", request.chars().take(150).collect::<String>());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hello_world_takes_four_requests() {
    let process = Process::new(&database(), 2).await;
    let requests = process.cost("hello", "Hello", "world").await;
    show("hello-world", &requests);
    let expected = [
        "commit +head",
        "commit ~head +page +work",
        "commit -work ~head",
        "commit ~head +page =exec",
    ];
    assert_eq!(requests, expected);
    process.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hello_world_takes_six_requests_if_its_client_is_in_another_process() {
    let database = database();
    let process = Process::new(&database, 2).await;
    let elsewhere = Process::new(&database, 0).await;
    process.store.take_log();
    assert_eq!(elsewhere.run("hello", "Hello", "world").await, "Hello, world!");
    tokio::time::sleep(Duration::from_millis(60)).await;
    let mut requests = process.requests();
    let mut others = elsewhere.requests();
    others.retain(|request| request.starts_with("commit"));
    requests.extend(others);
    show("hello-world, client elsewhere", &requests);
    assert!(requests.len() <= 6, "{requests:#?}");
    process.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sub_workflow_takes_at_most_ten_requests() {
    let process = Process::new(&database(), 2).await;
    let requests = process.cost("parent", "Parent", "world").await;
    show("sub-workflow", &requests);
    assert!(requests.len() <= 10, "{requests:#?}");
    process.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fan_out_100_takes_at_most_155_requests_with_two_slots_and_45_with_sixteen() {
    for (slots, most) in [(2, 155), (16, 45)] {
        let process = Process::new(&database(), slots).await;
        let requests = process.cost("fan", "Fan", "100").await;
        show(&format!("fan-out 100 at {slots}+{slots}"), &requests);
        assert!(requests.len() <= most, "{} at {slots}+{slots}", requests.len());
        process.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_hello_worlds_at_once_take_at_most_120_requests() {
    let process = Process::new(&database(), 2).await;
    process.store.take_log();
    let names: Vec<String> = (0..20).map(|n| format!("hello-{n}")).collect();
    futures::future::join_all(names.iter().map(|name| process.run(name, "Hello", "world"))).await;
    tokio::time::sleep(Duration::from_millis(60)).await;
    let requests = process.requests();
    show("20 hello-worlds", &requests);
    assert!(requests.len() <= 120, "{}", requests.len());
    process.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_process_polls_at_most_once_a_second() {
    let process = Process::new(&database(), 2).await;
    process.store.take_log();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let asked = process.store.take_log();
    assert!(asked.len() <= 5, "{asked:?}");
    process.end().await;
}

/// However many activities a turn cancels, one query finds them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_cancels_60_activities_takes_two_requests() {
    let store = Arc::new(Distant {
        inner: database().open(),
        log: Mutex::default(),
    });
    let opened = Workflows::open(Arc::clone(&store) as Arc<dyn Store>, Settings::default()).await;
    let workflows = opened.unwrap();
    let metadata = || ExecutionMetadata {
        orchestration_name: Some("Flow".to_owned()),
        orchestration_version: Some("1.0.0".to_owned()),
        ..ExecutionMetadata::default()
    };
    send(&workflows, start("i")).await;
    let (_, token, _) = turn_within(&workflows, NOW).await.unwrap();
    let activities = (2..62).map(|id| activity("i", id)).collect();
    let first =
        workflows.ack_orchestration_item(&token, 1, vec![started("i", 1)], activities, vec![], metadata(), vec![]);
    first.await.unwrap();
    send(&workflows, raised("i", "enough")).await;
    let (_, token, _) = turn_within(&workflows, NOW).await.unwrap();
    store.take_log();
    let cancelled = (2..62).map(|id| identity("i", id)).collect();
    let last = workflows.ack_orchestration_item(&token, 1, vec![], vec![], vec![], metadata(), cancelled);
    last.await.unwrap();
    let requests = store.take_log();
    show("60 activities are cancelled", &requests);
    assert_eq!(requests.len(), 2);
    let depths = workflows.as_management_capability().unwrap().get_queue_depths().await;
    assert_eq!(depths.unwrap().worker_queue, 0);
}
