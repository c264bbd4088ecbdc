//! Which directories this process has open. A store that is opened while its last handle is being dropped waits for that,
//! instead of being refused because of a lock that this process itself still holds.

use std::collections::HashMap;
use std::fs::Metadata;
use std::io;
use std::path::Path;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long an open waits for a handle of this process of which nobody knows whether it is being dropped.
const DROP_TIMEOUT: Duration = Duration::from_secs(3);

static CLAIMED: LazyLock<Mutex<HashMap<Identity, Use>>> = LazyLock::new(Mutex::default);
static CHANGED: Condvar = Condvar::new();

#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Open,
    Closing,
}

/// What a file or folder is, whatever its name: device and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity(u64, u64);

impl Identity {
    #[cfg(unix)]
    pub(crate) fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self(metadata.dev(), metadata.ino())
    }

    /// Elsewhere files are known by their names alone.
    #[cfg(not(unix))]
    pub(crate) fn of(_metadata: &Metadata) -> Self {
        Self(0, 0)
    }

    /// What a folder is.
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

/// This process's only right to open a directory, until it is dropped.
#[derive(Debug)]
pub(crate) struct Claim(Identity);

impl Claim {
    /// Claims a directory, after the handle that has it is gone. `None` if that stays open.
    pub(crate) fn take(identity: Identity) -> Option<Self> {
        let is_open = |claimed: &mut HashMap<Identity, Use>| claimed.get(&identity) == Some(&Use::Open);
        let is_closing = |claimed: &mut HashMap<Identity, Use>| claimed.get(&identity) == Some(&Use::Closing);
        let mut claimed = claimed();
        loop {
            let (waited, timeout) = CHANGED
                .wait_timeout_while(claimed, DROP_TIMEOUT, is_open)
                .unwrap_or_else(PoisonError::into_inner);
            if timeout.timed_out() {
                return None;
            }
            claimed = CHANGED
                .wait_while(waited, is_closing)
                .unwrap_or_else(PoisonError::into_inner);
            if let std::collections::hash_map::Entry::Vacant(place) = claimed.entry(identity) {
                place.insert(Use::Open);
                return Some(Self(identity));
            }
        }
    }

    /// Tells whoever waits that the wait will end.
    pub(crate) fn begin_closing(&self) {
        claimed().insert(self.0, Use::Closing);
        CHANGED.notify_all();
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        claimed().remove(&self.0);
        CHANGED.notify_all();
    }
}

fn claimed() -> MutexGuard<'static, HashMap<Identity, Use>> {
    CLAIMED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_waits_for_one_that_is_being_given_up() {
        let identity = Identity(u64::MAX, 1);
        let first = Claim::take(identity).unwrap();
        first.begin_closing();
        let second = std::thread::spawn(move || Claim::take(identity).is_some());
        drop(first);
        assert!(second.join().unwrap());
    }

    #[test]
    fn claims_of_other_directories_do_not_wait() {
        let first = Claim::take(Identity(u64::MAX, 2));
        assert!(first.is_some() && Claim::take(Identity(u64::MAX, 3)).is_some());
    }
}
