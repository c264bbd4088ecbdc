//! The clients: starts, events, messages, cancellations, deletions; each repeated until it is acknowledged.

use crate::clock::pause;
use crate::hub::{Hub, Port};
use crate::program::{Ending, Fate, Flow};
use crate::scene::Scene;
use crate::workflow::{NAME, QUEUE, script_of};
use duroxide::providers::{InstanceFilter, ProviderError, PruneOptions};
use duroxide::{Event, EventKind};
use futures::future::join_all;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long a client waits before it tries again, at first and at most.
const GLANCE_MS: (u64, u64) = (200, 20_000);

/// The clients.
pub struct Driver {
    scene: Arc<Scene>,
    hub: Arc<Hub>,
}

impl Driver {
    /// The processes that the clients live in.
    pub fn new(scene: Arc<Scene>, hub: Arc<Hub>) -> Self {
        Self { scene, hub }
    }

    /// Calls the process in which the clients of an instance live.
    async fn ask<T, E: std::fmt::Debug>(
        &self,
        instance: &str,
        question: impl AsyncFnOnce(&Port) -> Result<T, E>,
    ) -> Result<T, String> {
        let port = self.hub.port(home(instance)).await;
        let answer = port.within(question(&port)).await;
        let answer = answer.ok_or("the process died before it answered")?;
        answer.map_err(|why| format!("{why:?}"))
    }

    /// Drives every workflow to its end.
    pub async fn run(&self) {
        join_all(self.scene.config.flows.iter().map(|flow| self.flow(flow))).await;
    }

    async fn flow(&self, flow: &Flow) {
        if self.scene.facts.lock().finished.contains(&flow.name) {
            return;
        }
        let wait_ms = flow.start_ms.saturating_sub(self.scene.time.now_ms());
        if wait_ms > 0 {
            pause(wait_ms).await;
        }
        let input = script_of(flow.steps.clone()).unwrap_or_default();
        self.call(&flow.name, "start", async |port, _| {
            port.client.start_orchestration(&flow.name, NAME, input.clone()).await
        })
        .await;
        for number in 0..flow.messages() {
            let send = async |port: &Port, attempt: u32| {
                let message = format!("{number}.{attempt}.{}", port.sender());
                port.client.enqueue_event(&flow.name, QUEUE, message).await
            };
            self.call(&flow.name, &format!("message {number}"), send).await;
        }
        for (event, execution) in flow.events() {
            if !self.acked(&flow.name, &event) {
                self.until_waiting(&flow.name, &event, execution).await;
            }
            self.call(&flow.name, &event, async |port, _| {
                port.client.raise_event(&flow.name, &event, &event).await
            })
            .await;
        }
        self.ending(flow).await;
        self.scene.facts.lock().finished.insert(flow.name.clone());
        self.scene.trace(|| format!("finished {}", flow.name));
    }

    async fn ending(&self, flow: &Flow) {
        let name = flow.name.as_str();
        match flow.ending {
            Ending::Cancel | Ending::ForceDelete => {
                self.until_lingering(name).await;
                if let Some(child) = flow.lingering_child() {
                    self.until_lingering(child).await;
                }
            }
            Ending::Prune => {
                self.prune(name, "prune early").await;
            }
            Ending::Stay | Ending::Delete => {}
        }
        if flow.ending == Ending::Cancel {
            self.call(name, "cancel", async |port, _| {
                port.client.cancel_instance(name, "enough").await
            })
            .await;
        }
        let fates = flow.fates();
        if flow.ending == Ending::ForceDelete {
            self.delete(name, &fates, true).await;
        }
        for (instance, fate) in &fates {
            self.until_ended(instance).await;
            if !fate.deleted {
                self.check_fate(instance, fate).await;
            }
        }
        match flow.ending {
            Ending::Delete if flow.steps.len().is_multiple_of(2) => self.delete_in_bulk(name, &fates).await,
            Ending::Delete => self.delete(name, &fates, false).await,
            Ending::Prune => self.prune(name, "prune late").await,
            Ending::Stay | Ending::Cancel | Ending::ForceDelete => {}
        }
    }

