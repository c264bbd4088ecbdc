//! Ids of any length: an instance ends, or it is refused with the length that is allowed. None is accepted and never ends.
#![allow(clippy::unwrap_used)]

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{ObservabilityConfig, OrchestrationStatus, Runtime, RuntimeOptions};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use perennial::Workflows;
use perennial_kv::{Settings as Kv, SharedMemory};
use std::sync::Arc;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

/// A store and the runtime on it.
struct Fixture {
    store: Arc<Workflows>,
    runtime: Arc<Runtime>,
    client: Client,
    _directory: Option<tempfile::TempDir>,
}

/// An activity, a timer, and a child that does the same, until there are no generations left.
async fn family(ctx: OrchestrationContext, generations: String) -> Result<String, String> {
    let left: u32 = generations.parse().unwrap();
    ctx.schedule_activity("Step", "").await?;
    ctx.schedule_timer(Duration::from_millis(1)).await;
    match left {
        0 => Ok("whole".to_owned()),
        _ => ctx.schedule_sub_orchestration("Family", (left - 1).to_string()).await,
    }
}

/// Starts a child under an id of this many bytes, and returns its result.
async fn named(ctx: OrchestrationContext, length: String) -> Result<String, String> {
    let id = "c".repeat(length.parse().unwrap());
    let child = ctx.schedule_sub_orchestration_with_id("Family", id, "1").await;
    Ok(format!("{child:?}"))
}

/// Starts a detached instance under an id of this many bytes.
async fn detached(ctx: OrchestrationContext, length: String) -> Result<String, String> {
    ctx.schedule_orchestration("Family", "d".repeat(length.parse().unwrap()), "0");
    ctx.schedule_timer(Duration::from_millis(1)).await;
    Ok("sent".to_owned())
}

impl Fixture {
    async fn on(store: Arc<Workflows>, directory: Option<tempfile::TempDir>) -> Self {
        let step = |_: ActivityContext, _: String| async { Ok(String::new()) };
        let activities = ActivityRegistry::builder().register("Step", step).build();
        let workflows = OrchestrationRegistry::builder()
            .register("Family", family)
            .register("Named", named)
            .register("Detached", detached)
            .build();
        // It would log every id in full.
        let options = RuntimeOptions {
            observability: ObservabilityConfig {
                log_level: "off".to_owned(),
                ..ObservabilityConfig::default()
            },
            ..RuntimeOptions::default()
        };
        let runtime = Runtime::start_with_options(store.clone(), activities, workflows, options).await;
        Self {
            client: Client::new(store.clone()),
            store,
            runtime,
            _directory: directory,
        }
    }

    async fn all() -> [Self; 3] {
        let directory = tempfile::tempdir().unwrap();
        let file = perennial::open(&perennial::url_of(directory.path().join("store"))).await;
        let shared = SharedMemory::new(Kv::CLOUD_LIMITS).unwrap().open();
        let shared = Workflows::open(shared, perennial_workflow::Settings::default()).await;
        [
            Self::on(perennial::open("memory:").await.unwrap(), None).await,
            Self::on(file.unwrap(), Some(directory)).await,
            Self::on(Arc::new(shared.unwrap()), None).await,
        ]
    }

    /// Runs a workflow to its end.
    async fn run(&self, id: &str, name: &str, input: &str) -> Result<String, String> {
        self.client.start_orchestration(id, name, input).await.unwrap();
        self.end_of(id).await
    }

    async fn end_of(&self, id: &str) -> Result<String, String> {
        match self.client.wait_for_orchestration(id, LONG).await.unwrap() {
            OrchestrationStatus::Completed { output, .. } => Ok(output),
            OrchestrationStatus::Failed { details, .. } => Err(details.display_message()),
            other => panic!("{} bytes: {other:?}", id.len()),
        }
    }

