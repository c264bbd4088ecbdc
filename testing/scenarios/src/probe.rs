//! Probes inside a scenario's activities, which record what really ran.

use std::sync::Arc;

use parking_lot::Mutex;

/// A shared list of notes, in the order in which they were made.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    /// Adds a note and says how many there are now.
    pub(crate) fn add(&self, note: impl Into<String>) -> usize {
        let mut notes = self.0.lock();
        notes.push(note.into());
        notes.len()
    }

    /// How many notes there are.
    pub(crate) fn count(&self) -> usize {
        self.0.lock().len()
    }

    /// All notes, in order.
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    /// All notes, sorted.
    pub(crate) fn sorted(&self) -> Vec<String> {
        let mut notes = self.all();
        notes.sort_unstable();
        notes
    }
}
