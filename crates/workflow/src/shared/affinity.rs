//! Affinity of instances: the process that committed the last turn has all of the instance in memory.

use super::Shared;
use crate::engine::Engine;
use crate::tuning::RECENT_TURN_MS;

/// Which process an instance is best served by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// This one.
    Here,
    /// Another one, which works on the store and is likely to poll for results of the instance soon.
    Elsewhere,
    /// None, as far as this process knows.
    Nowhere,
}

/// The affinity of an instance, by what this process last saw of it.
pub fn affinity_of(engine: &Engine, shared: &Shared, instance: &str) -> Affinity {
    let known = engine.cache.peek(instance);
    let Some(head) = known.as_ref().and_then(|snapshot| snapshot.head()) else {
        return Affinity::Nowhere;
    };
    let now_ms = engine.clock.now_ms();
    let recent = head.updated_ms.saturating_add(RECENT_TURN_MS) > now_ms;
    match &head.last_runner {
        Some(runner) if *runner == shared.owner => Affinity::Here,
        Some(runner) if recent && shared.members.takes_turns(runner, now_ms) => Affinity::Elsewhere,
        _ => Affinity::Nowhere,
    }
}
