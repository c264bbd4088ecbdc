//! The owner of a directory: a lock of its file `LOCK`, held until the database in it is closed.

use crate::OpenError;
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const LOCK_FILE: &str = "LOCK";

/// How long an opening waits for a handle of this process that may be about to be closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// The directories that this process holds.
static HELD: LazyLock<Mutex<HashSet<PathBuf>>> = LazyLock::new(Mutex::default);
static RELEASED: Condvar = Condvar::new();

/// This process's exclusive right to a directory, until it is dropped.
#[derive(Debug)]
pub struct DirectoryLock {
    file: File,
    // Dropped last.
    _held: Held,
}

/// A directory that no other handle of this process has.
#[derive(Debug)]
struct Held(PathBuf);

impl Held {
    /// Waits until the handle is gone that holds the directory. `None` if it stays.
    fn acquire(path: &Path) -> Option<Self> {
        let (mut held, timeout) = RELEASED
            .wait_timeout_while(held(), CLOSE_TIMEOUT, |held| held.contains(path))
            .unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            return None;
        }
        held.insert(path.into());
        Some(Self(path.into()))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        held().remove(&self.0);
        RELEASED.notify_all();
    }
}

fn held() -> MutexGuard<'static, HashSet<PathBuf>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DirectoryLock {
    /// Locks a directory, which is created if it does not exist.
    pub fn acquire(path: &Path) -> Result<Self, OpenError> {
        let failed = |error| OpenError::failed(path, error);
        fs::create_dir_all(path).map_err(failed)?;
        let name = path.canonicalize().map_err(failed)?;
        let locked = |process| OpenError::Locked {
            path: path.into(),
            process,
        };
        let held = Held::acquire(&name).ok_or_else(|| locked(Some(std::process::id())))?;
        let name = name.join(LOCK_FILE);
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&name);
        let file = opened.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(locked(holder(&name))),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        write_process_id(&file);
        Ok(Self { file, _held: held })
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child process that is being started has it open as well.
        if let Err(error) = self.file.unlock() {
            tracing::debug!(%error, "the lock of a store could not be released");
        }
    }
}

/// Writes the id of this process. It is shown to a process that finds the lock held; nothing else depends on it.
fn write_process_id(mut file: &File) {
    let written = file
        .set_len(0)
        .and_then(|()| file.write_all(format!("{}\n", std::process::id()).as_bytes()));
    if let Err(error) = written {
        tracing::debug!(%error, "the process id could not be written to the lock");
    }
}

/// The process whose id is in the lock.
fn holder(name: &Path) -> Option<u32> {
    let mut text = String::new();
    File::open(name).ok()?.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_owner() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new");
        let first = DirectoryLock::acquire(&path).unwrap();
        let second = std::thread::spawn({
            let path = path.clone();
            move || DirectoryLock::acquire(&path)
        });
        let error = second.join().unwrap().unwrap_err();
        assert!(
            matches!(error, OpenError::Locked { process: Some(id), .. } if id == std::process::id()),
            "{error}"
        );
        assert!(error.to_string().contains("this very process"), "{error}");
        drop(first);
        DirectoryLock::acquire(&path).unwrap();
    }

    #[test]
    fn an_opening_waits_for_a_handle_that_is_being_closed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_owned();
        let first = DirectoryLock::acquire(&path).unwrap();
        let second = std::thread::spawn(move || DirectoryLock::acquire(&path).is_ok());
        drop(first);
        assert!(second.join().unwrap());
    }

    #[test]
    fn a_lock_of_another_process_is_named() {
        let directory = tempfile::tempdir().unwrap();
        // Another open file is to the system what another process is.
        let file = File::create(directory.path().join(LOCK_FILE)).unwrap();
        (&file).write_all(b"4711\n").unwrap();
        file.lock().unwrap();
        let error = DirectoryLock::acquire(directory.path()).unwrap_err();
        assert!(
            matches!(
                error,
                OpenError::Locked {
                    process: Some(4711),
                    ..
                }
            ),
            "{error}"
        );
    }
}
