//! The hands of a scenario: open a store, run programs on it, start workflows, wait for what must come.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::providers::{Provider, ProviderAdmin};
use duroxide::runtime::{OrchestrationStatus, Runtime};
use duroxide::{Client, ErrorDetails, Event, EventKind};
use parking_lot::Mutex;

use crate::{Backend, Program};

/// How long a scenario waits for something that must happen.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// How long a whole scenario may take before it counts as hung.
const SCENARIO_LIMIT: Duration = Duration::from_secs(120);

/// A runtime that the harness started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node(usize);

/// One store under test, with the runtimes that a scenario runs on it.
pub struct Harness {
    backend: Box<dyn Backend>,
    store: Mutex<Option<Arc<dyn Provider>>>,
    runtimes: Mutex<Vec<Option<Arc<Runtime>>>>,
}

impl Harness {
    /// Opens a fresh store of `backend`.
    pub async fn new(backend: impl Backend + 'static) -> Self {
        let store = backend.open().await;
        Self {
            backend: Box::new(backend),
            store: Mutex::new(Some(store)),
            runtimes: Mutex::new(Vec::new()),
        }
    }

    /// Runs one scenario on a fresh store, and stops what it started.
    pub async fn run(backend: impl Backend + 'static, scenario: impl AsyncFnOnce(&Self)) {
        let limit = SCENARIO_LIMIT * backend.slowness();
        let harness = Self::new(backend).await;
        let done = tokio::time::timeout(limit, scenario(&harness)).await;
        assert!(done.is_ok(), "the scenario did not end within {limit:?}");
        harness.stop_all().await;
    }

    /// The provider of the store as it is open now.
    pub fn store(&self) -> Arc<dyn Provider> {
        Arc::clone(self.store.lock().as_ref().expect("the store is open"))
    }

    /// A client of the store as it is open now. Do not keep it over a restart.
    pub fn client(&self) -> Client {
        Client::new(self.store())
    }

    /// The store's own planting hooks.
    pub fn backend(&self) -> &dyn Backend {
        self.backend.as_ref()
    }

    /// Starts a runtime that runs `program` on the store.
    pub async fn runtime(&self, program: Program) -> Node {
        let (activities, workflows, options) = program.into_parts();
        let runtime = Runtime::start_with_options(self.store(), activities, workflows, options).await;
        let mut runtimes = self.runtimes.lock();
        runtimes.push(Some(runtime));
        Node(runtimes.len() - 1)
    }

    /// Stops a runtime, giving its current work a moment to finish.
    pub async fn stop(&self, node: Node) {
        self.shut_down(node, 1_000).await;
    }

    /// Stops a runtime at once: its current work is dropped.
    pub async fn kill(&self, node: Node) {
        self.shut_down(node, 0).await;
    }

    async fn shut_down(&self, node: Node, grace_ms: u64) {
        let runtime = self.runtimes.lock().get_mut(node.0).and_then(Option::take);
        runtime.expect("the runtime runs").shutdown(Some(grace_ms)).await;
    }

    /// Stops every runtime that still runs.
    pub async fn stop_all(&self) {
        let running: Vec<_> = self.runtimes.lock().iter_mut().filter_map(Option::take).collect();
        for runtime in running {
            runtime.shutdown(Some(0)).await;
        }
    }

    /// Stops all runtimes, closes the store cleanly, and opens it again.
    pub async fn restart(&self) {
        self.stop_all().await;
        drop(self.store.lock().take());
        let store = self.backend.restart().await;
        *self.store.lock() = Some(store);
    }

    /// Stops all runtimes, lets the store die without a close, and opens what it left.
    pub async fn crash_and_reopen(&self) {
        self.stop_all().await;
        drop(self.store.lock().take());
        let store = self.backend.crash().await;
        *self.store.lock() = Some(store);
    }

    /// Starts a workflow.
    pub async fn start(&self, instance: &str, workflow: &str, input: &str) {
        let started = self.client().start_orchestration(instance, workflow, input).await;
        started.unwrap_or_else(|error| panic!("start of {instance:?} failed: {error}"));
    }

    /// Starts a workflow in a given version.
    pub async fn start_version(&self, instance: &str, workflow: &str, version: &str, input: &str) {
        let started = self
            .client()
            .start_orchestration_versioned(instance, workflow, version, input)
            .await;
        started.unwrap_or_else(|error| panic!("start of {instance:?} {version} failed: {error}"));
    }

