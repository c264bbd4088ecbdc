//! Marks on instances that a deletion and the commits beside it must know of.

use super::{Board, Inner};
use std::collections::HashMap;
use std::sync::Arc;

/// What is happening to the marked instances.
#[derive(Clone, Copy)]
enum Kind {
    /// A message to them is being stored, and is not on the board yet.
    Arriving,
    /// They are being deleted, and what was deleted may still be on the board.
    Deleting,
}

impl Inner {
    fn marks(&mut self, kind: Kind) -> &mut HashMap<Arc<str>, usize> {
        match kind {
            Kind::Arriving => &mut self.arriving,
            Kind::Deleting => &mut self.deleting,
        }
    }

    /// Whether an instance is being deleted: its messages on the board may be gone.
    pub fn is_deleting(&self, instance: &str) -> bool {
        self.deleting.contains_key(instance)
    }
}

/// A mark on instances, until it is dropped.
#[must_use = "instances are marked as long as this lives"]
pub struct Mark {
    board: Arc<Board>,
    kind: Kind,
    instances: Vec<Arc<str>>,
}

impl Drop for Mark {
    fn drop(&mut self) {
        if self.instances.is_empty() {
            return;
        }
        let mut inner = self.board.inner.lock();
        let marks = inner.marks(self.kind);
        for instance in &self.instances {
            if let Some(count) = marks.get_mut(instance) {
                *count -= 1;
                if *count == 0 {
                    marks.remove(instance);
                }
            }
        }
    }
}

impl Board {
    /// Announces that messages to these instances are about to be stored, until they are on the board or were not stored.
    pub fn announce(self: &Arc<Self>, instances: Vec<Arc<str>>) -> Mark {
        self.mark(Kind::Arriving, instances)
    }

    /// Announces that these instances are about to be deleted, until the board knows.
    pub fn deleting(self: &Arc<Self>, instances: Vec<Arc<str>>) -> Mark {
        self.mark(Kind::Deleting, instances)
    }

    fn mark(self: &Arc<Self>, kind: Kind, instances: Vec<Arc<str>>) -> Mark {
        if !instances.is_empty() {
            let mut inner = self.inner.lock();
            for instance in &instances {
                *inner.marks(kind).entry(Arc::clone(instance)).or_default() += 1;
            }
        }
        Mark {
            board: Arc::clone(self),
            kind,
            instances,
        }
    }
}
