//! Another engine's records on the same store: workflows neither read, count, list, claim, repeat nor delete them.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod support;

use async_trait::async_trait;
use duroxide::providers::{InstanceFilter, Provider, ProviderAdmin, PruneOptions, SystemMetrics, TagFilter};
use perennial_kv::{MemoryDisk, MemoryStore, SharedMemory};
use perennial_scenarios::calls::{Ack, LEASE, NOW, activity, completed, kv_set, noted, raised, send, start};
use perennial_store::{
    Clock, Commit, Committed, Counted, Counter, Cursor, Doubt, Draft, DuePage, DueQuery, Error, HealthWatch, Key, Lane,
    Limits, ListFilter, ListPage, Listing, Op, Order, Partition, Place, Record, RecordId, RecordPage, Result, ScanPage,
    ScanQuery, Sharing, Signals, Store, Totals,
};
use perennial_workflow::{Settings, Workflows};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::Virtual;

/// The partitions of the other engine.
const PREFIX: &str = "jobs:";
/// Its kind of listed records.
const KIND: &str = "job";
/// Its counter.
const COUNTER: Counter = Counter::new("jobs.total");
/// Longer than any chore of workflows is put off.
const LONG: Duration = Duration::from_secs(4 * 3600);

/// Its lanes: some have names of their own, some are topics of its own in lanes that workflows have, too.
fn lanes() -> Vec<Lane> {
    let topic = |name, topic: &str| Lane::topic(name, Some(Arc::from(topic)));
    vec![
        Lane::new("jobs.turn"),
        topic("jobs.ready", "turn"),
        topic("jobs.ready", "work"),
        topic("jobs.chores", "parts"),
        topic("jobs.chores", "outbox"),
        topic("chores", "jobs.sweep"),
        topic("chores", "jobs.parts"),
        topic("quarantine", "jobs.ready"),
    ]
}

fn key(partition: &str, id: RecordId) -> Key {
    Key::new(Partition::new(format!("{PREFIX}{partition}")), id)
}

