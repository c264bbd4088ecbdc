//! A workflow that uses every operation of the engine, as a runtime would run it.

use crate::acks::Acks;
use duroxide::providers::{
    ExecutionMetadata, OrchestrationItem, Provider, ProviderAdmin, SessionFetchConfig, TagFilter, WorkItem,
};
use duroxide::{Event, EventKind};
use perennial_scenarios::calls::{self, activity, raised, routed, start};
use perennial_store::Clock;
use perennial_workflow::Workflows;
use std::time::Duration;

const ROOT: &str = "root";
const CHILD: &str = "root::child";
const POLL: Duration = Duration::from_millis(100);
const TIMER_MS: u64 = 400;

/// Runs workflows on a store.
#[derive(Clone)]
pub struct Runner {
    pub store: Workflows,
    pub clock: std::sync::Arc<dyn Clock>,
    /// The length of its leases.
    pub lease: Duration,
    /// How many values the root sets in its first turn.
    pub values: u64,
    /// The acks that it makes, with those of other runners of the same workflow.
    pub acks: std::sync::Arc<Acks>,
}

/// The name of a message in a history.
fn told(message: &WorkItem) -> String {
    match message {
        WorkItem::StartOrchestration { instance, .. } => format!("start {instance}"),
        WorkItem::ExternalRaised { data, .. } => data.clone(),
        WorkItem::ActivityCompleted { id, .. } => format!("result {id}"),
        WorkItem::TimerFired { .. } => "timer".to_owned(),
        other => format!("{other:?}"),
    }
}

/// The messages that the root receives in its life, except its start.
fn expected() -> Vec<String> {
    ["child is done", "result 10", "result 11", "result 12", "timer"]
        .map(str::to_owned)
        .to_vec()
}

fn heard(history: &[Event]) -> Vec<String> {
    let data = |event: &Event| match &event.kind {
        EventKind::QueueEventDelivered { data, .. } => Some(data.clone()),
        _ => None,
    };
    history.iter().filter_map(data).collect()
}

/// The same, sorted and without starts: one may come twice if the outcome of the first is unknown.
fn news(mut heard: Vec<String>) -> Vec<String> {
    heard.retain(|told| !told.starts_with("start"));
    heard.sort_unstable();
    heard
}

impl Runner {
    /// A whole life, from the start of the root to its deletion, and the beginning of another one.
    pub async fn live(&self) {
        self.start().await;
        self.run().await;
        self.delete().await;
        self.start().await;
        self.run().await;
    }

    pub async fn start(&self) {
        self.acks.forget();
        self.store.enqueue_for_orchestrator(start(ROOT), None).await.ok();
    }

    pub async fn delete(&self) {
        let both = [ROOT.to_owned(), CHILD.to_owned()];
        self.store.delete_instances_atomic(&both, false).await.ok();
    }

    /// Does the work there is, until the root has ended, or there is no root.
    pub async fn run(&self) {
        let mut quiet = 0;
        // The process that started it may not be done yet.
        while quiet < 20 {
            if self.turn().await | self.work().await {
                quiet = 0;
                continue;
            }
            match self.root().await {
                Some(status) if status == "Completed" => return,
                Some(_) => {}
                None => quiet += 1,
            }
        }
    }

    /// The status of the root, if it exists.
    pub async fn root(&self) -> Option<String> {
        self.store.get_instance_info(ROOT).await.ok().map(|info| info.status)
    }

    /// The messages that the root received and should not have, or did not receive.
    pub async fn verdict(&self) -> Result<(), String> {
        let heard = news(heard(&self.store.read(ROOT).await.unwrap()));
        match (heard == expected(), self.acks.repeated()) {
            (true, repeated) if repeated.is_empty() => Ok(()),
            (true, repeated) => Err(format!("handed out after they had ended: activities {repeated:?}")),
            (false, _) => Err(format!("the root heard {heard:?}")),
        }
    }

