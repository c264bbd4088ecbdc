//! A store that breaks under running workflows, and is opened again behind the same handle.

use crate::calls::{LEASE, NOW, ack, activity, completed, ms, pause, send, soon, start, started, turn, turn_within};
use crate::failed_acks::FailedAcks;
use crate::gate::{Door, Gate};
use duroxide::providers::{Provider, ProviderAdmin, ProviderError, TagFilter, WorkItem};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{OrchestrationStatus, Runtime};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use perennial_interpose::Interposed;
use perennial_kv::MemoryDisk;
use perennial_store::{Error, Health, Limits, Opener, Store, SystemClock};
use perennial_workflow::{Settings, Workflows};
use std::sync::{Arc, Mutex};

/// A disk that can fail, and the workflows on it.
pub struct Fixture {
    disk: MemoryDisk,
    pub workflows: Workflows,
    /// The gates of every opening.
    gates: Arc<Mutex<Vec<Arc<Gate>>>>,
}

impl Fixture {
    pub async fn new() -> Self {
        Self::with_limits(perennial_kv::Settings::default().limits).await
    }

    async fn with_limits(limits: Limits) -> Self {
        let disk = MemoryDisk::default();
        let gates = Arc::new(Mutex::new(Vec::new()));
        let open = {
            let (disk, gates) = (disk.clone(), Arc::clone(&gates));
            move || {
                let gate = Gate::open_with(&disk, perennial_kv::Settings::with_limits(limits))
                    .map_err(|error| Error::Unavailable(error.to_string()))?;
                gates.lock().unwrap().push(Arc::clone(&gate));
                Ok(gate as Arc<dyn Store>)
            }
        };
        let store = open().unwrap();
        let opener: Opener = Box::new(move || {
            let opened = open();
            Box::pin(async move { opened })
        });
        let clock = SystemClock::shared();
        let workflows = Workflows::open_reopening(store, opener, Settings::default(), clock)
            .await
            .unwrap();
        Self { disk, workflows, gates }
    }

    fn gate(&self) -> Arc<Gate> {
        Arc::clone(self.gates.lock().unwrap().last().unwrap())
    }

    /// Fills the disk: nothing can be written.
    pub fn fill(&self) {
        self.disk.fail_writes("No space left on device");
    }

    /// Makes room again; what was written and not synced is gone.
    pub fn free(&self) {
        self.disk.crash();
    }

    async fn work(&self) -> (WorkItem, String, u32) {
        let any = TagFilter::default();
        let fetched = self.workflows.fetch_work_item(LEASE, ms(5_000), None, &any);
        soon(fetched).await.unwrap().expect("an activity is ready")
    }

    /// An instance whose first turn has scheduled an activity, and the activity's token.
    async fn at_work(&self, instance: &str) -> String {
        send(&self.workflows, start(instance)).await;
        let (_, token, _) = turn(&self.workflows).await;
        let (events, work) = (vec![started(instance, 1)], vec![activity(instance, 2)]);
        ack(&self.workflows, &token, 1, events, work, None).await.unwrap();
        self.work().await.1
    }
}

fn is_dead(outcome: Result<(), ProviderError>) -> bool {
    outcome.is_err_and(|error| !error.is_retryable() && error.message.contains("Invalid lock token"))
}

#[tokio::test]
async fn a_store_that_broke_says_why_and_since_when_until_it_is_opened_again() {
    let fixture = Fixture::new().await;
    let before = SystemClock::shared().now_ms();
    assert_eq!(fixture.workflows.health(), Health::Working);
    let closed = {
        let workflows = fixture.workflows.clone();
        tokio::spawn(async move { workflows.closed().await })
    };
    fixture.fill();
    let refused = fixture.workflows.enqueue_for_orchestrator(start("a"), None).await;
    assert!(refused.is_err_and(|error| error.is_retryable() && error.message.contains("No space left")));
    let Health::Broken(outage) = soon(closed).await.unwrap() else {
        panic!("it broke");
    };
    assert!(outage.why.contains("No space left"), "{outage:?}");
    assert!((before..=before + 60_000).contains(&outage.since_ms), "{outage:?}");
    assert!(fixture.workflows.is_closed() && !fixture.workflows.health().is_working());

    fixture.free();
    soon(fixture.workflows.reopen()).await.unwrap();
    assert!(!fixture.workflows.is_closed() && fixture.workflows.health().is_working());
    send(&fixture.workflows, start("a")).await;
    fixture.workflows.close().await.unwrap();
    assert_eq!(fixture.workflows.closed().await, Health::Closed);
}

