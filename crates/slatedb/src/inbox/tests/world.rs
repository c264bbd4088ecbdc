//! Processes on one bucket: clients that send numbered messages, and an owner that writes down what it applies.

use super::super::mutation::Mutation;
use super::super::{Intake, IntakeSettings, Outgoing, OutgoingSettings};
use super::faulty::{Fault, Faulty};
use crate::{Bucket, Shard};
use async_trait::async_trait;
use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parking_lot::Mutex;
use perennial_kv::{MemoryDisk, MemoryStore, Settings};
use perennial_store::{
    Applied, Clock, Commit, Draft, Error, Key, MessageHandler, MessageSender, Op, Partition, RecordId, Result,
    ScanQuery, Store,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub(super) const SHARD: Shard = Shard(0);
/// The engine that messages are for.
pub(super) const ENGINE: &str = "ledger";
/// How long a commit takes to become durable.
const SYNC: Duration = Duration::from_millis(20);
/// When the world begins.
const BEGIN_MS: u64 = 1_764_547_200_000;
/// The number of the first owner; those of clients are smaller.
pub(super) const OWNER: u32 = 100;

/// Virtual time, and how far a machine's clock is off.
pub(super) struct TestClock {
    began: Instant,
    off_ms: AtomicI64,
}

impl TestClock {
    #[allow(clippy::disallowed_methods)]
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            off_ms: AtomicI64::new(0),
        })
    }

    /// Another machine's clock, which is off by so much.
    pub(super) fn off(&self, off_ms: i64) -> Arc<Self> {
        Arc::new(Self {
            began: self.began,
            off_ms: AtomicI64::new(off_ms),
        })
    }

    /// Puts the clock forward or back.
    pub(super) fn step(&self, by_ms: i64) {
        self.off_ms.fetch_add(by_ms, Ordering::Relaxed);
    }
}

#[async_trait]
impl Clock for TestClock {
    fn now_ms(&self) -> u64 {
        let now_ms = BEGIN_MS + self.began.elapsed().as_millis() as u64;
        now_ms.saturating_add_signed(self.off_ms.load(Ordering::Relaxed))
    }

    #[allow(clippy::disallowed_methods)]
    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// An engine that writes down what it is given, in order, by client.
struct Ledger {
    store: Arc<MemoryStore>,
}

fn book(client: &str) -> Partition {
    Partition::new(format!("ledger:{client}"))
}

#[async_trait]
impl MessageHandler for Ledger {
    async fn apply(&self, payload: Bytes, cursor: Op) -> Result<Applied> {
        let text = std::str::from_utf8(&payload).unwrap();
        if text.starts_with("refuse") {
            return Ok(Applied::Refused("it asked for it".to_owned()));
        }
        if text.starts_with("invalid") {
            return Err(Error::Invalid("it is damaged".to_owned()));
        }
        let (client, _) = text.split_once(' ').unwrap();
        let written = self.store.scan(&ScanQuery::all(book(client), usize::MAX)).await?;
        let id = RecordId::of("entry").number(written.records.len() as u64);
        let entry = Op::Create(Draft::new(Key::new(book(client), id), payload));
        let committed = self.store.commit(Commit::new(vec![entry, cursor])).await?;
        Ok(Applied::Done(committed.version(1).cloned()))
    }
}

/// A process that owns the shard.
pub(super) struct Owner {
    pub(super) intake: Intake,
    store: Arc<MemoryStore>,
    stepper: JoinHandle<()>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.stepper.abort();
    }
}

/// One bucket and all processes on it.
#[derive(Clone)]
pub(super) struct World {
    pub(super) clock: Arc<TestClock>,
    pub(super) faulty: Faulty,
    pub(super) disk: MemoryDisk,
    mutation: Mutation,
    ids: Arc<AtomicU64>,
    /// What is known of each message: when the client was told that it is sent, or that this is unknown.
    sent: Arc<Mutex<BTreeMap<String, Sent>>>,
    owners: Arc<AtomicU64>,
}

/// What a client knows of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Yes,
    Unknown,
}

impl World {
    pub(super) fn new(mutation: Mutation, plan: &[(usize, Fault)]) -> Self {
        let clock = TestClock::new();
        Self {
            faulty: Faulty::new(clock.clone(), plan),
            clock,
            disk: MemoryDisk::default(),
            mutation,
            ids: Arc::default(),
            sent: Arc::default(),
            owners: Arc::default(),
        }
    }

    pub(super) fn bucket(&self, process: u32) -> Bucket {
        Bucket::new(self.faulty.process(process), Path::from("test"), "test")
    }

    /// A new client process.
    pub(super) fn client(&self, process: u32) -> Outgoing {
        self.client_with(process, OutgoingSettings::default(), self.clock.clone())
    }

    pub(super) fn client_with(&self, process: u32, settings: OutgoingSettings, clock: Arc<dyn Clock>) -> Outgoing {
        let settings = OutgoingSettings {
            mutation: self.mutation,
            ..settings
        };
        let ids = Arc::clone(&self.ids);
        let random = Arc::new(move || u128::from(ids.fetch_add(1, Ordering::Relaxed)) << 64 | u128::from(process));
        Outgoing::start(
            &self.bucket(process),
            SHARD,
            settings,
            clock,
            random,
            &Handle::current(),
        )
    }

    /// A new process that takes over the shard.
    pub(super) async fn owner(&self) -> Owner {
        self.owner_with(self.clock.clone()).await
    }

