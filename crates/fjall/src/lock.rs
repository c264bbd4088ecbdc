//! Locks a store's directory, and notices when it no longer belongs to this process.
//!
//! Three locks are held, because each alone can be lost: the file `LOCK`, which can be deleted; the directory itself,
//! which cannot, but not every system locks directories; and the engine's own lock. Other processes and older programs
//! check at least one of them.

use crate::OpenError;
use crate::create::DATA;
use crate::files::{Files, private};
use crate::process_lock::{Identity, ProcessLock};
use perennial_kv::EngineError;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) const LOCK_FILE: &str = "LOCK";
const ENGINE_LOCK: &str = "data/lock";

/// A directory that this process holds.
pub(crate) struct Lock {
    /// The path by which the store was opened, made absolute.
    path: PathBuf,
    /// The directory itself.
    root: Pinned,
    /// The name of the locked file, and its identity.
    name: PathBuf,
    identity: Identity,
    /// The name of the folder of the data.
    data: PathBuf,
    is_lost: AtomicBool,
    // Dropped in this order: the process lock goes last.
    file: Held,
    process_lock: ProcessLock,
}

/// An open file or folder whose lock is released when this is dropped. Closing it is not enough: a child process that
/// is being started at that moment has it open as well.
pub(crate) struct Held(File);

impl Held {
    fn try_lock(&self) -> Result<(), TryLockError> {
        self.0.try_lock()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::debug!(%error, "a lock of a store could not be released");
        }
    }
}

/// A folder that is held, by a path that stays valid when it is renamed and another takes its name, where the system
/// has such paths.
pub(crate) struct Pinned {
    /// Held and locked, so that no other folder gets its identity.
    folder: Option<Held>,
    identity: Option<Identity>,
    path: PathBuf,
    is_fixed: bool,
}

impl Pinned {
    pub(crate) fn open(path: &Path) -> Self {
        let folder = File::open(path).ok().map(Held);
        let metadata = folder.as_ref().and_then(|folder| folder.0.metadata().ok());
        let pinned = folder.as_ref().and_then(|folder| pinned_path(&folder.0));
        Self {
            identity: metadata.as_ref().map(Identity::of),
            is_fixed: pinned.is_some(),
            path: pinned.unwrap_or_else(|| path.into()),
            folder,
        }
    }

    /// Whether its path stays valid, whatever happens to its name.
    pub(crate) fn is_fixed(&self) -> bool {
        self.is_fixed
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a path leads to this folder. Unknown where folders cannot be held.
    pub(crate) fn is_at(&self, path: &Path) -> io::Result<bool> {
        self.identity.map_or(Ok(true), |identity| is_at(path, identity))
    }
}

#[cfg(target_os = "linux")]
fn pinned_path(folder: &File) -> Option<PathBuf> {
    use std::os::fd::AsRawFd;
    let identity = Identity::of(&folder.metadata().ok()?);
    let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    is_at(&path, identity).is_ok_and(|is_at| is_at).then_some(path)
}

#[cfg(not(target_os = "linux"))]
fn pinned_path(_folder: &File) -> Option<PathBuf> {
    None
}

/// Whether a path leads to a certain file or folder.
fn is_at(path: &Path, identity: Identity) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Identity::of(&metadata) == identity),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(false),
        Err(error) => Err(error),
    }
}

impl Lock {
    /// Locks a directory that exists.
    pub(crate) fn acquire(path: &Path) -> Result<Self, OpenError> {
        let failed = |error| OpenError::failed(path, error);
        let path = std::path::absolute(path).map_err(failed)?;
        let identity = Identity::of_folder(&path).map_err(failed)?;
        let process_lock =
            ProcessLock::acquire(identity).ok_or_else(|| OpenError::locked(&path, Some(std::process::id())))?;
        let root = Pinned::open(&path);
        lock_folder(&path, &root)?;
        let file = lock_file(&path, root.path())?;
        let identity = Identity::of(&file.0.metadata().map_err(failed)?);
        let lock = Self {
            name: path.join(LOCK_FILE),
            data: path.join(DATA),
            path,
            root,
            identity,
            is_lost: AtomicBool::new(false),
            file,
            process_lock,
        };
        match lock.is_ours(None) {
            Ok(true) => {}
            // The name led elsewhere while the locks were taken: whatever moved it is not done.
            Ok(false) => return Err(OpenError::locked(&lock.path, None)),
            Err(error) => return Err(failed(error)),
        }
        lock.write_process_id();
        Ok(lock)
    }

