//! The smallest run that still fails the same way.

use crate::config::Config;
use crate::fault::Rates;
use crate::run::{Outcome, run};

/// How often a run is tried at most.
const TRIES: usize = 2_000;

/// What a violation is about, without the names and numbers in it.
fn kind(violation: &str) -> String {
    let words = violation.split(|c: char| !c.is_ascii_alphabetic());
    let plain = words.filter(|word| word.len() > 3);
    plain.take(6).collect::<Vec<_>>().join(" ")
}

struct Shrinker {
    wanted: String,
    tries: usize,
}

impl Shrinker {
    fn fails(&mut self, config: &Config) -> Option<Outcome> {
        self.tries += 1;
        if self.tries > TRIES {
            return None;
        }
        let outcome = run(config, false);
        let same = outcome
            .violations
            .iter()
            .any(|violation| kind(violation) == self.wanted);
        same.then_some(outcome)
    }

    /// Leaves out, one by one, what `without` can leave out.
    fn leave_out(
        &mut self,
        config: &mut Config,
        count: impl Fn(&Config) -> usize,
        without: impl Fn(&mut Config, usize),
    ) {
        let mut at = count(config);
        while at > 0 {
            at -= 1;
            let mut smaller = config.clone();
            without(&mut smaller, at);
            if self.fails(&smaller).is_some() {
                *config = smaller;
            }
        }
    }
}

/// Takes away workflows, steps, faults, kills and jumps as long as the run fails the same way.
pub fn shrink(config: &Config) -> Config {
    let outcome = run(config, false);
    let Some(first) = outcome.violations.first() else {
        return config.clone();
    };
    let mut shrinker = Shrinker {
        wanted: kind(first),
        tries: 0,
    };
    let mut best = config.clone();
    // What went wrong by chance goes wrong by its number from now on.
    let mut fixed = config.clone();
    fixed.faults = outcome.faults;
    fixed.rates = Rates::default();
    if shrinker.fails(&fixed).is_some() {
        best = fixed;
    }
    for _ in 0..3 {
        let before = best.clone();
        shrinker.leave_out(
            &mut best,
            |c| c.flows.len(),
            |c, at| {
                c.flows.remove(at);
            },
        );
        shrinker.leave_out(
            &mut best,
            |c| c.kills_ms.len(),
            |c, at| {
                c.kills_ms.remove(at);
            },
        );
        shrinker.leave_out(
            &mut best,
            |c| c.bounces_ms.len(),
            |c, at| {
                c.bounces_ms.remove(at);
            },
        );
        shrinker.leave_out(
            &mut best,
            |c| c.jumps.len(),
            |c, at| {
                c.jumps.remove(at);
            },
        );
        shrinker.leave_out(
            &mut best,
            |c| c.faults.len(),
            |c, at| {
                if let Some(call) = c.faults.keys().nth(at).copied() {
                    c.faults.remove(&call);
                }
            },
        );
        for flow in 0..best.flows.len() {
            let steps = |c: &Config| c.flows.get(flow).map_or(0, |flow| flow.steps.len());
            shrinker.leave_out(&mut best, steps, |c, at| {
                if let Some(flow) = c.flows.get_mut(flow) {
                    flow.steps.remove(at);
                }
            });
        }
        if best == before {
            break;
        }
    }
    best
}
