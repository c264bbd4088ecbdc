//! The smallest run that still fails the same way.

use crate::config::Config;
use crate::fault::Rates;
use crate::member::Member;
use crate::run::{Outcome, run};

/// How many calls of the store all attempts together may make: minutes, not hours.
const CALLS: u64 = 600_000;

/// A violation without the names and numbers in it.
fn kind(violation: &str) -> String {
    let words = violation.split(|c: char| !c.is_ascii_alphabetic());
    let plain = words.filter(|word| word.len() > 3);
    plain.take(6).collect::<Vec<_>>().join(" ")
}

struct Shrinker {
    wanted: String,
    calls: u64,
}

impl Shrinker {
    fn fails(&mut self, config: &Config) -> Option<Outcome> {
        if self.calls > CALLS {
            return None;
        }
        let outcome = run(config, false);
        self.calls += outcome.calls;
        let same = outcome
            .violations
            .iter()
            .any(|violation| kind(violation) == self.wanted);
        same.then_some(outcome)
    }

    /// Leaves out what `without` can leave out: half of it, a quarter, finally one by one.
    fn leave_out(
        &mut self,
        config: &mut Config,
        count: impl Fn(&Config) -> usize,
        without: impl Fn(&mut Config, usize),
    ) {
        let mut size = count(config).div_ceil(2);
        while size > 0 {
            let mut end = count(config);
            while end > 0 {
                let begin = end.saturating_sub(size);
                let mut smaller = config.clone();
                (begin..end).rev().for_each(|at| without(&mut smaller, at));
                self.try_instead(config, smaller);
                end = begin;
            }
            size /= 2;
        }
    }
}

/// Parts of a run to simplify, one by one.
const SIMPLER: [fn(&mut Config); 5] = [
    |config| config.lag_ms = 0,
    |config| config.signal_faults = 0,
    |config| config.latency_ms = 0,
    |config| config.cold_reads = false,
    |config| config.flows.iter_mut().for_each(|flow| flow.start_ms = 0),
];

/// The same, of one process.
const SIMPLER_MEMBER: [fn(&mut Member); 7] = [
    |member| *member = Member::generalist(),
    |member| member.kills_ms.clear(),
    |member| member.freezes.clear(),
    |member| member.jumps.clear(),
    |member| member.bounces_ms.clear(),
    |member| member.start_ms = 0,
    |member| member.skew_ms = 0,
];

impl Shrinker {
    fn try_instead(&mut self, config: &mut Config, simpler: Config) {
        if simpler != *config && self.fails(&simpler).is_some() {
            *config = simpler;
        }
    }

    /// Fewer processes, with fewer events.
    fn calm(&mut self, config: &mut Config) {
        for member in (1..config.members.len()).rev() {
            let mut simpler = config.clone();
            simpler.members.remove(member);
            self.try_instead(config, simpler);
        }
        for change in SIMPLER {
            let mut simpler = config.clone();
            change(&mut simpler);
            self.try_instead(config, simpler);
        }
        for n in 0..config.members.len() {
            for change in SIMPLER_MEMBER {
                let mut simpler = config.clone();
                simpler.members.get_mut(n).map(change);
                self.try_instead(config, simpler);
            }
        }
    }
}

/// Removes processes, workflows, steps, faults, kills and jumps as long as the run fails the same way.
pub fn shrink(config: &Config) -> Config {
    let outcome = run(config, false);
    let Some(first) = outcome.violations.first() else {
        return config.clone();
    };
    let mut shrinker = Shrinker {
        wanted: kind(first),
        calls: 0,
    };
    let mut best = config.clone();
    // Faults that were drawn by chance are injected by the number of their call from now on.
    let mut fixed = config.clone();
    fixed.faults = outcome.faults;
    fixed.rates = Rates::default();
    if shrinker.fails(&fixed).is_some() {
        best = fixed;
    }
    for _ in 0..3 {
        let before = best.clone();
        shrinker.calm(&mut best);
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
