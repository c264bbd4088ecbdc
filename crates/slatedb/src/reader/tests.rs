//! A real SlateDB database, written by one process and read by another.

use super::*;
use crate::engine::keys;
use crate::inbox::tests::faulty::{Fault, Faulty, Kind};
use bytes::Bytes;
use object_store::ObjectStore;
use object_store::path::Path;
use perennial_kv::{MemoryDisk, MemoryStore, ReadOnlyStore, Settings, Table};
use perennial_store::{
    Commit, Counter, Draft, Error, Key, Limits, ListFilter, Listing, Op, Partition, RecordId, ScanQuery, Store,
    SystemClock,
};
use slatedb::{Db, WriteBatch};
use tokio::sync::watch;

/// A clock that stands still until it is put forward.
struct Hands(watch::Sender<u64>);

impl Hands {
    fn new() -> Arc<Self> {
        Arc::new(Self(watch::Sender::new(1_764_547_200_000)))
    }

    fn forward(&self, by: Duration) {
        self.0.send_modify(|now_ms| *now_ms += millis(by));
    }
}

#[async_trait]
impl Clock for Hands {
    fn now_ms(&self) -> u64 {
        *self.0.borrow()
    }

    async fn sleep(&self, duration: Duration) {
        let until_ms = self.now_ms() + millis(duration);
        self.0.subscribe().wait_for(|now_ms| *now_ms >= until_ms).await.unwrap();
    }
}

/// A database that one process writes.
struct Owner {
    db: Db,
    disk: MemoryDisk,
    store: MemoryStore,
}

/// The process that only reads.
const CLIENT: u32 = 1;

impl Owner {
    async fn open(objects: Arc<dyn ObjectStore>) -> Self {
        let bucket = Bucket::new(objects.clone(), Path::from("test"), "test");
        let settings = slatedb::Settings {
            flush_interval: None,
            compactor_options: None,
            garbage_collector_options: None,
            ..slatedb::Settings::default()
        };
        let path = bucket.database(Shard(0));
        let db = Db::builder(path, objects)
            .with_settings(settings)
            .build()
            .await
            .unwrap();
        let disk = MemoryDisk::default();
        let store = MemoryStore::open_disk(&disk, Settings::default()).unwrap();
        Self { db, disk, store }
    }

    /// Commits, and makes everything durable in the database, as one object of its log.
    async fn put(&self, partition: &str, body: &str) {
        let key = Key::new(Partition::new(partition), RecordId::of("head"));
        let listing = Listing {
            kind: "instance".into(),
            status: "Running".into(),
            name: String::new(),
            parent: None,
            created_ms: 1,
            completed_ms: None,
        };
        let head = Draft::new(key.clone(), body.to_owned()).listed(listing);
        let page = Draft::new(Key::new(key.partition, RecordId::of("page").number(1)), body.to_owned());
        let commit = Commit::new(vec![Op::Put(head), Op::Put(page)]).count(Counter::new("commits"), 1);
        self.store.commit(commit).await.unwrap();
        let mut batch = WriteBatch::new();
        for table in Table::ALL {
            for (key, value) in self.disk.entries(table) {
                batch.put_bytes(keys::key(table, &key), value);
            }
        }
        self.db.write(batch).await.unwrap();
        self.db.flush().await.unwrap();
    }
}

/// A bucket, and a clock for its readers.
struct World {
    faulty: Faulty,
    clock: Arc<Hands>,
}

impl World {
    fn new() -> Self {
        Self {
            faulty: Faulty::new(SystemClock::shared(), &[]),
            clock: Hands::new(),
        }
    }

    async fn owner(&self) -> Owner {
        Owner::open(self.faulty.process(0)).await
    }

    fn reader(&self) -> DatabaseReader {
        let bucket = Bucket::new(self.faulty.process(CLIENT), Path::from("test"), "s3://test");
        let runtime = Handle::current();
        DatabaseReader::new(bucket, Shard(0), ReaderSettings::default(), self.clock.clone(), runtime)
    }

    fn client(&self) -> ReadOnlyStore<DatabaseReader> {
        ReadOnlyStore::new(self.reader(), Limits::NONE)
    }

    /// Lets time pass until it is aborted.
    fn running(&self) -> tokio::task::JoinHandle<()> {
        let clock = Arc::clone(&self.clock);
        tokio::spawn(async move {
            loop {
                SystemClock.sleep(Duration::from_millis(1)).await;
                clock.forward(Duration::from_millis(20));
            }
        })
    }

    /// How many requests the client has made.
    fn requests(&self) -> usize {
        let log = self.faulty.log();
        log.iter().filter(|request| request.process == CLIENT).count()
    }
}

fn head(partition: &str) -> Key {
    Key::new(Partition::new(partition), RecordId::of("head"))
}

