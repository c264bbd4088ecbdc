//! A provider that forwards every call, moves timers to simulated time, and records what it observes.

mod handed_out;
mod items;

pub use items::split_id;

use crate::claims;
use crate::facts::Activity;
use crate::life::Life;
use crate::promise::{self, Promise};
use crate::scene::Scene;
use async_trait::async_trait;
use duroxide::Event;
use duroxide::providers::{
    DispatcherCapabilityFilter, ExecutionMetadata, OrchestrationItem, Provider, ProviderError,
    ScheduledActivityIdentifier, SemverRange, SessionFetchConfig, TagFilter, WorkItem,
};
use futures::FutureExt;
use perennial_interpose::{Interpose, Interposed};
use perennial_store::{Clock, RecordId, Store};
use perennial_workflow::{Workflows, testing};
use std::sync::Arc;
use std::time::Duration;

/// An observed provider.
pub type Watched = Interposed<Witness>;

/// A lease that nothing depends on.
const SHORT: Duration = Duration::from_millis(1);

/// Observes the engine of one process.
pub struct Witness {
    inner: Workflows,
    /// The store without faults, to check the engine against.
    raw: Arc<dyn Store>,
    life: Arc<Life>,
    /// The versions of executions that the process can replay, if not all.
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

    /// Work was just handed out: waits while the process is frozen, and returns when its lease began. `None` if the lease has
    /// expired meanwhile: then it is worthless, and says nothing of the engine.
    async fn leased(&self, lock: Duration) -> Option<u64> {
        let from_ms = self.life.now_ms();
        self.life.pass().await;
        let passed_ms = self.life.now_ms().saturating_sub(from_ms);
        (passed_ms < lock.as_millis() as u64).then_some(from_ms)
    }

    fn note_refusal(&self, token: &str, outcome: &Result<(), ProviderError>) {
        if outcome.as_ref().is_err_and(|why| !why.is_retryable()) {
            claims::refused(&self.life, token);
        }
    }

    /// Checks that a token is dead once its ack has returned.
    fn check_dead(&self, token: &str, renewed: &Result<(), ProviderError>) {
        if renewed.is_ok() {
            self.scene().blame(format!("{token} was renewed after its ack"));
        }
    }

    /// A turn has cancelled activities, and scheduled others.
    fn note_cancelled(&self, cancelled: Vec<Activity>, scheduled: &[Activity]) {
        let mut promises = self.life.promises.lock();
        promises.cancelled.extend(cancelled);
        for activity in scheduled {
            promises.cancelled.remove(activity);
        }
    }

    /// Whether the store of this process alone still has an activity that a worker holds.
    fn is_running(&self, token: &str) -> bool {
        if self.scene().config.is_shared() {
            return false;
        }
        // A lease that ran out by a clock that was put back since has run out.
        let high_ms = self.life.high_ms();
        let held = {
            let facts = self.scene().facts.lock();
            let mut held = facts.work_claims.iter();
            let held = held.find(|(_, held)| held.token == token && held.until_ms > high_ms && !held.acking);
            held.map(|(activity, _)| activity.clone())
        };
        held.is_some_and(|(instance, execution, id)| {
            // After a deletion, records under this name belong to another instance.
            !self.is_being_deleted(&instance)
                && self.stored(&instance, RecordId::of("work").number(execution).number(id)) > 0
        })
    }

    /// Checks that the cache agrees with the store.
    fn compare(&self, instance: &str) {
        let verdict = testing::compare_cached(&self.inner, &*self.raw, instance, false).now_or_never();
        if let Some(Err(why)) = verdict {
            self.scene().blame(why);
        }
    }
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
        items::rebase(&mut orchestrator_items, self.life.now_ms());
        let turn = items::turned(&history_delta);
        let first_event = history_delta.first().map_or(0, |event| event.event_id);
        let last_event = history_delta.last().map_or(0, |event| event.event_id);
        let instance = claims::acking_turn(&self.life, lock_token, true);
        let status = metadata.status.clone();
        let unseen = claims::Unseen::new(&self.life, lock_token);
        let scheduled: Vec<Activity> = worker_items.iter().filter_map(items::activity_of).collect();
        let cancelled = cancelled_activities.iter();
        let cancelled = cancelled.map(|one| (one.instance.clone(), one.execution_id, one.activity_id));
        let cancelled: Vec<Activity> = cancelled.collect();
        let acking = self.inner.ack_orchestration_item(
            lock_token,
            execution_id,
            history_delta,
            worker_items,
            orchestrator_items,
            metadata,
            cancelled_activities,
        );
        let (outcome, ordered) = promise::ack(acking).await;
        if outcome.is_ok() && !self.scene().config.is_shared() {
            self.note_cancelled(cancelled, &scheduled);
            let renewed = self.inner.renew_orchestration_item_lock(lock_token, SHORT).await;
            self.check_dead(lock_token, &renewed);
        }
        self.life.pass().await;
        unseen.seen();
        let events = turn.as_ref().map_or(0, |(_, _, events)| events.len());
        // Reading a long history after each of its turns would take most of the time.
        let is_cheap = last_event < 40 || last_event.is_multiple_of(5);
        self.life
            .trace(|| format!("ack turn {lock_token} {instance:?} {events} events {status:?}: {outcome:?}"));
        claims::acking_turn(&self.life, lock_token, false);
        self.note_refusal(lock_token, &outcome);
        outcome?;
        if let Some(turn) = turn {
            promise::given(&self.life, ordered, Promise::Turn(turn, first_event));
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
            items::add_id(item);
        }
        Ok(fetched)
    }

    async fn ack_work_item(&self, token: &str, completion: Option<WorkItem>) -> Result<(), ProviderError> {
        self.life.pass().await;
        let result = completion.as_ref().and_then(items::activity_of);
        claims::acking_work(&self.life, token, true);
        let unseen = claims::Unseen::new(&self.life, token);
        let (outcome, ordered) = promise::ack(self.inner.ack_work_item(token, completion)).await;
        if outcome.is_ok() && !self.scene().config.is_shared() {
            let renewed = self.inner.renew_work_item_lock(token, SHORT).await;
            self.check_dead(token, &renewed);
        }
        self.life.pass().await;
        unseen.seen();
        self.life.trace(|| format!("ack work {token} {result:?}: {outcome:?}"));
        claims::acking_work(&self.life, token, false);
        self.note_refusal(token, &outcome);
        outcome?;
        claims::work_done(&self.life, token);
        if let Some(activity) = result {
            promise::given(&self.life, ordered, Promise::Result(activity));
        }
        Ok(())
    }

    async fn renew_work_item_lock(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
        self.life.pass().await;
        let from_ms = self.life.now_ms();
        let outcome = self.inner.renew_work_item_lock(token, extend_for).await;
        if outcome.is_err() && self.is_running(token) {
            self.scene()
                .blame(format!("{token} was cancelled before that was durable"));
        }
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