    /// Deletes a workflow with all that it has started and awaited.
    async fn delete(&self, name: &str, fates: &BTreeMap<String, Fate>, force: bool) {
        let gone = fates
            .iter()
            .filter(|(_, fate)| fate.deleted)
            .map(|(name, _)| name.clone());
        self.scene.facts.lock().deleted.extend(gone);
        self.call(name, "delete", async |port, _| {
            port.client.delete_instance(name, force).await
        })
        .await;
    }

    /// The same, as one of many that pass a filter.
    async fn delete_in_bulk(&self, name: &str, fates: &BTreeMap<String, Fate>) {
        let gone = fates
            .iter()
            .filter(|(_, fate)| fate.deleted)
            .map(|(name, _)| name.clone());
        self.scene.facts.lock().deleted.extend(gone);
        let filter = || InstanceFilter {
            instance_ids: Some(vec![name.to_owned()]),
            ..InstanceFilter::default()
        };
        self.call(name, "delete", async |port, attempt| {
            let deleted = port.client.delete_instance_bulk(filter()).await;
            let deleted = deleted.map_err(|why| format!("{why:?}"))?.instances_deleted;
            // A process that has just begun may not see yet that the instance has ended; or the instance was gone before.
            match deleted > 0 || attempt > self.doubts() {
                true => Ok(()),
                false => Err("nothing was deleted".to_owned()),
            }
        })
        .await;
    }

    async fn prune(&self, name: &str, call: &str) {
        let options = || PruneOptions {
            keep_last: Some(1),
            ..PruneOptions::default()
        };
        self.call(name, call, async |port, _| {
            port.client.prune_executions(name, options()).await
        })
        .await;
    }

    fn acked(&self, instance: &str, call: &str) -> bool {
        let name = (instance.to_owned(), call.to_owned());
        self.scene.facts.lock().acked.contains(&name)
    }

    /// Repeats a call until it is acknowledged, unless an earlier process did.
    async fn call<T, E: std::fmt::Debug>(
        &self,
        instance: &str,
        call: &str,
        make: impl AsyncFn(&Port, u32) -> Result<T, E>,
    ) {
        let name = (instance.to_owned(), call.to_owned());
        for round in 0_u64.. {
            let attempt = {
                let mut facts = self.scene.facts.lock();
                if facts.acked.contains(&name) {
                    return;
                }
                let tried = facts.tried.entry(name.clone()).or_default();
                *tried += 1;
                *tried
            };
            self.scene
                .trace(|| format!("client {instance} {call} attempt {attempt}"));
            let outcome = self.ask(instance, async |port| make(port, attempt).await).await;
            match outcome {
                Ok(_) => {
                    self.scene.facts.lock().acked.insert(name.clone());
                    return;
                }
                // A deletion or pruning that was made and not acknowledged finds nothing the second time.
                Err(why) if attempt > self.doubts() && why.contains("NotFound") => {
                    self.scene.facts.lock().acked.insert(name.clone());
                    return;
                }
                Err(why) => self.scene.trace(|| format!("client {instance} {call}: {why}")),
            }
            pause((1_000 * (round + 1)).min(GLANCE_MS.1)).await;
        }
    }

    /// How often a repeated call must find nothing before that is believed: a process that has just begun may read old data.
    fn doubts(&self) -> u32 {
        match self.scene.config.lag_ms {
            0 => 1,
            _ => 4,
        }
    }

    /// Waits until an instance of this execution waits for an event, or is beyond it.
    async fn until_waiting(&self, instance: &str, event: &str, execution: u64) {
        let waits = |kind: &EventKind| matches!(kind, EventKind::ExternalSubscribed { name } if name == event);
        self.until(instance, |history| {
            let beyond = history.last().is_some_and(|last| last.execution_id > execution);
            beyond || ended(history) || history.iter().any(|event| waits(&event.kind))
        })
        .await;
    }

