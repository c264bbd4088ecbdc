//! A process that dies in the middle of much work.

use crate::dump::Dump;
use crate::support::Virtual;
use async_trait::async_trait;
use duroxide::providers::{Provider, TagFilter, WorkItem};
use perennial_kv::SharedMemory;
use perennial_scenarios::calls::{
    Ack, LEASE, activity, continued_to_within, kv_set, owner, raised, routed, running_within, send, start,
    turn_of_within,
};
use perennial_store::{
    Clock, Commit, Committed, Counter, Cursor, DuePage, DueQuery, Key, Limits, ListFilter, ListPage, Record, Result,
    ScanPage, ScanQuery, Sharing, Signals, Store,
};
use perennial_workflow::{Settings, Workflows};
use std::sync::Arc;
use std::time::Duration;

/// How long after the dump the timer fires.
pub const TIMER: Duration = Duration::from_secs(30 * 60);
/// The size of a value that is stored in chunks.
pub const LARGE: usize = 20_000;

/// Small records, so that a body in chunks is no large file.
const LIMITS: Limits = Limits {
    bytes_per_record: 8_000,
    ..perennial_kv::Settings::CLOUD_LIMITS
};

/// What a process leaves that dies after all this.
pub async fn unfinished() -> Dump {
    let database = SharedMemory::new(LIMITS).unwrap();
    let clock: Arc<dyn Clock> = Virtual::new();
    let store = Arc::new(Undelivered(database.open()));
    let workflows = Workflows::open_with_clock(store, Settings::default(), clock.clone())
        .await
        .unwrap();
    let store = Arc::new(workflows);

    first_turn(&store, "finished", |ack| {
        ack.events([kv_set("finished", 2, "key", "old")]).status("Completed")
    })
    .await;
    continued_to_within(&*store, "continued", 2, LEASE).await;
    let large = "x".repeat(LARGE);
    first_turn(&store, "large", |ack| ack.events([kv_set("large", 2, "key", &large)])).await;
    let fired = WorkItem::TimerFired {
        instance: "timer".to_owned(),
        execution_id: 1,
        id: 2,
        fire_at_ms: clock.now_ms() + TIMER.as_millis() as u64,
    };
    first_turn(&store, "timer", |ack| ack.messages([fired])).await;
    first_turn(&store, "sender", |ack| ack.messages([start("receiver")])).await;
    first_turn(&store, "activities", |ack| {
        let session = routed("activities", 1, Some("session"), None);
        let tagged = routed("activities", 3, None, Some("tag"));
        ack.work([session, activity("activities", 2), tagged])
    })
    .await;
    // The process dies while this one runs: its lease and its session must end first.
    let worker = owner("worker of the dead");
    let work = store
        .fetch_work_item(LEASE, LEASE, Some(&worker), &TagFilter::Any)
        .await;
    assert!(matches!(work, Ok(Some((WorkItem::ActivityExecute { id: 1, .. }, ..)))));

    // A message that comes while a dispatcher waits for one is stored inline, in the head.
    running_within(&*store, "inline", LEASE).await;
    let waiting = {
        let store = Arc::clone(&store);
        tokio::spawn(async move { turn_of_within(&*store, "inline", LEASE).await })
    };
    tokio::time::sleep(Duration::from_millis(500)).await;
    send(&*store, raised("inline", "to the head")).await;
    waiting.await.unwrap();

    first_turn(&store, "running", |ack| {
        ack.events([kv_set("running", 2, "key", "value")])
    })
    .await;
    // From a process that dispatches nothing, so that no turn of its own takes it: it has a record.
    let client = Workflows::open_with_clock(database.open(), Settings::default(), clock.clone())
        .await
        .unwrap();
    send(&client, raised("running", "a record")).await;
    let dump = Dump::of(&database, clock.now_ms()).await;
    assert_complete(&dump);
    dump
}

/// That the dump holds every kind of record that it is about.
fn assert_complete(dump: &Dump) {
    let has = |instance: &str, id: &str| assert!(dump.of_instance(instance, id).next().is_some(), "{instance} {id}");
    has("finished", "exec/");
    has("finished", "kv/");
    has("continued", "exec/");
    has("large", "part/");
    has("timer", "msg/");
    has("sender", "out/");
    has("running", "msg/");
    has("running", "page/");
    assert_eq!(dump.of_instance("activities", "work/").count(), 3);
    assert!(dump.records.iter().any(|record| record.partition.starts_with("ses:")));
    assert!(dump.of_instance("receiver", "").next().is_none());
    assert!(dump.of_instance("inline", "msg/").next().is_none());
    let head = dump.of_instance("inline", "head").next().unwrap();
    assert!(head.body.contains("to the head"), "{}", head.body);
}

async fn first_turn(store: &Workflows, instance: &str, more: impl FnOnce(Ack) -> Ack) {
    send(store, start(instance)).await;
    let (_, token, _) = turn_of_within(store, instance, LEASE).await;
    more(Ack::first(instance)).send(store, &token).await.unwrap();
}

/// A store on which nothing reaches the instance `receiver`: the requests hang.
struct Undelivered(Arc<dyn Store>);

#[async_trait]
impl Store for Undelivered {
    fn limits(&self) -> Limits {
        self.0.limits()
    }
    fn sharing(&self) -> Sharing {
        self.0.sharing()
    }
    fn epoch(&self) -> u64 {
        self.0.epoch()
    }
    async fn commit(&self, commit: Commit) -> Result<Committed> {
        if commit.ops.iter().any(|op| op.key().partition.as_str() == "wf:receiver") {
            std::future::pending::<()>().await;
        }
        self.0.commit(commit).await
    }
    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        self.0.get(key).await
    }
    async fn scan(&self, query: &ScanQuery) -> Result<ScanPage> {
        self.0.scan(query).await
    }
    async fn due(&self, query: &DueQuery) -> Result<DuePage> {
        self.0.due(query).await
    }
    async fn list(&self, filter: &ListFilter, after: Option<&Cursor>, limit: usize) -> Result<ListPage> {
        self.0.list(filter, after, limit).await
    }
    async fn counters(&self) -> Result<Vec<(Counter, i64)>> {
        self.0.counters().await
    }
    fn signals(&self) -> Signals {
        self.0.signals()
    }
    async fn close(&self) -> Result<()> {
        self.0.close().await
    }
}
