//! A provider that forwards every call, moves timers to simulated time, and records what it observes.

mod handed_out;
mod items;

pub use items::split_id;

use crate::claims;
use crate::facts::Turn;
use crate::life::Life;
use crate::scene::Scene;
use async_trait::async_trait;
use duroxide::Event;
use duroxide::providers::{
    DispatcherCapabilityFilter, ExecutionMetadata, OrchestrationItem, Provider, ProviderError,
    ScheduledActivityIdentifier, SemverRange, SessionFetchConfig, TagFilter, WorkItem,
};
use futures::FutureExt;
use perennial_interpose::{Interpose, Interposed};
use perennial_store::{Clock, Store};
use perennial_workflow::{Workflows, testing};
use std::sync::Arc;
use std::time::Duration;

/// An observed provider.
pub type Watched = Interposed<Witness>;

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

    /// Checks that one ack of a turn succeeds.
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
        self.note_refusal(lock_token, &outcome);
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
            items::add_id(item);
        }
        Ok(fetched)
    }

    async fn ack_work_item(&self, token: &str, completion: Option<WorkItem>) -> Result<(), ProviderError> {
        self.life.pass().await;
        let result = completion.as_ref().and_then(items::activity_of);
        claims::acking_work(&self.life, token, true);
        let unseen = claims::Unseen::new(&self.life, token);
        let outcome = self.inner.ack_work_item(token, completion).await;
        self.life.pass().await;
        unseen.seen();
        self.life.trace(|| format!("ack work {token} {result:?}: {outcome:?}"));
        claims::acking_work(&self.life, token, false);
        self.note_refusal(token, &outcome);
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
