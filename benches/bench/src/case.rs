//! Cases: workloads that run on a target, and how they are measured.

use crate::Workload;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Dispatcher slots of the runtime: how many turns and how many activities run at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Slots {
    /// Workflow turns at once.
    pub turns: usize,
    /// Activities at once.
    pub activities: usize,
}

impl fmt::Display for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.turns, self.activities)
    }
}

impl FromStr for Slots {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let slots = text.split_once('+').and_then(|(turns, activities)| {
            Some(Self {
                turns: turns.trim().parse().ok()?,
                activities: activities.trim().parse().ok()?,
            })
        });
        slots
            .filter(|s| s.turns > 0 && s.activities > 0)
            .ok_or_else(|| format!("`{text}` is not of the form TURNS+ACTIVITIES, such as 2+2"))
    }
}

/// When a workflow counts as finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wait {
    /// When its last commit is durable, as the store's own [`Waiter`](crate::Waiter) reports it; where there is none, when
    /// the provider has acknowledged that commit.
    Commit,
    /// When duroxide's client sees it, polling at 5 to 100 ms.
    Client,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Commit => {
                "from the start call until the workflow's last commit is durable (sqlite: until it is acknowledged)"
            }
            Self::Client => "from the start call until duroxide's client, polling at 5 to 100 ms, sees the result",
        })
    }
}

/// One line of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// The workload.
    pub workload: Workload,
    /// On how many dispatcher slots.
    pub slots: Slots,
    /// By how many clients, each starting its next workflow when its last one has finished.
    pub clients: usize,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.clients == 1 { "" } else { "s" };
        write!(
            f,
            "{}, {} client{plural}, {} slots",
            self.workload.name(),
            self.clients,
            self.slots
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_read_as_they_are_written() {
        let slots: Slots = "2+32".parse().unwrap();
        assert_eq!((slots.turns, slots.activities), (2, 32));
        assert_eq!(slots.to_string(), "2+32");
        for wrong in ["2", "2+", "+2", "0+1", "a+b", "2-2"] {
            assert!(wrong.parse::<Slots>().is_err(), "{wrong}");
        }
    }
}
