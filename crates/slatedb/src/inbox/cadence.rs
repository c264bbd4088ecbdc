//! When the owner looks at the bell, and when it lists the inbox whatever the bell says.

use super::settings::IntakeSettings;
use std::time::Duration;

fn later(at_ms: u64, by: Duration) -> u64 {
    at_ms.saturating_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX))
}

/// What a look showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Nothing that is new.
    Nothing,
    /// Something must be tried again.
    Unfinished,
    /// Messages came.
    Messages,
}

/// The times of an owner's looks. It looks at once when it takes over.
#[derive(Debug, Default)]
pub(crate) struct Cadence {
    looked_ms: Option<u64>,
    /// When the inbox was last listed, counted from the beginning of the request.
    listed_ms: Option<u64>,
    /// When a look last found messages, or something was to be tried again.
    found_ms: Option<u64>,
    /// Whether the last look found messages.
    is_busy: bool,
}

impl Cadence {
    /// When to look next.
    pub(crate) fn next_look_ms(&self, settings: &IntakeSettings) -> u64 {
        let Some(looked_ms) = self.looked_ms else { return 0 };
        let is_recent = self
            .found_ms
            .is_some_and(|found_ms| looked_ms < later(found_ms, settings.recent_for));
        let pause = match (self.is_busy, is_recent) {
            (true, _) => settings.look_busy,
            (false, true) => settings.look_recent,
            (false, false) => settings.look_idle,
        };
        later(looked_ms, pause)
    }

    /// When the inbox must be listed.
    pub(crate) fn next_list_ms(&self, settings: &IntakeSettings) -> u64 {
        self.listed_ms
            .map_or(0, |listed_ms| later(listed_ms, settings.list_every))
    }

    /// A look began at this time.
    pub(crate) fn looked(&mut self, began_ms: u64, seen: Seen) {
        self.looked_ms = Some(began_ms);
        self.is_busy = seen == Seen::Messages;
        if seen != Seen::Nothing {
            self.found_ms = Some(began_ms);
        }
    }

    /// A listing that succeeded began at this time.
    pub(crate) fn listed(&mut self, began_ms: u64) {
        self.listed_ms = Some(began_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_rare_when_nothing_comes() {
        let settings = IntakeSettings::default();
        let mut cadence = Cadence::default();
        assert_eq!(
            (cadence.next_look_ms(&settings), cadence.next_list_ms(&settings)),
            (0, 0)
        );
        cadence.looked(1_000, Seen::Nothing);
        assert_eq!(cadence.next_look_ms(&settings), 6_000);
        cadence.looked(6_000, Seen::Messages);
        assert_eq!(cadence.next_look_ms(&settings), 6_250);
        cadence.looked(6_250, Seen::Nothing);
        assert_eq!(cadence.next_look_ms(&settings), 7_250);
        cadence.looked(7_250, Seen::Unfinished);
        assert_eq!(cadence.next_look_ms(&settings), 8_250);
        cadence.looked(67_249, Seen::Nothing);
        assert_eq!(cadence.next_look_ms(&settings), 68_249);
        cadence.looked(67_250, Seen::Nothing);
        assert_eq!(cadence.next_look_ms(&settings), 72_250);
        cadence.listed(66_000);
        assert_eq!(cadence.next_list_ms(&settings), 126_000);
    }
}