    /// The files of the store.
    pub(crate) fn files(&self) -> Files {
        Files::new(&self.path, self.root())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    fn is_ours(&self, data: Option<&Pinned>) -> io::Result<bool> {
        let is_data_ours = match data {
            Some(data) => data.is_at(&self.data)?,
            None => true,
        };
        Ok(is_data_ours && is_at(&self.name, self.identity)?)
    }

    /// Fails if the directory or its data were moved or replaced, or its lock deleted: for good, because another
    /// process may have opened what has the name now.
    pub(crate) fn check(&self, data: Option<&Pinned>) -> Result<(), EngineError> {
        if !self.is_lost.load(Ordering::Relaxed) {
            match self.is_ours(data) {
                Ok(true) => return Ok(()),
                Ok(false) => self.is_lost.store(true, Ordering::Relaxed),
                Err(error) => return Err(EngineError::io(&error)),
            }
        }
        Err(EngineError::Fenced(format!(
            "the directory {:?} was moved or replaced, in whole or in part, or its file {LOCK_FILE} was deleted, while this program had the \
             store open; nothing more is written: leave the directory alone while a program uses it, and open the store \
             again",
            self.path
        )))
    }

    /// Tells the opens of this process that wait for this lock that it will be released.
    pub(crate) fn begin_closing(&self) {
        self.process_lock.begin_closing();
    }

    /// Writes the id of the process that holds the lock. It is shown to a process that finds the lock held; nothing
    /// else depends on it.
    fn write_process_id(&self) {
        let sign = || {
            self.file.0.set_len(0)?;
            (&self.file.0).write_all(format!("{}\n", std::process::id()).as_bytes())
        };
        if let Err(error) = sign() {
            tracing::debug!(%error, path = %self.path.display(), "the process id could not be written to the lock");
        }
    }
}

/// Locks the directory itself. Systems that cannot do so have the other locks.
fn lock_folder(path: &Path, root: &Pinned) -> Result<(), OpenError> {
    match root.folder.as_ref().map(Held::try_lock) {
        None | Some(Ok(())) => Ok(()),
        Some(Err(TryLockError::WouldBlock)) => Err(OpenError::locked(path, holder(path))),
        Some(Err(TryLockError::Error(error))) => {
            tracing::debug!(%error, path = %path.display(), "the directory cannot be locked");
            Ok(())
        }
    }
}

fn lock_file(path: &Path, root: &Path) -> Result<Held, OpenError> {
    let failed = |error| OpenError::failed(path, error);
    let file = Held(open_lock_file(&root.join(LOCK_FILE)).map_err(failed)?);
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::locked(path, holder(path))),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Opens or creates the lock file. Never follows a link of the same name.
fn open_lock_file(name: &Path) -> io::Result<File> {
    match private().read(true).write(true).create_new(true).open(name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        outcome => return outcome,
    }
    if !fs::symlink_metadata(name)?.is_file() {
        let why = format!("{LOCK_FILE} is a link or a folder, where a store has a file");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    OpenOptions::new().read(true).write(true).open(name)
}

/// The process whose id is in the lock.
fn holder(path: &Path) -> Option<u32> {
    let mut text = String::new();
    let file = File::open(path.join(LOCK_FILE)).ok()?;
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Takes the engine's own lock, so that nothing is changed while an engine runs that holds no other lock.
pub(crate) fn lock_engine(lock: &Lock) -> Result<Held, OpenError> {
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .open(lock.root().join(ENGINE_LOCK));
    let file = Held(opened.map_err(|error| lock.files().failed(ENGINE_LOCK, error))?);
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::locked(lock.path(), None)),
        Err(TryLockError::Error(error)) => Err(lock.files().failed(ENGINE_LOCK, error)),
    }
}
