//! Moments at which something happens by itself.

use perennial_store::Order;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// A hidden message becomes visible.
    QueuedMessage(Arc<str>, Order),
    /// An instance has waited long enough for more results.
    Coalesced(Arc<str>),
    /// A hidden activity becomes visible.
    QueuedActivity(Order),
    /// A lease runs out.
    Claim(super::ClaimId),
    /// A worker's hold on a session runs out.
    Session(Arc<str>),
}

/// Names an alarm, to cancel it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AlarmKey(u64, u64);

impl AlarmKey {
    /// When it rings.
    pub fn at_ms(self) -> u64 {
        self.0
    }
}

/// All alarms, earliest first.
#[derive(Default)]
pub struct Alarms {
    set: BTreeMap<AlarmKey, Alarm>,
    made: u64,
}

impl Alarms {
    /// Sets an alarm.
    pub fn set(&mut self, at_ms: u64, alarm: Alarm) -> AlarmKey {
        self.made += 1;
        let key = AlarmKey(at_ms, self.made);
        self.set.insert(key, alarm);
        key
    }

    /// Cancels an alarm; one that has rung already is fine.
    pub fn cancel(&mut self, key: AlarmKey) {
        self.set.remove(&key);
    }

    /// Takes the next alarm that has rung by now.
    pub fn ring(&mut self, now_ms: u64) -> Option<Alarm> {
        let entry = self.set.first_entry()?;
        (entry.key().0 <= now_ms).then(|| entry.remove())
    }

    /// How many alarms are set.
    #[cfg(feature = "testing")]
    pub fn len(&self) -> usize {
        self.set.len()
    }

    /// When the next alarm rings.
    pub fn next_ms(&self) -> Option<u64> {
        self.set.first_key_value().map(|(key, _)| key.0)
    }
}