async fn body(store: &dyn Store, partition: &str) -> Option<Bytes> {
    let record = store.get(&head(partition)).await.unwrap();
    record.map(|record| record.body)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_reads_what_is_durable_at_most_a_second_later() {
    let world = World::new();
    let owner = world.owner().await;
    owner.put("a", "1").await;
    let client = world.client();
    assert_eq!(body(&client, "a").await.as_deref(), Some(&b"1"[..]));
    for round in 2..6 {
        let text = round.to_string();
        owner.put("a", &text).await;
        world.clock.forward(Duration::from_millis(1_000));
        assert_eq!(body(&client, "a").await.as_deref(), Some(text.as_bytes()));
    }
    // The same answers as the owner's, from all tables.
    owner.put("b\0c", "x").await;
    world.clock.forward(Duration::from_millis(1_000));
    for partition in ["a", "b\0c", "none"] {
        let key = head(partition);
        assert_eq!(client.get(&key).await, owner.store.get(&key).await);
        let all = ScanQuery::all(key.partition, 1000);
        assert_eq!(client.scan(&all).await, owner.store.scan(&all).await);
    }
    let all = ListFilter::kind("instance");
    assert_eq!(
        client.list(&all, None, 10).await,
        owner.store.list(&all, None, 10).await
    );
    assert_eq!(client.counters().await, owner.store.counters().await);
    owner.db.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_waits_makes_twelve_requests_a_second_and_an_idle_one_none() {
    let world = World::new();
    let owner = world.owner().await;
    owner.put("a", "1").await;
    let client = world.client();
    body(&client, "a").await;
    let opened = world.requests();
    assert!(opened <= 40, "{opened} requests to open");
    // It polls ten times a second for ten seconds, in which nothing happens.
    for _ in 0..100 {
        world.clock.forward(Duration::from_millis(100));
        body(&client, "a").await;
    }
    let polled = world.requests() - opened;
    assert!((5 * 8..=10 * 12).contains(&polled), "{polled} requests in ten seconds");
    let before = world.requests();
    world.clock.forward(Duration::from_secs(59));
    tokio::task::yield_now().await;
    assert_eq!(world.requests(), before);
    // It is closed then, and opened again by the next read.
    let shared = client.engine();
    world.clock.forward(Duration::from_secs(2));
    while shared.shared.opened.read().await.is_some() {
        tokio::task::yield_now().await;
    }
    world.clock.forward(Duration::from_secs(3600));
    assert_eq!(world.requests(), before);
    owner.put("a", "2").await;
    assert_eq!(body(&client, "a").await.as_deref(), Some(&b"2"[..]));
    owner.db.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_that_fails_is_an_error_and_never_an_old_view() {
    let world = World::new();
    let owner = world.owner().await;
    owner.put("a", "1").await;
    let client = world.client();
    body(&client, "a").await;
    // One failed request is tried again by SlateDB; after many it gives up, and only says so in its log.
    for (round, (fault, count)) in [Fault::Before, Fault::After]
        .into_iter()
        .flat_map(|fault| [(fault, 1), (fault, 4)])
        .enumerate()
    {
        let text = format!("round {round}");
        owner.put("a", &text).await;
        world.clock.forward(Duration::from_millis(1_500));
        let next = world.faulty.log().len();
        (next..next + count).for_each(|index| world.faulty.plan(index, fault));
        let hands = world.running();
        let seen = body(&client, "a").await;
        hands.abort();
        assert_eq!(seen.as_deref(), Some(text.as_bytes()), "{count} times {fault:?}");
    }
    owner.put("a", "unseen").await;
    world.clock.forward(Duration::from_millis(1_500));
    let next = world.faulty.log().len();
    (next..next + 10_000).for_each(|index| world.faulty.plan(index, Fault::Before));
    let hands = world.running();
    let failed = client.get(&head("a")).await.unwrap_err();
    hands.abort();
    assert!(failed.to_string().contains("the connection was lost"), "{failed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_bucket_a_client_says_so() {
    let world = World::new();
    let client = world.client();
    let missing = client.get(&head("a")).await.unwrap_err();
    let text = missing.to_string();
    assert!(text.contains("s3://test") && text.contains("as its owner"), "{text}");
    let owner = world.owner().await;
    owner.put("a", "1").await;
    assert_eq!(body(&client, "a").await.as_deref(), Some(&b"1"[..]));
    world.faulty.kill(CLIENT);
    world.clock.forward(Duration::from_secs(2));
    let hands = world.running();
    let gone = client.get(&head("a")).await.unwrap_err();
    hands.abort();
    assert!(
        matches!(gone, Error::Unavailable(_)) && gone.to_string().contains("no reply"),
        "{gone}"
    );
    owner.db.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_is_of_one_moment() {
    let world = World::new();
    let owner = world.owner().await;
    owner.put("a", "1").await;
    let reader = Arc::new(world.reader());
    reader.refresh().await.unwrap();
    let (entered, has_entered) = std::sync::mpsc::channel();
    let (leave, may_leave) = std::sync::mpsc::channel::<()>();
    let key = Bytes::from(["a\0\u{1}head".as_bytes()].concat());
    let looking = {
        let reader = Arc::clone(&reader);
        tokio::task::spawn_blocking(move || {
            let view = reader.view();
            let before = view.get(Table::Listed, &key).unwrap();
            entered.send(()).unwrap();
            may_leave.recv().unwrap();
            (before, view.get(Table::Listed, &key).unwrap())
        })
    };
    tokio::task::spawn_blocking(move || has_entered.recv().unwrap())
        .await
        .unwrap();
    owner.put("a", "2").await;
    world.clock.forward(Duration::from_secs(2));
    let refreshing = tokio::spawn({
        let reader = Arc::clone(&reader);
        async move { reader.refresh().await }
    });
    let gets = world
        .faulty
        .log()
        .iter()
        .filter(|request| request.kind == Kind::Get)
        .count();
    assert!(gets > 0 && !refreshing.is_finished());
    leave.send(()).unwrap();
    let (before, after) = looking.await.unwrap();
    assert!(before.is_some() && before == after);
    refreshing.await.unwrap().unwrap();
    owner.db.close().await.unwrap();
}
