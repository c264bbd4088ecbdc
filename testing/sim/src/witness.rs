//! A provider that passes every call on, puts timers into simulated time, and writes down what it sees.

use crate::claims::{self, Lease};
use crate::facts::{Activity, Turn};
use crate::life::Life;
use crate::program::TIMER_UNIT_MS;
use crate::scene::Scene;
use async_trait::async_trait;
use duroxide::providers::{
    DispatcherCapabilityFilter, ExecutionMetadata, OrchestrationItem, Provider, ProviderError,
    ScheduledActivityIdentifier, SemverRange, SessionFetchConfig, TagFilter, WorkItem,
};
use duroxide::{Event, EventKind};
use futures::FutureExt;
use perennial_interpose::{Interpose, Interposed};
use perennial_store::{Clock, Key, Partition, RecordId, ScanQuery, Store, SystemClock};
use perennial_workflow::{Workflows, testing};
use std::sync::Arc;
use std::time::Duration;

/// A provider that is watched.
pub type Watched = Interposed<Witness>;

/// Watches the engine of one process.
pub struct Witness {
    inner: Workflows,
    /// The store without anything that goes wrong, to look past the engine.
    raw: Arc<dyn Store>,
    life: Arc<Life>,
    /// The versions of executions that the process can replay, if it cannot replay all.
    replays: Option<SemverRange>,
}

impl Witness {
    /// Wraps an engine.
    pub fn new(inner: Workflows, raw: Arc<dyn Store>, life: &Arc<Life>, replays: Option<SemverRange>) -> Arc<Watched> {
        Arc::new(Interposed::new(Self {
            inner,
            raw,
            life: Arc::clone(life),
            replays,
        }))
    }

    fn scene(&self) -> &Scene {
        &self.life.scene
    }

    /// How many records an instance has under an id, past the engine.
    fn stored(&self, instance: &str, under: RecordId) -> usize {
        let query = ScanQuery::under(Partition::new(format!("wf:{instance}")), under, 10_000).keys_only();
        let page = self.raw.scan(&query).now_or_never().and_then(Result::ok);
        page.map_or(0, |page| page.records.len())
    }

    /// Whether the head of an instance has a message in it, past the engine.
    fn is_one_enclosed(&self, instance: &str) -> bool {
        let head = Key::new(Partition::new(format!("wf:{instance}")), RecordId::of("head"));
        let record = self.raw.get(&head).now_or_never().and_then(Result::ok).flatten();
        let head = record.and_then(|record| serde_json::from_slice::<serde_json::Value>(&record.body).ok());
        head.is_some_and(|head| head.get("enclosed").is_some())
    }

    /// Something was just handed out: waits while the process is frozen, and tells since when its lease runs. `None` if that
    /// is over: then it is worth nothing by now, and says nothing of the engine.
    async fn leased(&self, lock: Duration) -> Option<u64> {
        let from_ms = self.life.now_ms();
        self.life.pass().await;
        let passed_ms = self.life.now_ms().saturating_sub(from_ms);
        (passed_ms < lock.as_millis() as u64).then_some(from_ms)
    }

    fn is_being_deleted(&self, instance: &str) -> bool {
        self.scene().facts.lock().deleted.contains(instance)
    }

    /// Whether another process may have taken over a turn of this one: then its messages may be gone.
    fn was_overtaken(&self, instance: &str) -> bool {
        let facts = self.scene().facts.lock();
        let held = facts.turn_claims.get(instance).map(|held| held.holder.number);
        let last = held.or_else(|| facts.turned_by.get(instance).copied());
        self.scene().config.is_shared() && last != Some(self.life.number)
    }

