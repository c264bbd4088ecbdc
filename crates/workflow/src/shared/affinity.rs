//! Where an instance is at home: in the process that committed its last turn, and has all of it in memory.

use super::Shared;
use crate::engine::Engine;

/// How long after a turn its process looks for results so often that it is worth waiting for.
const RECENT_MS: u64 = 2_000;

/// Where an instance is at home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// In this process.
    Here,
    /// In another one, which works on the store and is likely to look for results of the instance soon.
    Elsewhere,
    /// Nowhere, as far as this process knows.
    Nowhere,
}

/// Where an instance is at home, by what this process last saw of it.
pub fn affinity_of(engine: &Engine, shared: &Shared, instance: &str) -> Affinity {
    let known = engine.cache.peek(instance);
    let Some(head) = known.as_ref().and_then(|snapshot| snapshot.head()) else {
        return Affinity::Nowhere;
    };
    let now_ms = engine.clock.now_ms();
    let recent = head.updated_ms.saturating_add(RECENT_MS) > now_ms;
    match &head.last_runner {
        Some(home) if *home == shared.owner => Affinity::Here,
        Some(home) if recent && shared.members.takes_turns(home, now_ms) => Affinity::Elsewhere,
        _ => Affinity::Nowhere,
    }
}
