//! Settings of the two sides of an inbox: plain data. The defaults suit almost every use.

use super::mutation::Mutation;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(60 * 60);

/// The largest message that either side takes: the owner holds a few at once in memory.
const MESSAGE_BYTES: usize = 16 << 20;

/// How a client sends messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingSettings {
    /// How long a message is tried for, from the moment at which it was given.
    pub deadline: Duration,
    /// How long one request may take before it is tried again.
    pub request_timeout: Duration,
    /// The largest message, in bytes.
    pub message_bytes: usize,
    /// How many messages may wait; those who bring more wait until there is room.
    pub queue: usize,
    /// How long messages may go out one after the other before the bell is rung: longer than most bursts take, so that those are
    /// worth one ring.
    pub ring_every: Duration,
    /// How long an incarnation is used. The owner refuses those that began 48 hours ago.
    pub lifetime: Duration,
    #[cfg(test)]
    pub(crate) mutation: Mutation,
}

impl OutgoingSettings {
    /// Whether there is this deliberate defect: never outside the tests of this crate.
    pub(crate) fn has(&self, mutation: Mutation) -> bool {
        #[cfg(test)]
        return self.mutation == mutation;
        #[cfg(not(test))]
        {
            let _ = mutation;
            false
        }
    }
}

impl Default for OutgoingSettings {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(60),
            request_timeout: Duration::from_secs(10),
            message_bytes: MESSAGE_BYTES,
            queue: 1024,
            ring_every: Duration::from_secs(5),
            lifetime: 24 * HOUR,
            #[cfg(test)]
            mutation: Mutation::None,
        }
    }
}

/// How the owner takes messages in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntakeSettings {
    /// The shortest time between two looks at the bell: while messages come.
    pub look_busy: Duration,
    /// The time between two looks when the last message came not long ago.
    pub look_recent: Duration,
    /// How long ago that is.
    pub recent_for: Duration,
    /// The time between two looks otherwise.
    pub look_idle: Duration,
    /// The inbox is listed after this time, whatever the bell says.
    pub list_every: Duration,
    /// How many clients' messages are applied at once.
    pub lanes: usize,
    /// The largest message that is applied, in bytes.
    pub message_bytes: usize,
    /// How long one request may take before it counts as failed.
    pub request_timeout: Duration,
    /// An incarnation that began longer ago than this and has no cursor is refused. Twice as long as an incarnation is used.
    pub refuse_after: Duration,
    /// How long a cursor is kept after its incarnation began: longer than `refuse_after` by far more than clocks differ.
    pub keep_cursors: Duration,
    /// How often old cursors are searched for.
    pub sweep_every: Duration,
    #[cfg(test)]
    pub(crate) mutation: Mutation,
}

impl IntakeSettings {
    /// Whether there is this deliberate defect: never outside the tests of this crate.
    pub(crate) fn has(&self, mutation: Mutation) -> bool {
        #[cfg(test)]
        return self.mutation == mutation;
        #[cfg(not(test))]
        {
            let _ = mutation;
            false
        }
    }
}

impl Default for IntakeSettings {
    fn default() -> Self {
        Self {
            look_busy: Duration::from_millis(250),
            look_recent: Duration::from_secs(1),
            recent_for: Duration::from_secs(60),
            look_idle: Duration::from_secs(5),
            list_every: Duration::from_secs(60),
            lanes: 32,
            message_bytes: MESSAGE_BYTES,
            request_timeout: Duration::from_secs(10),
            refuse_after: 48 * HOUR,
            keep_cursors: 72 * HOUR,
            sweep_every: HOUR,
            #[cfg(test)]
            mutation: Mutation::None,
        }
    }
}