#[tokio::test]
async fn tokens_from_before_are_dead_and_the_work_is_handed_out_again() {
    let fixture = Fixture::new().await;
    let worker = fixture.at_work("a").await;
    send(&fixture.workflows, start("b")).await;
    let (_, dispatcher, _) = turn(&fixture.workflows).await;
    fixture.fill();
    let lost = fixture.workflows.ack_work_item(&worker, Some(completed("a", 2))).await;
    assert!(lost.is_err_and(|error| error.is_retryable()));
    fixture.free();

    // An activity is handed out again, on the store that was opened again for this fetch.
    let (item, again, attempts) = fixture.work().await;
    assert!(matches!(item, WorkItem::ActivityExecute { .. }));
    assert_eq!(attempts, 2, "it was handed out before the store broke");
    let store = &fixture.workflows;
    assert!(is_dead(store.ack_work_item(&worker, Some(completed("a", 2))).await));
    assert!(is_dead(store.renew_work_item_lock(&worker, LEASE).await));
    assert!(is_dead(store.abandon_work_item(&worker, None, false).await));
    let events = vec![started("b", 1)];
    assert!(is_dead(
        ack(store, &dispatcher, 1, events.clone(), Vec::new(), None).await
    ));
    assert!(is_dead(store.renew_orchestration_item_lock(&dispatcher, LEASE).await));
    assert!(is_dead(
        store.abandon_orchestration_item(&dispatcher, None, false).await
    ));

    store.ack_work_item(&again, Some(completed("a", 2))).await.unwrap();
    let mut turns = Vec::new();
    for _ in 0..2 {
        let (item, token, _) = turn_within(store, ms(5_000)).await.unwrap();
        turns.push(item.instance.clone());
        let (execution, events) = match item.instance.as_str() {
            "b" => (1, events.clone()),
            _ => (1, Vec::new()),
        };
        ack(store, &token, execution, events, Vec::new(), Some("Completed"))
            .await
            .unwrap();
    }
    turns.sort();
    assert_eq!(turns, ["a", "b"]);
}

