//! Workflows on a damaged disk: unreadable ones are quarantined, all others end.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::indexing_slicing)]

use duroxide::providers::{Provider, TagFilter, WorkItem};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{OrchestrationStatus, Runtime, RuntimeOptions};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use perennial_fjall::FjallStore;
use perennial_store::Store;
use perennial_workflow::{Settings, Workflows};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// So long that the store keeps it in a blob file.
const LARGE: usize = 100_000;
const TIMEOUT: Duration = Duration::from_secs(60);

/// An opened store, without a runtime.
struct Fixture {
    store: Arc<FjallStore>,
    workflows: Workflows,
    provider: Arc<dyn Provider>,
    client: Client,
}

impl Fixture {
    /// Nothing on disk is cached in memory.
    async fn open(path: &Path) -> Self {
        let settings = perennial_fjall::Settings {
            cache_bytes: 0,
            ..perennial_fjall::Settings::default()
        };
        let store = Arc::new(perennial_fjall::open(path, settings).unwrap());
        let shared = Arc::clone(&store) as Arc<dyn Store>;
        let workflows = Workflows::open(shared, Settings::default()).await.unwrap();
        let provider: Arc<dyn Provider> = Arc::new(workflows.clone());
        Self {
            store,
            workflows,
            client: Client::new(Arc::clone(&provider)),
            provider,
        }
    }

    async fn close(self) {
        self.workflows.close().await.unwrap();
    }

    /// Runs workflows with two dispatchers and two workers. Each that has begun adds a permit.
    async fn run(&self, begun: &Arc<Semaphore>) -> Arc<Runtime> {
        let begun = Arc::clone(begun);
        let begin = move |_: ActivityContext, _: String| {
            begun.add_permits(1);
            async move { Ok(String::new()) }
        };
        let activities = ActivityRegistry::builder().register("Begin", begin).build();
        let wait = |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("Begin", "").await?;
            let word = ctx.dequeue_event("inbox").await;
            Ok(format!("{} {word}", input.len()))
        };
        let registry = OrchestrationRegistry::builder().register("Wait", wait).build();
        let options = RuntimeOptions {
            orchestration_concurrency: 2,
            worker_concurrency: 2,
            ..RuntimeOptions::default()
        };
        Runtime::start_with_options(Arc::clone(&self.provider), activities, registry, options).await
    }

    async fn start(&self, instances: &[String], length: usize) {
        for instance in instances {
            let input = text(instance, length);
            self.client.start_orchestration(instance, "Wait", input).await.unwrap();
        }
    }

    async fn send(&self, instances: &[String]) {
        for instance in instances {
            self.client.enqueue_event(instance, "inbox", "go").await.unwrap();
        }
    }

    async fn assert_end(&self, instances: &[String], length: usize) {
        for instance in instances {
            let ended = self.client.wait_for_orchestration(instance, TIMEOUT).await.unwrap();
            let OrchestrationStatus::Completed { output, .. } = ended else {
                panic!("{instance} ended as {ended:?}");
            };
            assert_eq!(output, format!("{length} go"));
        }
    }
}

/// Text that hardly compresses, different for each instance.
fn text(instance: &str, length: usize) -> String {
    let mut state = instance.bytes().fold(1_u64, |seed, byte| seed * 31 + u64::from(byte));
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b'a' + (state >> 59) as u8 % 26)
    };
    (0..length).map(|_| next()).collect()
}

fn names(name: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{name}-{n:02}")).collect()
}

/// Moves everything in journals to tables and blob files.
fn flush(path: &Path) {
    let db = fjall::Database::builder(path.join("data")).open().unwrap();
    for table in ["records", "queue", "listed", "index", "meta"] {
        let table = db.keyspace(table, fjall::KeyspaceCreateOptions::default).unwrap();
        table.rotate_memtable_and_wait().unwrap();
    }
}

fn blob_files(path: &Path) -> Vec<PathBuf> {
    let tables = fs::read_dir(path.join("data/keyspaces")).unwrap();
    let folders = tables.map(|table| table.unwrap().path().join("blobs"));
    let files = folders.filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    files.map(|file| file.unwrap().path()).collect()
}

/// The length of the header before the key of a large value, which begins with the word "BLOB".
const HEADER: usize = 38;

/// Changes a byte of every large value of these instances; a second call restores them.
fn flip(path: &Path, instances: &[String]) {
    let mut flipped = 0;
    for file in blob_files(path) {
        let mut bytes = fs::read(&file).unwrap();
        let is_victim = |key: &[u8]| {
            let mut victims = instances.iter();
            victims.any(|instance| key.starts_with(format!("wf:{instance}\0\u{1}").as_bytes()))
        };
        let headers: Vec<usize> = (0..bytes.len() - HEADER)
            .filter(|at| bytes[*at..at + 4] == *b"BLOB")
            .filter(|at| is_victim(&bytes[at + HEADER..]))
            .collect();
        flipped += headers.len();
        headers.into_iter().for_each(|at| bytes[at + 1_000] ^= 1);
        fs::write(file, bytes).unwrap();
    }
    assert!(flipped >= instances.len(), "{flipped} values were damaged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_starts_block_no_other_workflow_and_are_tried_again() {
    for count in [2, 5, 50] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let (victims, large, small) = (names("victim", count), names("large", 10), names("small", 10));
        let fixture = Fixture::open(path).await;
        fixture.start(&victims, LARGE).await;
        fixture.start(&large, LARGE).await;
        fixture.start(&small, 10).await;
        fixture.close().await;
        flush(path);
        flip(path, &victims);

        let begun = Arc::new(Semaphore::new(0));
        let fixture = Fixture::open(path).await;
        assert_eq!(fixture.store.stats().damaged, count as u64);
        let runtime = fixture.run(&begun).await;
        fixture.send(&large).await;
        fixture.send(&small).await;
        fixture.assert_end(&large, LARGE).await;
        fixture.assert_end(&small, 10).await;
        runtime.shutdown(None).await;
        fixture.close().await;

        // Once the disk is repaired, nothing is lost.
        flip(path, &victims);
        let fixture = Fixture::open(path).await;
        let runtime = fixture.run(&begun).await;
        fixture.send(&victims).await;
        fixture.assert_end(&victims, LARGE).await;
        runtime.shutdown(None).await;
    }
}

