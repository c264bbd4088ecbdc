//! The directory of a store: whose it is, in which format, and whether everything is there.

use crate::files::{create_private_folder, sync_folder};
use crate::lock::{Held, LOCK_FILE, Lock, Pinned, lock_engine};
use crate::making::{self, DATA, FORMAT_FILE, UNFINISHED_FILE};
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
    /// Whether the store is made just now, and is to be [finished](finish).
    pub(crate) is_new: bool,
    /// What the journals of a store that is not new hold.
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
    /// Locks the directory of a store, making one if nothing is there. Looks before it writes anything, and changes a
    /// store only when every lock is held and everything is whole.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        inspect(path)?;
        create(path)?;
        let lock = Lock::acquire(path)?;
        // Again, under the lock: another process may have been making the store just now.
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
            true => making::begin(directory.root()).map_err(|error| OpenError::failed(path, error))?,
            false => directory.recover()?,
        }
        directory.data = Some(Pinned::open(&directory.root().join(DATA)));
        Ok(directory)
    }

    /// Locks the directory of a store that was there before.
    pub(crate) fn reopen(path: &Path) -> Result<Self, OpenError> {
        match inspect(path)? {
            Found::Store => Self::open(path),
            Found::Nothing => Err(OpenError::damaged(path, "the store is gone; is its disk mounted?")),
        }
    }

    /// Verifies the files of a store, and then mends what a crash left.
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
        making::remove_mark(self.root()).map_err(|error| files.failed(UNFINISHED_FILE, error))
    }

    /// The directory, by a path that stays right when it is renamed.
    pub(crate) fn root(&self) -> &Path {
        self.lock.root()
    }

    /// Where the database is, by such a path as well.
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

    /// Fails if the directory is not this process's any more.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        self.lock.check(self.data.as_ref())
    }

    /// The same before a write, where a write could go to another directory that has the name now.
    pub(crate) fn check_before_write(&self) -> Result<(), EngineError> {
        match self.data.as_ref().is_some_and(Pinned::is_fixed) {
            true => Ok(()),
            false => self.check(),
        }
    }

    /// Whether the engine has let go of its files.
    pub(crate) fn is_engine_gone(&self) -> bool {
        lock_engine(&self.lock).is_ok()
    }
}

/// Makes a new store one that may be used.
pub(crate) fn finish(path: &Path) -> Result<(), OpenError> {
    making::finish(path).map_err(|error| OpenError::failed(path, error))
}

/// Looks at what is there, without changing anything.
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
    // The lock comes first, and every new file system has a `lost+found`.
    let is_ours = |name: &OsString| {
        name == LOCK_FILE || name == "lost+found" || (is_unfinished && name.to_str().is_some_and(making::may_leave))
    };
    let is_empty = names.iter().all(is_ours) && making::is_own_remainder(path).map_err(failed)?;
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
        _ => Err(OpenError::damaged(path, "the file FORMAT cannot be understood")),
    }
}

/// Makes the directory, and sees to it that its name survives a power cut.
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
