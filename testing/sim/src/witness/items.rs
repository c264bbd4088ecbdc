//! Work items as the simulator reads and changes them.

use crate::facts::{Activity, Turn};
use crate::program::TIMER_UNIT_MS;
use duroxide::Event;
use duroxide::providers::WorkItem;
use perennial_store::{Clock, SystemClock};

/// Adds the id of the event that scheduled an activity to its input: the activity's context does not have it.
pub fn add_id(item: &mut WorkItem) {
    if let WorkItem::ActivityExecute { id, input, .. } = item {
        *input = format!("{id}|{input}");
    }
}

/// The id of the event that scheduled an activity, and its input as the workflow gave it.
pub fn split_id(input: &str) -> Result<(u64, &str), String> {
    let (id, input) = input.split_once('|').ok_or("the input of the activity has no id")?;
    Ok((id.parse().map_err(|_| "the id of the activity is not a number")?, input))
}

/// Moves timers from the machine's clock, by which the runtime sets them, to the simulated one.
pub fn rebase(items: &mut [WorkItem], now_ms: u64) {
    let machine_ms = SystemClock.now_ms();
    for item in items {
        if let WorkItem::TimerFired { fire_at_ms, .. } = item {
            let units = fire_at_ms.saturating_sub(machine_ms).div_ceil(TIMER_UNIT_MS);
            *fire_at_ms = now_ms + units * TIMER_UNIT_MS;
        }
    }
}

/// The activity that an item is about.
pub fn activity_of(item: &WorkItem) -> Option<Activity> {
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
pub fn brief(item: &WorkItem) -> String {
    let text = format!("{item:?}");
    let name = text.split([' ', '{', '(']).next().unwrap_or_default().to_owned();
    match activity_of(item) {
        Some((_, _, id)) => format!("{name}({id})"),
        None => name,
    }
}

/// A turn as it must be found in the history.
pub fn turned(history_delta: &[Event]) -> Option<Turn> {
    let first = history_delta.first()?;
    let events = history_delta
        .iter()
        .map(|event| serde_json::to_string(event).unwrap_or_default());
    Some((first.instance_id.clone(), first.execution_id, events.collect()))
}
