//! The cases that the victim runs: generations, each with one case of each kind.

use std::fmt;

/// A kind of workflow, with the calls that it needs from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// An activity that fails twice before it succeeds.
    Retry,
    /// Activities side by side, joined.
    Fan,
    /// A timer between two activities.
    Nap,
    /// An activity against a timer.
    Race,
    /// Two sub-workflows.
    Parent,
    /// Events raised once the workflow waits for them.
    Approve,
    /// Messages of a queue, read over a chain of executions.
    Inbox,
    /// Values and a status, written over a chain of executions.
    Notes,
    /// A workflow with a child and a running activity, cancelled.
    Cancel,
    /// A start without a waiting caller.
    Detach,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 10] = [
        Self::Retry,
        Self::Fan,
        Self::Nap,
        Self::Race,
        Self::Parent,
        Self::Approve,
        Self::Inbox,
        Self::Notes,
        Self::Cancel,
        Self::Detach,
    ];

    /// The name of the workflow that a case of this kind starts.
    pub fn workflow(self) -> &'static str {
        match self {
            Self::Retry => "Retry",
            Self::Fan => "Fan",
            Self::Nap => "Nap",
            Self::Race => "Race",
            Self::Parent => "Parent",
            Self::Approve => "Approve",
            Self::Inbox => "Inbox",
            Self::Notes => "Notes",
            Self::Cancel => "Cancel",
            Self::Detach => "Detach",
        }
    }
}

/// One workflow of one generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Case {
    /// The generation.
    pub generation: u32,
    /// The kind.
    pub kind: Kind,
}

impl Case {
    /// The cases of a generation.
    pub fn of(generation: u32) -> impl Iterator<Item = Self> {
        Kind::ALL.into_iter().map(move |kind| Self { generation, kind })
    }

    /// The instance of this case: the same in every process.
    pub fn instance(self) -> String {
        self.to_string()
    }

    /// The case that an instance belongs to; `None` for instances that workflows started.
    pub fn parse(instance: &str) -> Option<Self> {
        let (generation, name) = instance.strip_prefix('g')?.split_once('-')?;
        let kind = Kind::ALL.into_iter().find(|kind| kind.workflow() == name)?;
        Some(Self {
            generation: generation.parse().ok()?,
            kind,
        })
    }

    /// Whether the cancellation waits until the workflow and its child are in the middle of their work; otherwise it
    /// comes right after its first turn.
    pub fn cancels_late(self) -> bool {
        self.generation.is_multiple_of(2)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "g{}-{}", self.generation, self.kind.workflow())
    }
}

/// The instance that a workflow starts under a name of its own.
pub fn named_child(instance: &str) -> String {
    format!("{instance}-named")
}

/// The call that starts a workflow.
pub const START: &str = "start";
/// The call that cancels a workflow.
pub const CANCEL: &str = "cancel";
/// The message after which an inbox reads no more.
pub const END: &str = "end";
/// The events that an approval waits for, one after the other.
pub const APPROVALS: [&str; 2] = ["first", "second"];
/// The queue that an inbox reads.
pub const QUEUE: &str = "inbox";
/// The messages that an inbox is sent, in this order.
pub const MESSAGES: [&str; 5] = ["m0", "m1", "m2", "m3", "m4"];
/// How many values a case of notes writes, one per execution.
pub const NOTES: u64 = 3;
/// How many activities a fan has.
pub const FAN: u64 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_found_by_its_instance() {
        for case in Case::of(17) {
            assert_eq!(Case::parse(&case.instance()), Some(case));
            assert_eq!(Case::parse(&named_child(&case.instance())), None);
        }
    }
}