    pub(super) async fn owner_with(&self, clock: Arc<dyn Clock>) -> Owner {
        let process = OWNER + u32::try_from(self.owners.fetch_add(1, Ordering::Relaxed)).unwrap();
        let store = Arc::new(MemoryStore::open_stepped(&self.disk, Settings::default()).unwrap());
        let stepper = {
            let (store, clock) = (Arc::clone(&store), self.clock.clone());
            tokio::spawn(async move {
                loop {
                    store.waiting().await;
                    clock.sleep(SYNC).await;
                    store.step();
                }
            })
        };
        let settings = IntakeSettings {
            mutation: self.mutation,
            ..IntakeSettings::default()
        };
        let ledger = Arc::new(Ledger {
            store: Arc::clone(&store),
        });
        let handlers = [(ENGINE, ledger as Arc<dyn MessageHandler>)];
        let (bucket, store_of_intake) = (self.bucket(process), store.clone() as Arc<dyn Store>);
        let runtime = Handle::current();
        let intake = Intake::start(&bucket, SHARD, store_of_intake, handlers, settings, clock, &runtime);
        Owner {
            intake: intake.await.unwrap(),
            store,
            stepper,
        }
    }

    /// Sees to it that there is an owner, whenever one dies.
    pub(super) fn supervise(&self) -> JoinHandle<()> {
        let world = self.clone();
        tokio::spawn(async move {
            loop {
                let owner = world.owner().await;
                let process = OWNER + u32::try_from(world.owners.load(Ordering::Relaxed)).unwrap() - 1;
                world.faulty.killed(process).await;
                drop(owner);
                world.disk.crash();
            }
        })
    }

    /// Sends a message and notes what the client is told.
    pub(super) async fn send(&self, client: &Outgoing, message: &str) -> Result<()> {
        self.sent.lock().insert(message.to_owned(), Sent::Unknown);
        let sent = client.send(ENGINE, Bytes::from(message.to_owned())).await;
        if sent.is_ok() {
            self.sent.lock().insert(message.to_owned(), Sent::Yes);
        }
        sent
    }

    /// Messages of a client that are written down, in order.
    pub(super) fn applied(&self, client: &str) -> Vec<String> {
        let entries = self.disk.entries(perennial_kv::Table::Records);
        let prefix = format!("{}\0\u{1}entry/", book(client));
        let found = entries.iter().filter(|(key, _)| key.starts_with(prefix.as_bytes()));
        let body = |value: &Bytes| {
            let text = String::from_utf8_lossy(value).into_owned();
            let start = text.rfind(&format!("{client} ")).unwrap();
            text[start..].to_owned()
        };
        found.map(|(_, value)| body(value)).collect()
    }

    /// Whether everything that a client was told is sent has been applied.
    pub(super) fn is_complete(&self, clients: &[&str]) -> bool {
        let applied: Vec<String> = clients.iter().flat_map(|client| self.applied(client)).collect();
        let sent = self.sent.lock();
        sent.iter()
            .filter(|(_, sent)| **sent == Sent::Yes)
            .all(|(message, _)| applied.contains(message))
    }

    /// What is wrong with the messages of a client: sent and not applied, applied twice, or out of order.
    pub(super) fn violation(&self, client: &str) -> Option<String> {
        let applied = self.applied(client);
        let mut sorted = applied.clone();
        sorted.sort();
        sorted.dedup();
        if sorted.len() != applied.len() {
            return Some(format!("applied twice: {applied:?}"));
        }
        let sent = self.sent.lock();
        let of_client = |message: &&String| message.starts_with(&format!("{client} "));
        let known = sent.iter().filter(|(_, sent)| **sent == Sent::Yes);
        let known: Vec<&String> = known.map(|(message, _)| message).filter(of_client).collect();
        if let Some(lost) = known.iter().find(|message| !applied.contains(message)) {
            return Some(format!("lost {lost:?}: {applied:?}"));
        }
        // A message of unknown outcome may be applied after those that the client sent later.
        let in_order: Vec<&String> = applied.iter().filter(|message| known.contains(message)).collect();
        (!in_order.is_sorted()).then(|| format!("out of order: {applied:?}"))
    }

    /// The names of the objects in the inbox.
    pub(super) async fn inbox(&self) -> Vec<Path> {
        self.listed("inbox").await
    }

    /// The names of the objects in quarantine.
    pub(super) async fn quarantine(&self) -> Vec<Path> {
        self.listed("inbox-quarantine").await
    }

    async fn listed(&self, folder: &str) -> Vec<Path> {
        use futures::TryStreamExt;
        let prefix = Path::from(format!("test/0/{folder}"));
        let objects: Vec<_> = self.faulty.objects().list(Some(&prefix)).try_collect().await.unwrap();
        objects.into_iter().map(|object| object.location).collect()
    }

    /// Writes an object behind everybody's back.
    pub(super) async fn put(&self, path: &Path, content: &[u8]) {
        let content = Bytes::copy_from_slice(content);
        self.faulty.objects().put(path, content.into()).await.unwrap();
    }

    /// Reads an object behind everybody's back.
    pub(super) async fn get(&self, path: &Path) -> Bytes {
        let found = self.faulty.objects().get(path).await.unwrap();
        found.bytes().await.unwrap()
    }

    pub(super) async fn sleep(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    /// Waits until a condition holds, for so many seconds at most; returns how long it took.
    pub(super) async fn until(&self, seconds: u64, condition: impl Fn() -> bool) -> Option<Duration> {
        let began_ms = self.clock.now_ms();
        for _ in 0..seconds * 20 {
            if condition() {
                return Some(Duration::from_millis(self.clock.now_ms() - began_ms));
            }
            self.clock.sleep(Duration::from_millis(50)).await;
        }
        None
    }
}

impl Owner {
    /// Closes the store under the intake.
    pub(super) async fn close(&self) {
        self.store.close().await.unwrap();
    }

    /// How many commits were made.
    pub(super) fn commits(&self) -> u64 {
        self.store.stats().commits_durable
    }
}
