//! The lanes of messages and activities.

use perennial_store::Lane;
use std::borrow::Cow;
use std::sync::Arc;

/// The queue of messages, on a store that belongs to one process.
pub const TURN: &str = "turn";
/// The queue of activities, on a store that belongs to one process; its topics are the runtime's tags.
pub const WORK: &str = "work";
/// The queue of everything, on a shared store.
pub const READY: &str = "ready";
/// Messages to instances that do not exist wait here, on a shared store, for a start.
pub const PARKED: Lane = Lane::new("parked");

/// How the lanes are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneLayout {
    /// One lane for messages and one for activities.
    Split,
    /// One lane for everything, so that one query finds all ready work; its topics say what it is.
    Combined,
}

impl LaneLayout {
    /// The lane of messages.
    pub fn turn(self) -> Lane {
        match self {
            Self::Split => Lane::new(TURN),
            Self::Combined => Lane::topic(READY, Some(Arc::from(TURN))),
        }
    }

    /// The lane of activities with this tag.
    pub fn work(self, tag: Option<&Arc<str>>) -> Lane {
        match self {
            Self::Split => Lane {
                name: Cow::Borrowed(WORK),
                topic: tag.cloned(),
            },
            Self::Combined => Lane::topic(READY, Some(work_topic(tag.map(|tag| &**tag)))),
        }
    }
}

/// The topic of activities with this tag, in a queue of everything.
pub fn work_topic(tag: Option<&str>) -> Arc<str> {
    match tag {
        None => Arc::from(WORK),
        Some(tag) => Arc::from(format!("{WORK}:{tag}")),
    }
}