    fn turn_handed_out(&self, item: &OrchestrationItem, token: &str, attempt: u32, lease: Lease) {
        let kinds: Vec<String> = item.messages.iter().map(brief).collect();
        let (instance, execution) = (&item.instance, item.execution_id);
        self.life.trace(|| {
            format!(
                "turn {instance}/{execution} attempt {attempt} token {token}: {}",
                kinds.join(" ")
            )
        });
        self.check_version(item);
        self.check_start(item);
        claims::check_lease(&self.life, instance, lease.0);
        let stored = self.stored(instance, RecordId::of("msg")) + usize::from(self.is_one_enclosed(instance));
        if stored < item.messages.len() && !self.is_being_deleted(instance) && !self.was_overtaken(instance) {
            let count = item.messages.len();
            self.scene().blame(format!(
                "{count} messages of {instance} were handed out, {stored} are stored"
            ));
        }
        for message in &item.messages {
            if let WorkItem::TimerFired { fire_at_ms, id, .. } = message
                && *fire_at_ms > self.life.high_ms()
            {
                self.scene()
                    .blame(format!("timer {id} of {instance}/{execution} fired early"));
            }
        }
        let turn = claims::Handed {
            instance,
            number: (execution, item.history.len()),
            token,
            attempt,
        };
        claims::turn_handed_out(&self.life, &turn, lease);
    }

    /// What is for the next execution comes with its start.
    fn check_start(&self, item: &OrchestrationItem) {
        let has_ended = |event: &Event| matches!(event.kind, EventKind::OrchestrationContinuedAsNew { .. });
        let is_start = |message: &WorkItem| matches!(message, WorkItem::ContinueAsNew { .. });
        if item.history.iter().any(has_ended) && !item.messages.iter().any(is_start) {
            let instance = &item.instance;
            self.scene().blame(format!(
                "{instance} was handed out without the start of its next execution"
            ));
        }
    }

    /// A process is not given what it cannot replay.
    fn check_version(&self, item: &OrchestrationItem) {
        let started = |event: &&Event| matches!(event.kind, EventKind::OrchestrationStarted { .. });
        let pinned = item.history.iter().find(started);
        let version = pinned.and_then(|event| semver::Version::parse(&event.duroxide_version).ok());
        if let (Some(replays), Some(version)) = (&self.replays, version)
            && !replays.contains(&version)
        {
            let instance = &item.instance;
            self.scene().blame(format!(
                "{instance} of version {version} was handed to a process that replays up to {}",
                replays.max
            ));
        }
    }

    fn work_handed_out(&self, item: &WorkItem, token: &str, attempt: u32, lease: Lease) {
        let Some(activity) = activity_of(item) else { return };
        let (instance, execution, id) = &activity;
        self.life
            .trace(|| format!("work {instance}/{execution}/{id} attempt {attempt} token {token}"));
        let (was_stored, was_acked) = {
            let facts = self.scene().facts.lock();
            let acked = facts.results.get(&activity);
            (
                facts.scheduled.contains(&activity),
                acked.is_some_and(|wall| claims::agree(wall, &self.life)),
            )
        };
        if !was_stored {
            self.scene().blame(format!(
                "activity {id} of {instance}/{execution} was handed out before it was stored"
            ));
        }
        if was_acked {
            self.scene().blame(format!(
                "activity {id} of {instance}/{execution} was handed out again after its result was acknowledged"
            ));
        }
        claims::work_handed_out(&self.life, activity, token, attempt, lease);
    }

    fn mind_refusal(&self, token: &str, outcome: &Result<(), ProviderError>) {
        if outcome.as_ref().is_err_and(|why| !why.is_retryable()) {
            claims::refused(&self.life, token);
        }
    }

    /// Of a turn, one ack succeeds.
    fn turn_acknowledged(&self, turn: Turn, first_event: u64) {
        let place = (turn.0.clone(), turn.1, first_event);
        let mut facts = self.scene().facts.lock();
        facts.turns.push(turn);
        let is_first = facts.first_events.insert(place.clone());
        drop(facts);
        if !is_first {
            self.scene().blame(format!("the turn {place:?} was acknowledged twice"));
        }
    }