    /// Raises an event.
    pub async fn raise(&self, instance: &str, event: &str, data: &str) {
        let raised = self.client().raise_event(instance, event, data).await;
        raised.unwrap_or_else(|error| panic!("event {event:?} for {instance:?} failed: {error}"));
    }

    /// Puts a message into a queue of an instance.
    pub async fn enqueue(&self, instance: &str, queue: &str, data: &str) {
        let sent = self.client().enqueue_event(instance, queue, data).await;
        sent.unwrap_or_else(|error| panic!("message for {queue:?} of {instance:?} failed: {error}"));
    }

    /// Requests the cancellation of an instance.
    pub async fn cancel(&self, instance: &str, reason: &str) {
        let asked = self.client().cancel_instance(instance, reason).await;
        asked.unwrap_or_else(|error| panic!("cancel of {instance:?} failed: {error}"));
    }

    /// The status of an instance now.
    pub async fn status(&self, instance: &str) -> OrchestrationStatus {
        self.client().get_orchestration_status(instance).await.expect("status")
    }

    /// Waits for an instance to end, one way or the other.
    pub async fn ended(&self, instance: &str) -> OrchestrationStatus {
        self.ended_within(instance, TIMEOUT * self.backend.slowness()).await
    }

    /// Waits for an instance to end, for as long as it is given.
    pub async fn ended_within(&self, instance: &str, timeout: Duration) -> OrchestrationStatus {
        match self.client().wait_for_orchestration(instance, timeout).await {
            Ok(status) => status,
            Err(error) => {
                let history = self.kinds(instance).await;
                let last = &history[history.len().saturating_sub(12)..];
                let events = history.len();
                panic!("{instance:?} did not end in {timeout:?} ({error}); its last of {events} events: {last:?}")
            }
        }
    }

    /// Waits for an instance to complete, and returns its output.
    pub async fn output(&self, instance: &str) -> String {
        match self.ended(instance).await {
            OrchestrationStatus::Completed { output, .. } => output,
            other => panic!("{instance:?} should have completed, but is {other:?}"),
        }
    }

    /// Waits for an instance to fail, and returns why.
    pub async fn failure(&self, instance: &str) -> ErrorDetails {
        match self.ended(instance).await {
            OrchestrationStatus::Failed { details, .. } => details,
            other => panic!("{instance:?} should have failed, but is {other:?}"),
        }
    }

    /// Waits until `ready` says yes; `what` names it if it never does.
    pub async fn until<F>(&self, what: &str, mut ready: impl FnMut() -> F)
    where
        F: Future<Output = bool>,
    {
        let deadline = Instant::now() + TIMEOUT;
        while !ready().await {
            assert!(Instant::now() < deadline, "waited {TIMEOUT:?} in vain until {what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until the history of the current execution of an instance holds an event like this.
    pub async fn until_event(&self, instance: &str, like: impl Fn(&EventKind) -> bool) {
        self.until(&format!("{instance:?} has the event"), || async {
            self.history(instance).await.iter().any(|event| like(&event.kind))
        })
        .await;
    }

    /// Waits until an instance has subscribed `count` times to events of this name.
    pub async fn until_waiting(&self, instance: &str, name: &str, count: usize) {
        self.until(&format!("{instance:?} waits for {name:?}"), || async {
            let subscribed = |event: &&Event| match &event.kind {
                EventKind::ExternalSubscribed { name: n } | EventKind::QueueSubscribed { name: n } => n == name,
                _ => false,
            };
            self.history(instance).await.iter().filter(subscribed).count() >= count
        })
        .await;
    }

    /// The history of the current execution.
    pub async fn history(&self, instance: &str) -> Vec<Event> {
        self.store().read(instance).await.expect("history")
    }

    /// The kinds of events in the history of the current execution, in order, by name.
    pub async fn kinds(&self, instance: &str) -> Vec<String> {
        let kind = |event: &Event| {
            let value = serde_json::to_value(&event.kind).expect("an event is JSON");
            value.get("type").and_then(|t| t.as_str()).unwrap_or("?").to_owned()
        };
        self.history(instance).await.iter().map(kind).collect()
    }

    /// Calls `body` with the administration side of the provider.
    pub async fn admin<T>(&self, body: impl AsyncFnOnce(&dyn ProviderAdmin) -> T) -> T {
        let store = self.store();
        body(store.as_management_capability().expect("the store can be administered")).await
    }
}
