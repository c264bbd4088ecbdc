//! The directory of an open store: written to only as long as it belongs to this process, and left in a consistent
//! state.

use crate::OpenError;
use crate::directory::Directory;
use crate::journals::Journals;
use crate::ledger::{LEDGER, journal};
use perennial_kv::EngineError;
use std::sync::{Mutex, PoisonError};

/// A directory in which an engine runs.
pub(crate) struct OpenDirectory {
    journals: Mutex<Journals>,
    directory: Directory,
}

impl OpenDirectory {
    /// Checks that the engine, which has started, holds what the directory holds, and notes its journals. `last` is the
    /// sequence number of the last batch that the engine knows, `names_previous` whether a batch ever named its
    /// predecessor.
    pub(crate) fn prepare(
        directory: &Directory,
        last: Option<u64>,
        names_previous: bool,
        journal_count: usize,
    ) -> Result<Journals, OpenError> {
        // The engine's own lock was free for a moment.
        if directory.check().is_err() {
            return Err(OpenError::locked(&directory.path, None));
        }
        check_recovered(directory, last, names_previous)?;
        let journals = Journals::start(directory.root(), last.unwrap_or(0), journal_count);
        journals.map_err(|error| OpenError::failed(&directory.path, error))
    }

    pub(crate) fn enter(directory: Directory, journals: Journals) -> Self {
        Self {
            journals: Mutex::new(journals),
            directory,
        }
    }

    /// Runs a write, which returns how many journals the engine has. It succeeds only if the directory still belongs to
    /// this process afterwards.
    pub(crate) fn write(
        &self,
        write: impl FnOnce(&mut Journals) -> Result<usize, EngineError>,
    ) -> Result<(), EngineError> {
        let mut journals = self.journals.lock().unwrap_or_else(PoisonError::into_inner);
        self.directory.check_before_write()?;
        let was_sound = std::mem::replace(&mut journals.is_sound, false);
        let count = write(&mut journals)?;
        self.directory.check()?;
        journals.follow(count).map_err(|error| EngineError::io(&error))?;
        journals.is_sound = was_sound;
        Ok(())
    }

    /// Tells the opens of this process that wait for the directory that it will be released.
    pub(crate) fn begin_closing(&self) {
        self.directory.lock.begin_closing();
    }

    /// Notes whether everything is on disk.
    pub(crate) fn note_last_sync(&mut self, is_synced: bool) {
        let journals = self.journals.get_mut().unwrap_or_else(PoisonError::into_inner);
        journals.is_sound &= is_synced;
    }
}

impl Drop for OpenDirectory {
    fn drop(&mut self) {
        let journals = self.journals.get_mut().unwrap_or_else(PoisonError::into_inner);
        let is_consistent = journals.is_sound && self.directory.check().is_ok() && self.directory.is_engine_gone();
        if !is_consistent {
            return;
        }
        if let Err(error) = journals.close() {
            // The next open then treats the store like one after a crash: nothing is lost.
            tracing::warn!(%error, path = %self.directory.path.display(), "the end of the journal could not be recorded");
        }
    }
}

/// Checks that the engine holds exactly what the journals hold.
fn check_recovered(directory: &Directory, last: Option<u64>, names_previous: bool) -> Result<(), OpenError> {
    let Some(recovery) = &directory.recovery else {
        return Ok(());
    };
    let damaged = |why| Err(OpenError::damaged(&directory.path, why));
    let name = journal(recovery.active);
    if names_previous && !recovery.has_ledger {
        return damaged(format!("{LEDGER} is missing"));
    }
    match recovery.last {
        Some(found) if last < Some(found) => damaged(format!("the storage engine did not recover all of {name}")),
        // A batch in a table was synced in a journal before.
        Some(found) if last > Some(found) => damaged(format!("{name} has lost its end: tables hold later writes")),
        _ => Ok(()),
    }
}
