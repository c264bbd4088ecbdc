//! The directory of a store: whose it is, in which format, and who has it open.

use crate::{FORMAT, OpenError};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const FORMAT_FILE: &str = "FORMAT";
const LOCK_FILE: &str = "LOCK";
const DATA: &str = "data";
/// fjall writes this file last when it makes a database.
const DATA_MARKER: &str = "version";
const DATA_TABLES: &str = "keyspaces";

/// A store's directory, locked until this is dropped.
pub(crate) struct Directory {
    pub(crate) path: PathBuf,
    lock: File,
}

enum Found {
    Nothing,
    Store,
}

impl Directory {
    /// Locks the directory of a store, making one if nothing is there. Looks before it writes anything.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let failed = |error| OpenError::failed(path, error);
        inspect(path)?;
        create(path).map_err(failed)?;
        let lock = lock(path)?;
        let directory = Self {
            path: path.into(),
            lock,
        };
        // Again, under the lock: another process may have been making the store just now.
        if matches!(inspect(path)?, Found::Nothing) {
            write_format(path).map_err(failed)?;
        }
        directory.prepare_data()?;
        Ok(directory)
    }

    /// Where the database is.
    pub(crate) fn data(&self) -> PathBuf {
        self.path.join(DATA)
    }

    /// Removes a database whose making was cut short, before anything could be stored in it: the engine cannot go on
    /// with one.
    fn prepare_data(&self) -> Result<(), OpenError> {
        let failed = |error| OpenError::failed(&self.path, error);
        let data = self.data();
        if data.try_exists().map_err(failed)? && !data.join(DATA_MARKER).try_exists().map_err(failed)? {
            if !is_empty(&data.join(DATA_TABLES)).map_err(failed)? {
                return Err(OpenError::damaged(&self.path, "data/version is missing"));
            }
            fs::remove_dir_all(&data).map_err(failed)?;
        }
        fs::create_dir_all(&data).map_err(failed)?;
        sync_directory(&self.path).map_err(failed)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(%error, path = %self.path.display(), "the lock of the store could not be released");
        }
    }
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
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        // The lock comes first, and every new file system has a `lost+found`.
        if name != LOCK_FILE && name != "lost+found" && name != format!("{FORMAT_FILE}.new").as_str() {
            return Err(OpenError::NotAStore { path: path.into() });
        }
    }
    Ok(Found::Nothing)
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
fn create(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|path| !path.exists()).collect();
    fs::create_dir_all(path)?;
    for made in missing {
        match made.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent)?,
            _ => sync_directory(Path::new("."))?,
        }
    }
    Ok(())
}

fn lock(path: &Path) -> Result<File, OpenError> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path.join(LOCK_FILE))
        .map_err(|error| OpenError::failed(path, error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { path: path.into() }),
        Err(TryLockError::Error(error)) => Err(OpenError::failed(path, error)),
    }
}

fn write_format(path: &Path) -> io::Result<()> {
    let new = path.join(format!("{FORMAT_FILE}.new"));
    let mut file = File::create(&new)?;
    writeln!(file, "perennial {FORMAT}")?;
    writeln!(file, "This directory is a store. Only its program should change it.")?;
    file.sync_all()?;
    fs::rename(&new, path.join(FORMAT_FILE))?;
    sync_directory(path)
}

fn is_empty(path: &Path) -> io::Result<bool> {
    match fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

#[cfg(unix)]
fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Elsewhere directories cannot be synced; the file systems there keep names themselves.
#[cfg(not(unix))]
fn sync_directory(_path: &Path) -> io::Result<()> {
    Ok(())
}