    /// Waits until an instance lingers, has ended, or is gone.
    async fn until_lingering(&self, instance: &str) {
        let lingers = |kind: &EventKind| matches!(kind, EventKind::ActivityScheduled { name, .. } if name == "Linger");
        let gone = self.scene.facts.lock().deleted.contains(instance);
        if !gone {
            self.until(instance, |history| {
                ended(history) || history.iter().any(|event| lingers(&event.kind))
            })
            .await;
        }
    }

    async fn until_ended(&self, instance: &str) {
        let deletion = self.scene.facts.lock().deleted.contains(instance);
        if !deletion {
            self.until(instance, ended).await;
        }
    }

    async fn until(&self, instance: &str, enough: impl Fn(&[Event]) -> bool) {
        let mut wait_ms = GLANCE_MS.0;
        loop {
            let history = self
                .ask(instance, async |port| port.provider.read(instance).await)
                .await;
            if history.is_ok_and(|history| enough(&history)) {
                return;
            }
            pause(wait_ms).await;
            wait_ms = (wait_ms * 2).min(GLANCE_MS.1);
        }
    }

    /// Whether an instance has the expected result.
    async fn check_fate(&self, instance: &str, fate: &Fate) {
        let mut wait_ms = GLANCE_MS.0;
        loop {
            match self.ask(instance, async |port| fate_of(port, instance).await).await {
                // Before a slow commit returns, one reader may see it and the next may not.
                Ok(seen) if seen != *fate && wait_ms < GLANCE_MS.1 => pause(wait_ms).await,
                Ok(seen) => {
                    if seen != *fate {
                        self.scene
                            .blame(format!("{instance} came out as {seen:?}, and must as {fate:?}"));
                    }
                    return;
                }
                Err(why) => {
                    self.scene
                        .trace(|| format!("client {instance} asks for its fate: {why}"));
                    pause(wait_ms).await;
                }
            }
            wait_ms = (wait_ms * 2).min(GLANCE_MS.1);
        }
    }
}

/// The result of an instance that has ended.
async fn fate_of(port: &Port, instance: &str) -> Result<Fate, ProviderError> {
    let history = port.provider.read(instance).await?;
    let values = port.provider.get_kv_all_values(instance).await?;
    let status = port.provider.get_custom_status(instance, 0).await?;
    let result = match end_of(&history) {
        Some(EventKind::OrchestrationCompleted { output }) => Some(Ok(output.clone())),
        Some(EventKind::OrchestrationFailed { details }) => match details {
            duroxide::ErrorDetails::Application {
                kind: duroxide::AppErrorKind::Cancelled { .. },
                ..
            } => None,
            duroxide::ErrorDetails::Application { message, .. } => Some(Err(message.clone())),
            other => Some(Err(format!("{other:?}"))),
        },
        _ => Some(Err("the history has no end".to_owned())),
    };
    Ok(Fate {
        result,
        values: values.into_iter().collect(),
        status: status.and_then(|(status, _)| status),
        deleted: false,
    })
}

fn ended(history: &[Event]) -> bool {
    end_of(history).is_some()
}

/// The event that ended an instance. Requests to cancel what it had under way may follow it.
fn end_of(history: &[Event]) -> Option<&EventKind> {
    let ends = |kind: &EventKind| {
        matches!(
            kind,
            EventKind::OrchestrationCompleted { .. } | EventKind::OrchestrationFailed { .. }
        )
    };
    history.iter().map(|event| &event.kind).find(|kind| ends(kind))
}

/// The process in which the clients of an instance live.
fn home(instance: &str) -> usize {
    let root = instance.split('-').next().unwrap_or(instance);
    root.bytes().map(usize::from).sum()
}
