//! The cases that are run, each kind in turn, and the results that they must have.

use perennial_crash::check::{Instance, Outcome};
use std::fmt;

/// A kind of workflow, with the calls that it needs from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// One activity.
    Hello,
    /// A sub-workflow, then an activity.
    Parent,
    /// Activities side by side, joined.
    Fan,
    /// A timer between two activities.
    Nap,
    /// An event raised once the workflow waits for it.
    Approve,
    /// Values and a status, written over a chain of executions.
    Notes,
    /// Activities of one session.
    Session,
    /// Messages of a queue, read over a chain of executions.
    Inbox,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::Hello,
        Self::Parent,
        Self::Fan,
        Self::Nap,
        Self::Approve,
        Self::Notes,
        Self::Session,
        Self::Inbox,
    ];

    /// The name of the workflow.
    pub fn workflow(self) -> &'static str {
        match self {
            Self::Hello => "Hello",
            Self::Parent => "Parent",
            Self::Fan => "Fan",
            Self::Nap => "Nap",
            Self::Approve => "Approve",
            Self::Notes => "Notes",
            Self::Session => "Session",
            Self::Inbox => "Inbox",
        }
    }

    /// The output that it must complete with.
    fn output(self) -> &'static str {
        match self {
            Self::Hello => "hello",
            Self::Parent => "hello+parent",
            Self::Fan => "0,1,2,3,4",
            Self::Nap => "before,after",
            Self::Approve => APPROVAL,
            Self::Notes => "round-1,round-3",
            Self::Session => "one,two",
            Self::Inbox => "m0,m1,m2,m3,m4",
        }
    }

    /// How many executions it must have.
    fn executions(self) -> usize {
        match self {
            // Two messages each; the last execution reads the rest.
            Self::Inbox | Self::Notes => 3,
            _ => 1,
        }
    }

    /// How many instances it has, with those that it starts itself.
    pub fn instances(self) -> usize {
        if self == Self::Parent { 2 } else { 1 }
    }
}

/// How many activities a fan has.
pub const FAN: u64 = 5;
/// The event that an approval waits for.
pub const EVENT: &str = "approval";
/// The payload of the event.
pub const APPROVAL: &str = "granted";
/// The queue that an inbox reads.
pub const QUEUE: &str = "inbox";
/// The messages that an inbox is sent, in this order; after the last it ends.
pub const MESSAGES: [&str; 5] = ["m0", "m1", "m2", "m3", "m4"];
/// How many values a case of notes writes, one per execution.
pub const NOTES: u64 = 3;

/// One workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Case {
    /// Which one.
    pub number: usize,
    /// Of what kind.
    pub kind: Kind,
}

impl Case {
    /// The first `count` cases: every kind in turn.
    pub fn first(count: usize) -> impl Iterator<Item = Self> {
        let kinds = Kind::ALL.into_iter().cycle();
        kinds
            .take(count)
            .enumerate()
            .map(|(number, kind)| Self { number, kind })
    }

    /// How the end of the case differs from the required one, if it does.
    pub fn flaw(self, found: &Instance) -> Option<String> {
        let expected = self.kind.output();
        let is_right = matches!(&found.outcome, Outcome::Completed(output) if output == expected)
            && found.executions.len() == self.kind.executions()
            && (self.kind != Kind::Notes || are_notes(found));
        let Instance {
            outcome,
            custom_status,
            values,
            executions,
        } = found;
        (!is_right).then(|| {
            format!(
                "{self} ended as {outcome:?} instead of {expected:?}, status {custom_status:?}, values {values:?}, \
                 executions {}",
                executions.len()
            )
        })
    }
}

fn are_notes(found: &Instance) -> bool {
    let values = found.values.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    values.eq([("round-1", "note 1"), ("round-3", "note 3")]) && found.custom_status.as_deref() == Some("round 3")
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.number, self.kind.workflow())
    }
}
