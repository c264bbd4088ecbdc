//! The directory of a store: who holds it, its format, and whether it is complete.

use crate::create::{self, DATA, FORMAT_FILE, UNFINISHED_FILE};
use crate::files::{create_private_folder, sync_folder};
use crate::lock::{Held, LOCK_FILE, Lock, Pinned, lock_engine};
use crate::recovery::Recovery;
use crate::{FORMAT, OpenError, manifest};
use perennial_kv::EngineError;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A store's directory, locked until this is dropped.
pub(crate) struct Directory {
    pub(crate) path: PathBuf,
    /// Whether the store is being created, and is to be [finished](finish).
    pub(crate) is_new: bool,
    /// What the journals of an existing store hold.
    pub(crate) recovery: Option<Recovery>,
    /// The engine's own lock, until the engine takes it.
    engine_lock: Option<Held>,
    /// The folder of the database.
    data: Option<Pinned>,
    pub(crate) lock: Lock,
}

enum Found {
    Nothing,
    Store,
}

impl Directory {
    /// Locks the directory of a store, creating one if nothing is there. Inspects before it writes anything, and
    /// changes an existing store only when every lock is held and everything was verified.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        inspect(path)?;
        create(path)?;
        let lock = Lock::acquire(path)?;
        // Again, under the lock: another process may just have created the store.
        let is_new = matches!(inspect(path)?, Found::Nothing);
        let mut directory = Self {
            path: path.into(),
            is_new,
            recovery: None,
            engine_lock: None,
            data: None,
            lock,
        };
        match is_new {
            true => create::begin(directory.root()).map_err(|error| OpenError::failed(path, error))?,
            false => directory.recover()?,
        }
        directory.data = Some(Pinned::open(&directory.root().join(DATA)));
        Ok(directory)
    }

    /// Locks the directory of an existing store.
    pub(crate) fn reopen(path: &Path) -> Result<Self, OpenError> {
        match inspect(path)? {
            Found::Store => Self::open(path),
            Found::Nothing => Err(OpenError::damaged(path, "the store is gone; is its disk mounted?")),
        }
    }

    /// Verifies the files of a store, then repairs what a crash left.
    fn recover(&mut self) -> Result<(), OpenError> {
        let files = self.lock.files();
        if !files.exists(DATA)? {
            return Err(files.damaged(format!("{DATA} is missing")));
        }
        self.engine_lock = Some(lock_engine(&self.lock)?);
        manifest::check(&files)?;
        let recovery = Recovery::plan(&files)?;
        recovery.apply(&files)?;
        self.recovery = Some(recovery);
        create::remove_mark(self.root()).map_err(|error| files.failed(UNFINISHED_FILE, error))
    }

    /// The directory, by a path that stays valid when it is renamed.
    pub(crate) fn root(&self) -> &Path {
        self.lock.root()
    }

    /// The folder of the database, by such a path as well.
    pub(crate) fn data(&self) -> PathBuf {
        match &self.data {
            Some(data) => data.path().into(),
            None => self.root().join(DATA),
        }
    }

    /// Lets the engine take its own lock.
    pub(crate) fn release_engine_lock(&mut self) {
        self.engine_lock = None;
    }

    /// Fails if the directory no longer belongs to this process.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        self.lock.check(self.data.as_ref())
    }

    /// The same before a write, which could otherwise go to another directory that has the name now.
    pub(crate) fn check_before_write(&self) -> Result<(), EngineError> {
        match self.data.as_ref().is_some_and(Pinned::is_fixed) {
            true => Ok(()),
            false => self.check(),
        }
    }

    /// Whether the engine has released its files.
    pub(crate) fn is_engine_gone(&self) -> bool {
        lock_engine(&self.lock).is_ok()
    }
}

/// Marks a new store as usable.
pub(crate) fn finish(path: &Path) -> Result<(), OpenError> {
    create::finish(path).map_err(|error| OpenError::failed(path, error))
}

/// Inspects what is there, without changing anything.
fn inspect(path: &Path) -> Result<Found, OpenError> {
    let failed = |error| OpenError::failed(path, error);
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(failed(error)),
    };
    match fs::read_to_string(path.join(FORMAT_FILE)) {
        Ok(text) => return check_format(path, &text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(OpenError::NotAStore { path: path.into() });
        }
        Err(error) => return Err(failed(error)),
    }
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.map_err(failed)?.file_name());
    }
    let is_unfinished = names.iter().any(|name| name == UNFINISHED_FILE);
    // The lock file is created first, and every new file system has a `lost+found`.
    let is_ours = |name: &OsString| {
        name == LOCK_FILE || name == "lost+found" || (is_unfinished && name.to_str().is_some_and(create::may_leave))
    };
    let is_empty = names.iter().all(is_ours) && create::is_own_remainder(path).map_err(failed)?;
    match is_empty {
        true => Ok(Found::Nothing),
        false => Err(OpenError::NotAStore { path: path.into() }),
    }
}

fn check_format(path: &Path, text: &str) -> Result<Found, OpenError> {
    let number = text.strip_prefix("perennial ").and_then(|rest| rest.lines().next());
    match number.and_then(|number| number.trim().parse().ok()) {
        Some(FORMAT) => Ok(Found::Store),
        Some(found) if found > FORMAT => Err(OpenError::NewerFormat {
            path: path.into(),
            found,
            supported: FORMAT,
        }),
        _ => Err(OpenError::damaged(path, "the file FORMAT cannot be decoded")),
    }
}

/// Creates the directory, and makes its name durable.
fn create(path: &Path) -> Result<(), OpenError> {
    let missing: Vec<&Path> = path.ancestors().take_while(|path| !path.exists()).collect();
    if let Some(link) = missing.iter().find(|path| path.is_symlink()) {
        return Err(OpenError::DanglingLink {
            path: path.into(),
            link: link.into(),
            target: fs::read_link(link).unwrap_or_default(),
        });
    }
    let create = || {
        if missing.is_empty() {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        match create_private_folder(path) {
            // Another process was quicker.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
            outcome => outcome?,
        }
        for made in &missing {
            match made.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => sync_folder(parent)?,
                _ => sync_folder(Path::new("."))?,
            }
        }
        Ok(())
    };
    create().map_err(|error| OpenError::failed(path, error))
}