    /// What is cached must be what is stored.
    fn compare(&self, instance: &str) {
        let verdict = testing::compare_cached(&self.inner, &*self.raw, instance, false).now_or_never();
        if let Some(Err(why)) = verdict {
            self.scene().blame(why);
        }
    }
}

/// Tells an activity which event scheduled it, which its context does not: by its input.
fn tell(item: &mut WorkItem) {
    if let WorkItem::ActivityExecute { id, input, .. } = item {
        *input = format!("{id}|{input}");
    }
}

/// The event that scheduled an activity, and its input as the workflow gave it.
pub fn told(input: &str) -> Result<(u64, &str), String> {
    let (id, input) = input.split_once('|').ok_or("the activity was not told its id")?;
    Ok((id.parse().map_err(|_| "the id of the activity is not a number")?, input))
}

/// The runtime counts timers from the machine's clock; here they count from the simulated one.
fn rebase(items: &mut [WorkItem], now_ms: u64) {
    let machine_ms = SystemClock.now_ms();
    for item in items {
        if let WorkItem::TimerFired { fire_at_ms, .. } = item {
            let units = fire_at_ms.saturating_sub(machine_ms).div_ceil(TIMER_UNIT_MS);
            *fire_at_ms = now_ms + units * TIMER_UNIT_MS;
        }
    }
}

fn activity_of(item: &WorkItem) -> Option<Activity> {
    match item {
        WorkItem::ActivityExecute {
            instance,
            execution_id,
            id,
            ..
        }
        | WorkItem::ActivityCompleted {
            instance,
            execution_id,
            id,
            ..
        }
        | WorkItem::ActivityFailed {
            instance,
            execution_id,
            id,
            ..
        } => Some((instance.clone(), *execution_id, *id)),
        _ => None,
    }
}

/// A message in a word.
fn brief(item: &WorkItem) -> String {
    let text = format!("{item:?}");
    let name = text.split([' ', '{', '(']).next().unwrap_or_default().to_owned();
    match activity_of(item) {
        Some((_, _, id)) => format!("{name}({id})"),
        None => name,
    }
}

/// A turn as it must be found in the history.
fn turned(history_delta: &[Event]) -> Option<Turn> {
    let first = history_delta.first()?;
    let events = history_delta
        .iter()
        .map(|event| serde_json::to_string(event).unwrap_or_default());
    Some((first.instance_id.clone(), first.execution_id, events.collect()))
}

#[async_trait]
impl Interpose for Witness {
    fn inner(&self) -> &dyn Provider {
        &self.inner
    }

    async fn fetch_orchestration_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Option<(OrchestrationItem, String, u32)>, ProviderError> {
        self.life.pass().await;
        let fetched = self
            .inner
            .fetch_orchestration_item(lock_timeout, poll_timeout, filter)
            .await?;
        let from_ms = self.leased(lock_timeout).await;
        if let (Some((item, token, attempt)), Some(from_ms)) = (&fetched, from_ms) {
            self.turn_handed_out(item, token, *attempt, (from_ms, lock_timeout));
        }
        Ok(fetched)
    }