/// Workflows that have begun and wait for an event, in tables and blob files.
async fn waiting(path: &Path, groups: [(&[String], usize); 2]) {
    let fixture = Fixture::open(path).await;
    let begun = Arc::new(Semaphore::new(0));
    let runtime = fixture.run(&begun).await;
    let mut count = 0;
    for (instances, length) in groups {
        fixture.start(instances, length).await;
        count += instances.len() as u32;
    }
    drop(begun.acquire_many(count).await.unwrap());
    runtime.shutdown(None).await;
    fixture.close().await;
    flush(path);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_histories_block_no_other_workflow_and_are_tried_again() {
    for count in [2, 50] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let (victims, others) = (names("victim", count), names("other", 10));
        waiting(path, [(&victims, LARGE), (&others, LARGE)]).await;
        flip(path, &victims);

        let begun = Arc::new(Semaphore::new(0));
        let fixture = Fixture::open(path).await;
        let runtime = fixture.run(&begun).await;
        fixture.send(&victims).await;
        fixture.send(&others).await;
        fixture.assert_end(&others, LARGE).await;
        let told = fixture.provider.read(&victims[0]).await.unwrap_err().to_string();
        assert!(told.contains("wf:victim-00") && told.contains("/blobs/"), "{told}");
        runtime.shutdown(None).await;
        fixture.close().await;

        flip(path, &victims);
        let fixture = Fixture::open(path).await;
        let runtime = fixture.run(&begun).await;
        fixture.assert_end(&victims, LARGE).await;
        runtime.shutdown(None).await;
    }
}

/// Makes files unreadable though they can be opened, or restores their content.
struct Unreadable(Vec<(PathBuf, PathBuf)>);

impl Unreadable {
    fn make(files: Vec<PathBuf>) -> Self {
        let moved = files.into_iter().map(|file| {
            let kept = file
                .parent()
                .unwrap()
                .parent()
                .unwrap()
                .join(format!("kept-{}", file.file_name().unwrap().to_string_lossy()));
            fs::rename(&file, &kept).unwrap();
            fs::create_dir(&file).unwrap();
            (file, kept)
        });
        Self(moved.collect())
    }

    fn mend(self) {
        for (file, kept) in self.0 {
            fs::remove_dir(&file).unwrap();
            fs::rename(kept, file).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn io_errors_of_some_workflows_stop_no_others() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let (victims, others) = (names("victim", 50), names("other", 10));
    waiting(path, [(&victims, LARGE), (&others, 10)]).await;

    let begun = Arc::new(Semaphore::new(0));
    let fixture = Fixture::open(path).await;
    let unreadable = Unreadable::make(blob_files(path));
    let runtime = fixture.run(&begun).await;
    fixture.send(&victims).await;
    fixture.send(&others).await;
    fixture.assert_end(&others, 10).await;
    runtime.shutdown(None).await;
    fixture.close().await;

    unreadable.mend();
    let fixture = Fixture::open(path).await;
    let runtime = fixture.run(&begun).await;
    fixture.assert_end(&victims, LARGE).await;
    runtime.shutdown(None).await;
}

fn activity(instance: &str, id: u64, length: usize) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: instance.to_owned(),
        execution_id: 1,
        id,
        name: "Do".to_owned(),
        input: text(instance, length),
        session_id: None,
        tag: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn activities_and_messages_that_become_unreadable_while_they_wait_block_no_other_workflow() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let (victims, others) = (names("victim", 50), names("other", 4));
    let fixture = Fixture::open(path).await;
    for (id, instance) in victims.iter().chain(&others).enumerate() {
        let length = if instance.starts_with("victim") { LARGE } else { 10 };
        let item = activity(instance, id as u64, length);
        fixture.provider.enqueue_for_worker(item).await.unwrap();
        fixture.start(std::slice::from_ref(instance), length).await;
    }
    fixture.close().await;
    flush(path);

    let fixture = Fixture::open(path).await;
    let unreadable = Unreadable::make(blob_files(path));
    let lock = Duration::from_secs(30);
    for instance in &others {
        let work = fixture
            .provider
            .fetch_work_item(lock, Duration::ZERO, None, &TagFilter::DefaultOnly);
        let Some((WorkItem::ActivityExecute { instance: found, .. }, ..)) = work.await.unwrap() else {
            panic!("no activity for {instance}");
        };
        assert_eq!(found, *instance);
        let turn = fixture
            .provider
            .fetch_orchestration_item(lock, Duration::ZERO, None)
            .await
            .unwrap();
        assert_eq!(turn.unwrap().0.instance, *instance);
    }
    let work = fixture
        .provider
        .fetch_work_item(lock, Duration::ZERO, None, &TagFilter::DefaultOnly);
    assert!(work.await.unwrap().is_none());
    fixture.close().await;

    unreadable.mend();
    let fixture = Fixture::open(path).await;
    for instance in &victims {
        let work = fixture
            .provider
            .fetch_work_item(lock, Duration::ZERO, None, &TagFilter::DefaultOnly);
        let Some((WorkItem::ActivityExecute { instance: found, .. }, ..)) = work.await.unwrap() else {
            panic!("no activity for {instance}");
        };
        assert_eq!(found, *instance);
    }
}