    /// Runs a turn, if there is one. The first one of each instance is given back at first.
    async fn turn(&self) -> bool {
        let fetched = self.store.fetch_orchestration_item(self.lease, POLL, None).await;
        let Ok(Some((item, token, attempt))) = fetched else {
            return false;
        };
        if attempt == 1 && item.history.is_empty() {
            self.store.abandon_orchestration_item(&token, None, false).await.ok();
            return true;
        }
        self.store.renew_orchestration_item_lock(&token, self.lease).await.ok();
        let reply = self.reply(&item);
        let (messages, metadata) = (reply.messages, metadata(&item.instance, reply.ended));
        let events = events(&item, reply.kinds);
        let ack = self
            .store
            .ack_orchestration_item(&token, 1, events, reply.work, messages, metadata, Vec::new());
        self.acks.make(ack).await.ok();
        true
    }

    /// Runs an activity, if there is one. The first one is given back at first.
    async fn work(&self) -> bool {
        let session = SessionFetchConfig {
            owner_id: "worker".to_owned(),
            lock_timeout: self.lease,
        };
        let tags = TagFilter::DefaultOnly;
        let fetched = self
            .store
            .fetch_work_item(self.lease, POLL, Some(&session), &tags)
            .await;
        let Ok(Some((item, token, attempt))) = fetched else {
            return false;
        };
        let WorkItem::ActivityExecute { instance, id, .. } = &item else {
            panic!("{item:?} is no activity");
        };
        self.acks.handed_out(*id);
        if attempt == 1 && *id == 10 {
            self.store.abandon_work_item(&token, None, false).await.ok();
            return true;
        }
        self.store.renew_work_item_lock(&token, self.lease).await.ok();
        let result = calls::completed(instance, *id);
        let ack = self.store.ack_work_item(&token, Some(result));
        if self.acks.make(ack).await.is_ok() {
            self.acks.ended(*id);
        }
        true
    }

    fn reply(&self, item: &OrchestrationItem) -> Reply {
        if item.instance == CHILD {
            return Reply {
                messages: vec![raised(ROOT, "child is done")],
                ended: true,
                ..Reply::default()
            };
        }
        let mut known = heard(&item.history);
        known.extend(item.messages.iter().map(told));
        Reply {
            ended: news(known) == expected(),
            ..if item.history.is_empty() {
                self.opening()
            } else {
                Reply::default()
            }
        }
    }

    /// The root's first turn.
    fn opening(&self) -> Reply {
        let set = |key| EventKind::KeyValueSet {
            key: format!("key {key}"),
            value: format!("value {key}"),
            last_updated_at_ms: 1,
        };
        let timer = WorkItem::TimerFired {
            instance: ROOT.to_owned(),
            execution_id: 1,
            id: 20,
            fire_at_ms: self.clock.now_ms() + TIMER_MS,
        };
        Reply {
            kinds: (0..self.values).map(set).collect(),
            work: vec![
                activity(ROOT, 10),
                routed(ROOT, 11, Some("session"), None),
                activity(ROOT, 12),
            ],
            messages: vec![start(CHILD), timer],
            ended: false,
        }
    }
}

/// The result of a turn.
#[derive(Default)]
struct Reply {
    kinds: Vec<EventKind>,
    work: Vec<WorkItem>,
    messages: Vec<WorkItem>,
    ended: bool,
}

/// The events of a turn: every message that it consumes, then what else happened.
fn events(item: &OrchestrationItem, kinds: Vec<EventKind>) -> Vec<Event> {
    let messages = item.messages.iter().map(|message| EventKind::QueueEventDelivered {
        name: "message".to_owned(),
        data: told(message),
    });
    let next = item.history.len() as u64 + 1;
    let event = |(kind, id)| Event::with_event_id(id, &item.instance, 1, None, kind);
    messages.chain(kinds).zip(next..).map(event).collect()
}

fn metadata(instance: &str, ended: bool) -> ExecutionMetadata {
    ExecutionMetadata {
        orchestration_name: Some("Flow".to_owned()),
        orchestration_version: Some("1.0.0".to_owned()),
        status: ended.then(|| "Completed".to_owned()),
        parent_instance_id: (instance == CHILD).then(|| ROOT.to_owned()),
        ..ExecutionMetadata::default()
    }
}