#[tokio::test]
async fn a_commit_that_was_on_its_way_when_the_store_broke_never_arrives() {
    let fixture = Fixture::new().await;
    send(&fixture.workflows, start("a")).await;
    let (_, token, _) = turn(&fixture.workflows).await;
    let mut late = fixture.gate().stop_next(Door::Commit);
    let acking = {
        let workflows = fixture.workflows.clone();
        let token = token.clone();
        tokio::spawn(async move { ack(&workflows, &token, 1, vec![started("a", 1)], Vec::new(), None).await })
    };
    late.came().await;
    fixture.fill();
    assert!(
        fixture
            .workflows
            .enqueue_for_orchestrator(start("b"), None)
            .await
            .is_err()
    );
    fixture.free();
    let (item, again, _) = turn_within(&fixture.workflows, ms(5_000)).await.unwrap();
    assert_eq!(item.instance, "a");
    late.go();
    assert!(soon(acking).await.unwrap().is_err());
    assert!(
        fixture.workflows.read("a").await.unwrap().is_empty(),
        "it wrote after the store was opened again"
    );
    ack(&fixture.workflows, &again, 1, vec![started("a", 1)], Vec::new(), None)
        .await
        .unwrap();
    assert_eq!(fixture.workflows.read("a").await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_large_turn_that_the_break_cut_in_two_is_finished_by_the_next_engine_alone() {
    // A turn with 300 activities takes several commits.
    let fixture = Fixture::with_limits(perennial_kv::Settings::CLOUD_LIMITS).await;
    send(&fixture.workflows, start("a")).await;
    let (_, token, _) = turn(&fixture.workflows).await;
    let gate = fixture.gate();
    let mut first = gate.stop_next(Door::Reply);
    let acking = {
        let workflows = fixture.workflows.clone();
        let work = (2..302).map(|id| activity("a", id)).collect();
        tokio::spawn(async move { ack(&workflows, &token, 1, vec![started("a", 1)], work, None).await })
    };
    first.came().await;
    let mut second = gate.stop_next(Door::Commit);
    first.go();
    second.came().await;
    fixture.fill();
    assert!(
        fixture
            .workflows
            .enqueue_for_orchestrator(start("b"), None)
            .await
            .is_err()
    );
    fixture.free();
    soon(fixture.workflows.reopen()).await.unwrap();
    second.go();
    // The turn was durable with its first commit, whatever its caller gets.
    soon(acking).await.unwrap().ok();
    assert_eq!(fixture.workflows.read("a").await.unwrap().len(), 1);
    let depths = fixture.workflows.get_queue_depths().await.unwrap();
    assert_eq!((depths.worker_queue, depths.orchestrator_queue), (300, 0));
}

#[tokio::test]
async fn a_fetch_that_waits_goes_on_with_the_next_engine() {
    let fixture = Fixture::new().await;
    let fetching = {
        let workflows = fixture.workflows.clone();
        tokio::spawn(async move { turn_within(&workflows, ms(30_000)).await })
    };
    fixture.fill();
    assert!(
        fixture
            .workflows
            .enqueue_for_orchestrator(start("lost"), None)
            .await
            .is_err()
    );
    fixture.free();
    soon(fixture.workflows.reopen()).await.unwrap();
    send(&fixture.workflows, start("a")).await;
    let (item, ..) = soon(fetching).await.unwrap().unwrap();
    assert_eq!(item.instance, "a");
}

#[tokio::test]
async fn a_fetch_without_a_store_finds_nothing_and_one_that_does_not_wait_says_why() {
    let fixture = Fixture::new().await;
    fixture.fill();
    assert!(
        fixture
            .workflows
            .enqueue_for_orchestrator(start("a"), None)
            .await
            .is_err()
    );
    assert!(turn_within(&fixture.workflows, ms(300)).await.is_none());
    let refused = fixture.workflows.fetch_orchestration_item(LEASE, NOW, None).await;
    assert!(refused.is_err_and(|error| error.is_retryable() && error.message.contains("No space left")));
}

#[tokio::test]
async fn a_store_that_was_closed_is_not_opened_again() {
    let fixture = Fixture::new().await;
    fixture.fill();
    assert!(
        fixture
            .workflows
            .enqueue_for_orchestrator(start("a"), None)
            .await
            .is_err()
    );
    assert!(
        fixture.workflows.close().await.is_err(),
        "unwritten commits are reported as lost"
    );
    fixture.free();
    assert!(
        fixture
            .workflows
            .enqueue_for_orchestrator(start("a"), None)
            .await
            .is_err()
    );
    assert!(fixture.workflows.reopen().await.is_err());
    assert_eq!(fixture.gates.lock().unwrap().len(), 1);
}

/// The runtime tries a turn's ack six times, then records the workflow as failed with six more tries.
const TRIES: usize = 6;

async fn outage_until(failed_acks: usize) {
    const WORKFLOWS: usize = 8;
    let fixture = Fixture::new().await;
    let failing = FailedAcks::after(20, fixture.workflows.clone(), fixture.disk.clone());
    let store = Arc::new(Interposed::new(failing));
    let step = |_: ActivityContext, input: String| async move { Ok(input) };
    let flow = |ctx: OrchestrationContext, name: String| async move {
        for number in 0..6 {
            ctx.schedule_activity("Step", number.to_string()).await?;
        }
        Ok(name)
    };
    let provider: Arc<dyn Provider> = store.clone();
    let activities = ActivityRegistry::builder().register("Step", step).build();
    let orchestrations = OrchestrationRegistry::builder().register("Flow", flow).build();
    let runtime = Runtime::start_with_store(Arc::clone(&provider), activities, orchestrations).await;
    let client = Client::new(provider);
    for number in 0..WORKFLOWS {
        let id = format!("flow-{number}");
        // A start with an unknown outcome is repeated; the runtime takes only one.
        while client
            .start_orchestration(&id, "Flow", number.to_string())
            .await
            .is_err()
        {
            pause(ms(10)).await;
        }
    }
    soon(store.reach(failed_acks)).await;
    fixture.free();
    for number in 0..WORKFLOWS {
        let ended = client
            .wait_for_orchestration(&format!("flow-{number}"), ms(60_000))
            .await;
        match ended.unwrap() {
            OrchestrationStatus::Completed { output, .. } => assert_eq!(output, number.to_string()),
            other => panic!("flow-{number} is {other:?}"),
        }
        let history = fixture.workflows.read(&format!("flow-{number}")).await.unwrap();
        let mut ids: Vec<u64> = history.iter().map(|event| event.event_id).collect();
        ids.dedup();
        assert_eq!(ids.len(), history.len());
        assert_eq!(
            history.len(),
            1 + 6 * 2 + 1,
            "an event is missing or was recorded twice"
        );
    }
    runtime.shutdown(None).await;
    fixture.workflows.close().await.unwrap();
}

#[tokio::test]
async fn no_workflow_fails_because_its_store_was_away() {
    // The store may be back at each of the runtime's attempts.
    for failed_acks in [1, 2, TRIES - 1, TRIES, TRIES + 1, 2 * TRIES] {
        outage_until(failed_acks).await;
    }
}

#[tokio::test]
async fn a_store_that_breaks_again_and_again_is_opened_again_each_time() {
    let fixture = Fixture::new().await;
    for round in 0..5 {
        fixture.fill();
        assert!(
            fixture
                .workflows
                .enqueue_for_orchestrator(start("lost"), None)
                .await
                .is_err()
        );
        fixture.free();
        let instance = format!("a-{round}");
        while fixture
            .workflows
            .enqueue_for_orchestrator(start(&instance), None)
            .await
            .is_err()
        {
            pause(ms(10)).await;
        }
    }
    assert_eq!(
        fixture.workflows.get_queue_depths().await.unwrap().orchestrator_queue,
        5
    );
}
