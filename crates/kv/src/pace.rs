//! When the committer begins its next group.
//!
//! The callers of a group commit again shortly after it is durable. If the next sync began with the first of them, all the
//! others would wait for two syncs: that one and their own. So the committer waits a little for as many commits as the last
//! group had. A lone caller never waits, nor does a commit that comes later, nor any where syncs are short.

use std::time::{Duration, Instant};

/// The part of a sync for which the next group is waited for, at most. Longer than the callers need to come back if syncs are
/// what they spend their time on, and less than the second sync that it saves.
const SHARE: u32 = 2;

/// Syncs that are shorter than this are not worth the wait: waking up takes a good part of it.
const WORTHWHILE: Duration = Duration::from_micros(500);

/// What the last groups say of the next one.
#[derive(Default)]
pub(crate) struct Pace {
    /// How long a sync takes, as an average over the last ones.
    sync: Duration,
    last: Option<Last>,
}

/// The last group that was synced.
struct Last {
    ended: Instant,
    /// How many of its commits had a caller that waits, or a call.
    awaited: usize,
}

/// A group that is worth waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Until when.
    pub(crate) until: Instant,
    /// With this many commits it is complete.
    pub(crate) commits: usize,
}

impl Pace {
    /// A group with so many awaited commits was written and synced.
    pub(crate) fn synced(&mut self, began: Instant, ended: Instant, awaited: usize) {
        let took = ended.saturating_duration_since(began);
        self.sync = match self.last {
            None => took,
            Some(_) => (self.sync * 7 + took) / 8,
        };
        self.last = Some(Last { ended, awaited });
    }

    /// The group to wait for; `None` if none is expected.
    pub(crate) fn expected(&self) -> Option<Expected> {
        let last = self.last.as_ref().filter(|last| last.awaited > 1)?;
        if self.sync < WORTHWHILE {
            return None;
        }
        Some(Expected {
            until: last.ended + self.sync / SHARE,
            commits: last.awaited,
        })
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn nothing_is_waited_for_before_the_first_sync_or_after_a_lone_commit() {
        let mut pace = Pace::default();
        assert_eq!(pace.expected(), None);
        let began = Instant::now();
        pace.synced(began, began + 2 * MS, 1);
        assert_eq!(pace.expected(), None);
    }

    #[test]
    fn short_syncs_are_not_waited_for() {
        let mut pace = Pace::default();
        let began = Instant::now();
        pace.synced(began, began + MS / 4, 32);
        assert_eq!(pace.expected(), None);
    }

    #[test]
    fn as_many_commits_are_waited_for_as_the_last_group_had_for_half_a_sync() {
        let mut pace = Pace::default();
        let began = Instant::now();
        pace.synced(began, began + 2 * MS, 32);
        let expected = Expected {
            until: began + 3 * MS,
            commits: 32,
        };
        assert_eq!(pace.expected(), Some(expected));
    }

    #[test]
    fn one_slow_sync_does_not_change_the_pace_much() {
        let mut pace = Pace::default();
        let began = Instant::now();
        pace.synced(began, began + 2 * MS, 4);
        pace.synced(began, began + 82 * MS, 4);
        assert_eq!(pace.expected().unwrap().until, began + 82 * MS + 6 * MS);
    }
}
