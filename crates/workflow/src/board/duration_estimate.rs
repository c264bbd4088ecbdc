//! How long activities take here: workers with short activities will be back soon.

use super::{Claim, Inner, Subject};
use crate::tuning::{ACTIVITIES_AHEAD, SHORT_ACTIVITY_MS};
use std::collections::HashMap;
use std::sync::Arc;

/// How long recent activities took; longer ones are remembered for longer.
#[derive(Default)]
pub struct DurationEstimate {
    typical_ms: Option<f64>,
}

impl DurationEstimate {
    /// Adds the duration of an activity that has ended.
    pub fn ended(&mut self, took_ms: u64) {
        let took_ms = took_ms as f64;
        self.typical_ms = Some(
            self.typical_ms
                .map_or(took_ms, |typical| (typical * 3.0 + took_ms) / 4.0),
        );
    }

    fn is_quick(&self) -> bool {
        self.typical_ms
            .is_some_and(|typical| typical <= SHORT_ACTIVITY_MS as f64)
    }
}

impl Inner {
    /// How many activities of each tag could be claimed for busy workers: they will be back soon.
    pub fn workers_soon(&self, now_ms: u64) -> HashMap<Option<Arc<str>>, usize> {
        let mut soon = HashMap::new();
        if !self.duration_estimate.is_quick() {
            return soon;
        }
        let is_short = |claim: &&Claim| claim.committing || now_ms.saturating_sub(claim.since_ms) <= SHORT_ACTIVITY_MS;
        for claim in self.claims.values().filter(is_short) {
            let Subject::Work { order } = claim.subject else {
                continue;
            };
            let queued = self
                .work
                .activity(order)
                .filter(|queued| queued.activity.session.is_none());
            if let Some(queued) = queued {
                *soon.entry(queued.activity.tag.clone()).or_default() += ACTIVITIES_AHEAD;
            }
        }
        for queued in self.work.reserved() {
            if let Some(soon) = soon.get_mut(&queued.activity.tag) {
                *soon = soon.saturating_sub(1);
            }
        }
        soon
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_activity_is_remembered_longer_than_a_short_one() {
        let mut duration_estimate = DurationEstimate::default();
        assert!(!duration_estimate.is_quick(), "nothing is known");
        duration_estimate.ended(1);
        assert!(duration_estimate.is_quick());
        duration_estimate.ended(1_000);
        for _ in 0..5 {
            duration_estimate.ended(1);
            assert!(!duration_estimate.is_quick());
        }
        for _ in 0..20 {
            duration_estimate.ended(1);
        }
        assert!(duration_estimate.is_quick());
    }
}
