//! How much memory a queued record takes, counted by the allocator.
//!
//! `QUEUED=100000 cargo test --release -p perennial --test queued_memory -- --nocapture` prints the figures for so many.
// An allocator that counts needs unsafe functions; it only passes calls on.
#![allow(clippy::unwrap_used, unsafe_code)]

use duroxide::providers::{Provider, TagFilter, WorkItem};
use perennial_kv::MemoryStore;
use perennial_store::Store;
use perennial_workflow::{Settings, Workflows};
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::Duration;

struct Counting;

static ALLOCATED: AtomicIsize = AtomicIsize::new(0);

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size() as isize, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocated() -> isize {
    ALLOCATED.load(Ordering::Relaxed)
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Start,
    Timer,
    Activity,
}

fn item(kind: Kind, n: usize, bytes: usize) -> WorkItem {
    let (instance, text) = (format!("order-{n:08}"), "x".repeat(bytes));
    match kind {
        Kind::Start => WorkItem::StartOrchestration {
            instance,
            orchestration: "Order".to_owned(),
            input: text,
            version: None,
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            execution_id: 1,
        },
        Kind::Timer => WorkItem::TimerFired {
            instance,
            execution_id: 1,
            id: 7,
            fire_at_ms: 4_000_000_000_000,
        },
        Kind::Activity => WorkItem::ActivityExecute {
            instance,
            execution_id: 1,
            id: 7,
            name: "Pack".to_owned(),
            input: text,
            session_id: None,
            tag: None,
        },
    }
}

async fn fill(provider: &dyn Provider, kind: Kind, count: usize, bytes: usize) {
    let later = Duration::from_secs(1 << 30);
    for n in 0..count {
        let item = item(kind, n, bytes);
        match kind {
            Kind::Start => provider.enqueue_for_orchestrator(item, None).await.unwrap(),
            Kind::Timer => provider.enqueue_for_orchestrator(item, Some(later)).await.unwrap(),
            Kind::Activity => provider.enqueue_for_worker(item).await.unwrap(),
        }
    }
}

/// Bytes per record on a store in memory, including the store's own.
async fn in_memory(kind: Kind, count: usize) -> isize {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::open(perennial_kv::Settings::default()).unwrap());
    let workflows = Workflows::open(store, Settings::default()).await.unwrap();
    let before = allocated();
    fill(&workflows, kind, count, 100).await;
    (allocated() - before) / count as isize
}

async fn open(path: &Path, settings: Settings) -> Workflows {
    let cold = perennial_fjall::Settings {
        cache_bytes: 0,
        // Tests of memory need no durability.
        without_sync: true,
        ..perennial_fjall::Settings::default()
    };
    let store: Arc<dyn Store> = Arc::new(perennial_fjall::open(path, cold).unwrap());
    Workflows::open(store, settings).await.unwrap()
}

/// Moves everything in journals to tables, so that only the queue is in memory after opening.
fn flush(path: &Path) {
    let db = fjall::Database::builder(path.join("data")).open().unwrap();
    for table in ["records", "queue", "listed", "index", "meta"] {
        let table = db.keyspace(table, fjall::KeyspaceCreateOptions::default).unwrap();
        table.rotate_memtable_and_wait().unwrap();
    }
}

/// Opens a store on disk with this many records of a kind, and returns how many bytes it takes.
async fn on_disk(path: &Path, kind: Kind, count: usize, bytes: usize, settings: Settings) -> (Workflows, isize) {
    let workflows = open(path, settings.clone()).await;
    fill(&workflows, kind, count, bytes).await;
    workflows.close().await.unwrap();
    drop(workflows);
    flush(path);
    let before = allocated();
    let workflows = open(path, settings).await;
    (workflows, allocated() - before)
}

/// Bytes per record on disk beyond what an empty store takes.
async fn per_record(kind: Kind, count: usize, bytes: usize, settings: Settings) -> isize {
    let (empty, full) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (_workflows, none) = on_disk(empty.path(), kind, 0, bytes, settings.clone()).await;
    let (_workflows, all) = on_disk(full.path(), kind, count, bytes, settings).await;
    (all - none) / count as isize
}

/// One test, so that nothing else allocates meanwhile.
#[tokio::test]
async fn a_queued_record_takes_little_memory_and_bodies_take_a_bounded_share() {
    let count = std::env::var("QUEUED").map_or(2_000, |count| count.parse().unwrap());
    // The measured size, and a tenth for how full the hash tables happen to be.
    for (kind, most, most_on_disk) in [
        (Kind::Start, 3_000, 1_750),
        (Kind::Timer, 2_150, 1_800),
        (Kind::Activity, 2_050, 1_600),
    ] {
        let memory = in_memory(kind, count).await;
        let disk = per_record(kind, count, 100, Settings::default()).await;
        println!("{kind:?} of 100 bytes: {memory} bytes each in memory:, {disk} in file:");
        assert!(memory <= most && disk <= most_on_disk, "{kind:?}: {memory}, {disk}");
    }
    bodies_are_bounded().await;
}

/// Bodies beyond the budget are on disk only, and are read from there.
async fn bodies_are_bounded() {
    let settings = Settings {
        held_bytes: 100_000,
        ..Settings::default()
    };
    for kind in [Kind::Start, Kind::Activity] {
        let directory = tempfile::tempdir().unwrap();
        let count = 200;
        let each = per_record(kind, count, 15_000, settings.clone()).await;
        println!("{kind:?} of 15,000 bytes, 100,000 bytes for all: {each} bytes each in file:");
        assert!(each < 4_000, "{each}");
        let (workflows, _) = on_disk(directory.path(), kind, count, 15_000, settings.clone()).await;
        for n in 0..count {
            assert_eq!(next(&workflows, kind).await, item(kind, n, 15_000));
        }
    }
}

async fn next(provider: &dyn Provider, kind: Kind) -> WorkItem {
    let (lock, none) = (Duration::from_secs(30), Duration::ZERO);
    match kind {
        Kind::Activity => {
            let work = provider
                .fetch_work_item(lock, none, None, &TagFilter::DefaultOnly)
                .await;
            work.unwrap().unwrap().0
        }
        _ => {
            let turn = provider.fetch_orchestration_item(lock, none, None).await;
            turn.unwrap().unwrap().0.messages.remove(0)
        }
    }
}