    async fn ack_orchestration_item(
        &self,
        lock_token: &str,
        execution_id: u64,
        history_delta: Vec<Event>,
        worker_items: Vec<WorkItem>,
        mut orchestrator_items: Vec<WorkItem>,
        metadata: ExecutionMetadata,
        cancelled_activities: Vec<ScheduledActivityIdentifier>,
    ) -> Result<(), ProviderError> {
        self.life.pass().await;
        rebase(&mut orchestrator_items, self.life.now_ms());
        let turn = turned(&history_delta);
        let first_event = history_delta.first().map_or(0, |event| event.event_id);
        let last_event = history_delta.last().map_or(0, |event| event.event_id);
        let instance = claims::acking_turn(&self.life, lock_token, true);
        let status = metadata.status.clone();
        let unseen = claims::Unseen::new(&self.life, lock_token);
        let outcome = self
            .inner
            .ack_orchestration_item(
                lock_token,
                execution_id,
                history_delta,
                worker_items,
                orchestrator_items,
                metadata,
                cancelled_activities,
            )
            .await;
        self.life.pass().await;
        unseen.seen();
        let events = turn.as_ref().map_or(0, |(_, _, events)| events.len());
        // Reading a long history after each of its turns would take most of the time.
        let is_cheap = last_event < 40 || last_event.is_multiple_of(5);
        self.life
            .trace(|| format!("ack turn {lock_token} {instance:?} {events} events {status:?}: {outcome:?}"));
        claims::acking_turn(&self.life, lock_token, false);
        self.mind_refusal(lock_token, &outcome);
        outcome?;
        if let Some(turn) = turn {
            self.turn_acknowledged(turn, first_event);
        }
        if let Some(instance) = instance {
            claims::turn_done(&self.life, &instance, lock_token);
            if is_cheap {
                self.compare(&instance);
            }
        }
        Ok(())
    }

    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        self.life.pass().await;
        claims::giving_back(&self.life, lock_token);
        let outcome = self
            .inner
            .abandon_orchestration_item(lock_token, delay, ignore_attempt)
            .await;
        self.life.trace(|| format!("abandon turn {lock_token}: {outcome:?}"));
        if outcome.is_ok() {
            claims::turn_given_back(&self.life, lock_token);
        }
        outcome
    }

    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Result<Option<(WorkItem, String, u32)>, ProviderError> {
        self.life.pass().await;
        let mut fetched = self
            .inner
            .fetch_work_item(lock_timeout, poll_timeout, session, tag_filter)
            .await?;
        let from_ms = self.leased(lock_timeout).await;
        if let Some((item, token, attempt)) = &mut fetched {
            if let Some(from_ms) = from_ms {
                self.work_handed_out(item, token, *attempt, (from_ms, lock_timeout));
            }
            tell(item);
        }
        Ok(fetched)
    }

    async fn ack_work_item(&self, token: &str, completion: Option<WorkItem>) -> Result<(), ProviderError> {
        self.life.pass().await;
        let result = completion.as_ref().and_then(activity_of);
        claims::acking_work(&self.life, token, true);
        let unseen = claims::Unseen::new(&self.life, token);
        let outcome = self.inner.ack_work_item(token, completion).await;
        self.life.pass().await;
        unseen.seen();
        self.life.trace(|| format!("ack work {token} {result:?}: {outcome:?}"));
        claims::acking_work(&self.life, token, false);
        self.mind_refusal(token, &outcome);
        outcome?;
        claims::work_done(&self.life, token);
        if let Some(activity) = result {
            let wall = Arc::clone(&self.life.wall);
            let before = self.scene().facts.lock().results.insert(activity.clone(), wall);
            if before.is_some() {
                self.scene()
                    .blame(format!("activity {activity:?} was acknowledged twice"));
            }
        }
        Ok(())
    }

    async fn renew_work_item_lock(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
        self.life.pass().await;
        let from_ms = self.life.now_ms();
        let outcome = self.inner.renew_work_item_lock(token, extend_for).await;
        self.life.pass().await;
        claims::work_renewed(&self.life, token, from_ms, extend_for, outcome.is_ok());
        outcome
    }

    async fn abandon_work_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        self.life.pass().await;
        claims::giving_back(&self.life, token);
        let outcome = self.inner.abandon_work_item(token, delay, ignore_attempt).await;
        self.life.trace(|| format!("abandon work {token}: {outcome:?}"));
        if outcome.is_ok() {
            claims::work_given_back(&self.life, token, ignore_attempt);
        }
        outcome
    }

    async fn renew_orchestration_item_lock(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
        self.life.pass().await;
        let from_ms = self.life.now_ms();
        let outcome = self.inner.renew_orchestration_item_lock(token, extend_for).await;
        self.life.pass().await;
        claims::turn_renewed(&self.life, token, from_ms, extend_for, outcome.is_ok());
        outcome
    }
}
