//! What the workflow histories of a batch record: the store's side of the proof.

use super::order::{Action, Batch, Step};
use super::workflows::{COMPENSATED, DELIVERED};
use crate::error::CliError;
use duroxide::providers::Provider;
use duroxide::{Event, EventKind};
use std::collections::{HashMap, HashSet};

/// What was found in the histories of a batch.
#[derive(Debug, Default)]
pub struct Recorded {
    /// The orders that have ended, and how.
    pub ended: HashMap<String, Ending>,
    /// The couriers whose workflows have ended.
    pub answered: HashSet<String>,
    /// Orders that have begun and not ended.
    pub in_flight: u32,
    /// Steps whose outcome is recorded, by name. None of them may ever run again.
    pub steps: HashSet<String>,
    /// Payments that failed and were attempted again.
    pub retries: u32,
}

/// How an order ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The goods are with the customer.
    Delivered,
    /// The courier refused, and payment and stock were put back.
    Compensated,
    /// The workflow failed, which no order should.
    Failed(String),
}

impl Ending {
    /// Reads the result of an order's workflow.
    pub fn of(completed: bool, output: &str) -> Self {
        match output {
            DELIVERED if completed => Self::Delivered,
            COMPENSATED if completed => Self::Compensated,
            _ => Self::Failed(output.to_owned()),
        }
    }
}

/// The last batch that was placed on this store, if any was.
pub async fn last_batch(store: &dyn Provider) -> Result<Option<Batch>, CliError> {
    let mut last = None;
    for number in 1.. {
        match placed(store, number).await? {
            Some(batch) => last = Some(batch),
            None => break,
        }
    }
    Ok(last)
}

/// Batch `number` as its workflow was started.
pub async fn placed(store: &dyn Provider, number: u32) -> Result<Option<Batch>, CliError> {
    let history = read(store, &Batch::instance(number)).await?;
    let input = history.iter().find_map(|event| match &event.kind {
        EventKind::OrchestrationStarted { input, .. } => Some(input),
        _ => None,
    });
    match input {
        None => Ok(None),
        Some(input) => serde_json::from_str(input)
            .map(Some)
            .map_err(|e| CliError::failed(&format!("read the input of `{}`", Batch::instance(number)), e)),
    }
}

/// Reads the histories of all orders of `batch`, of their shipping and of their couriers.
pub async fn scan(store: &dyn Provider, batch: Batch) -> Result<Recorded, CliError> {
    let mut recorded = Recorded::default();
    for order in batch.orders() {
        let (instance, shipping, courier) = (order.instance(), order.shipping(), order.courier());
        let (history, shipping, answer) =
            tokio::try_join!(read(store, &instance), read(store, &shipping), read(store, &courier))?;
        if history.is_empty() {
            continue;
        }
        for history in [&history, &shipping, &answer] {
            recorded.take_steps(history);
        }
        match ending(&history) {
            Some(ending) => {
                recorded.ended.insert(instance, ending);
            }
            None => recorded.in_flight += 1,
        }
        if ending(&answer).is_some() {
            recorded.answered.insert(courier);
        }
    }
    Ok(recorded)
}

/// Whether nothing is left to be done: all orders have ended, and the couriers of those that did not fail.
pub fn is_complete(batch: Batch, ended: &HashMap<String, Ending>, answered: &HashSet<String>) -> bool {
    let shipped = ended.values().filter(|ending| !matches!(ending, Ending::Failed(_)));
    ended.len() >= batch.orders as usize && answered.len() >= shipped.count()
}

impl Recorded {
    /// Whether nothing of the batch is left to be done.
    pub fn is_complete(&self, batch: Batch) -> bool {
        is_complete(batch, &self.ended, &self.answered)
    }

    fn take_steps(&mut self, history: &[Event]) {
        let mut scheduled: HashMap<u64, Step> = HashMap::new();
        for event in history {
            match &event.kind {
                EventKind::ActivityScheduled { input, .. } => {
                    if let Ok(step) = serde_json::from_str(input) {
                        scheduled.insert(event.event_id, step);
                    }
                }
                EventKind::ActivityCompleted { .. } | EventKind::ActivityFailed { .. } => {
                    let Some(step) = event.source_event_id.and_then(|id| scheduled.get(&id)) else {
                        continue;
                    };
                    self.steps.insert(step.to_string());
                    let failed = matches!(event.kind, EventKind::ActivityFailed { .. });
                    self.retries += u32::from(failed && step.action == Action::ChargePayment);
                }
                _ => {}
            }
        }
    }
}

fn ending(history: &[Event]) -> Option<Ending> {
    history.iter().rev().find_map(|event| match &event.kind {
        EventKind::OrchestrationCompleted { output } => Some(Ending::of(true, output)),
        EventKind::OrchestrationFailed { details } => Some(Ending::Failed(details.display_message())),
        _ => None,
    })
}

async fn read(store: &dyn Provider, instance: &str) -> Result<Vec<Event>, CliError> {
    store
        .read(instance)
        .await
        .map_err(|e| CliError::failed(&format!("read the history of `{instance}`"), e))
}
