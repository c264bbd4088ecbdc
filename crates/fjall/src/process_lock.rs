//! Which directories this process has open. An open of a store whose last handle is just being dropped waits for that,
//! instead of failing on a lock that this process itself still holds.

use std::collections::HashMap;
use std::fs::Metadata;
use std::io;
use std::path::Path;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long an open waits for a handle of this process that may or may not be about to be dropped.
const DROP_TIMEOUT: Duration = Duration::from_secs(3);

static HELD: LazyLock<Mutex<HashMap<Identity, Use>>> = LazyLock::new(Mutex::default);
static CHANGED: Condvar = Condvar::new();

#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Open,
    Closing,
}

/// The identity of a file or folder, whatever its name: device and inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity(u64, u64);

impl Identity {
    #[cfg(unix)]
    pub(crate) fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self(metadata.dev(), metadata.ino())
    }

    /// On other systems files are known by their names alone.
    #[cfg(not(unix))]
    pub(crate) fn of(_metadata: &Metadata) -> Self {
        Self(0, 0)
    }

    /// The identity of a folder.
    #[cfg(unix)]
    pub(crate) fn of_folder(path: &Path) -> io::Result<Self> {
        Ok(Self::of(&path.metadata()?))
    }

    #[cfg(not(unix))]
    pub(crate) fn of_folder(path: &Path) -> io::Result<Self> {
        let name = path.canonicalize()?;
        Ok(Self(0, xxhash_rust::xxh3::xxh3_64(name.as_os_str().as_encoded_bytes())))
    }
}

/// This process's exclusive right to open a directory, until it is dropped.
#[derive(Debug)]
pub(crate) struct ProcessLock(Identity);

impl ProcessLock {
    /// Acquires a directory, after the handle that holds it is gone. `None` if that stays open.
    pub(crate) fn acquire(identity: Identity) -> Option<Self> {
        let is_open = |held: &mut HashMap<Identity, Use>| held.get(&identity) == Some(&Use::Open);
        let is_closing = |held: &mut HashMap<Identity, Use>| held.get(&identity) == Some(&Use::Closing);
        let mut held = held();
        loop {
            let (waited, timeout) = CHANGED
                .wait_timeout_while(held, DROP_TIMEOUT, is_open)
                .unwrap_or_else(PoisonError::into_inner);
            if timeout.timed_out() {
                return None;
            }
            held = CHANGED
                .wait_while(waited, is_closing)
                .unwrap_or_else(PoisonError::into_inner);
            if let std::collections::hash_map::Entry::Vacant(place) = held.entry(identity) {
                place.insert(Use::Open);
                return Some(Self(identity));
            }
        }
    }

    /// Tells waiting opens that the wait will end.
    pub(crate) fn begin_closing(&self) {
        held().insert(self.0, Use::Closing);
        CHANGED.notify_all();
    }
}

impl Drop for ProcessLock {
    fn drop(&mut self) {
        held().remove(&self.0);
        CHANGED.notify_all();
    }
}

fn held() -> MutexGuard<'static, HashMap<Identity, Use>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_waits_for_one_that_is_being_released() {
        let identity = Identity(u64::MAX, 1);
        let first = ProcessLock::acquire(identity).unwrap();
        first.begin_closing();
        let second = std::thread::spawn(move || ProcessLock::acquire(identity).is_some());
        drop(first);
        assert!(second.join().unwrap());
    }

    #[test]
    fn locks_of_other_directories_do_not_wait() {
        let first = ProcessLock::acquire(Identity(u64::MAX, 2));
        assert!(first.is_some() && ProcessLock::acquire(Identity(u64::MAX, 3)).is_some());
    }
}