/// Its records: their ids are those that workflows use, so that only partitions, lanes and kinds tell them apart.
fn drafts() -> Vec<Draft> {
    let listing = Listing {
        kind: KIND.into(),
        status: "Completed".into(),
        name: "Flow".to_owned(),
        // A child of the workflow that is deleted with all its children.
        parent: Some("parent".to_owned()),
        created_ms: 1,
        completed_ms: Some(2),
    };
    let mut drafts = vec![
        Draft::new(key("parent", RecordId::of("head")), r#"{"job":"parent"}"#).listed(listing.clone()),
        Draft::new(key("wf:parent", RecordId::of("head")), r#"{"job":"wf:parent"}"#).listed(listing),
        Draft::new(key("parent", RecordId::of("kv").text("key")), r#"{"value":1}"#),
        Draft::new(key("parent", RecordId::of("part").text("1-1").number(0)), r#""chunk""#),
    ];
    for (order, lane) in (1..).zip(lanes()) {
        let id = match lane.topic.as_deref() {
            Some("parts" | "jobs.parts") => RecordId::of("part").text(&format!("1-{order}")),
            _ => RecordId::of("msg").number(order),
        };
        let place = Place {
            lane,
            order: Order(order),
            due_ms: 0,
        };
        drafts.push(Draft::new(key("parent", id), format!(r#"{{"order":{order}}}"#)).placed(place));
    }
    drafts
}

async fn plant(store: &dyn Store) {
    for draft in drafts() {
        store.commit(Commit::new(vec![Op::Create(draft)])).await.unwrap();
    }
    let counted = Draft::new(key("counted", RecordId::of("head")), "{}");
    let commit = Commit::new(vec![Op::Create(counted)]).count(COUNTER, 7);
    store.commit(commit).await.unwrap();
}

/// Everything of the other engine, with the versions: equal only if nothing was written in between.
async fn planted(store: &dyn Store) -> (Vec<Record>, Option<i64>) {
    let mut records = Vec::new();
    for partition in ["parent", "wf:parent", "counted"] {
        let all = ScanQuery::all(Partition::new(format!("{PREFIX}{partition}")), usize::MAX);
        records.extend(store.scan(&all).await.unwrap().records);
    }
    let counters = store.counters().await.unwrap();
    let total = counters.into_iter().find(|(counter, _)| *counter == COUNTER);
    (records, total.map(|(_, total)| total))
}

/// A store that notes every call of workflows that covers what is another engine's.
struct Watched {
    inner: Arc<dyn Store>,
    trespasses: Mutex<Vec<String>>,
    /// How often due work was queried.
    queries: AtomicUsize,
    /// Whether commits that remove a delivered intent fail: its consumer then leaves a tombstone, which is a chore.
    keeps_intents: AtomicBool,
}

impl Watched {
    fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            trespasses: Mutex::default(),
            queries: AtomicUsize::new(0),
            keeps_intents: AtomicBool::new(false),
        })
    }

    fn note(&self, is_foreign: bool, what: impl FnOnce() -> String) {
        if is_foreign {
            self.trespasses.lock().unwrap().push(what());
        }
    }

    fn check_records<'a>(&self, what: &str, mut keys: impl Iterator<Item = &'a Key>) {
        let foreign = keys.find(|key| is_foreign(&key.partition));
        self.note(foreign.is_some(), || format!("{what} returned {foreign:?}"));
    }
}

fn is_foreign(partition: &Partition) -> bool {
    partition.as_str().starts_with(PREFIX)
}

#[async_trait]
impl Store for Watched {
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
        self.note(commit.ops.iter().any(|op| is_foreign(&op.key().partition)), || {
            format!("{commit:?}")
        });
        let counts = commit.counters.iter().any(|(counter, _)| *counter == COUNTER);
        self.note(counts, || format!("{commit:?}"));
        let removes_intent = |op: &Op| op.draft().is_none() && op.key().id.below(&RecordId::of("out")).is_some();
        if self.keeps_intents.load(Ordering::Relaxed) && commit.ops.iter().any(removes_intent) {
            return Err(Error::Unavailable("intents are kept".to_owned()));
        }
        self.inner.commit(commit).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        self.note(is_foreign(&key.partition), || format!("get {key}"));
        self.inner.get(key).await
    }

    async fn scan(&self, query: &ScanQuery) -> Result<ScanPage> {
        self.note(is_foreign(&query.partition), || format!("{query:?}"));
        self.inner.scan(query).await
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage> {
        let covers = |lane: &Lane| lane.name == query.lane && query.topics.matches(lane.topic.as_deref());
        self.note(lanes().iter().any(covers), || format!("{query:?}"));
        self.queries.fetch_add(1, Ordering::Relaxed);
        let page = self.inner.due(query).await?;
        self.check_records("due", page.records.iter().map(|record| &record.key));
        Ok(page)
    }

    async fn list(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<ListPage> {
        self.note(filter.kind == KIND, || format!("{filter:?}"));
        let page = self.inner.list(filter, after, limit).await?;
        self.check_records("list", page.entries.iter().map(|entry| &entry.key));
        Ok(page)
    }

    async fn list_records(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<RecordPage> {
        self.note(filter.kind == KIND, || format!("{filter:?}"));
        let page = self.inner.list_records(filter, after, limit).await?;
        self.check_records("list_records", page.records.iter().map(|record| &record.key));
        Ok(page)
    }

    async fn counters(&self) -> Result<Vec<(Counter, i64)>> {
        self.inner.counters().await
    }

    async fn totals(&self) -> Result<Totals> {
        self.inner.totals().await
    }

    async fn resolve_doubt(&self, doubt: &Doubt, counted: &Counted) -> Result<bool> {
        self.inner.resolve_doubt(doubt, counted).await
    }

    fn signals(&self) -> Signals {
        self.inner.signals()
    }

    fn health(&self) -> HealthWatch {
        self.inner.health()
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}

/// The next turn, which must be of this instance.
async fn turn_of(store: &Workflows, instance: &str) -> String {
    let (item, token, _) = store
        .fetch_orchestration_item(LEASE, LEASE, None)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(item.instance, instance);
    token
}

/// A body that small commits take only in chunks.
const LARGE: usize = 3_000_000;

/// A parent with an activity and key-values, and a child with an output of this size.
async fn run_workflows(store: &Workflows, watched: &Watched, output: usize) {
    watched.keeps_intents.store(true, Ordering::Relaxed);
    send(store, start("parent")).await;
    let token = turn_of(store, "parent").await;
    let ack = Ack::first("parent")
        .events([kv_set("parent", 2, "key", "value")])
        .work([activity("parent", 1)])
        .messages([start("child")]);
    ack.send(store, &token).await.unwrap();

    let token = turn_of(store, "child").await;
    let mut ack = Ack::first("child").status("Completed");
    ack.metadata.parent_instance_id = Some("parent".to_owned());
    ack.metadata.output = Some("x".repeat(output));
    ack.send(store, &token).await.unwrap();
    watched.keeps_intents.store(false, Ordering::Relaxed);

    let work = store
        .fetch_work_item(LEASE, LEASE, None, &TagFilter::Any)
        .await
        .unwrap();
    let (_, token, _) = work.unwrap();
    let result = completed("parent", 1);
    store.ack_work_item(&token, Some(result)).await.unwrap();
    let token = turn_of(store, "parent").await;
    let ack = Ack::empty().events([noted("parent", 3)]).status("Completed");
    ack.send(store, &token).await.unwrap();
}

/// Waits for work while chores come due; there is no work.
async fn idle(store: &Workflows) {
    let turn = store.fetch_orchestration_item(LEASE, LONG, None).await.unwrap();
    assert!(turn.is_none(), "{turn:?}");
    let work = store.fetch_work_item(LEASE, NOW, None, &TagFilter::Any).await.unwrap();
    assert!(work.is_none(), "{work:?}");
}

fn sums(metrics: &SystemMetrics) -> [u64; 4] {
    [
        metrics.total_instances,
        metrics.running_instances,
        metrics.completed_instances,
        metrics.total_executions,
    ]
}

/// Opens a store, runs workflows, administers and deletes them; each opening gets a store of its own.
async fn live_beside(open: impl Fn() -> Arc<dyn Store>) {
    let clock: Arc<dyn Clock> = Virtual::new();
    let store = open();
    plant(&*store).await;
    let before = planted(&*store).await;
    assert_eq!((before.0.len(), before.1), (drafts().len() + 1, Some(7)));

    let watched = Watched::new(store);
    let workflows = Workflows::open_with_clock(watched.clone(), Settings::default(), clock.clone())
        .await
        .unwrap();
    // An event for an instance that does not exist, of the name that the other engine uses.
    send(&workflows, raised("jobs:parent", "event")).await;
    run_workflows(&workflows, &watched, LARGE).await;
    idle(&workflows).await;

    let admin: &dyn ProviderAdmin = workflows.as_management_capability().unwrap();
    let mut all = admin.list_instances().await.unwrap();
    all.sort();
    assert_eq!(all, ["child", "parent"]);
    assert_eq!(admin.list_instances_by_status("Completed").await.unwrap().len(), 2);
    assert_eq!(admin.list_children("parent").await.unwrap(), ["child"]);
    assert_eq!(sums(&admin.get_system_metrics().await.unwrap()), [2, 0, 2, 2]);
    let depths = admin.get_queue_depths().await.unwrap();
    assert_eq!((depths.worker_queue, depths.timer_queue), (0, 0));
    admin
        .prune_executions_bulk(InstanceFilter::default(), PruneOptions::default())
        .await
        .unwrap();
    let deleted = admin.delete_instance_bulk(InstanceFilter::default()).await.unwrap();
    assert_eq!(deleted.instances_deleted, 2);
    assert_eq!(sums(&admin.get_system_metrics().await.unwrap()), [0; 4]);
    idle(&workflows).await;
    assert_eq!(planted(&*watched.inner).await, before);
    workflows.close().await.unwrap();
    assert_quiet(&watched);

    // Opening again finds its own records only, and so does a force deletion of what runs.
    let watched = Watched::new(open());
    let workflows = Workflows::open_with_clock(watched.clone(), Settings::default(), clock)
        .await
        .unwrap();
    send(&workflows, start("parent")).await;
    let token = turn_of(&workflows, "parent").await;
    let ack = Ack::first("parent").work([activity("parent", 1)]);
    ack.send(&workflows, &token).await.unwrap();
    let admin: &dyn ProviderAdmin = workflows.as_management_capability().unwrap();
    admin.delete_instance("parent", true).await.unwrap();
    idle(&workflows).await;
    assert_eq!(planted(&*watched.inner).await, before);
    workflows.close().await.unwrap();
    assert_quiet(&watched);
}

fn assert_quiet(watched: &Watched) {
    let trespasses = watched.trespasses.lock().unwrap();
    let first: Vec<&String> = trespasses.iter().take(5).collect();
    assert!(first.is_empty(), "{} calls, among them {first:#?}", trespasses.len());
}

#[tokio::test(start_paused = true)]
async fn workflows_leave_another_engines_records_alone_on_an_exclusive_store() {
    let disk = MemoryDisk::default();
    let open = || Arc::new(MemoryStore::open_disk(&disk, perennial_kv::Settings::default()).unwrap());
    live_beside(|| open() as Arc<dyn Store>).await;
}

/// Small commits leave chores even where one process has the store.
#[tokio::test(start_paused = true)]
async fn workflows_leave_another_engines_records_alone_on_an_exclusive_store_with_small_commits() {
    let disk = MemoryDisk::default();
    let settings = perennial_kv::Settings::with_limits(perennial_kv::Settings::CLOUD_LIMITS);
    let open = || Arc::new(MemoryStore::open_disk(&disk, settings.clone()).unwrap());
    live_beside(|| open() as Arc<dyn Store>).await;
}

#[tokio::test(start_paused = true)]
async fn workflows_leave_another_engines_records_alone_on_a_shared_store() {
    let database = SharedMemory::new(perennial_kv::Settings::CLOUD_LIMITS).unwrap();
    live_beside(|| database.open()).await;
}

/// The housekeeper of an exclusive store ends when only another engine has chores left.
#[tokio::test(start_paused = true)]
async fn another_engines_chores_do_not_keep_the_housekeeper_up() {
    let disk = MemoryDisk::default();
    let settings = perennial_kv::Settings::with_limits(perennial_kv::Settings::CLOUD_LIMITS);
    let store = Arc::new(MemoryStore::open_disk(&disk, settings).unwrap());
    plant(&*store).await;
    let watched = Watched::new(store);
    let clock = Virtual::new();
    let workflows = Workflows::open_with_clock(watched.clone(), Settings::default(), clock)
        .await
        .unwrap();
    let opening = watched.queries.load(Ordering::Relaxed);
    run_workflows(&workflows, &watched, 10).await;
    idle(&workflows).await;
    let before = watched.queries.load(Ordering::Relaxed);
    assert!(before > opening, "there was a chore of its own: {before} queries");
    idle(&workflows).await;
    let after = watched.queries.load(Ordering::Relaxed);
    assert_eq!(after, before, "no query while nothing is left to do");
    workflows.close().await.unwrap();
}
