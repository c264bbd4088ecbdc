//! The rules that a run can break.

use std::fmt;

/// A rule that must never be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// A start was acknowledged, and the instance is not there.
    LostStart,
    /// An instance did not end as it must.
    WrongResult,
    /// A message was acknowledged, and its workflow never got it.
    LostMessage,
    /// A message was got twice.
    RepeatedMessage,
    /// A message arrived that was never sent, or not in the order in which it was sent.
    StrangeMessage,
    /// A turn was acknowledged, and its events are not in the history as they were.
    LostTurn,
    /// The result of an activity was acknowledged or recorded, and is not in the history.
    LostActivity,
    /// An activity ran after its result was acknowledged or recorded.
    RepeatedEffect,
    /// A history records the result of an activity that never ran.
    MissingEffect,
    /// A history or a chain of executions has a gap.
    Gap,
    /// A history has two events of one number.
    RepeatedEvent,
    /// A history records two completions of one thing.
    RepeatedCompletion,
    /// An instance still runs though everything was to finish.
    StillRunning,
    /// Something is still queued though everything was to finish.
    StillQueued,
}

/// A rule that was broken, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// Where and how, for people.
    pub what: String,
}

impl Rule {
    /// This rule, broken.
    pub fn broken(self, what: impl Into<String>) -> Violation {
        Violation {
            rule: self,
            what: what.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.what)
    }
}