    async fn stop(self) {
        self.runtime.shutdown(None).await;
        self.store.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_id_runs_to_its_end_with_its_children_and_one_byte_more_is_refused() {
    for fixture in Fixture::all().await {
        let longest = fixture.store.longest_instance_id();
        for (n, length) in [1, 1_024, longest - 1, longest].into_iter().enumerate() {
            let id = n.to_string() + &"x".repeat(length - 1);
            assert_eq!(
                fixture.run(&id, "Family", "3").await,
                Ok("whole".to_owned()),
                "{length} bytes"
            );
        }
        let nuls = "\0".repeat(longest / 2);
        assert_eq!(fixture.run(&nuls, "Family", "3").await, Ok("whole".to_owned()), "NULs");
        for id in [
            "x".repeat(longest + 1),
            "x".repeat(33_001),
            "x".repeat(70_000),
            "\0".repeat(longest / 2 + 1),
        ] {
            let refused = fixture
                .client
                .start_orchestration(&id, "Family", "3")
                .await
                .unwrap_err()
                .to_string();
            assert!(
                refused.contains(&longest.to_string()) && refused.contains("shorter"),
                "{refused}"
            );
            assert!(refused.len() < 1_000, "the id is repeated");
            let status = fixture.client.get_orchestration_status(&id).await;
            assert!(
                !matches!(status, Ok(OrchestrationStatus::Running { .. })),
                "{} bytes",
                id.len()
            );
        }
        fixture.stop().await;
    }
}

/// A child is named after its parent: sooner or later a name is too long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_generations_fail_and_every_instance_ends() {
    for fixture in Fixture::all().await {
        let id = "x".repeat(fixture.store.longest_instance_id());
        let failed = fixture.run(&id, "Family", "200").await.unwrap_err();
        assert!(failed.contains("the id of the instance"), "{failed}");
        fixture.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_whose_id_is_too_long_fails_and_its_parent_sees_it() {
    for fixture in Fixture::all().await {
        let longest = fixture.store.longest_instance_id();
        // Beyond what a client may start; too long to have children; too long for any record.
        let whole = fixture.run("short", "Named", &(longest + 1).to_string()).await.unwrap();
        assert_eq!(whole, "Ok(\"whole\")");
        let childless = fixture
            .run("shorter", "Named", &(longest * 2).to_string())
            .await
            .unwrap();
        assert!(childless.contains("could not be started"), "{childless}");
        let impossible = fixture.run("shortest", "Named", "70000").await.unwrap();
        assert!(impossible.contains("could not be started"), "{impossible}");
        fixture.stop().await;
    }
}

/// Such an instance was accepted from clients, too, and exists in stores in use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_of_33_001_bytes_ends_and_its_child_fails() {
    let directory = tempfile::tempdir().unwrap();
    let file = perennial::open(&perennial::url_of(directory.path())).await.unwrap();
    let fixture = Fixture::on(file, Some(directory)).await;
    let parent = fixture.run("short", "Named", "33001").await.unwrap();
    assert!(
        parent.starts_with("Err(") && parent.contains("could not be started"),
        "{parent}"
    );
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_detached_start_that_cannot_be_stored_fails_its_sender() {
    for fixture in Fixture::all().await {
        assert_eq!(fixture.run("a", "Detached", "1000").await, Ok("sent".to_owned()));
        assert_eq!(fixture.end_of(&"d".repeat(1_000)).await, Ok("whole".to_owned()));
        let failed = fixture.run("b", "Detached", "70000").await.unwrap_err();
        assert!(failed.contains("the id of the instance in bytes is 70000"), "{failed}");
        fixture.stop().await;
    }
}

/// Names of any length may be queried: those that are too long do not exist.
#[tokio::test]
async fn a_name_that_is_too_long_does_not_exist() {
    use perennial_store::{Key, ListFilter, Partition, RecordId, ScanQuery, Store};
    let directory = tempfile::tempdir().unwrap();
    let store = perennial_fjall::open(directory.path().join("store"), perennial_fjall::Settings::default()).unwrap();
    for length in (65_450..65_600).chain([70_000, 200_000]) {
        let name = "x".repeat(length);
        let (partition, id) = (Partition::new(name.as_str()), RecordId::from_raw(name.as_str()));
        for key in [
            Key::new(partition.clone(), RecordId::of("a")),
            Key::new(Partition::new("a"), id.clone()),
            Key::new(partition.clone(), id.clone()),
        ] {
            assert_eq!(store.get(&key).await.unwrap(), None);
        }
        let mut after = ScanQuery::all(Partition::new("a"), 10);
        after.after = Some(id.clone());
        for query in [
            ScanQuery::all(partition.clone(), 10),
            ScanQuery::under(Partition::new("a"), id.clone(), 10),
            after,
        ] {
            assert!(store.scan(&query).await.unwrap().records.is_empty());
        }
        let children = ListFilter {
            parent: Some(name.clone()),
            ..ListFilter::kind("instance")
        };
        assert!(store.list(&children, None, 10).await.unwrap().entries.is_empty());
    }
    store.close().await.unwrap();
}
