//! What is handed out: it is stored, due, complete, and can be replayed.

use super::Witness;
use super::items::{activity_of, brief};
use crate::claims::{self, Lease};
use crate::promise;
use duroxide::providers::{OrchestrationItem, WorkItem};
use duroxide::{Event, EventKind};
use futures::FutureExt;
use perennial_store::{Key, Partition, RecordId, ScanQuery};

impl Witness {
    /// Checks a turn that was handed out.
    pub fn turn_handed_out(&self, item: &OrchestrationItem, token: &str, attempt: u32, lease: Lease) {
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
        let stored = self.stored(instance, RecordId::of("msg")) + usize::from(self.has_inline(instance));
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

    /// Checks that the process can replay the turn.
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

    /// Checks that messages for the next execution come with its start. A process whose clock disagrees may have run the turn
    /// with the start meanwhile; then nothing comes of this one.
    fn check_start(&self, item: &OrchestrationItem) {
        let has_ended = |event: &Event| matches!(event.kind, EventKind::OrchestrationContinuedAsNew { .. });
        let is_start = |message: &WorkItem| matches!(message, WorkItem::ContinueAsNew { .. });
        if item.history.iter().any(has_ended) && !item.messages.iter().any(is_start) {
            let instance = &item.instance;
            let turned_at = self.scene().facts.lock().turned_at.get(instance).cloned();
            if turned_at.is_some_and(|wall| !claims::agree(&wall, &self.life)) {
                return;
            }
            self.scene().blame(format!(
                "{instance} was handed out without the start of its next execution"
            ));
        }
    }

    /// Checks an activity that was handed out.
    pub fn work_handed_out(&self, item: &WorkItem, token: &str, attempt: u32, lease: Lease) {
        let Some(activity) = activity_of(item) else { return };
        let (instance, execution, id) = &activity;
        self.life
            .trace(|| format!("work {instance}/{execution}/{id} attempt {attempt} token {token}"));
        if promise::is_pending(&self.life, &activity) {
            self.scene().blame(format!(
                "activity {id} of {instance}/{execution} was handed out again after an ack that is not durable yet"
            ));
        }
        if self.life.promises.lock().cancelled.contains(&activity) {
            self.scene().blame(format!(
                "activity {id} of {instance}/{execution} was handed out after a turn had cancelled it"
            ));
        }
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

    /// How many records an instance has under an id, read from the store.
    pub(super) fn stored(&self, instance: &str, under: RecordId) -> usize {
        let query = ScanQuery::under(Partition::new(format!("wf:{instance}")), under, 10_000).keys_only();
        let page = self.raw.scan(&query).now_or_never().and_then(Result::ok);
        page.map_or(0, |page| page.records.len())
    }

    /// Whether the head of an instance holds a message, read from the store.
    fn has_inline(&self, instance: &str) -> bool {
        let head = Key::new(Partition::new(format!("wf:{instance}")), RecordId::of("head"));
        let record = self.raw.get(&head).now_or_never().and_then(Result::ok).flatten();
        let head = record.and_then(|record| serde_json::from_slice::<serde_json::Value>(&record.body).ok());
        head.is_some_and(|head| head.get("enclosed").is_some())
    }

    /// Whether an instance was deleted, or the one that it is a nameless child of.
    pub(super) fn is_being_deleted(&self, instance: &str) -> bool {
        let facts = self.scene().facts.lock();
        let root = instance.split("::").next().unwrap_or(instance);
        facts.deleted.contains(instance) || facts.deleted.contains(root)
    }

    /// Whether another process may have taken over a turn of this one: then its messages may be gone.
    fn was_overtaken(&self, instance: &str) -> bool {
        let facts = self.scene().facts.lock();
        let held = facts.turn_claims.get(instance).map(|held| held.holder.number);
        let last = held.or_else(|| facts.turned_by.get(instance).copied());
        self.scene().config.is_shared() && last != Some(self.life.number)
    }
}
