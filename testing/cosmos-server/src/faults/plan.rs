//! The rules in force, and what they have done.

use super::{Fault, Rule, When};
use crate::{Container, Kind};
use fastrand::Rng;
use parking_lot::Mutex;
use std::collections::HashMap;

/// The rules in force. Tests change them while the server runs.
#[derive(Debug, Default)]
pub struct Faults {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    rules: Vec<Armed>,
    seen: u64,
    seen_in: HashMap<Container, u64>,
}

#[derive(Debug)]
struct Armed {
    rule: Rule,
    chance: Rng,
    hits: u64,
}

impl Faults {
    /// Adds a rule. Of several that hit the same request the first added wins.
    pub fn add(&self, rule: Rule) {
        let seed = match rule.when {
            When::Chance { seed, .. } => seed,
            _ => 0,
        };
        let chance = Rng::with_seed(seed);
        self.state.lock().rules.push(Armed { rule, chance, hits: 0 });
    }

    /// Removes all rules and counts requests from 0 again.
    pub fn reset(&self) {
        *self.state.lock() = State::default();
    }

    /// Removes the rules of one container and counts its requests from 0 again.
    pub fn reset_in(&self, container: &Container) {
        let mut state = self.state.lock();
        state
            .rules
            .retain(|armed| armed.rule.container.as_ref() != Some(container));
        state.seen_in.remove(container);
    }

    /// How many document requests there were since the last reset.
    pub fn seen(&self) -> u64 {
        self.state.lock().seen
    }

    /// How many document requests of one container there were since the last reset.
    pub fn seen_in(&self, container: &Container) -> u64 {
        self.state.lock().seen_in.get(container).copied().unwrap_or_default()
    }

    /// How often the rules in force have hit.
    pub fn hits(&self) -> u64 {
        self.state.lock().rules.iter().map(|armed| armed.hits).sum()
    }

    /// How often the rules of one container have hit.
    pub fn hits_in(&self, container: &Container) -> u64 {
        let state = self.state.lock();
        let of_it = |armed: &&Armed| armed.rule.container.as_ref() == Some(container);
        state.rules.iter().filter(of_it).map(|armed| armed.hits).sum()
    }

    /// The fault of the next request.
    pub(crate) fn next(&self, kind: Kind, container: Option<&Container>) -> Option<Fault> {
        let mut state = self.state.lock();
        let (index, index_within) = state.count(kind, container);
        let mut hit = None;
        // Every rule draws, hit or not, so that its luck depends on the requests alone and not on other rules.
        for armed in &mut state.rules {
            let index = match armed.rule.container {
                Some(_) => index_within,
                None => index,
            };
            if armed.aims_at(kind, container, index) && hit.is_none() {
                armed.hits += 1;
                hit = Some(armed.rule.fault);
            }
        }
        hit
    }
}

impl State {
    /// The numbers of this request, overall and within its container.
    fn count(&mut self, kind: Kind, container: Option<&Container>) -> (u64, u64) {
        if !kind.is_document() {
            return (u64::MAX, u64::MAX);
        }
        let index = self.seen;
        self.seen += 1;
        let within = container.map_or(u64::MAX, |container| {
            let seen = self.seen_in.entry(container.clone()).or_default();
            *seen += 1;
            *seen - 1
        });
        (index, within)
    }
}

impl Armed {
    fn aims_at(&mut self, kind: Kind, container: Option<&Container>, index: u64) -> bool {
        let rule = &self.rule;
        let applies = rule.kinds.contains(&kind) && (rule.container.is_none() || rule.container.as_ref() == container);
        if !applies || rule.times.is_some_and(|times| self.hits >= times) {
            return false;
        }
        match rule.when {
            When::Always => true,
            When::At(at) => at == index,
            When::Chance { per_million, .. } => self.chance.u32(0..1_000_000) < per_million,
        }
    }
}
